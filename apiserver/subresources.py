"""Subresources that are not a part of the object: binding, eviction, scale, token, finalize and the like."""

from __future__ import annotations

from collections.abc import Awaitable, Callable

from understudy.apiserver import errors
from understudy.apiserver.api import Api, Target
from understudy.apiserver.call import Call, Reply
from understudy.apiserver.kind import Subresource

Handler = Callable[[Api, Call, Target], Awaitable[Reply]]

# (resource, subresource) -> verb -> handler
HANDLERS: dict[tuple[str, str], dict[str, Handler]] = {}


def unsupported(subresource: Subresource, verb: str) -> Handler | None:
    """A handler that says so, for what the real server has and this one has not; None: the verb is not allowed."""
    if verb not in subresource.verbs:
        return None

    async def handle(api: Api, call: Call, target: Target) -> Reply:
        what = f"{target.kind.resource}/{target.subresource}"
        raise errors.StatusError(501, "NotImplemented", f"understudy does not support {what}", {})

    return handle
