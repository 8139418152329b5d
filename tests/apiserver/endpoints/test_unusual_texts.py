"""Texts that Go takes and Python stumbles over: bytes that are not UTF-8, halves of surrogates, very long numbers."""

from __future__ import annotations

import base64
import json
from collections.abc import Iterator
from typing import Any
from urllib.parse import quote

import pytest

from tests.http import MERGE_PATCH, exchange, send
from understudy import Server

CORE = "/api/v1/namespaces/default"
CRON_JOBS = "/apis/batch/v1/namespaces/default/cronjobs?dryRun=All"
CLASSES = "/apis/resource.k8s.io/v1beta1/deviceclasses?dryRun=All"
JSON_PATCH, STRATEGIC = "application/json-patch+json", "application/strategic-merge-patch+json"
APPLY = "application/apply-patch+yaml"
CONTAINERS = [{"name": "c", "image": "i"}]
ONES = "1" * 5000


@pytest.fixture(scope="module")
def server() -> Iterator[Server]:
    """Run a server with a pod and a ConfigMap, both called `a`."""
    with Server(emulated_version="1.34") as running:
        running.apply(
            {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "a"}, "spec": {"containers": CONTAINERS}}
        )
        running.apply({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "a"}})
        yield running


@pytest.mark.parametrize(("sent", "stored"), [("%ff", "\ufffd"), ("%ed%a0%80", "\ufffd" * 3), ("caf%c3", "caf\ufffd")])
def test_field_managers_of_any_bytes(server: Server, sent: str, stored: str) -> None:
    """Each byte of a field manager's name that is not UTF-8 is stored as U+FFFD."""
    body = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "b"}, "data": {"a": "b"}}
    status, created = exchange(server, "POST", f"{CORE}/configmaps?dryRun=All&fieldManager={sent}", body)
    assert status == 201
    assert [entry["manager"] for entry in created["metadata"]["managedFields"]] == [stored]


def test_agents_of_any_bytes(server: Server) -> None:
    """Bytes of a User-Agent that are not UTF-8 are stored as U+FFFD in the name of its field manager."""
    body = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "b"}, "data": {"a": "b"}}
    response = send(server, "POST", f"{CORE}/configmaps?dryRun=All", body, headers={"User-Agent": "caf\xe9/1"})
    assert response.json()["metadata"]["managedFields"][0]["manager"] == "caf\ufffd"


@pytest.mark.parametrize(
    ("media", "body"),
    [
        (MERGE_PATCH, b'{"spec":{"nodeName":"\\ud800"}}'),
        (STRATEGIC, b'{"spec":{"nodeName":"\\ud800"}}'),
        (STRATEGIC, b'{"spec":{"containers":[{"name":"\\ud800","image":"x"}]}}'),
        (JSON_PATCH, b'[{"op":"add","path":"/spec/nodeName","value":"\\ud800"}]'),
        (MERGE_PATCH, b'{"metadata":{"labels":{"\\udfff":"b"}}}'),
    ],
)
def test_half_surrogates_in_patches(server: Server, media: str, body: bytes) -> None:
    """Half a surrogate is U+FFFD in a patch, and in the text of the error about it."""
    status, refusal = exchange(server, "PATCH", f"{CORE}/pods/a", body, media)
    assert status == 422
    assert '"\ufffd"' in refusal["message"]


def test_half_surrogates_in_applied_objects(server: Server) -> None:
    """Half a surrogate is not YAML, so it is refused in an apply request."""
    body = b'{"apiVersion":"v1","kind":"Pod","metadata":{"name":"a","labels":{"a":"\\ud800"}}}'
    status, refusal = exchange(server, "PATCH", f"{CORE}/pods/a?fieldManager=m", body, APPLY)
    assert status == 400
    assert refusal["message"].endswith("yaml: found invalid Unicode character escape code")


def test_half_surrogate_as_kind(server: Server) -> None:
    """Half a surrogate in the kind of a body is U+FFFD in the text of the error about it."""
    body = b'{"apiVersion":"v1","kind":"\\ud800","metadata":{"name":"x"}}'
    status, refusal = exchange(server, "POST", f"{CORE}/configmaps", body)
    assert status == 400
    assert 'no kind "\ufffd" is registered' in refusal["message"]


@pytest.mark.parametrize(
    ("schedule", "problem"),
    [
        (f"{ONES} * * * *", f'strconv.Atoi: parsing "{ONES}": value out of range'),
        (f"*/{ONES} * * * *", f'strconv.Atoi: parsing "{ONES}": value out of range'),
        (f"1-{ONES} * * * *", f'strconv.Atoi: parsing "{ONES}": value out of range'),
        (f"{'0' * 5000} * * * *", ""),
        (f"@every {ONES}h", f'time: invalid duration "{ONES}h"'),
        (f"@every {ONES}", f'time: missing unit in duration "{ONES}"'),
        (f"@every 0.{ONES}h", ""),
        ("@every 2562047h47m16.854775807s", ""),
        ("@every 2562047h47m16.854775808s", 'time: invalid duration "2562047h47m16.854775808s"'),
        ("@every 9223372036854775808ns", 'time: invalid duration "9223372036854775808ns"'),
        ("@every 1h2x3", 'time: unknown unit "x" in duration "1h2x3"'),
    ],
)
def test_long_numbers_in_schedules(server: Server, schedule: str, problem: str) -> None:
    """A number or a duration of a schedule that does not fit into 64 bits is refused."""
    template = {"spec": {"restartPolicy": "Never", "containers": CONTAINERS}}
    spec = {"schedule": schedule, "jobTemplate": {"spec": {"template": template}}}
    body = {"apiVersion": "batch/v1", "kind": "CronJob", "metadata": {"name": "c"}, "spec": spec}
    status, answer = exchange(server, "POST", CRON_JOBS, body)
    assert status == (422 if problem else 201)
    assert problem in answer.get("message", "")


def test_long_number_in_continue_token(server: Server) -> None:
    """A revision of thousands of digits makes a continue token invalid."""
    token = base64.urlsafe_b64encode(b'{"v":"meta.k8s.io/v1","rv":%s,"start":"a"}' % ONES.encode()).rstrip(b"=")
    status, refusal = exchange(server, "GET", f"{CORE}/configmaps?limit=1&continue={quote(token)}")
    assert status == 400
    assert f"cannot unmarshal number {ONES} into Go struct field continueToken.rv of type int64" in refusal["message"]


@pytest.mark.parametrize(
    ("expression", "problem"),
    [
        ("device" + ".a" * 3000, "max recursion depth exceeded"),
        ("device.driver.matches('" + "(" * 1000 + ")" * 1000 + "')", "invalid matches argument"),
        ("device.driver.matches('" + "(" * 999 + ")" * 999 + "')", ""),
    ],
)
def test_deep_expressions(server: Server, expression: str, problem: str) -> None:
    """Expressions and their patterns nest as deep as cel-go and Go's `regexp` allow."""
    spec: Any = {"selectors": [{"cel": {"expression": expression}}]}
    body = {"apiVersion": "resource.k8s.io/v1beta1", "kind": "DeviceClass", "metadata": {"name": "c"}, "spec": spec}
    status, answer = exchange(server, "POST", CLASSES, body)
    assert status == (422 if problem else 201)
    assert problem in answer.get("message", "")


def test_infinite_number_in_json_patch(server: Server) -> None:
    """A number beyond float64 in a JSON patch is refused when the patch is read."""
    body = b'[{"op":"add","path":"/data","value":{"a":1e400}}]'
    status, refusal = exchange(server, "PATCH", f"{CORE}/configmaps/a", body, JSON_PATCH)
    text = "json: cannot unmarshal number 1e400 into Go struct field jsonPatchOp.value of type float64"
    assert (status, refusal["message"]) == (400, f"error decoding patch: {text}")


@pytest.mark.parametrize(
    ("media", "body"),
    [(MERGE_PATCH, b'{"data":{"a":-0}}'), (JSON_PATCH, b'[{"op":"add","path":"/data","value":{"a":-0}}]')],
)
def test_negative_zero_keeps_its_spelling(server: Server, media: str, body: bytes) -> None:
    """-0 stands in the text of a patched object as it was sent."""
    status, refusal = exchange(server, "PATCH", f"{CORE}/configmaps/a", body, media)
    assert status == 422
    assert json.dumps('"a":-0')[1:-1] in refusal["message"]
