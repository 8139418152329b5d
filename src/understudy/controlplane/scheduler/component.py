"""The scheduler of a server: its informers, its queue, and the tasks that bind pods.

Pods are looked at one after the other and bound in parallel.
"""

from __future__ import annotations

import asyncio
from collections.abc import Coroutine, Iterable
from contextlib import suppress
from typing import Any
from weakref import WeakValueDictionary

from understudy.controlplane.client.api_client import APIClient
from understudy.controlplane.client.events.series import SeriesRecorder
from understudy.controlplane.client.informer import Informer
from understudy.controlplane.client.resources import (
    NODES,
    PODS,
    device_classes,
    device_taint_rules,
    pod_groups,
    resource_claims,
    resource_slices,
)
from understudy.controlplane.components import ComponentContext
from understudy.controlplane.scheduler.binding import Binder
from understudy.controlplane.scheduler.cache import NodeCache
from understudy.controlplane.scheduler.claim_writer import BindingError
from understudy.controlplane.scheduler.claims import ClaimTracker
from understudy.controlplane.scheduler.cycle import Failure, Placement, Scheduler
from understudy.controlplane.scheduler.devices import Devices
from understudy.controlplane.scheduler.framework.events import Action, ClusterEvent, Kind, node_changes, pod_changes
from understudy.controlplane.scheduler.framework.pods import Counted, PodInfo
from understudy.controlplane.scheduler.framework.runtime import Framework
from understudy.controlplane.scheduler.group_cycle import GroupOutcome, GroupScheduler
from understudy.controlplane.scheduler.plugins.defaults import default_plugins
from understudy.controlplane.scheduler.pod_groups import PodGroups, key_of
from understudy.controlplane.scheduler.queue import SchedulingQueue
from understudy.controlplane.scheduler.queued import Entity, QueuedPod
from understudy.machinery.auth.users import AUTHENTICATED, User
from understudy.machinery.releases import features
from understudy.machinery.releases.features import Gates
from understudy.machinery.releases.version import V1_37, Version
from understudy.machinery.types import Obj
from understudy.machinery.util.timers import timeout

USER = User("system:kube-scheduler", [AUTHENTICATED])
AGENT = "kube-scheduler"
NAME = "default-scheduler"  # of the only profile: pods that ask for another scheduler are left alone
NOT_ENDED = "status.phase!=Succeeded,status.phase!=Failed"  # field selector: pods that have ended take no room


async def run(context: ComponentContext) -> None:
    """Schedule the pods of a server until cancelled."""
    client = APIClient(context.connection(USER), AGENT, context.clock)
    async with client, SeriesRecorder(client, NAME) as events:
        await Component(client, events, context.version, context.gates).run()


class Component:
    """Follows a server, and schedules its pods."""

    def __init__(self, client: APIClient, events: SeriesRecorder, version: Version, gates: Gates) -> None:
        self._clock = client.clock
        self._devices = Devices(version, gates)
        self._claims = ClaimTracker(self._devices.allocated)
        self._cache = NodeCache()
        self._groups = PodGroups(self._cache)
        has_groups = version >= V1_37 and gates[features.GENERIC_WORKLOAD]
        groups = self._groups if has_groups else None
        plugins = default_plugins(version, gates, self._cache, self._claims, self._devices, groups, client.clock)
        framework = Framework(plugins)
        self._scheduler = Scheduler(framework, self._cache, version)
        self._group_scheduler = GroupScheduler(self._scheduler, framework, self._groups)
        self._queue = SchedulingQueue(
            plugins,
            client.clock.monotonic,
            pops_from_backoff=gates[features.SCHEDULER_POP_FROM_BACKOFF_Q],
            has_hints=gates[features.SCHEDULER_QUEUEING_HINTS],
            groups=groups,
        )
        self._binder = Binder(client, events, self._claims, version, gates)
        self._counted = Counted.of(version, gates)
        self._pods = Informer(client, PODS, fields=NOT_ENDED)
        self._nodes = Informer(client, NODES)
        self._claim_informer = Informer(client, resource_claims(version))
        self._classes = Informer(client, device_classes(version))
        self._slices = Informer(client, resource_slices(version))
        self._rules = [Informer(client, device_taint_rules(version))] if self._devices.follows_taint_rules else []
        self._group_informers = [Informer(client, pod_groups(version))] if has_groups else []
        self._woken = asyncio.Event()
        self._reports: WeakValueDictionary[str, asyncio.Lock] = WeakValueDictionary()  # by uid of the pod or the group
        self._tasks: asyncio.TaskGroup

    async def run(self) -> None:
        """Follow the server and schedule pods until cancelled. Pods come last, when all that they need is known."""
        self._nodes.add_handler(self._node_added, self._node_updated, self._node_deleted)
        self._claim_informer.add_handler(self._claim_added, self._claim_updated, self._claim_deleted)
        self._classes.add_handler(self._class_added, self._class_updated, self._devices.remove_class)
        self._slices.add_handler(self._slice_added, self._slice_updated, self._devices.remove_slice)
        for informer in self._rules:
            informer.add_handler(self._rule_changed, lambda _, new: self._rule_changed(new), self._rule_deleted)
        for informer in self._group_informers:
            informer.add_handler(self._group_added, self._group_updated, self._group_deleted)
        self._pods.add_handler(self._pod_added, self._pod_updated, self._pod_deleted)
        async with asyncio.TaskGroup() as self._tasks:
            objects = [self._claim_informer, self._classes, *self._rules, self._slices, *self._group_informers]
            world = [self._nodes, *objects]
            for others in (world, [self._pods]):
                for informer in others:
                    self._spawn(informer.run())
                for informer in others:
                    await informer.wait_for_sync()
            await self._schedule_forever()

    # --- pods

    async def _schedule_forever(self) -> None:
        while True:
            entity = self._queue.pop()
            if entity is None:
                self._woken.clear()
                with suppress(TimeoutError):
                    async with timeout(self._clock, self._queue.seconds_to_next()):
                        await self._woken.wait()
                continue
            self._attempt(entity)
            await asyncio.sleep(0)  # informers and bindings have their turn

    def _attempt(self, entity: Entity) -> None:
        """Look at a pod once, or at all waiting pods of a group together."""
        going = [member for member in entity.members if member.pod.is_being_deleted]
        for member in going:
            self._binder.report_deletion(member.pod)
        members = [member for member in entity.members if member not in going]
        if members and entity.group:
            self._attempt_group(entity, members)
        elif members:
            self._attempt_pod(members[0])

    def _attempt_pod(self, queued: QueuedPod) -> None:
        outcome = self._scheduler.schedule(queued.pod)
        if isinstance(outcome, Failure):
            self._queue.put_back(queued, outcome.plugins)
            self._spawn(self._report(outcome, queued.pod))
        else:
            self._spawn(self._bind(queued, outcome))

    def _attempt_group(self, entity: Entity, members: list[QueuedPod]) -> None:
        group = self._groups.get(entity.group)
        assert group is not None  # without it its pods are held back
        outcome = self._group_scheduler.schedule(group, [member.pod for member in members])
        by_uid = {member.pod.uid: member for member in members}
        failed = {failure.pod.uid: failure.plugins for failure in outcome.failures}
        self._queue.put_back_group(entity, failed, outcome.status)
        for placement in outcome.placements:
            self._spawn(self._bind(by_uid[placement.pod.uid], placement))
        self._spawn(self._report_group(outcome))
        for failure in outcome.failures:
            self._spawn(self._report(failure, by_uid[failure.pod.uid].pod))

    async def _bind(self, queued: QueuedPod, placement: Placement) -> None:
        """Bind a pod, or give everything back and try again later."""
        try:
            await self._binder.bind(placement)
        except BindingError as why:
            self._scheduler.give_back(placement)
            await self._binder.unreserve(placement)
            self._queue.put_back(queued, frozenset())
            self._move([ClusterEvent(Kind.POD, Action.DELETE, placement.pod.obj)])
            failure = Failure(placement.pod, str(why), False, frozenset(), placement.state)
            if queued.pod.uid in self._queue:
                await self._report(failure, queued.pod)

    async def _report(self, failure: Failure, pod: PodInfo) -> None:
        """Write why a pod gets no node, after what was written about it before: the last reason has to stay."""
        async with self._reports.setdefault(pod.uid, asyncio.Lock()):
            await self._binder.report(failure, pod)

    async def _report_group(self, outcome: GroupOutcome) -> None:
        """Write what has become of a group, after what was written about it before."""
        async with self._reports.setdefault(outcome.group["metadata"]["uid"], asyncio.Lock()):
            group = self._groups.get(key_of(outcome.group)) or outcome.group
            changed = await self._binder.report_group(outcome, group)
            if changed is not None and self._groups.get(key_of(changed)) is not None:
                self._groups.put(changed)

    def _spawn(self, work: Coroutine[Any, Any, None]) -> None:
        self._tasks.create_task(work)

    def _move(self, events: Iterable[ClusterEvent]) -> None:
        """Look again at the pods that events may help."""
        if self._queue.move(list(events)):
            self._woken.set()

    def _info(self, pod: Obj) -> PodInfo:
        return PodInfo(pod, self._counted)

    def _pod_added(self, pod: Obj) -> None:
        info = self._info(pod)
        self._groups.put_pod(info)
        if info.node_name:
            self._cache.set_pod(info)
            self._queue.delete(info.uid)
        elif pod["spec"].get("schedulerName", NAME) == NAME:
            self._queue.add(info)
            self._woken.set()
        if info.group_key:
            self._move([ClusterEvent(Kind.POD, Action.ADD, None, pod)])

    def _pod_updated(self, old: Obj, new: Obj) -> None:
        if old["metadata"]["uid"] != new["metadata"]["uid"]:
            self._pod_deleted(old)
            self._pod_added(new)
            return
        before, info = self._info(old), self._info(new)
        self._groups.put_pod(info)
        if not info.node_name:
            self._queue.update(before, info)
            self._woken.set()
            return
        if not old["spec"].get("nodeName"):
            self._queue.delete(info.uid)
        self._cache.set_pod(info)
        self._move(pod_changes(before, info))

    def _pod_deleted(self, pod: Obj) -> None:
        uid = pod["metadata"]["uid"]
        self._queue.delete(uid)
        self._groups.remove_pod(self._info(pod))
        self._cache.remove_pod(uid)
        if pod["spec"].get("nodeName"):
            self._move([ClusterEvent(Kind.POD, Action.DELETE, pod)])

    # --- what pods wait for

    def _node_added(self, node: Obj) -> None:
        self._cache.set_node(node)
        self._move([ClusterEvent(Kind.NODE, Action.ADD, None, node)])

    def _node_updated(self, old: Obj, new: Obj) -> None:
        self._cache.set_node(new)
        self._move(node_changes(old, new))

    def _node_deleted(self, node: Obj) -> None:
        self._cache.remove_node(node["metadata"]["name"])

    def _claim_added(self, claim: Obj) -> None:
        self._claims.put(claim)
        self._move([ClusterEvent(Kind.CLAIM, Action.ADD, None, claim)])

    def _claim_updated(self, old: Obj, new: Obj) -> None:
        self._claims.put(new)
        self._move([ClusterEvent(Kind.CLAIM, Action.UPDATE, old, new)])

    def _claim_deleted(self, claim: Obj) -> None:
        self._claims.remove(claim)
        self._move([ClusterEvent(Kind.CLAIM, Action.DELETE, claim)])

    def _class_added(self, obj: Obj) -> None:
        self._devices.put_class(obj)
        self._move([ClusterEvent(Kind.CLASS, Action.ADD, None, obj)])

    def _class_updated(self, old: Obj, new: Obj) -> None:
        self._devices.put_class(new)
        self._move([ClusterEvent(Kind.CLASS, Action.UPDATE, old, new)])

    def _slice_added(self, obj: Obj) -> None:
        self._devices.put_slice(obj)
        self._move([ClusterEvent(Kind.SLICE, Action.ADD, None, obj)])

    def _slice_updated(self, old: Obj, new: Obj) -> None:
        self._devices.put_slice(new)
        self._move([ClusterEvent(Kind.SLICE, Action.UPDATE, old, new)])

    def _rule_changed(self, rule: Obj) -> None:
        self._devices.put_taint_rule(rule)
        self._move([ClusterEvent(Kind.SLICE, Action.UPDATE)])

    def _rule_deleted(self, rule: Obj) -> None:
        self._devices.remove_taint_rule(rule)
        self._move([ClusterEvent(Kind.SLICE, Action.UPDATE)])

    def _group_added(self, group: Obj) -> None:
        self._groups.put(group)
        self._move([ClusterEvent(Kind.POD_GROUP, Action.ADD, None, group)])

    def _group_updated(self, old: Obj, new: Obj) -> None:
        self._groups.put(new)
        self._move([ClusterEvent(Kind.POD_GROUP, Action.UPDATE, old, new)])

    def _group_deleted(self, group: Obj) -> None:
        self._groups.remove(group)
        self._queue.delete_group(key_of(group))
