"""Differences of Go values, as `cmp.Diff` of go-cmp 0.6 prints them below some errors.

      core.PodSpec{
        ... // 3 identical fields
        RestartPolicy:                 "Always",
    -   TerminationGracePeriodSeconds: &30,
    +   TerminationGracePeriodSeconds: &5,
        ...
      }

`go_values` makes Go values of JSON, `comparison` compares two of them (lists by the script of `edits`), `report`
decides what to show (with `runs` for long strings and lists of numbers), `layout` writes it.
"""

from __future__ import annotations

from typing import Any

from understudy.machinery.typeinfo.go_types import Schemas
from understudy.machinery.validation.diff.comparison import compare
from understudy.machinery.validation.diff.go_values import value_of
from understudy.machinery.validation.diff.layout import render
from understudy.machinery.validation.diff.report import Style, report


def diff(x: Any, y: Any, name: str, schemas: Schemas) -> str:
    """Describe how `y` differs from `x`; return "" if they are the same.

    Both are JSON of the struct, list or map `name` (its full Go name) and not nil.
    """
    shape = schemas.shape(name)
    comparison = compare(value_of(x, shape), value_of(y, shape))
    node = report(comparison, Style())
    return render(node) if comparison.different and node is not None else ""
