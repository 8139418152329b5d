"""The dialects of CEL: what the parsers of cel-go's versions read differently."""

from __future__ import annotations

from dataclasses import replace
from typing import Final

from understudy.machinery.releases.version import V1_31, V1_33, V1_37, ByRelease
from understudy.machinery.types import dataclass


@dataclass(frozen=True)
class Dialect:
    """The rules of one version of cel-go's parser.

    accumulator           the variable in which the comprehensions of macros collect their result (`AccumulatorName`)
    reserved_variables    names that the variable of a macro must not have
    quoted_fields         whether the grammar knows field names in backticks
    reads_quoted_fields   whether such names are read; else Kubernetes refuses them
    percent_is_swallowed  whether syntax errors pass through Go's `fmt`, which takes a percent sign for a verb
    surrogates            whether the escape of a lone surrogate is read, as U+FFFD; else it is an error
    """

    accumulator: str
    reserved_variables: frozenset[str]
    quoted_fields: bool
    reads_quoted_fields: bool
    percent_is_swallowed: bool
    surrogates: bool


_V33 = Dialect(
    accumulator="@result",
    reserved_variables=frozenset(["@result", "__result__"]),
    quoted_fields=True,
    reads_quoted_fields=False,
    percent_is_swallowed=False,
    surrogates=False,
)
DIALECTS: Final = ByRelease(
    {
        V1_37: replace(_V33, reads_quoted_fields=True),
        V1_33: _V33,
        V1_31: Dialect(
            accumulator="__result__",
            reserved_variables=frozenset(),
            quoted_fields=False,
            reads_quoted_fields=False,
            percent_is_swallowed=True,
            surrogates=True,
        ),
    }
)
