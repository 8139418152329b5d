"""ResourceSlices, DeviceClasses, ResourceClaimTemplates and PodSchedulingContexts: updates and generation."""

from __future__ import annotations

import copy
from typing import Any

import pytest

from tests.kinds.resource.objects import TERM, objects
from understudy.apiserver.serving.release import Release
from understudy.kinds.context import Context
from understudy.kinds.declarations.kind import Kind
from understudy.machinery.releases.features import Gates
from understudy.machinery.releases.version import V1_32
from understudy.machinery.serializer.json import decode_json, encode
from understudy.machinery.types import Obj
from understudy.offline.validator import Validator


def stored(name: str, version: str = "v1beta1", release: str = "1.32", **spec: Any) -> tuple[Kind, Context, Obj]:
    """Return the kind, the context and an object as it is after its creation."""
    validator = Validator.of(release)
    kind = validator.release.kind("resource.k8s.io", name)
    assert kind is not None
    obj = copy.deepcopy(objects(version)[name])
    obj["spec"] |= spec
    decoded, _ = decode_json(encode(obj), kind.struct(version))
    ctx = Context(validator.release.version, Gates.of(validator.release.version), version)
    internal = validator.internal(kind, version, decoded, ctx)
    internal["metadata"] |= {"uid": "u", "resourceVersion": "1"} | ({"namespace": "n"} if kind.namespaced else {})
    kind.behavior.strategy.prepare_for_create(internal, ctx)
    return kind, ctx, internal


def update(kind: Kind, ctx: Context, old: Obj, **spec: Any) -> tuple[Obj, list[str]]:
    new = copy.deepcopy(old)
    new["spec"] |= spec
    kind.behavior.strategy.prepare_for_update(new, old, ctx)
    return new, [error.text(ctx.release) for error in kind.behavior.strategy.validate_update(new, old, ctx)]


@pytest.mark.parametrize(
    ("field", "value", "error"),
    [
        ("driver", "nic.example.com", 'spec.driver: Invalid value: "nic.example.com": field is immutable'),
        (
            "pool",
            {"name": "b", "generation": 2, "resourceSliceCount": 1},
            'spec.pool.name: Invalid value: "b": field is immutable',
        ),
        ("nodeName", "n", 'spec.nodeName: Invalid value: "n": field is immutable'),
        ("devices", [], ""),
    ],
)
def test_slice_identity_is_immutable(field: str, value: Any, error: str) -> None:
    spec: Obj = {"nodeSelector": None, "allNodes": True} if field != "nodeName" else {}
    kind, ctx, old = stored("ResourceSlice", **spec)
    _, errors = update(kind, ctx, old, **{field: value})
    assert errors[:1] == ([error] if error else [])


@pytest.mark.parametrize(
    ("spec", "error"),
    [
        (
            {"nodeSelector": None},
            "spec: Required value: exactly one of `nodeName`, `nodeSelector`, or `allNodes` is required",
        ),
        (
            {"allNodes": True},
            'spec: Invalid value: "null": exactly one of `nodeName`, `nodeSelector`, or `allNodes` is required',
        ),
        (
            {"nodeSelector": {"nodeSelectorTerms": []}},
            "spec.nodeSelector.nodeSelectorTerms: Required value: must have at least one node selector term",
        ),
        (
            {"nodeSelector": {"nodeSelectorTerms": [TERM, TERM]}},
            "spec.nodeSelector.nodeSelectorTerms: Invalid value: []core.NodeSelectorTerm{core.NodeSelectorTerm{",
        ),
    ],
)
def test_slice_names_its_nodes_in_one_way(spec: Obj, error: str) -> None:
    kind, ctx, slice_ = stored("ResourceSlice", **spec)
    errors = kind.behavior.strategy.validate(slice_, ctx)
    assert errors[0].text(ctx.release).startswith(error)


@pytest.mark.parametrize(
    ("key", "place"),
    [
        ("a-b", "attributes[a-b]"),
        ("d" * 70 + "/" + "x" * 60, "attributes[" + "d" * 47 + "..." + "x" * 46 + "]"),
    ],
)
def test_error_of_attribute_name_has_its_key_in_the_path(key: str, place: str) -> None:
    """From 1.32 on the path of an error about an attribute's name ends with the name, a long one shortened."""
    device = {"name": "a", "basic": {"attributes": {key: {"int": 1}}}}
    kind, ctx, slice_ = stored("ResourceSlice", devices=[device])
    assert {error.field for error in kind.behavior.strategy.validate(slice_, ctx)} == {f"spec.devices[0].basic.{place}"}
    kind, ctx, slice_ = stored("ResourceSlice", "v1alpha3", "1.31", devices=[device])
    assert {error.field for error in kind.behavior.strategy.validate(slice_, ctx)} == {
        "spec.devices[0].basic.attributes"
    }


@pytest.mark.parametrize(
    ("name", "spec", "generation"),
    [
        ("ResourceSlice", {}, 1),
        ("ResourceSlice", {"devices": None}, 2),
        ("DeviceClass", {}, 1),
        ("DeviceClass", {"selectors": []}, 2),
        ("DeviceClass", {"suitableNodes": {"nodeSelectorTerms": [TERM]}}, 1),
    ],
)
def test_spec_change_increments_generation(name: str, spec: Obj, generation: int) -> None:
    """A change of the spec increments the generation; a field that its gate drops is no change of a class."""
    release, version = ("1.31", "v1alpha3") if "suitableNodes" in spec else ("1.32", "v1beta1")
    kind, ctx, old = stored(name, version, release)
    new, errors = update(kind, ctx, old, **spec)
    assert errors == []
    assert new["metadata"]["generation"] == generation


def test_equal_quantity_does_not_increment_generation() -> None:
    def devices(amount: str) -> list[Obj]:
        return [{"name": "a", "capacity": {"memory": {"value": amount}}}]

    kind, ctx, old = stored("ResourceSlice")
    old["spec"]["devices"] = devices("1e3")
    assert update(kind, ctx, old, devices=devices("1k"))[0]["metadata"]["generation"] == 1
    assert update(kind, ctx, old, devices=devices("1Ki"))[0]["metadata"]["generation"] == 2


def test_class_update_reports_errors_twice() -> None:
    """The real server validates a class twice on update, and shows each error twice."""
    kind, ctx, old = stored("DeviceClass")
    _, errors = update(kind, ctx, old, selectors=[{}])
    assert errors == ["spec.selectors[0].cel: Required value"] * 2


def test_template_spec_is_immutable() -> None:
    kind, ctx, old = stored("ResourceClaimTemplate")
    _, (error,) = update(kind, ctx, old, metadata={"labels": {"a": "c"}})
    assert error.startswith("spec: Invalid value: resource.ResourceClaimTemplateSpec{ObjectMeta:v1.ObjectMeta{")
    _, errors = update(kind, ctx, old, metadata={"labels": {"a": "b"}, "name": "x"})
    assert "spec.metadata.name: Forbidden: cannot be set" in errors


@pytest.mark.parametrize(
    ("spec", "errors"),
    [
        ({"selectedNode": "-"}, []),
        ({"potentialNodes": ["a", "b.c"]}, []),
        ({"potentialNodes": ["a", "a"]}, ['spec.potentialNodes[1]: Duplicate value: "a"']),
        (
            {"potentialNodes": [f"n{i}" for i in range(129)]},
            ["spec.potentialNodes: Too long: may not be longer than 128"],
        ),
    ],
)
def test_scheduling_context_validates_potential_nodes(spec: Obj, errors: list[str]) -> None:
    """In 1.31 potential nodes are validated, and the selected node is not."""
    obj = {"apiVersion": "resource.k8s.io/v1alpha3", "kind": "PodSchedulingContext", "metadata": {"name": "a"}}
    findings = Validator.of("1.31").findings(obj | {"spec": spec})
    assert [f"{error.field}: {error.message}" for error in findings] == errors


def test_scheduling_context_exists_only_in_1_31() -> None:
    assert Release.of(V1_32).kind("resource.k8s.io", "PodSchedulingContext") is None
