"""The scheduler of a server: its informers, its queue, and the tasks that bind pods.

Pods are looked at one after the other and bound in parallel.
"""

from __future__ import annotations

import asyncio
import time
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
    resource_claims,
    resource_slices,
)
from understudy.controlplane.components import ComponentContext
from understudy.controlplane.scheduler.binding import Binder, BindingError
from understudy.controlplane.scheduler.cache import NodeCache
from understudy.controlplane.scheduler.claims import ClaimTracker
from understudy.controlplane.scheduler.cycle import Failure, Placement, Scheduler
from understudy.controlplane.scheduler.devices import Devices
from understudy.controlplane.scheduler.framework.events import Action, ClusterEvent, Kind, node_changes, pod_changes
from understudy.controlplane.scheduler.framework.pods import PodInfo
from understudy.controlplane.scheduler.framework.runtime import Framework
from understudy.controlplane.scheduler.plugins.defaults import default_plugins
from understudy.controlplane.scheduler.queue import QueuedPod, SchedulingQueue
from understudy.machinery.auth.users import AUTHENTICATED, User
from understudy.machinery.releases import features
from understudy.machinery.releases.features import Gates
from understudy.machinery.releases.version import Version
from understudy.machinery.types import Obj

USER = User("system:kube-scheduler", [AUTHENTICATED])
AGENT = "kube-scheduler"
NAME = "default-scheduler"  # of the only profile: pods that ask for another scheduler are left alone
NOT_ENDED = "status.phase!=Succeeded,status.phase!=Failed"  # field selector: pods that have ended take no room


async def run(context: ComponentContext) -> None:
    """Schedule the pods of a server until cancelled."""
    async with APIClient(context.connection(USER), AGENT) as client, SeriesRecorder(client, NAME) as events:
        await Component(client, events, context.version, context.gates).run()


class Component:
    """Follows a server, and schedules its pods."""

    def __init__(self, client: APIClient, events: SeriesRecorder, version: Version, gates: Gates) -> None:
        self._devices = Devices(version, gates)
        self._claims = ClaimTracker(self._devices.allocated)
        self._cache = NodeCache()
        plugins = default_plugins(version, gates, self._cache, self._claims, self._devices)
        self._scheduler = Scheduler(Framework(plugins), self._cache, version)
        self._queue = SchedulingQueue(
            plugins,
            time.monotonic,
            pops_from_backoff=gates[features.SCHEDULER_POP_FROM_BACKOFF_Q],
            has_hints=gates[features.SCHEDULER_QUEUEING_HINTS],
        )
        self._binder = Binder(client, events, self._claims, version, gates)
        self._pod_level = gates[features.POD_LEVEL_RESOURCES]
        self._pods = Informer(client, PODS, fields=NOT_ENDED)
        self._nodes = Informer(client, NODES)
        self._claim_informer = Informer(client, resource_claims(version))
        self._classes = Informer(client, device_classes(version))
        self._slices = Informer(client, resource_slices(version))
        self._rules = [Informer(client, device_taint_rules(version))] if self._devices.follows_taint_rules else []
        self._woken = asyncio.Event()
        self._reports: WeakValueDictionary[str, asyncio.Lock] = WeakValueDictionary()  # by uid of the pod
        self._tasks: asyncio.TaskGroup

    async def run(self) -> None:
        """Follow the server and schedule pods until cancelled. Pods come last, when all that they need is known."""
        self._nodes.add_handler(self._node_added, self._node_updated, self._node_deleted)
        self._claim_informer.add_handler(self._claim_added, self._claim_updated, self._claim_deleted)
        self._classes.add_handler(self._class_added, self._class_updated, self._devices.remove_class)
        self._slices.add_handler(self._slice_added, self._slice_updated, self._devices.remove_slice)
        for informer in self._rules:
            informer.add_handler(self._rule_changed, lambda _, new: self._rule_changed(new), self._rule_deleted)
        self._pods.add_handler(self._pod_added, self._pod_updated, self._pod_deleted)
        async with asyncio.TaskGroup() as self._tasks:
            world = [self._nodes, self._claim_informer, self._classes, *self._rules, self._slices]
            for others in (world, [self._pods]):
                for informer in others:
                    self._spawn(informer.run())
                for informer in others:
                    await informer.wait_for_sync()
            await self._schedule_forever()

    # --- pods

    async def _schedule_forever(self) -> None:
        while True:
            queued = self._queue.pop()
            if queued is None:
                self._woken.clear()
                with suppress(TimeoutError):
                    async with asyncio.timeout(self._queue.seconds_to_next()):
                        await self._woken.wait()
                continue
            self._attempt(queued)
            await asyncio.sleep(0)  # informers and bindings have their turn

    def _attempt(self, queued: QueuedPod) -> None:
        """Look at a pod once."""
        pod = queued.pod
        if pod.is_being_deleted:
            self._binder.report_deletion(pod)
            return
        outcome = self._scheduler.schedule(pod)
        if isinstance(outcome, Failure):
            self._queue.put_back(queued, outcome.plugins)
            self._spawn(self._report(outcome, pod))
        else:
            self._spawn(self._bind(queued, outcome))

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

    def _spawn(self, work: Coroutine[Any, Any, None]) -> None:
        self._tasks.create_task(work)

    def _move(self, events: Iterable[ClusterEvent]) -> None:
        """Look again at the pods that events may help."""
        if self._queue.move(list(events)):
            self._woken.set()

    def _info(self, pod: Obj) -> PodInfo:
        return PodInfo(pod, pod_level=self._pod_level)

    def _pod_added(self, pod: Obj) -> None:
        info = self._info(pod)
        if info.node_name:
            self._cache.set_pod(info)
            self._queue.delete(info.uid)
        elif pod["spec"].get("schedulerName", NAME) == NAME:
            self._queue.add(info)
            self._woken.set()

    def _pod_updated(self, old: Obj, new: Obj) -> None:
        if old["metadata"]["uid"] != new["metadata"]["uid"]:
            self._pod_deleted(old)
            self._pod_added(new)
            return
        if not new["spec"].get("nodeName"):
            self._queue.update(self._info(old), self._info(new))
            self._woken.set()
            return
        if not old["spec"].get("nodeName"):
            self._queue.delete(new["metadata"]["uid"])
        self._cache.set_pod(self._info(new))
        self._move(pod_changes(old, new))

    def _pod_deleted(self, pod: Obj) -> None:
        uid = pod["metadata"]["uid"]
        self._queue.delete(uid)
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
