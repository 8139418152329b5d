"""Values in error texts, printed as the real server prints its internal Go values.

Up to 1.33 that is Go syntax, from 1.34 on JSON.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import orjson

from understudy.apiserver.gotext import Printed, go_quote
from understudy.apiserver.types import Obj

OWNER_REFERENCE = "k8s.io/apimachinery/pkg/apis/meta/v1.OwnerReference"
_GO_SYNTAX = frozenset(("1.31", "1.32", "1.33"))


def struct(value: Obj, name: str, release: str) -> Printed:
    """A struct by its full Go name."""
    from understudy.apiserver.godump import dump  # here, since only errors need it
    from understudy.apiserver.schema import Schemas

    return dump(value, name, Schemas.of(release))


def structs(values: Sequence[Obj] | None, name: str, release: str) -> Printed:
    """A slice of structs; None is a nil one."""
    if values is None:
        return Printed(f"[]{name.rpartition('/')[2]}(nil)" if release in _GO_SYNTAX else "null")
    texts = ", ".join(str(struct(value, name, release)) for value in values)
    if release in _GO_SYNTAX:
        return Printed(f"[]{name.rpartition('/')[2]}{{{texts}}}")
    return Printed(f"[{texts}]")


def strings(values: Sequence[Any], release: str) -> Printed:
    """A slice of strings."""
    if release in _GO_SYNTAX:
        return Printed(f"[]string{{{', '.join(go_quote(value) for value in values)}}}")
    return Printed(orjson.dumps(values).decode())
