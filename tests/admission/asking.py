"""Asks one admission plugin about one object, without a server."""

from __future__ import annotations

import asyncio
from typing import Any

from understudy.admission.chain import Attributes, Chain, Operation, Plugin, Point
from understudy.admission.context import Context
from understudy.machinery.types import GroupVersionKind

Obj = dict[str, Any]


def ask(
    plugin: Plugin, resource: tuple[str, str], obj: Obj, ctx: Context, *, old: Obj | None = None, subresource: str = ""
) -> Obj:
    """Return the object as the plugin leaves it. Raises what the plugin raises."""
    operation = Operation.CREATE if old is None else Operation.UPDATE
    point = Point(operation, *resource, subresource)
    admission = Chain([plugin]).of(point)
    metadata = obj["metadata"]
    attributes = Attributes(
        point, GroupVersionKind("", "", ""), metadata.get("namespace", ""), metadata.get("name", ""), obj, old
    )

    async def run() -> None:
        if admission is not None:
            await admission.admit(attributes, ctx)
            await admission.validate(attributes, ctx)

    asyncio.run(run())
    return attributes.new
