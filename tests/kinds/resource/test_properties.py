"""Properties of validation: no input makes it crash, and an accepted object is valid as an update of itself."""

from __future__ import annotations

import copy
from collections.abc import Iterator
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from tests.kinds.resource.objects import STATUS, objects
from understudy.kinds.common import objectmeta
from understudy.kinds.declarations.kind import Kind
from understudy.machinery.serializer.json import DecodeError, decode_json, encode
from understudy.offline.validator import Validator

GATES = {"1.31": {"DRAControlPlaneController": True}, "1.32": {"DRAAdminAccess": True}}
RELEASES = [("1.31", "v1alpha3"), ("1.32", "v1alpha3"), ("1.32", "v1beta1")]

scalars = st.one_of(
    st.none(),
    st.booleans(),
    st.integers(-3, 300),
    st.sampled_from(["", "a", "A", "-a", "a/b", "a/b/c", "é", "10.0.0.1/99", "1Gi", "x" * 70, "x" * 300, "\u0130.com"]),
    st.text(max_size=8),
)
values = st.recursive(
    scalars,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=5), inner, max_size=3),
    max_leaves=5,
)


def places(value: Any) -> Iterator[tuple[Any, Any]]:
    """Yield (container, key) of everything inside a value."""
    items = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
    for key, inner in list(items):
        yield value, key
        yield from places(inner)


@st.composite
def mangled(draw: st.DrawFn, obj: dict[str, Any]) -> dict[str, Any]:
    """Draw a valid object with up to four changes: values replaced, removed, repeated or added."""
    obj = copy.deepcopy(obj)
    for _ in range(draw(st.integers(0, 4))):
        container, key = draw(st.sampled_from(list(places(obj))))
        match draw(st.sampled_from(["replace", "remove", "repeat", "add"])):
            case "replace":
                container[key] = draw(values)
            case "remove":
                del container[key]
            case "repeat" if isinstance(container, list):
                container += [copy.deepcopy(container[key])] * draw(st.sampled_from([1, 40]))
            case _ if isinstance(container, dict):
                container[draw(st.sampled_from(["", "a/b", "é", "x" * 70]) | st.text(max_size=5))] = draw(values)
        if not obj:
            break
    return obj


def examples() -> list[Any]:
    return [
        pytest.param(release, version, obj, id=f"{release}-{version}-{kind}")
        for release, version in RELEASES
        for kind, obj in objects(version).items()
    ]


@pytest.mark.parametrize(("release", "version", "obj"), examples())
def test_example_is_valid(release: str, version: str, obj: dict[str, Any]) -> None:
    assert list(Validator.of(release, GATES[release]).findings(obj)) == []


@pytest.mark.parametrize(("release", "version", "obj"), examples())
@given(data=st.data())
@settings(max_examples=40, deadline=None, suppress_health_check=[HealthCheck.too_slow, HealthCheck.filter_too_much])
def test_mangled_object_is_validated_without_crash(
    release: str, version: str, obj: dict[str, Any], data: st.DataObject
) -> None:
    """A mangled object gets errors or is valid; a valid one is unchanged and valid as an update of itself."""
    validator = Validator.of(release, GATES[release])
    kind = validator.release.kind("resource.k8s.io", obj["kind"])
    assert kind is not None
    try:
        decoded, _ = decode_json(encode(data.draw(mangled(obj))), kind.struct(version))
    except DecodeError:
        return
    if not validator.create(kind, version, copy.deepcopy(decoded))[1]:
        assert_stays_valid(validator, kind, version, decoded)


def stored(validator: Validator, kind: Kind, version: str, decoded: dict[str, Any]) -> dict[str, Any]:
    """Return the object that the creation of a decoded object stores."""
    ctx = validator.context(version)
    obj = validator.internal(kind, version, decoded, ctx)
    obj["metadata"] |= {"uid": "u", "resourceVersion": "1", "namespace": "default" if kind.namespaced else ""}
    kind.behavior.strategy.prepare_for_create(obj, ctx)
    return obj


def assert_stays_valid(validator: Validator, kind: Kind, version: str, decoded: dict[str, Any]) -> None:
    old = stored(validator, kind, version, decoded)
    new = copy.deepcopy(old)
    ctx, strategy = validator.context(version), kind.behavior.strategy
    strategy.prepare_for_update(new, old, ctx)
    assert new == old
    assert objectmeta.validate_update(new["metadata"], old["metadata"]) == []
    errors = strategy.validate_update(new, old, ctx)
    assert [error for error in errors if not error.field.startswith("metadata.n")] == []


@pytest.mark.parametrize(("release", "version"), RELEASES)
@given(data=st.data())
@settings(max_examples=60, deadline=None, suppress_health_check=[HealthCheck.too_slow, HealthCheck.filter_too_much])
def test_mangled_status_is_validated_without_crash(release: str, version: str, data: st.DataObject) -> None:
    """A mangled status gets errors or is valid; a valid one is unchanged and valid if it is written again."""
    validator = Validator.of(
        release, GATES[release] | ({"DRAResourceClaimDeviceStatus": True} if release != "1.31" else {})
    )
    kind = validator.release.kind("resource.k8s.io", "ResourceClaim")
    assert kind is not None
    assert kind.behavior.status is not None
    claim = objects(version)["ResourceClaim"]
    old = stored(validator, kind, version, decode_json(encode(claim), kind.struct(version))[0])
    status = data.draw(mangled(STATUS))
    try:
        decoded, _ = decode_json(encode(claim | {"status": status}), kind.struct(version))
    except DecodeError:
        return
    ctx, strategy = validator.context(version), kind.behavior.status
    new = validator.internal(kind, version, decoded, ctx)
    new["metadata"] = copy.deepcopy(old["metadata"])
    strategy.prepare_for_update(new, old, ctx)
    if strategy.validate_update(new, old, ctx):
        return
    repeated = copy.deepcopy(new)
    strategy.prepare_for_update(repeated, new, ctx)
    assert repeated == new
    assert strategy.validate_update(repeated, new, ctx) == []
