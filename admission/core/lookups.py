"""Objects that a rule needs besides the one it decides on."""

from __future__ import annotations

from collections.abc import Iterable

from understudy.apiserver.kind import Context
from understudy.apiserver.types import Obj


def listing(ctx: Context, group: str, resource: str, namespace: str = "") -> Iterable[Obj]:
    """Every stored object of a resource, of one namespace or ("") of all; nothing where the request has no store."""
    return ctx.listing(group, resource, namespace)
