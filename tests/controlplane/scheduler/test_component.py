"""The scheduler beside a server: what it writes, in which order, and what happens when that fails."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import AsyncExitStack, asynccontextmanager
from typing import Any

import pytest

from tests.releases import NEWEST, RELEASES
from tests.waiting import until
from understudy import Server
from understudy.apiserver.client.connection import Connection
from understudy.controlplane.allocator import AllocatedState, Rules
from understudy.controlplane.client.api_client import APIClient
from understudy.controlplane.client.events.series import SeriesRecorder
from understudy.controlplane.client.resources import (
    EVENTS,
    NODES,
    PODS,
    device_classes,
    device_taint_rules,
    pod_groups,
    resource_claims,
    resource_slices,
)
from understudy.controlplane.scheduler.binding import Binder
from understudy.controlplane.scheduler.claims import ClaimTracker
from understudy.controlplane.scheduler.cycle import Failure, Placement, Scheduler
from understudy.controlplane.scheduler.framework.plugin import CycleState
from understudy.controlplane.scheduler.framework.pods import PodInfo
from understudy.controlplane.scheduler.framework.status import unschedulable
from understudy.controlplane.scheduler.group_cycle import GroupOutcome
from understudy.controlplane.scheduler.plugins.dynamicresources import dynamic_resources
from understudy.controlplane.scheduler.plugins.dynamicresources.claims_state import ClaimsState
from understudy.machinery.releases.features import Gates
from understudy.machinery.releases.version import V1_32, V1_34, Version
from understudy.machinery.types import Obj

GATES = {"DynamicResourceAllocation": True}


class Lab:
    """A server with a scheduler, and a client of it."""

    def __init__(self, client: APIClient, release: Version) -> None:
        self.client = client
        self.release = release
        self.claims = resource_claims(release)

    async def add_node(self, name: str = "n", devices: int = 1) -> None:
        """Create a node with devices."""
        status = {"allocatable": {"cpu": "4", "memory": "8Gi", "pods": "200"}}
        await self.client.create(NODES, {"metadata": {"name": name}, "status": status})
        await self.client.patch(NODES, name, {"spec": {"taints": None}})
        form: Obj = {} if self.release >= V1_34 else {"basic": {}}
        spec = {
            "nodeName": name,
            "driver": "d.example",
            "pool": {"name": name, "generation": 1, "resourceSliceCount": 1},
            "devices": [{"name": f"dev-{i}", **form} for i in range(devices)],
        }
        await self.client.create(resource_slices(self.release), {"metadata": {"name": f"s-{name}"}, "spec": spec})

    async def add_class(self) -> None:
        """Create the class of all devices."""
        await self.client.create(device_classes(self.release), {"metadata": {"name": "gpu"}, "spec": {}})

    async def add_claim(self, name: str) -> None:
        """Create a claim for one device."""
        exactly = {"deviceClassName": "gpu", "allocationMode": "ExactCount", "count": 1}
        request = {"name": "g", "exactly": exactly} if self.release >= V1_34 else {"name": "g", **exactly}
        spec = {"devices": {"requests": [request]}}
        await self.client.create(self.claims, {"metadata": {"name": name}, "spec": spec}, "default")

    async def add_pod(self, name: str, *claims: str, **spec: Any) -> None:
        """Create a pod that uses claims."""
        entries = [{"name": claim, "resourceClaimName": claim} for claim in claims]
        body = {"containers": [{"name": "c", "image": "i"}], "resourceClaims": entries, **spec}
        await self.client.create(PODS, {"metadata": {"name": name}, "spec": body}, "default")

    async def pod(self, name: str, condition: Callable[[Obj], Any]) -> Obj:
        """Return a pod once a condition holds."""
        return await until(lambda: self.client.get(PODS, name, "default"), condition)

    async def bound(self, name: str) -> str:
        """Return the node of a pod once it has one."""
        return str((await self.pod(name, lambda pod: pod["spec"].get("nodeName")))["spec"]["nodeName"])

    async def claim(self, name: str) -> Obj:
        """Return a claim."""
        return await self.client.get(self.claims, name, "default")


@asynccontextmanager
async def lab(release: Version, **gates: bool) -> AsyncIterator[Lab]:
    """Run a server of a release with a scheduler, and feature gates beside the usual ones."""
    async with AsyncExitStack() as stack:
        server = Server(emulated_version=str(release), controllers=["scheduler"], feature_gates=GATES | gates)
        await stack.enter_async_context(server)
        client = await stack.enter_async_context(APIClient(Connection(url=server.url), "test"))
        yield Lab(client, release)


def why(pod: Obj) -> Obj:
    """Return the condition that says why a pod has no node, {} if there is none."""
    conditions = pod["status"].get("conditions") or ()
    return next((condition for condition in conditions if condition["type"] == "PodScheduled"), {})


async def test_last_reason_stays(monkeypatch: pytest.MonkeyPatch) -> None:
    """The reason of an earlier attempt that takes long to write does not replace that of a later one."""
    patch, schedule, attempts, patches = APIClient.patch, Scheduler.schedule, [], []
    written: list[str] = []

    def counted(self: Scheduler, pod: PodInfo) -> Placement | Failure:
        attempts.append(pod)
        return schedule(self, pod)

    async def slow(self: APIClient, *args: Any, **options: Any) -> Obj:
        if args[0] is not PODS:
            return await patch(self, *args, **options)
        patches.append(args)
        if len(patches) == 1:
            await until(lambda: len(attempts) > 1)
            await asyncio.sleep(0.2)  # a later reason would be there by now
        pod = await patch(self, *args, **options)
        written.append(why(pod)["message"])
        return pod

    async with lab(NEWEST) as world:
        monkeypatch.setattr(APIClient, "patch", slow)
        monkeypatch.setattr(Scheduler, "schedule", counted)
        await world.add_pod("p")
        await until(lambda: patches)
        taint = {"key": "example.com/busy", "effect": "NoSchedule"}
        await world.client.create(NODES, {"metadata": {"name": "n"}, "spec": {"taints": [taint]}})
        reason = "0/1 nodes are available: 1 node(s) had untolerated taint(s)."
        first, *_, last = await until(lambda: written, lambda messages: len(messages) > 1)
        assert first.startswith("no nodes available")
        assert last.startswith(reason)
        await world.pod("p", lambda pod: why(pod)["message"].startswith(reason))


@pytest.mark.parametrize("release", RELEASES)
async def test_pod_gets_node_and_device(release: Version) -> None:
    """A claim gets its finalizer, then allocation and reservation in one write; then the pod is bound."""
    async with lab(release) as it:
        await it.add_class()
        await it.add_node()
        version = (await it.client.list(it.claims))["metadata"]["resourceVersion"]
        await it.add_claim("c")
        await it.add_pod("p", "c")
        assert await it.bound("p") == "n"
        states: list[tuple[bool, bool, bool]] = []
        async for event in it.client.watch(it.claims, query={"resourceVersion": version, "timeoutSeconds": "1"}):
            claim = event["object"]
            status = claim.get("status") or {}
            states.append(("finalizers" in claim["metadata"], "allocation" in status, "reservedFor" in status))
        assert states == [(False, False, False), (True, False, False), (True, True, True)]
        events = await until(lambda: it.client.list(EVENTS, "default"), lambda events: events["items"])
        assert [event["message"] for event in events["items"]] == ["Successfully assigned default/p to n"]


async def test_pod_waits_and_is_woken_by_what_it_waits_for() -> None:
    """A pod gets a condition that says why it waits, and a node once there is what it needs."""
    async with lab(NEWEST) as it:
        await it.add_node(devices=2)
        await it.add_claim("c")
        await it.add_pod("p", "c")
        text = "0/1 nodes are available: request g: device class gpu does not exist."
        pod = await it.pod("p", lambda pod: why(pod).get("message", "").startswith(text))
        assert why(pod)["reason"] == "Unschedulable"
        await it.add_class()
        assert await it.bound("p") == "n"


@pytest.mark.parametrize(
    ("release", "gate", "selector"),
    [(V1_34, "DRADeviceTaints", {"deviceClassName": "gpu"}), (NEWEST, "DRADeviceTaintRules", {"driver": "d.example"})],
)
async def test_tainted_device_is_not_allocated(release: Version, gate: str, selector: Obj) -> None:
    """A pod gets no device that a DeviceTaintRule taints, and is woken when the rule is gone."""
    async with lab(release, **{gate: True}) as it:
        rules = device_taint_rules(release)
        spec = {"deviceSelector": selector, "taint": {"key": "old", "effect": "NoSchedule"}}
        await it.add_class()
        await it.client.create(rules, {"metadata": {"name": "rule"}, "spec": spec})
        await it.add_node()
        await it.add_claim("c")
        await it.add_pod("p", "c")
        text = "0/1 nodes are available: 1 cannot allocate all claims."
        await it.pod("p", lambda pod: why(pod).get("message", "").startswith(text))
        await it.client.delete(rules, "rule")
        assert await it.bound("p") == "n"


async def test_broken_claim_is_an_error_of_the_scheduler() -> None:
    """A selector that fails ends the attempt: the reason is SchedulerError."""
    async with lab(NEWEST) as it:
        await it.add_class()
        await it.add_node()
        selector = {"cel": {"expression": "device.attributes['d.example'].missing == 1"}}
        exactly = {"deviceClassName": "gpu", "allocationMode": "ExactCount", "count": 1, "selectors": [selector]}
        spec = {"devices": {"requests": [{"name": "g", "exactly": exactly}]}}
        await it.client.create(it.claims, {"metadata": {"name": "c"}, "spec": spec}, "default")
        await it.add_pod("p", "c")
        condition = why(await it.pod("p", why))
        assert condition["reason"] == "SchedulerError"
        failed = "claim default/c: selector #0 on device d.example/n/dev-0: CEL runtime error"
        assert condition["message"].startswith(f'running "DynamicResources" filter plugin: {failed}')


@pytest.mark.parametrize("release", [V1_32, NEWEST])
async def test_wrong_node_selectors_stop_nobody_else(release: Version) -> None:
    """A selector that the API lets pass but nobody can read (Gt x) is the error of pods that need it; others go on."""
    wrong = {"nodeSelectorTerms": [{"matchExpressions": [{"key": "a", "operator": "Gt", "values": ["x"]}]}]}
    async with lab(release) as it:
        await it.add_class()
        await it.add_node()
        pool = {"name": "other", "generation": 1, "resourceSliceCount": 1}
        device: Obj = {"name": "dev"} if release >= V1_34 else {"name": "dev", "basic": {}}
        spec = {"driver": "d.example", "pool": pool, "nodeSelector": wrong, "devices": [device]}
        await it.client.create(resource_slices(release), {"metadata": {"name": "wrong"}, "spec": spec})
        await it.add_claim("c")
        await it.add_pod("with-claim", "c")
        error = why(await it.pod("with-claim", why))
        assert error["reason"] == "SchedulerError"
        assert "Invalid value: \"x\": for 'Gt', 'Lt' operators, the value must be an integer" in error["message"]
        affinity = {"nodeAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": wrong}}
        await it.add_pod("with-affinity", affinity=affinity)
        rejected = why(await it.pod("with-affinity", why))
        assert rejected["reason"] == "Unschedulable"
        assert "1 node(s) didn't match Pod's node affinity/selector" in rejected["message"]
        results = [{"request": "g", "driver": "d.example", "pool": "n", "device": "dev-0"}]
        await it.add_claim("allocated")
        status = {"allocation": {"devices": {"results": results}, "nodeSelector": wrong}}
        await it.client.update_status(it.claims, {**await it.claim("allocated"), "status": status})
        await it.add_pod("with-allocated-claim", "allocated")
        error = why(await it.pod("with-allocated-claim", why))
        assert error["reason"] == "SchedulerError"
        assert error["message"].startswith('running PreFilter plugin "DynamicResources": nodeSelectorTerms[0].')
        await it.add_pod("plain")
        assert await it.bound("plain") == "n"


async def test_what_devices_use_of_a_node_is_written_and_cleared() -> None:
    """The status of a pod says it before the pod is bound, and no more when a device cannot be attached."""
    async with lab(NEWEST, DRANodeAllocatableResources=True) as it:
        await it.add_class()
        await it.add_node()
        await it.client.patch(
            NODES, "n", {"status": {"declaredFeatures": ["DRANodeAllocatableResources"]}}, subresource="status"
        )
        conditions = {"bindingConditions": ["attached"], "bindingFailureConditions": ["failed"]}
        uses = {"memory": {"overhead": {"perPod": "1Gi"}}}
        devices = [{"name": "dev-0", "nodeAllocatableResources": uses, **conditions}]
        slices = resource_slices(it.release)
        await it.client.patch(slices, "s-n", {"spec": {"devices": devices}})
        await it.add_claim("c")
        await it.add_pod("p", "c")
        field = "nodeAllocatableResourceClaimStatuses"
        waiting = await it.pod("p", lambda pod: pod["status"].get(field))
        overhead = [{"name": "memory", "perPod": "1Gi"}]
        assert waiting["status"][field] == [{"resourceClaimName": "c", "overhead": overhead}]
        assert "nodeName" not in waiting["spec"]
        await it.client.delete(slices, "s-n")
        failed = {"type": "failed", "status": "True", "reason": "R", "lastTransitionTime": "2025-01-01T00:00:00Z"}
        status = {"driver": "d.example", "pool": "n", "device": "dev-0", "conditions": [{**failed, "message": ""}]}
        await it.client.patch(it.claims, "c", {"status": {"devices": [status]}}, "default", subresource="status")
        await it.pod("p", lambda pod: field not in pod["status"])


async def test_claim_that_is_full_is_unreserved_and_tried_again() -> None:
    """A pod whose reservation is refused gives its room back, says why, and gets its node when it can be reserved."""
    async with lab(NEWEST) as it:
        await it.add_class()
        await it.add_node()
        await it.add_claim("c")
        await it.add_pod("p", "c")
        await it.bound("p")
        claim = await it.claim("c")
        mine = claim["status"]["reservedFor"]
        users = [{"resource": "pods", "name": f"u{i}", "uid": f"u{i}"} for i in range(255)]
        claim = await it.client.update_status(
            it.claims, {**claim, "status": {**claim["status"], "reservedFor": mine + users}}
        )
        await it.add_pod("q", "c")
        condition = why(await it.pod("q", why))
        assert condition["reason"] == "SchedulerError"
        expected = 'running PreBind plugin "DynamicResources": add reservation to claim default/c: ResourceClaim'
        assert condition["message"].startswith(expected)
        await it.client.update_status(it.claims, {**claim, "status": {**claim["status"], "reservedFor": mine}})
        assert await it.bound("q") == "n"


async def test_claim_that_changed_in_the_meantime_is_read_again() -> None:
    """A conflict is no failure: the claim is read again, and written as decided."""
    async with lab(NEWEST) as it:
        await it.add_class()
        await it.add_node()
        await it.add_claim("c")
        release, gates = it.release, Gates.of(it.release)
        tracker = ClaimTracker(AllocatedState(Rules.of(release)))
        async with SeriesRecorder(it.client, "test") as events:
            binder = Binder(it.client, events, tracker, release, gates)
            old = await it.claim("c")
            await it.client.patch(it.claims, "c", {"metadata": {"labels": {"changed": "since"}}}, "default")
            await it.add_pod("p", "c", schedulerName="none")
            pod = PodInfo(await it.client.get(PODS, "p", "default"))
            results = [{"request": "g", "driver": "d.example", "pool": "n", "device": "dev-0"}]
            user = {"resource": "pods", "name": "p", "uid": pod.uid}
            data = ClaimsState([old], None, allocations={0: {"devices": {"results": results}}}, consumers=[user])
            await binder.bind(Placement(pod, "n", CycleState({dynamic_resources.NAME: data})))
        claim = await it.claim("c")
        assert claim["metadata"]["labels"] == {"changed": "since"}
        assert [user["name"] for user in claim["status"]["reservedFor"]] == ["p"]
        assert await it.bound("p") == "n"


async def test_idle_claim_is_freed_for_a_pod_that_cannot_go_to_its_node() -> None:
    """A claim that nobody uses is deallocated, and gets a device of a node where the pod can go."""
    async with lab(NEWEST) as it:
        await it.add_class()
        await it.add_node("a")
        await it.add_claim("c")
        await it.add_pod("p", "c")
        await it.bound("p")
        await it.client.delete(PODS, "p", "default", grace_period=0)
        claim = await it.claim("c")
        await it.client.update_status(it.claims, {**claim, "status": {"allocation": claim["status"]["allocation"]}})
        await it.client.patch(NODES, "a", {"spec": {"unschedulable": True}})
        await it.add_node("b")
        await it.add_pod("q", "c")
        assert await it.bound("q") == "b"
        results = (await it.claim("c"))["status"]["allocation"]["devices"]["results"]
        assert [result["pool"] for result in results] == ["b"]


async def test_many_pods_share_no_device() -> None:
    """Pods that are bound in parallel get each a device of its own, and those too many wait."""
    async with lab(NEWEST) as it:
        await it.add_class()
        for name in ("a", "b", "c"):
            await it.add_node(name, devices=10)
        for i in range(32):
            await it.add_claim(f"c{i}")
            await it.add_pod(f"p{i}", f"c{i}")

        async def bound_and_waiting() -> tuple[int, int]:
            pods = (await it.client.list(PODS))["items"]
            waiting = ["cannot allocate all claims" in why(pod).get("message", "") for pod in pods]
            return sum("nodeName" in pod["spec"] for pod in pods), sum(waiting)

        await until(bound_and_waiting, lambda counts: counts == (30, 2))
        claims = (await it.client.list(it.claims))["items"]
        allocations = [claim["status"]["allocation"] for claim in claims if claim.get("status")]
        devices = [(r["pool"], r["device"]) for allocation in allocations for r in allocation["devices"]["results"]]
        assert len(devices) == len(set(devices)) == 30


async def test_pods_of_other_schedulers_are_left_alone() -> None:
    """A pod that names another scheduler gets neither node nor condition."""
    async with lab(NEWEST) as it:
        await it.add_node()
        await it.add_pod("other", schedulerName="mine")
        await it.add_pod("p")
        await it.bound("p")
        other = await it.pod("other", lambda _: True)
        assert "nodeName" not in other["spec"]
        assert not why(other)


async def test_gang_with_a_claim_of_its_group() -> None:
    """A gang waits until there is room for all; its claim is reserved for the group, whose condition says so."""
    async with lab(NEWEST, GenericWorkload=True, DRAWorkloadResourceClaims=True) as it:
        groups, entry = pod_groups(it.release), {"name": "c", "resourceClaimName": "c"}

        async def condition() -> Obj:
            group = await it.client.get(groups, "g", "default")
            return next(iter(group.get("status", {}).get("conditions") or [{}]))

        await it.add_class()
        await it.add_node()
        await it.add_claim("c")
        spec = {"schedulingPolicy": {"gang": {"minCount": 2}}, "resourceClaims": [entry]}
        await it.client.create(groups, {"metadata": {"name": "g"}, "spec": spec}, "default")
        limits = {"resources": {"requests": {"cpu": "3"}}}
        large = {"schedulingGroup": {"podGroupName": "g"}, "containers": [{"name": "c", "image": "i", **limits}]}
        await it.add_pod("a", "c", **large)
        await it.add_pod("b", "c", **large)
        assert why(await it.pod("a", why))["message"].startswith("pod group is unschedulable, minCount (2) cannot be")
        failed = await until(condition, bool)
        assert (failed["status"], failed["reason"]) == ("False", "Unschedulable")
        assert "allocation" not in (await it.claim("c")).get("status", {})
        await it.client.patch(NODES, "n", {"status": {"allocatable": {"cpu": "6"}}}, subresource="status")
        assert [await it.bound("a"), await it.bound("b")] == ["n", "n"]
        assert [user["name"] for user in (await it.claim("c"))["status"]["reservedFor"]] == ["g"]
        assert (await until(condition, lambda now: now["status"] == "True"))["reason"] == "Scheduled"


async def test_claims_of_groups_are_freed() -> None:
    """A claim with devices elsewhere is freed for its group; a group that does not fit gives its reservation back."""
    async with lab(NEWEST, GenericWorkload=True, DRAWorkloadResourceClaims=True) as it:
        groups = pod_groups(it.release)
        await it.add_class()
        for name in ("n", "m"):
            await it.add_node(name)
        await it.add_claim("c")
        uids = {}
        for name in ("g", "large"):
            spec = {
                "schedulingPolicy": {"gang": {"minCount": 1}},
                "resourceClaims": [{"name": "c", "resourceClaimName": "c"}],
            }
            group = await it.client.create(groups, {"metadata": {"name": name}, "spec": spec}, "default")
            uids[name] = {"apiGroup": groups.group, "resource": groups.plural, "name": name, **_uid(group)}
        results = [{"request": "g", "driver": "d.example", "pool": "n", "device": "dev-0"}]
        term = {"matchFields": [{"key": "metadata.name", "operator": "In", "values": ["n"]}]}
        allocation = {"devices": {"results": results}, "nodeSelector": {"nodeSelectorTerms": [term]}}
        finalizers = {"metadata": {"finalizers": [dynamic_resources.FINALIZER]}}
        claim = await it.client.patch(it.claims, "c", finalizers, "default")
        status = {"allocation": allocation, "reservedFor": [uids["g"]]}
        await it.client.update_status(it.claims, {**claim, "status": status})
        affinity = {"nodeAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": _only("m")}}
        await it.add_pod("a", "c", schedulingGroup={"podGroupName": "g"}, affinity=affinity)
        assert await it.bound("a") == "m"

        claim = await it.claim("c")
        assert [user["name"] for user in claim["status"]["reservedFor"]] == ["g"]
        both = {**claim["status"], "reservedFor": [uids["g"], uids["large"]]}
        await it.client.update_status(it.claims, {**claim, "status": both})
        requests = {"resources": {"requests": {"cpu": "9"}}}
        containers = [{"name": "c", "image": "i", **requests}]
        await it.add_pod("b", "c", schedulingGroup={"podGroupName": "large"}, containers=containers)
        claim = await until(lambda: it.claim("c"), lambda now: len(now["status"]["reservedFor"]) == 1)
        assert [user["name"] for user in claim["status"]["reservedFor"]] == ["g"]


async def test_condition_of_a_group_is_written_when_it_changes() -> None:
    """An attempt with the outcome of the last one writes nothing."""
    async with lab(NEWEST, GenericWorkload=True) as it:
        spec = {"schedulingPolicy": {"gang": {"minCount": 9}}}
        group = await it.client.create(pod_groups(it.release), {"metadata": {"name": "g"}, "spec": spec}, "default")
        gates = Gates.of(it.release, {"GenericWorkload": True})
        async with SeriesRecorder(it.client, "test") as events:
            binder = Binder(it.client, events, ClaimTracker(AllocatedState(Rules.of(it.release))), it.release, gates)
            outcome = GroupOutcome(group, [], [], unschedulable("no room"), {})
            changed = await binder.report_group(outcome, group)
            assert changed is not None
            assert await binder.report_group(outcome, changed) is None
            [condition] = changed["status"]["conditions"]
            since = "2020-01-01T00:00:00Z"
            long_ago = {**changed, "status": {"conditions": [{**condition, "lastTransitionTime": since}]}}
            other = await binder.report_group(GroupOutcome(group, [], [], unschedulable("no cpu"), {}), long_ago)
            assert other is not None
            assert other["status"]["conditions"][0]["lastTransitionTime"] == since


def _uid(obj: Obj) -> Obj:
    return {"uid": obj["metadata"]["uid"]}


def _only(node: str) -> Obj:
    """Return the node selector for one node."""
    return {"nodeSelectorTerms": [{"matchFields": [{"key": "metadata.name", "operator": "In", "values": [node]}]}]}
