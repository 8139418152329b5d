"""Stories about patches: one object, the managers that write it, and the fields that each owns.

No server, strategy or validation takes part, so that a story needs no more fields than those that it is about. How the
handlers call the same functions is covered by tests/apiserver/endpoints/handlers/test_patchers.py and the recordings.
"""

from __future__ import annotations

import copy
from collections.abc import Callable

import pytest

from understudy.machinery.patch import merge_patch
from understudy.machinery.patch.apply import apply_body
from understudy.machinery.patch.apply.field_manager import FieldManager
from understudy.machinery.patch.apply.object_type import GoObjectType
from understudy.machinery.patch.structured_merge_diff.field_set import iterate, path_text
from understudy.machinery.releases.version import V1_32
from understudy.machinery.serializer.json import decode_value
from understudy.machinery.typeinfo.go_types import Schemas, Struct
from understudy.machinery.types import Obj, split_api_version

SCHEMAS = Schemas.of(V1_32)


def renamed(obj: Obj, source: str, target: str) -> Obj | None:
    """Convert between versions that have the same fields; v9 is not served."""
    return None if target.endswith("v9") else {**obj, "apiVersion": target}


class ManagedObject:
    """Hold one object and write it with managed fields; every write is a second after the one before.

    `reset` has the fields that writes of a subresource cannot change, `main` those of the object's own endpoint.
    """

    def __init__(self, api_version: str = "v1", kind: str = "ConfigMap", **reset: tuple[tuple[str, ...], ...]) -> None:
        self.api_version = api_version
        self.kind = kind
        self.reset = {name.removeprefix("main"): paths for name, paths in reset.items()}
        self.live: Obj | None = None
        self.time = 0
        self.convert: Callable[[Obj, str, str], Obj | None] = renamed

    def struct(self, api_version: str = "") -> Struct:
        return SCHEMAS.kind(*split_api_version(api_version or self.api_version), self.kind)

    def field_manager(self, subresource: str = "", api_version: str = "") -> FieldManager:
        return FieldManager(
            GoObjectType(self.struct(api_version)),
            api_version or self.api_version,
            subresource=subresource,
            reset={"": self.reset.get(subresource, ())},
            convert=self.convert,
        )

    def _now(self) -> str:
        self.time += 1
        return f"2024-01-01T00:00:{self.time:02}Z"

    def stored(self, obj: Obj, api_version: str = "") -> Obj:
        self.live = decode_value({**obj, "apiVersion": self.api_version}, self.struct())[0]
        self.live["metadata"] |= {"name": "x", "uid": "1"}
        return self.live

    def form(self, obj: Obj, api_version: str) -> Obj:
        return decode_value({**obj, "apiVersion": api_version or self.api_version}, self.struct(api_version))[0]

    def create(self, manager: str, obj: Obj) -> Obj:
        new = self.form({"kind": self.kind, "metadata": {}} | obj, "")
        new["metadata"]["managedFields"] = self.field_manager().update(None, new, manager, self._now())
        return self.stored(new)

    def update(self, manager: str, edit: Obj, subresource: str = "", api_version: str = "") -> Obj:
        """Write the object after a merge patch."""
        assert self.live is not None
        live = self.form(self.live, api_version)
        new = self.form(merge_patch.apply(merge_patch.Patch(copy.deepcopy(edit), []), live), api_version)
        sent = (edit.get("metadata") or {}).get("managedFields")
        if sent is not None:
            new["metadata"]["managedFields"] = sent
        fields = self.field_manager(subresource, api_version)
        new["metadata"]["managedFields"] = fields.update(live, new, manager, self._now())
        return self.stored(new)

    def apply(
        self, manager: str, config: Obj, *, force: bool = False, subresource: str = "", api_version: str = ""
    ) -> Obj:
        """Apply a patch. Raises StatusError."""
        version = api_version or self.api_version
        live = self.form(self.live, version) if self.live else None
        before = copy.deepcopy((live, config))
        patch = {"apiVersion": version, "kind": self.kind, "metadata": {"name": "x"}} | config
        fields = self.field_manager(subresource, api_version)
        new = fields.apply(live, apply_body.Patch(patch, [], []), manager, self._now(), force=force)
        assert (live, config) == before, "apply has changed its arguments"
        return self.stored(new) if new is not live else self.live or {}

    def owners(self) -> dict[str, list[str]]:
        """Return {"Apply alice": [".data.a"]}, with version and subresource behind the name where they differ."""
        assert self.live is not None
        return {
            _name(e, self.api_version): _texts(e["fieldsV1"]) for e in self.live["metadata"].get("managedFields", ())
        }

    def times(self) -> dict[str, str]:
        assert self.live is not None
        return {
            _name(entry, self.api_version): entry.get("time", "")[-3:-1]
            for entry in self.live["metadata"].get("managedFields", ())
        }


def _name(entry: Obj, api_version: str) -> str:
    parts = [entry["operation"], entry["manager"], entry.get("subresource", "")]
    if entry["apiVersion"] != api_version:
        parts.append(entry["apiVersion"])
    return " ".join(part for part in parts if part)


def _texts(fields: Obj) -> list[str]:
    return [path_text(path) for path in iterate(fields)]


@pytest.fixture(scope="session")
def world() -> type[ManagedObject]:
    return ManagedObject
