"""Patches, owners after writes, and applies that a real kube-apiserver 1.32 carried out."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from understudy.machinery.errors import StatusError
from understudy.machinery.patch import json_patch, merge_patch, strategic
from understudy.machinery.patch.apply import apply_body
from understudy.machinery.patch.apply.field_manager import FieldManager
from understudy.machinery.patch.apply.object_type import GoObjectType
from understudy.machinery.releases.version import V1_32
from understudy.machinery.serializer.json import decode_value
from understudy.machinery.typeinfo.go_types import Schemas, Struct
from understudy.machinery.types import Obj, split_api_version

NOW = "2024-01-02T03:04:05Z"


def recorded(name: str) -> list[Any]:
    items = json.loads((Path(__file__).parent / f"recorded_{name}.json").read_text())
    return [pytest.param(item, id=f"{name}-{index}") for index, item in enumerate(items)]


def struct_of(obj: Obj) -> Struct:
    return Schemas.of(V1_32).kind(*split_api_version(obj["apiVersion"]), obj["kind"])


def one_version(obj: Obj, source: str, target: str) -> Obj:
    return obj


@pytest.mark.parametrize("item", recorded("patches"))
def test_patches_are_as_recorded(item: dict[str, Any]) -> None:
    """Every recorded patch has the recorded result."""
    current, body = item["current"], item["body"].encode()
    struct = struct_of(current)
    before = json.dumps(current)
    try:
        if item["form"] == "strategic":
            result = strategic.apply(strategic.parse(body), current, struct)
        elif item["form"] == "merge":
            result = merge_patch.apply(merge_patch.parse(body), current)
        else:
            result = json_patch.apply(json_patch.parse(body), current)
        outcome: tuple[int, Any] = 200, without_server_fields(decode_value(result, struct)[0])
    except StatusError as error:
        outcome = error.code, error.message
    assert outcome == (item["code"], item["object"] if item["code"] == 200 else item["message"])
    assert json.dumps(current) == before


def without_server_fields(obj: Obj) -> Obj:
    """Return an object without the values that a server makes up."""
    for name in ("managedFields", "resourceVersion", "generation", "uid", "creationTimestamp", "namespace"):
        obj["metadata"].pop(name, None)
    return obj


@pytest.mark.parametrize("item", recorded("owners"))
def test_owners_are_as_recorded(item: dict[str, Any]) -> None:
    """After every recorded write the owners are the recorded ones."""
    live, new = item["live"], item["new"]
    fields = FieldManager(
        GoObjectType(struct_of(new)), new["apiVersion"], subresource=item["subresource"], convert=one_version
    )
    owners = fields.update(live, new, item["manager"], NOW)
    assert json.dumps(owners) == json.dumps(item["owners"])


@pytest.mark.parametrize("item", recorded("applies"))
def test_applies_are_as_recorded(item: dict[str, Any]) -> None:
    """Every recorded apply has the recorded object and owners."""
    fields = FieldManager(
        GoObjectType(struct_of({"apiVersion": item["api_version"], "kind": item["kind"]})),
        item["api_version"],
        subresource=item["subresource"],
        reset={"": (("spec",),) if item["subresource"] else (("status",),)},
        convert=one_version,
    )
    try:
        patch = apply_body.parse(item["body"].encode())
        obj = fields.apply(item["live"], patch, item["manager"], NOW, force=item["force"])
        outcome = json.dumps(obj["metadata"].get("managedFields", []))
    except StatusError as error:
        outcome = json.dumps(error.status(), sort_keys=True)
    assert outcome == (
        json.dumps(item["owners"]) if item["code"] == 200 else json.dumps(item["status"], sort_keys=True)
    )
