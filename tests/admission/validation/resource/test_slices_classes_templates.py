"""Slices, classes, templates and scheduling contexts: what may change, what is counted, how versions differ."""

from __future__ import annotations

import copy
from typing import Any

import pytest

from understudy.admission.context import Context
from understudy.apiserver.cmd.validator import Validator
from understudy.apiserver.kinds.resource import resource
from understudy.apiserver.registry.kind import Kind
from understudy.machinery.releases.features import Gates
from understudy.machinery.releases.version import V1_31, V1_32
from understudy.machinery.serializer.json import decode_json, encode

from .objects import TERM, objects

Obj = dict[str, Any]


def stored(name: str, version: str = "v1beta1", release: str = "1.32", **spec: Any) -> tuple[Kind, Context, Obj]:
    """An object as it is after its creation."""
    validator = Validator.of(release)
    kind = validator.release.kind("resource.k8s.io", name)
    assert kind is not None
    obj = copy.deepcopy(objects(version)[name])
    obj["spec"] |= spec
    decoded, _ = decode_json(encode(obj), kind.struct(version))
    ctx = Context(validator.release.version, Gates.of(validator.release.version), version)
    found = validator.internal(kind, version, decoded, ctx)
    found["metadata"] |= {"uid": "u", "resourceVersion": "1"} | ({"namespace": "n"} if kind.namespaced else {})
    kind.behavior.strategy.prepare_for_create(found, ctx)
    return kind, ctx, found


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
def test_a_slice_stays_where_it_is(field: str, value: Any, error: str) -> None:
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
def test_a_slice_is_for_nodes_named_in_one_way(spec: Obj, error: str) -> None:
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
def test_errors_about_keys_stand_at_the_key(key: str, place: str) -> None:
    """A long one is shortened in its middle."""
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
def test_changes_of_the_spec_are_counted(name: str, spec: Obj, generation: int) -> None:
    """What is dropped for its gate is no change of a class."""
    release, version = ("1.31", "v1alpha3") if "suitableNodes" in spec else ("1.32", "v1beta1")
    kind, ctx, old = stored(name, version, release)
    new, errors = update(kind, ctx, old, **spec)
    assert errors == []
    assert new["metadata"]["generation"] == generation


def test_the_same_amount_in_other_words_is_no_change() -> None:
    def devices(amount: str) -> list[Obj]:
        return [{"name": "a", "basic": {"capacity": {"memory": {"value": amount}}}}]

    kind, ctx, old = stored("ResourceSlice", devices=devices("1e3"))
    assert update(kind, ctx, old, devices=devices("1k"))[0]["metadata"]["generation"] == 1
    assert update(kind, ctx, old, devices=devices("1Ki"))[0]["metadata"]["generation"] == 2


def test_a_class_is_validated_twice_on_update() -> None:
    """The real server says so in the causes."""
    kind, ctx, old = stored("DeviceClass")
    _, errors = update(kind, ctx, old, selectors=[{}])
    assert errors == ["spec.selectors[0].cel: Required value"] * 2


def test_a_template_cannot_be_changed() -> None:
    kind, ctx, old = stored("ResourceClaimTemplate")
    _, (error,) = update(kind, ctx, old, metadata={"labels": {"a": "c"}})
    assert error.startswith("spec: Invalid value: resource.ResourceClaimTemplateSpec{ObjectMeta:v1.ObjectMeta{")
    _, errors = update(kind, ctx, old, metadata={"labels": {"a": "b"}, "name": "x"})
    assert "spec.metadata.name: Forbidden: cannot be set" in errors


def test_capacities_differ_by_version() -> None:
    conversion = resource.behaviors(V1_32)["ResourceSlice"].conversions["v1alpha3"]
    alpha = objects("v1alpha3")["ResourceSlice"]
    internal = conversion.to_internal(alpha)
    assert internal["spec"]["devices"][0]["basic"]["capacity"] == {"memory": {"value": "80Gi"}}
    assert conversion.from_internal(internal) == alpha == objects("v1alpha3")["ResourceSlice"]
    assert resource.behaviors(V1_31)["ResourceSlice"].conversions == {}


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
def test_scheduling_contexts(spec: Obj, errors: list[str]) -> None:
    """1.31: potential nodes are looked at, the selected one is not."""
    obj = {"apiVersion": "resource.k8s.io/v1alpha3", "kind": "PodSchedulingContext", "metadata": {"name": "a"}}
    found = Validator.of("1.31").findings(obj | {"spec": spec})
    assert [f"{error.field}: {error.message}" for error in found] == errors


def test_scheduling_contexts_are_of_1_31() -> None:
    assert "PodSchedulingContext" not in resource.behaviors(V1_32)
