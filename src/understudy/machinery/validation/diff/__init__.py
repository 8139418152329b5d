"""Differences of Go values below some errors: up to 1.33 as `cmp.Diff` of go-cmp 0.6 prints them.

      core.PodSpec{
        ... // 3 identical fields
        RestartPolicy:                 "Always",
    -   TerminationGracePeriodSeconds: &30,
    +   TerminationGracePeriodSeconds: &5,
        ...
      }

`go_values` makes Go values of JSON, `comparison` compares two of them (lists by the script of `edits`), `report`
decides what to show (with `runs` for long strings and lists of numbers), `layout` writes it. Since 1.34 they are
unified diffs of the values in JSON.
"""

from __future__ import annotations

import re
from difflib import unified_diff
from itertools import islice
from typing import Any

from understudy.machinery.golang.json_writer import indent
from understudy.machinery.releases.version import V1_34
from understudy.machinery.typeinfo.go_types import Schemas
from understudy.machinery.validation.diff.comparison import compare
from understudy.machinery.validation.diff.go_values import value_of
from understudy.machinery.validation.diff.layout import render
from understudy.machinery.validation.diff.report import Style, report
from understudy.machinery.validation.dump import dump_json

_INDENT = 2  # characters before the first line, which say whether it was added or removed


def diff(x: Any, y: Any, name: str, schemas: Schemas) -> str:
    """Describe how `y` differs from `x`; return "" if they are the same.

    Both are JSON of the struct, list or map `name` (its full Go name, with a star for a pointer to it) and not nil.
    """
    is_pointer, name = name.startswith("*"), name.removeprefix("*")
    if schemas.version >= V1_34:
        return _unified(_lines(x, name, schemas), _lines(y, name, schemas))
    shape = schemas.shape(name)
    comparison = compare(value_of(x, shape), value_of(y, shape))
    node = report(comparison, Style())
    if not comparison.different or node is None:
        return ""
    text = render(node)
    return f"{text[:_INDENT]}&{text[_INDENT:]}" if is_pointer else text


def _lines(value: Any, name: str, schemas: Schemas) -> list[str]:
    """Return the lines of a value in JSON, indented by one space."""
    text = indent(dump_json(value, name, schemas).encode()).decode()
    return [f"{line}\n" for line in re.sub(r"^(?: {2})+", lambda spaces: spaces[0][::2], text, flags=re.M).split("\n")]


def _unified(x: list[str], y: list[str]) -> str:
    """Return a unified diff without its two lines of file names (upstream: k8s.io/apimachinery/pkg/util/diff)."""
    return "".join(islice(unified_diff(x, y), 2, None))
