"""The LimitRanger plugin: which requests and limits it fills in, and which it refuses."""

from __future__ import annotations

from copy import deepcopy
from typing import Any

import pytest

from tests.admission.asking import ask
from tests.releases import NEWEST
from understudy.admission.plugins.limits import limit_ranger
from understudy.kinds.context import Context
from understudy.machinery.errors import StatusError
from understudy.machinery.releases.features import Gates
from understudy.machinery.releases.version import V1_34
from understudy.machinery.types import Obj


def context(*items: Obj) -> Context:
    """Return the context of a namespace with one limit range."""
    ranges = [{"metadata": {"name": "l"}, "spec": {"limits": list(items)}}]
    return Context(NEWEST, Gates.of(NEWEST), "v1", listing=lambda group, resource, namespace: ranges)


def container(name: str, requests: Obj | None = None, limits: Obj | None = None, **fields: Any) -> Obj:
    resources = {"requests": requests, "limits": limits}
    return {"name": name, "resources": {key: value for key, value in resources.items() if value is not None}, **fields}


def make_pod(*containers: Obj, init: tuple[Obj, ...] = ()) -> Obj:
    return {
        "metadata": {"name": "p", "namespace": "n"},
        "spec": deepcopy({"containers": list(containers), "initContainers": list(init)}),
    }


def refusal(obj: Obj, ctx: Context, resource: str = "pods", old: Obj | None = None) -> str:
    """Return the reason why an object is refused, "" if it is not."""
    try:
        ask(limit_ranger.LimitRanger(), ("", resource), obj, ctx, old=old)
    except StatusError as error:
        return error.message.partition(" is forbidden: ")[2]
    return ""


def test_missing_requests_and_limits_are_filled_in() -> None:
    """Missing requests and limits of containers are filled in, and an annotation lists them."""
    pod = make_pod(container("a", {"cpu": "1"}), {"name": "b"}, init=(container("i"),))
    pod["metadata"]["annotations"] = {"z": "", "a": ""}
    ranges = {"type": "Container", "default": {"memory": "2Gi", "cpu": "2"}, "defaultRequest": {"cpu": "500m"}}
    ask(limit_ranger.LimitRanger(), ("", "pods"), pod, context(ranges))
    assert pod["spec"]["containers"][0]["resources"] == {
        "requests": {"cpu": "1"},
        "limits": {"cpu": "2", "memory": "2Gi"},
    }
    assert pod["spec"]["containers"][1]["resources"]["requests"] == {"cpu": "500m"}
    assert list(pod["metadata"]["annotations"]) == ["a", limit_ranger.ANNOTATION, "z"]
    assert pod["metadata"]["annotations"][limit_ranger.ANNOTATION] == (
        "LimitRanger plugin set: cpu, memory limit for container a; cpu request for container b; "
        "cpu, memory limit for container b; cpu request for init container i; cpu, memory limit for init container i"
    )


def test_complete_pod_is_unchanged() -> None:
    """A pod that states all requests and limits is not changed."""
    pod = make_pod(container("a", {"cpu": "1"}, {"cpu": "1"}))
    before = deepcopy(pod)
    ctx = context({"type": "Container", "default": {"cpu": "2"}, "defaultRequest": {"cpu": "2"}})
    ask(limit_ranger.LimitRanger(), ("", "pods"), pod, ctx)
    assert pod == before


MINIMUM, MAXIMUM = "minimum cpu usage per Container is 500m", "maximum cpu usage per Container is 500m"
RATIO = "cpu max limit to request ratio per Container is 2"


@pytest.mark.parametrize(
    ("bounds", "requests", "limits", "text"),
    [
        ({"min": {"cpu": "500m"}}, {}, {}, f"{MINIMUM}.  No request is specified"),
        ({"min": {"cpu": "500m"}}, {"cpu": "400m"}, {}, f"{MINIMUM}, but request is 400m"),
        ({"min": {"cpu": "500m"}}, {"cpu": "0.5"}, {"cpu": "0.1"}, f"{MINIMUM}, but limit is 100m"),
        ({"min": {"cpu": "500m"}}, {"cpu": "0.5"}, {}, ""),
        ({"max": {"cpu": "500m"}}, {"cpu": "1"}, {}, f"{MAXIMUM}.  No limit is specified"),
        ({"max": {"cpu": "500m"}}, {"cpu": "2"}, {"cpu": "1"}, f"{MAXIMUM}, but limit is 1"),
        ({"max": {"cpu": "500m"}}, {"cpu": "2"}, {"cpu": "0"}, f"{MAXIMUM}, but request is 2"),
        ({"max": {"cpu": "500m"}}, {}, {"cpu": "500m"}, ""),
        (
            {"maxLimitRequestRatio": {"cpu": "2"}},
            {},
            {"cpu": "1"},
            f"{RATIO}, but no request is specified or request is 0",
        ),
        ({"maxLimitRequestRatio": {"cpu": "2"}}, {"cpu": "1"}, {}, f"{RATIO}, but no limit is specified or limit is 0"),
        (
            {"maxLimitRequestRatio": {"cpu": "2"}},
            {"cpu": "2"},
            {"cpu": "5"},
            f"{RATIO}, but provided ratio is 2.500000",
        ),
        ({"maxLimitRequestRatio": {"cpu": "2"}}, {"cpu": "2"}, {"cpu": "4"}, ""),
        (
            {"min": {"cpu": "500m"}, "max": {"cpu": "500m"}},
            {},
            {},
            f"[{MINIMUM}.  No request is specified, {MAXIMUM}.  No limit is specified]",
        ),
    ],
)
def test_container_bounds(bounds: Obj, requests: Obj, limits: Obj, text: str) -> None:
    """Requests and limits of a container must respect the minimum, the maximum and the ratio."""
    assert refusal(make_pod(container("a", requests, limits)), context({"type": "Container", **bounds})) == text


def test_equal_errors_are_reported_once() -> None:
    """Two containers that violate the same bound are one error."""
    ctx = context({"type": "Container", "min": {"cpu": "500m"}})
    assert refusal(make_pod(container("a"), container("b")), ctx) == f"{MINIMUM}.  No request is specified"


@pytest.mark.parametrize(
    ("init", "total"),
    [
        ((), "3"),
        ((container("i", {"cpu": "2"}),), "3"),
        ((container("i", {"cpu": "7"}),), "7"),
        ((container("s", {"cpu": "2"}, restartPolicy="Always"),), "5"),
        ((container("s", {"cpu": "2"}, restartPolicy="Always"), container("i", {"cpu": "4"})), "6"),
    ],
)
def test_pod_bounds(init: tuple[Obj, ...], total: str) -> None:
    """Containers and sidecars of a pod count together, an init container alone; the larger amount is checked."""
    pod = make_pod(container("a", {"cpu": "1"}), container("b", {"cpu": "2"}), init=init)
    text = f"minimum cpu usage per Pod is 10, but request is {total}"
    assert refusal(pod, context({"type": "Pod", "min": {"cpu": "10"}})) == text


@pytest.mark.parametrize(("on", "total"), [(False, "1"), (True, "4")])
def test_pod_level_resources_count_instead_of_containers(on: bool, total: str) -> None:
    """With PodLevelResources the cpu and memory of the pod count instead of those of its containers."""
    pod = make_pod(container("a", {"cpu": "1"}))
    pod["spec"]["resources"] = {"requests": {"cpu": "4"}}
    ctx = context({"type": "Pod", "min": {"cpu": "10"}})
    ctx.gates = Gates.of(V1_34, {"PodLevelResources": on})
    assert refusal(pod, ctx) == f"minimum cpu usage per Pod is 10, but request is {total}"


@pytest.mark.parametrize(
    ("bounds", "text"),
    [
        ({"min": {"storage": "2Gi"}}, "minimum storage usage per PersistentVolumeClaim is 2Gi, but request is 1Gi"),
        ({"max": {"storage": "1M"}}, "maximum storage usage per PersistentVolumeClaim is 1M, but request is 1Gi"),
        ({"max": {"cpu": "1"}}, "maximum cpu usage per PersistentVolumeClaim is 1.  No request is specified"),
        ({"min": {"storage": "1Gi"}, "max": {"storage": "1Gi"}}, ""),
    ],
)
def test_volume_claim_bounds(bounds: Obj, text: str) -> None:
    """The requests of a volume claim must respect the minimum and the maximum."""
    claim = {"metadata": {"name": "c", "namespace": "n"}, "spec": {"resources": {"requests": {"storage": "1Gi"}}}}
    ctx = context({"type": "PersistentVolumeClaim", **bounds})
    assert refusal(claim, ctx, "persistentvolumeclaims") == text


def test_claim_under_deletion_is_not_checked() -> None:
    """An update of a claim that is being deleted is not checked."""
    claim: Obj = {"metadata": {"name": "c", "namespace": "n"}, "spec": {"resources": {"requests": {"storage": "1Gi"}}}}
    ctx = context({"type": "PersistentVolumeClaim", "max": {"storage": "1"}})
    deleting = {**claim, "metadata": {**claim["metadata"], "deletionTimestamp": "2026-01-01T00:00:00Z"}}
    assert refusal(claim, ctx, "persistentvolumeclaims", claim)
    assert not refusal(claim, ctx, "persistentvolumeclaims", deleting)
