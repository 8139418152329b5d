"""Random objects: an accepted one can be read and written back unchanged, and a refused one says why."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.http import send
from understudy import Server

CLAIMS = "/apis/resource.k8s.io/v1beta1/namespaces/default/resourceclaims"
SLICES = "/apis/resource.k8s.io/v1beta1/resourceslices"
CLASSES = "/apis/resource.k8s.io/v1beta1/deviceclasses"


@pytest.fixture(scope="module")
def url() -> Iterator[str]:
    with Server(feature_gates={"DRAAdminAccess": True, "DRAResourceClaimDeviceStatus": True}) as server:
        yield server.url


def exchange(url: str, method: str, path: str, body: Any = None) -> tuple[int, Any]:
    """Send a body without spaces: the server stores those of opaque parameters and takes their loss for a change."""
    response = send(url, method, path, body)
    return response.status, response.json()


words = st.text("abc-.", max_size=6) | st.sampled_from(["gpu", "gpu.example.com", "a/b", ""])
odd: st.SearchStrategy[Any] = st.sampled_from([None, [], {}, "", 0, -1, True, "x" * 64])
quantities = st.sampled_from(["1", "1Gi", "0.5", "1e3", "x", "1.5Gi", "", "1000m", 5])
fields: Callable[..., st.SearchStrategy[Any]] = st.fixed_dictionaries  # whose types do not allow for mixed values
selectors = st.lists(
    fields({"cel": fields({"expression": st.sampled_from(["true", "1", "device.x", ""])})}),
    max_size=2,
)
requests = fields(
    {"name": words, "deviceClassName": words},
    optional={
        "count": st.integers(-1, 3) | odd,
        "allocationMode": st.sampled_from(["ExactCount", "All", "", "Some"]),
        "adminAccess": st.booleans() | odd,
        "selectors": selectors | odd,
    },
)
parameters = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | st.text(max_size=4),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text("ab<é", max_size=3), inner, max_size=3),
    max_leaves=6,
)
configs = fields(
    {"opaque": fields({"driver": words, "parameters": st.dictionaries(words, parameters, max_size=2)})},
    optional={"requests": st.lists(words, max_size=2) | odd},
)
labels = st.dictionaries(words, words, max_size=2) | odd
finalizers = st.just(["a/b"])
metadata = fields(
    {"generateName": st.just("any-")},
    optional={"labels": labels, "annotations": labels, "finalizers": finalizers},
)
devices = fields(
    {
        "requests": st.lists(requests, max_size=2) | odd,
        "config": st.lists(configs, max_size=2) | odd,
        "constraints": st.lists(fields({"matchAttribute": words}), max_size=1) | odd,
    }
)
claims = fields({"metadata": metadata, "spec": fields({"devices": devices | odd})})
values = st.sampled_from([{"int": 1}, {"bool": False}, {"string": ""}, {}, {"version": "1.0.0"}])
attributes = st.dictionaries(words, values)
basics = fields({}, optional={"attributes": attributes, "capacity": st.dictionaries(words, quantities)})
slices = fields(
    {
        "metadata": metadata,
        "spec": fields(
            {
                "driver": st.just("gpu.example.com"),
                "pool": st.just({"name": "p", "resourceSliceCount": 1}),
                "devices": st.lists(fields({"name": st.just("d"), "basic": basics}), max_size=1) | odd,
            },
            optional={"nodeName": words, "allNodes": st.booleans()},
        ),
    }
)
examples = settings(max_examples=120)


def check(url: str, collection: str, obj: Any) -> None:
    """Check that an accepted object survives a round trip and that a refused one has a message."""
    status, answer = exchange(url, "POST", collection, obj)
    assert status in (201, 400, 422), answer
    if status != 201:
        assert answer["message"]
        return
    path = f"{collection}/{answer['metadata']['name']}"
    status, read = exchange(url, "GET", path)
    assert (status, read) == (200, answer)
    status, written = exchange(url, "PUT", path, read)
    assert (status, written["metadata"].get("resourceVersion")) == (200, answer["metadata"]["resourceVersion"]), written
    assert written == read


@examples
@given(obj=claims)
def test_claims_round_trip(url: str, obj: Any) -> None:
    """Random claims are refused with a message, or read and written back unchanged."""
    check(url, CLAIMS, {"apiVersion": "resource.k8s.io/v1beta1", "kind": "ResourceClaim", **obj})


@examples
@given(obj=slices)
def test_slices_round_trip(url: str, obj: Any) -> None:
    """Random slices round-trip in a version that is not the stored one."""
    check(url, SLICES, {"apiVersion": "resource.k8s.io/v1beta1", "kind": "ResourceSlice", **obj})


@examples
@given(body=st.binary(max_size=30) | parameters.map(lambda value: json.dumps(value).encode()))
def test_random_bodies_are_never_500(url: str, body: bytes) -> None:
    """No body ends in a 500, except a resourceVersion on a new object, as in the real server."""
    status, answer = exchange(url, "POST", CLASSES, body)
    assert status in (201, 400, 422), answer
