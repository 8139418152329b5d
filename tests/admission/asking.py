"""Asks one admission plugin about one object, without a server; rights that a test gives to the user alice."""

from __future__ import annotations

import asyncio

from understudy.admission.chain import Attributes, Chain, Operation, Plugin, Point
from understudy.kinds.context import Context
from understudy.machinery.auth.authorization import Attributes as Action
from understudy.machinery.auth.authorization import Decision, SubjectRules
from understudy.machinery.auth.users import User
from understudy.machinery.types import GroupVersionKind, Obj

ALICE = User("alice", ["dev"])


class Rights:
    """Allows a user what is listed as "verb resource/subresource name", and notes what it is asked."""

    def __init__(self, *allowed: str, user: User = ALICE) -> None:
        self._allowed = allowed
        self._user = user
        self.asked: list[str] = []

    def authorize(self, user: User, attributes: Action) -> Decision:
        resource = f"{attributes.resource}/{attributes.subresource}" if attributes.subresource else attributes.resource
        question = f"{attributes.verb} {resource} {attributes.name}"
        self.asked.append(question)
        return Decision(user == self._user and question in self._allowed, "" if question in self._allowed else "no")

    def rules_for(self, user: User, namespace: str) -> SubjectRules:
        raise NotImplementedError


def ask(
    plugin: Plugin,
    resource: tuple[str, str],
    obj: Obj | None,
    ctx: Context,
    *,
    old: Obj | None = None,
    subresource: str = "",
    user: User | None = None,
) -> Obj:
    """Return the object as the plugin leaves it; without an object, `old` is deleted. Raises what the plugin raises."""
    operation = Operation.DELETE if obj is None else Operation.CREATE if old is None else Operation.UPDATE
    point = Point(operation, *resource, subresource)
    admission = Chain([plugin]).of(point)
    described = obj or old or {}
    metadata = described["metadata"]
    attributes = Attributes(
        point, GroupVersionKind("", "", ""), metadata.get("namespace", ""), metadata.get("name", ""), obj, old
    )
    if user is not None:
        attributes.user = user.info()

    async def run() -> None:
        await admission.admit(attributes, ctx)
        await admission.validate(attributes, ctx)

    asyncio.run(run())
    return attributes.object or described
