"""Bounds, duplicates and equal amounts in objects of resource.k8s.io: the answers of kube-apiserver 1.32 and 1.36."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

from tests.http import send
from understudy import Server
from understudy.machinery.types import Obj

GROUP = "/apis/resource.k8s.io"
CLAIMS = {
    "1.36": f"{GROUP}/v1/namespaces/default/resourceclaims",
    "1.32": f"{GROUP}/v1beta1/namespaces/default/resourceclaims",
}
SLICES = f"{GROUP}/v1/resourceslices"
LABEL = "a lowercase RFC 1123 label must consist of"
UNKNOWN = "must be the name of a request in the claim"
SPLIT = f"{UNKNOWN} or the name of a request and a subrequest separated by '/'"
DEVICE = {"driver": "gpu.example.com", "pool": "p", "device": "d"}


@pytest.fixture(scope="module", params=["1.36", "1.32"])
def server(request: pytest.FixtureRequest) -> Iterator[Server]:
    with Server(emulated_version=request.param) as running:
        yield running


@pytest.fixture(scope="module")
def newest() -> Iterator[Server]:
    with Server(emulated_version="1.36", feature_gates={"DRAConsumableCapacity": True}) as running:
        yield running


def named(server: Server, name: str) -> Obj:
    """Return a request of a claim in the form of the server's version."""
    flat = {"deviceClassName": "gpu"}
    return {"name": name, **({"exactly": flat} if release_of(server) == "1.36" else flat)}


def release_of(server: Server) -> str:
    return str(server.state.release.version)


def causes(server: Server, method: str, path: str, body: Obj) -> list[str]:
    """Return the causes of a refusal, [] if there is none; the request is a dry run."""
    answer = send(server, method, f"{path}?dryRun=All", body)
    listed = answer.json()["details"]["causes"] if answer.status == 422 else []
    assert answer.status in (200, 201, 422)
    return [f"{cause['field']}: {cause['message']}" for cause in listed]


def begin(texts: list[str], expected: list[str]) -> list[str]:
    """Return texts as long as the expected ones, which need not be whole."""
    if len(texts) != len(expected):
        return texts
    return [text[: len(beginning)] for text, beginning in zip(texts, expected, strict=True)]


@pytest.mark.parametrize(
    ("reference", "texts"),
    [
        ("B", {"1.36": [f'"B": {LABEL}', f'"B": {SPLIT}'], "1.32": [f'"B": {LABEL}', f'"B": {UNKNOWN}']}),
        ("a/b", {"1.36": [f'"a/b": {SPLIT}'], "1.32": [f'"a/b": {LABEL}', f'"a/b": {UNKNOWN}']}),
        ("a/B", {"1.36": [f'"B": {LABEL}', f'"a/B": {SPLIT}'], "1.32": [f'"a/B": {LABEL}', f'"a/B": {UNKNOWN}']}),
        ("a/B/C", {"1.36": [f'"a/B/C": {SPLIT}'], "1.32": [f'"a/B/C": {LABEL}', f'"a/B/C": {UNKNOWN}']}),
    ],
)
def test_references_to_unknown_requests(server: Server, reference: str, texts: dict[str, list[str]]) -> None:
    """A reference is a request's name or, since there are subrequests, two names; of three names none is checked."""
    constraint = {"requests": [reference], "matchAttribute": "a.io/x"}
    spec = {"devices": {"requests": [named(server, "r")], "constraints": [constraint]}}
    answer = causes(server, "POST", CLAIMS[release_of(server)], {"metadata": {"name": "c"}, "spec": spec})
    where = "spec.devices.constraints[0].requests[0]: Invalid value: "
    expected = [where + text for text in texts[release_of(server)]]
    assert begin(answer, expected) == expected


@pytest.mark.parametrize("number", [31, 32])
def test_duplicates_beyond_the_limit(server: Server, number: int) -> None:
    """A list that is too long is not searched for duplicates since 1.34; before, both are errors."""
    requests = [named(server, f"r{i}") for i in range(number)] + [named(server, "r0")]
    obj = {"metadata": {"name": "c"}, "spec": {"devices": {"requests": requests}}}
    newer = release_of(server) == "1.36"
    too_many = ["spec.devices.requests: Too many: 33: must have at most 32 items"] if number == 32 else []
    duplicate = f'spec.devices.requests[{number}]{"" if newer else ".name"}: Duplicate value: "r0"'
    assert causes(server, "POST", CLAIMS[release_of(server)], obj) == [
        *too_many,
        *([] if newer and too_many else [duplicate]),
    ]


def conditions(number: int) -> list[Obj]:
    valid = {"status": "True", "reason": "R", "message": "", "lastTransitionTime": "2026-01-01T00:00:00Z"}
    return [{"type": f"T{i}", **valid} for i in range(number)]


TYPE, STATUS = "status.devices[0].conditions[0].type", "status.devices[0].conditions[0].status"


@pytest.mark.parametrize(
    ("items", "errors"),
    [
        (conditions(8), []),
        (conditions(9), ["status.devices[0].conditions: Too many: 9: must have at most 8 items"]),
        (conditions(1) * 2, ['status.devices[0].conditions[1].type: Duplicate value: "T0"']),
        (
            [{**conditions(1)[0], "type": "", "status": "X", "reason": ""}],
            [
                f'{TYPE}: Invalid value: "": name part must be non-empty',
                f'{TYPE}: Invalid value: "": name part must consist of alphanumeric characters',
                f'{STATUS}: Unsupported value: "X": supported values: "False", "True", "Unknown"',
                "status.devices[0].conditions[0].reason: Required value",
            ],
        ),
    ],
    ids=["8", "9", "duplicate", "wrong"],
)
def test_conditions_of_a_device(newest: Server, items: list[Obj], errors: list[str]) -> None:
    """The status of a device has at most eight conditions, of different types."""
    claim = newest.apply(
        {
            "apiVersion": "resource.k8s.io/v1",
            "kind": "ResourceClaim",
            "metadata": {"name": "s"},
            "spec": {"devices": {"requests": [named(newest, "r0")]}},
        }
    )[0]
    allocation = {"devices": {"results": [{"request": "r0", **DEVICE}]}}
    status = {"allocation": allocation, "devices": [{**DEVICE, "conditions": items}]}
    answer = causes(newest, "PUT", f"{CLAIMS['1.36']}/s/status", {**claim, "status": status})
    assert begin(answer, errors) == errors


def test_tolerations_of_an_allocation_have_an_operator(newest: Server) -> None:
    """The tolerations that an allocation repeats get the default operator, as those of requests."""
    spec = {"devices": {"requests": [named(newest, "r0")]}}
    path = CLAIMS["1.36"]
    claim = send(newest, "POST", path, {"metadata": {"name": "t"}, "spec": spec}).json()
    result: Obj = {"request": "r0", **DEVICE, "tolerations": [{"key": "k"}, {"key": "k", "operator": "Exists"}]}
    status = {"allocation": {"devices": {"results": [result]}}}
    answer = send(newest, "PUT", f"{path}/t/status?dryRun=All", {**claim, "status": status}).json()
    (stored,) = answer["status"]["allocation"]["devices"]["results"]
    assert [toleration["operator"] for toleration in stored["tolerations"]] == ["Equal", "Exists"]


def sliced(**fields: Any) -> Obj:
    pool = {"name": "p", "generation": 1, "resourceSliceCount": 1}
    spec = {"driver": "gpu.example.com", "pool": pool, "allNodes": True, "devices": [{"name": "d", **fields}]}
    return {"metadata": {"name": "x"}, "spec": spec}


@pytest.mark.parametrize(
    ("default", "number", "errors"),
    [
        ("1", 10, []),
        (
            "1",
            11,
            [
                "Too many: 11: must have at most 10 items",
                'Invalid value: "1": default value is not valid according to the requestPolicy',
            ],
        ),
        ("50", 2, ['Invalid value: "50": default value is not valid according to the requestPolicy']),
    ],
)
def test_valid_values_of_a_capacity(newest: Server, default: str, number: int, errors: list[str]) -> None:
    """A policy has at most ten valid values, one of which is the default; of more values none is."""
    policy = {"default": default, "validValues": [str(i + 1) for i in range(number)]}
    body = sliced(allowMultipleAllocations=True, capacity={"c": {"value": "100", "requestPolicy": policy}})
    where = "spec.devices[0].capacity[c].requestPolicy.validValues: "
    assert causes(newest, "POST", SLICES, body) == [where + error for error in errors]


def test_equal_amounts_are_no_change(newest: Server) -> None:
    """The generation of a slice counts changes of amounts, not of their spelling."""
    made = send(newest, "POST", SLICES, sliced(capacity={"c": {"value": "1Gi"}})).json()
    for amount, generation in (("1024Mi", 1), ("2Gi", 2)):
        body = {**made, "spec": sliced(capacity={"c": {"value": amount}})["spec"]}
        answer = send(newest, "PUT", f"{SLICES}/x?dryRun=All", body).json()
        assert answer["metadata"]["generation"] == generation


@pytest.mark.parametrize(
    ("number", "errors"), [(8, []), (9, ["status.conditions: Too many: 9: must have at most 8 items"])]
)
def test_conditions_of_a_taint_rule(newest: Server, number: int, errors: list[str]) -> None:
    """The status of a taint rule has at most eight conditions."""
    spec = {"deviceSelector": {"driver": "d.io"}, "taint": {"key": "k", "effect": "NoSchedule"}}
    path = f"{GROUP}/v1beta2/devicetaintrules"
    rule = send(newest, "POST", path, {"metadata": {"name": f"r{number}"}, "spec": spec}).json()
    status = {"conditions": conditions(number)}
    assert causes(newest, "PUT", f"{path}/r{number}/status", {**rule, "status": status}) == errors
