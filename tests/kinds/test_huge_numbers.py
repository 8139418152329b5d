"""Numbers of thousands of digits, which Python refuses to read: the answers are those of kube-apiserver 1.32."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

from tests.http import send
from understudy import Server
from understudy.machinery.types import Obj

HUGE = "1" * 5000
LONG = "1" * 30
CORE, APPS = "/api/v1/namespaces/default", "/apis/%s/namespaces/default"
ADDRESS = "must be a valid IP address, (e.g. 10.9.8.7 or 2001:db8::ffff)"
NETWORK = "must be a valid CIDR value, (e.g. 10.9.8.0/24 or 2001:db8::/64)"
NO_INDEX = 'error parsing succeededIndexes: cannot convert string to integer for index: "{0}"'


def pod(annotations: dict[str, str] | None = None, **spec: Any) -> dict[str, Any]:
    """Return a pod with fields of its spec."""
    spec = {"containers": [{"name": "a", "image": "a"}], **spec}
    return {"metadata": {"name": "x", "annotations": annotations or {}}, "spec": spec}


def service(**spec: Any) -> dict[str, Any]:
    """Return a service with fields of its spec."""
    return {"metadata": {"name": "x"}, "spec": {"ports": [{"port": 80}], **spec}}


def job(indexes: str) -> dict[str, Any]:
    """Return a job with the indexes of its success policy."""
    template = {"spec": {"restartPolicy": "Never", "containers": [{"name": "a", "image": "b"}]}}
    policy = {"rules": [{"succeededIndexes": indexes}]}
    spec = {"completionMode": "Indexed", "completions": 5, "parallelism": 5, "successPolicy": policy}
    return {"metadata": {"name": "x"}, "spec": {**spec, "template": template}}


def pattern(text: str) -> dict[str, Any]:
    """Return a custom resource definition with the pattern of a field."""
    schema = {"type": "object", "properties": {"a": {"type": "string", "pattern": text}}}
    version = {"name": "v1", "served": True, "storage": True, "schema": {"openAPIV3Schema": schema}}
    spec = {"group": "example.com", "scope": "Cluster", "names": {"plural": "xs", "kind": "X"}, "versions": [version]}
    return {"metadata": {"name": "xs.example.com"}, "spec": spec}


@pytest.fixture(scope="module")
def server() -> Iterator[Server]:
    """A server of 1.32 for all tests, none of which stores anything."""
    with Server(emulated_version="1.32") as running:
        yield running


@pytest.mark.parametrize(
    ("path", "sent", "message"),
    [
        (f"{CORE}/services", service(clusterIP=f"10.0.0.{HUGE}"), f'"10.0.0.{HUGE}": {ADDRESS}'),
        (f"{CORE}/services", service(externalIPs=[f"10.0.0.{HUGE}"]), f'"10.0.0.{HUGE}": {ADDRESS}'),
        (
            f"{CORE}/services",
            service(type="LoadBalancer", loadBalancerSourceRanges=[f"10.0.0.0/{HUGE}"]),
            f'"10.0.0.0/{HUGE}": {NETWORK}',
        ),
        (f"{CORE}/pods", pod(hostAliases=[{"ip": f"1.1.1.{HUGE}"}]), f'"1.1.1.{HUGE}": {ADDRESS}'),
        (
            f"{CORE}/pods",
            pod({"controller.kubernetes.io/pod-deletion-cost": f"-{HUGE}"}),
            f'"-{HUGE}": must be a 32bit integer',
        ),
        (APPS % "batch/v1" + "/jobs", job(HUGE), f'"{HUGE}": {NO_INDEX.format(HUGE)}'),
        (APPS % "batch/v1" + "/jobs", job(f"1-{LONG}"), f'"1-{LONG}": {NO_INDEX.format(LONG)}'),
        (
            "/apis/apiextensions.k8s.io/v1/customresourcedefinitions",
            pattern(f"a{{2,{HUGE}}}"),
            f"error parsing regexp: invalid repeat count: `{{2,{HUGE}}}`",
        ),
        (
            f"{CORE}/limitranges",
            {
                "metadata": {"name": "x"},
                "spec": {
                    "limits": [
                        {
                            "type": "Container",
                            "max": {"cpu": f"{'1' * 3900}e3000"},
                            "min": {"cpu": "1" * 3999},
                            "maxLimitRequestRatio": {"cpu": "1" * 3000},
                        }
                    ]
                },
            },
            "is greater than max/min = 0.000000",
        ),
    ],
    ids=lambda value: value if isinstance(value, str) and value.startswith("/") else "",
)
def test_huge_number_is_refused(server: Server, path: str, sent: dict[str, Any], message: str) -> None:
    """A number that no field can hold is an invalid value of it."""
    answer = send(server, "POST", f"{path}?dryRun=All", sent)
    assert (answer.status, message in answer.json()["message"]) == (422, True), answer.body[:300]


@pytest.mark.parametrize(
    ("path", "sent"),
    [
        (f"{CORE}/services", service(type="LoadBalancer", loadBalancerSourceRanges=[f"10.0.0.0/{'0' * 5000}8"])),
        ("/apis/apiextensions.k8s.io/v1/customresourcedefinitions", pattern(r"a[{1111111111}]\{1111111111}")),
    ],
    ids=["zeros", "no repeat count"],
)
def test_many_digits_that_say_little_are_taken(server: Server, path: str, sent: dict[str, Any]) -> None:
    """Leading zeros count for nothing, and braces in a class or behind a backslash are text."""
    answer = send(server, "POST", f"{path}?dryRun=All", sent)
    assert answer.status == 201, answer.body[:300]


def test_managed_fields_with_a_huge_index_are_dropped(server: Server) -> None:
    """An index in managed fields that is no int makes all of them void."""
    entry: Obj = {"manager": "a", "operation": "Update", "apiVersion": "v1", "fieldsType": "FieldsV1"}
    entry |= {"time": "2020-01-01T00:00:00Z", "fieldsV1": {"f:data": {f"i:{LONG}": {}}}}
    sent = {"metadata": {"name": "x", "managedFields": [entry]}}
    answer = send(server, "POST", f"{CORE}/configmaps?dryRun=All", sent)
    assert (answer.status, "managedFields" in answer.json()["metadata"]) == (201, False)
