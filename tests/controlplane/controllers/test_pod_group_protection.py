"""PodGroups that are deleted stay while pods of them may run."""

from __future__ import annotations

import pytest

from tests.http import exchange
from tests.waiting import wait_until
from understudy import Server


@pytest.mark.parametrize("ends", ["deleted", "succeeded"])
def test_group_stays_until_its_pods_have_ended(ends: str) -> None:
    """A deleted group is gone when its last pod is, or has ended; one without pods goes immediately."""
    groups = "/apis/scheduling.k8s.io/v1beta1/namespaces/default/podgroups"
    pods = "/api/v1/namespaces/default/pods"
    gates = {"GenericWorkload": True}
    with Server(emulated_version="1.37", controllers=["podgroup-protection-controller"], feature_gates=gates) as server:

        def left() -> list[str]:
            return [group["metadata"]["name"] for group in exchange(server, "GET", groups)[1]["items"]]

        for name in ("used", "idle"):
            body = {"metadata": {"name": name}, "spec": {"schedulingPolicy": {"basic": {}}}}
            assert exchange(server, "POST", groups, body)[0] == 201
        containers = [{"name": "c", "image": "i"}]
        for pod, group in (("p", "used"), ("q", "other")):
            spec = {"containers": containers, "schedulingGroup": {"podGroupName": group}}
            assert exchange(server, "POST", pods, {"metadata": {"name": pod}, "spec": spec})[0] == 201
        for name in ("used", "idle"):
            exchange(server, "DELETE", f"{groups}/{name}")
        assert wait_until(left, lambda names: "idle" not in names) == ["used"]
        if ends == "deleted":
            exchange(server, "DELETE", f"{pods}/p", {"gracePeriodSeconds": 0})
        else:
            pod = exchange(server, "GET", f"{pods}/p")[1]
            exchange(server, "PUT", f"{pods}/p/status", {**pod, "status": {"phase": "Succeeded"}})
        assert wait_until(left, lambda names: not names) == []
