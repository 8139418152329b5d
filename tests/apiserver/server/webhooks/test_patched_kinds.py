"""Patches of mutating webhooks that make another kind of an object."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.http import send
from understudy import Server
from understudy.machinery.types import Obj

MAPS = "/api/v1/namespaces/default/configmaps"
GEARS = "/apis/example.com/v1/gears"
CLASSES = "/apis/resource.k8s.io/v1beta1/deviceclasses"
CONFIG_MAP: Obj = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "a"}, "data": {"a": "MTEx"}}
GEAR: Obj = {"apiVersion": "example.com/v1", "kind": "Gear", "metadata": {"name": "a"}, "spec": {"a": 1}}
CLASS: Obj = {"apiVersion": "resource.k8s.io/v1beta1", "kind": "DeviceClass", "metadata": {"name": "a"}, "spec": {}}
INTERNAL = "Internal error occurred: "


def install_gears(server: Server) -> None:
    schema = {"type": "object", "properties": {"spec": {"type": "object", "properties": {"a": {"type": "integer"}}}}}
    versions = [
        {"name": name, "served": True, "storage": name == "v1", "schema": {"openAPIV3Schema": schema}}
        for name in ("v1", "v2")
    ]
    names = {"plural": "gears", "kind": "Gear"}
    server.apply(
        {
            "apiVersion": "apiextensions.k8s.io/v1",
            "kind": "CustomResourceDefinition",
            "metadata": {"name": "gears.example.com"},
            "spec": {"group": "example.com", "scope": "Cluster", "names": names, "versions": versions},
        }
    )


@pytest.fixture(scope="module")
def patched() -> Iterator[tuple[Server, list[Obj]]]:
    """Return a server and the operations with which its webhook answers."""
    operations: list[Obj] = []
    with Server(emulated_version="1.36") as server:
        install_gears(server)

        @server.webhook("configmaps", "gears.example.com", "deviceclasses.resource.k8s.io", mutating=True)
        def hook(request: Obj) -> list[Obj]:
            return operations

        yield server, operations


def named(api_version: str | None, kind: str | None) -> list[Obj]:
    fields = {"apiVersion": api_version, "kind": kind}
    return [{"op": "add", "path": f"/{name}", "value": text} for name, text in fields.items() if text is not None]


@pytest.mark.parametrize(
    ("path", "obj", "operations", "status", "message"),
    [
        (MAPS, CONFIG_MAP, named("v1", "Secret"), 500, "converting (v1.Secret) to (core.ConfigMap): unknown con"),
        (MAPS, CONFIG_MAP, named("v1", "Bogus"), 500, f'{INTERNAL}no kind "Bogus" is registered for version "v1" in'),
        (MAPS, CONFIG_MAP, named("apps/v1", None), 500, f'{INTERNAL}no kind "ConfigMap" is registered for version'),
        (MAPS, CONFIG_MAP, named("a/b/c", None), 500, f"{INTERNAL}unexpected GroupVersion string: a/b/c"),
        (MAPS, CONFIG_MAP, named("v1/", None), 500, f"{INTERNAL}Object 'apiVersion' is missing in '{{\"apiVersion\":"),
        (MAPS, CONFIG_MAP, named("apps/v1", "Deployment"), 500, "converting (v1.Deployment) to (core.ConfigMap): "),
        (MAPS, CONFIG_MAP, named("__internal", None), 422, 'ConfigMap "" is invalid: metadata.name: Required value'),
        (MAPS, CONFIG_MAP, named("", ""), 201, None),
        (CLASSES, CLASS, named("resource.k8s.io/v1", None), 201, None),
        (CLASSES, CLASS, named(None, "ResourceClaim"), 500, "converting (v1beta1.ResourceClaim) to (resource.Device"),
        (GEARS, GEAR, named("apps/v1", None), 500, "apps/v1, Kind=Gear is unstructured and is not suitable for conver"),
        (GEARS, GEAR, named("", None), 500, '/, Kind=Gear is unstructured and is not suitable for converting to "exa'),
        (GEARS, GEAR, named(None, ""), 500, f"{INTERNAL}Object 'Kind' is missing in '{{\"apiVersion\":\"example.com"),
        (GEARS, GEAR, named("example.com/v3", None), 500, "request to convert CR from an invalid group/version: exam"),
        (GEARS, GEAR, named(None, "Wheel"), 422, 'kind: Invalid value: "Wheel": must be Gear'),
        (GEARS, GEAR, named("example.com/v2", None), 201, None),
        (GEARS, GEAR, [{"op": "add", "path": "/zz", "value": 1}], 201, None),
    ],
)  # fmt: skip
def test_a_patch_that_changes_the_kind(
    patched: tuple[Server, list[Obj]], path: str, obj: Obj, operations: list[Obj], status: int, message: str | None
) -> None:
    """An object that does not convert to the kind of the request fails it; one of another version is converted."""
    server, patch = patched
    patch[:] = operations
    answer = send(server, "POST", f"{path}?dryRun=All", obj)
    body = answer.json()
    assert answer.status == status, body
    if message is None:
        assert (body["apiVersion"], body["kind"], "zz" in body) == (obj["apiVersion"], obj["kind"], False)
    else:
        assert message in body["message"]


def test_the_next_webhook_sees_the_other_kind() -> None:
    """Webhooks that are asked afterwards see the object as it was patched, with its defaults, and may mend it."""
    seen: list[tuple[str, str, str]] = []
    with Server(emulated_version="1.36") as server:

        @server.webhook("configmaps", mutating=True)
        def first(request: Obj) -> list[Obj]:
            return named(None, "Secret")

        @server.webhook("configmaps", mutating=True)
        def second(request: Obj) -> list[Obj]:
            seen.append((request["kind"]["kind"], request["object"]["kind"], request["object"]["type"]))
            return named(None, "ConfigMap")

        answer = send(server, "POST", MAPS, CONFIG_MAP)
    assert (answer.status, answer.json()["data"]) == (201, {"a": "MTEx"})
    assert seen == [("ConfigMap", "Secret", "Opaque")]


@pytest.mark.parametrize("release", ["1.32", "1.36"])
def test_new_custom_resources_have_no_creation_timestamp(release: str) -> None:
    """A webhook sees no time of creation in a new custom resource; in older releases built-in kinds show it as null."""
    seen: list[Obj] = []
    with Server(emulated_version=release) as server:
        install_gears(server)

        @server.webhook("gears.example.com", "configmaps", mutating=True)
        def hook(request: Obj) -> None:
            seen.append(request["object"]["metadata"])

        for path, obj in ((GEARS, GEAR), (MAPS, CONFIG_MAP)):
            assert send(server, "POST", path, obj).status == 201
    assert ["creationTimestamp" in metadata for metadata in seen] == [False, release == "1.32"]
