"""Steps and checks that the kinds of resource.k8s.io share."""

from __future__ import annotations

from collections.abc import Callable

from understudy.kinds.common.compose import Check
from understudy.kinds.declarations.strategies import RESET_FOR_STATUS, copy_stored
from understudy.kinds.resource.common.release_rules import ReleaseRules
from understudy.machinery.types import Obj
from understudy.machinery.validation.field import Errors, Path

SPEC, STATUS = Path("spec"), Path("status")

ValidateSpec = Callable[[Obj, Path, ReleaseRules], Errors]


def check_spec(validate: ValidateSpec) -> Check:
    """Return a check of the spec of a new object."""
    return lambda obj, ctx: validate(obj["spec"], SPEC, ReleaseRules.in_force(ctx))


def keep_status(obj: Obj, old: Obj) -> None:
    """Keep the stored status."""
    copy_stored(obj, old, "status")


def keep_all_but_status(obj: Obj, old: Obj) -> None:
    """Keep the stored spec, and the stored metadata that a status update cannot change."""
    copy_stored(obj, old, "spec")
    copy_stored(obj["metadata"], old["metadata"], *RESET_FOR_STATUS)


def first_generation(obj: Obj) -> None:
    """Number the first spec of a new object, in place."""
    obj["metadata"]["generation"] = 1


def next_generation(obj: Obj, old: Obj) -> None:
    """Number a new spec, in place."""
    obj["metadata"]["generation"] = old["metadata"].get("generation", 0) + 1
