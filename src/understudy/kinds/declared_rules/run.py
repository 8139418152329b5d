"""One validation by declared rules: what it is asked about, and what it finds."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeAlias

from understudy.machinery.types import NamedTuple
from understudy.machinery.validation.field import FieldError, Path


class Run(NamedTuple):
    """A validation of one object.

    update   whether it replaces another one (upstream: `operation.Update`)
    options  returns whether an option of the rules is on; most are feature gates
    """

    update: bool
    options: Callable[[str], bool]


class Found(NamedTuple):
    """An error, and the stage of the rule that found it: "" for one in force, "b" for beta, "a" for alpha."""

    error: FieldError
    stage: str = ""


# A check of a value, given the stored one, None if there is none. None also stands for a field that is not set.
Check: TypeAlias = Callable[[Run, Path, Any, Any], list[FieldError]]
# Steps of a value: what each of its checks finds.
Steps: TypeAlias = Callable[[Run, Path, Any, Any], list[Found]]
