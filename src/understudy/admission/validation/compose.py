"""Composition of rules for changed objects, in the order in which the real server reports what they find.

in_order(CORE.updated, changes, again(CORE.created, whole))
"""

from __future__ import annotations

from collections.abc import Callable

from understudy.admission.context import Context
from understudy.machinery.types import Obj
from understudy.machinery.validation.field import Errors

Check = Callable[[Obj, Context], Errors]
Update = Callable[[Obj, Obj, Context], Errors]


def as_on_create(*checks: Check) -> Update:
    """Make a rule for changed objects of rules for new ones, which see the changed object only."""
    return lambda obj, old, ctx: [error for check in checks for error in check(obj, ctx)]


def no_metadata_validation(obj: Obj, ctx: Context) -> Errors:
    """Of kinds that leave metadata to the registry."""
    return []


def all_of(*rules: Update) -> Update:
    """Make one rule of several, whose errors stand one after the other."""
    return lambda obj, old, ctx: [error for rule in rules for error in rule(obj, old, ctx)]
