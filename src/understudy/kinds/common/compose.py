"""Composition of rules for changed objects, in the order in which the real server reports what they find.

all_of(CORE.updated, changes, as_on_create(CORE.created, whole), since(V1_32, class_is_kept))
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeVarTuple

from understudy.kinds.context import Context
from understudy.machinery.releases.version import Version
from understudy.machinery.types import Obj
from understudy.machinery.validation.field import Errors

Check = Callable[[Obj, Context], Errors]
Update = Callable[[Obj, Obj, Context], Errors]

Ts = TypeVarTuple("Ts")


def as_on_create(*checks: Check) -> Update:
    """Make a rule for changed objects of rules for new ones, which see the changed object only."""
    return lambda obj, old, ctx: [error for check in checks for error in check(obj, ctx)]


def no_metadata_validation(obj: Obj, ctx: Context) -> Errors:
    """Find nothing wrong with metadata: the registry checks it, and the kind does not check it again."""
    return []


def all_of(*rules: Update) -> Update:
    """Make one rule of several, with the errors of one after those of another."""
    return lambda obj, old, ctx: [error for rule in rules for error in rule(obj, old, ctx)]


def since(version: Version, rule: Callable[[*Ts, Context], Errors]) -> Callable[[*Ts, Context], Errors]:
    """Return a rule that holds from a release on. The context is the last argument of every rule."""

    def newer(*args: *tuple[*Ts, Context]) -> Errors:
        return rule(*args) if args[-1].release >= version else []

    return newer


def until(version: Version, rule: Callable[[*Ts, Context], Errors]) -> Callable[[*Ts, Context], Errors]:
    """Return a rule that held before a release, and does not hold in it any more."""

    def older(*args: *tuple[*Ts, Context]) -> Errors:
        return rule(*args) if args[-1].release < version else []

    return older
