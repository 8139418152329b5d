"""Rules that hold in some releases only."""

from __future__ import annotations

import pytest

from understudy.kinds.common.compose import since, until
from understudy.kinds.context import Context
from understudy.machinery.releases.features import Gates
from understudy.machinery.releases.version import V1_31, V1_32, V1_34, Version
from understudy.machinery.types import Obj
from understudy.machinery.validation.field import Errors, Path, required

ERRORS = [required(Path("spec"))]


def on_create(obj: Obj, ctx: Context) -> Errors:
    return ERRORS


def on_update(obj: Obj, old: Obj, ctx: Context) -> Errors:
    return ERRORS


@pytest.mark.parametrize(("release", "holds"), [(V1_31, False), (V1_32, True), (V1_34, True)])
def test_rule_since_a_release(release: Version, holds: bool) -> None:
    """A rule that came with 1.32 holds in it and in every later release; `until` is the other half."""
    ctx = Context(release, Gates.of(release), "v1")
    assert since(V1_32, on_create)({}, ctx) == since(V1_32, on_update)({}, {}, ctx) == (ERRORS if holds else [])
    assert until(V1_32, on_create)({}, ctx) == until(V1_32, on_update)({}, {}, ctx) == ([] if holds else ERRORS)
