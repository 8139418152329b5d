"""Controllers that run behind a server. By default only kube-apiserver's own do.

    namespace           empties a namespace that is being deleted, and then lets it go
    garbage-collector   deletes or releases the dependents of what is deleted, by their owner references
    clusterrole-aggregation
                        fills in the rules of ClusterRoles that are made of others
    validatingadmissionpolicy-status
                        warns in the status of policies of expressions that do not fit the objects they are about
    serviceaccount      creates the service account `default` of every namespace
    root-ca-certificate-publisher
                        publishes in every namespace whose certificates the server's clients have to trust
    node-lifecycle      taints nodes by their conditions, and removes the taint that new nodes have; it runs with the
                        scheduler in any case

Their names may end in `-controller`, as kube-controller-manager's do. Those of custom resource definitions, of their
API services and of flow schemas always run. Further ones are components: clients that run beside the server
(`components`).

Every controller sees each write of the store and notes the keys to look at; one task looks at them one by one, at what
is stored then. A key that cannot be dealt with is looked at again later, after the delays of client-go's rate limiter
(k8s.io/client-go/util/workqueue).
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Iterable
from contextlib import suppress

from understudy.apiserver.controllers import flow_schemas
from understudy.apiserver.controllers.cluster_role_aggregation import ClusterRoleAggregationController
from understudy.apiserver.controllers.components import (
    ComponentContext,
    component_names,
    load_component,
    short_name,
)
from understudy.apiserver.controllers.controller import Controller, ControllerContext, TryAgainError, UnknownOwnerError
from understudy.apiserver.controllers.custom_resources import definitions
from understudy.apiserver.controllers.custom_resources.api_services import APIServiceController
from understudy.apiserver.controllers.custom_resources.definitions import DefinitionController
from understudy.apiserver.controllers.flow_schemas import FlowSchemaController
from understudy.apiserver.controllers.garbage import GarbageCollector
from understudy.apiserver.controllers.namespace import NamespaceController
from understudy.apiserver.controllers.namespace_defaults import RootCAPublisher, ServiceAccountController
from understudy.apiserver.controllers.node_lifecycle import NodeLifecycleController
from understudy.apiserver.controllers.policy_status import PolicyStatusController
from understudy.apiserver.controllers.watch_caches import WatchCaches
from understudy.apiserver.storage.interface import Watch
from understudy.machinery.errors import StatusError
from understudy.machinery.util.spelling import did_you_mean

NewController = Callable[[ControllerContext], Controller]

KNOWN: dict[str, NewController] = {
    "namespace": NamespaceController,
    "garbage-collector": GarbageCollector,
    "clusterrole-aggregation": ClusterRoleAggregationController,
    "validatingadmissionpolicy-status": PolicyStatusController,
    "serviceaccount": ServiceAccountController,
    "root-ca-certificate-publisher": RootCAPublisher,
    "node-lifecycle": NodeLifecycleController,
}
# Those that run with a component that can do nothing without them: new nodes are tainted, and get no pods.
COMPANIONS = {"scheduler": "node-lifecycle"}
# The controllers of kube-apiserver itself, with the prefix of the keys that each looks at.
OWN: tuple[tuple[NewController, str], ...] = (
    (DefinitionController, definitions.PREFIX),
    (APIServiceController, definitions.PREFIX),
    (FlowSchemaController, flow_schemas.SCHEMAS),
    (FlowSchemaController, flow_schemas.LEVELS),
)
EVERYTHING = "/registry/"
FIRST_DELAY, LONGEST_DELAY = 0.005, 1000.0  # seconds until another try; doubled with each failure

log = logging.getLogger(__name__)


class UnknownControllerError(ValueError):
    """A name that no controller has."""

    def __init__(self, name: str) -> None:
        known = [*KNOWN, *component_names()]
        super().__init__(f"unknown controller {name!r}: known are {', '.join(known)}{did_you_mean(name, known)}")


def short_names(names: Iterable[str]) -> list[str]:
    """Return names of controllers and components as they are known here, each once. Raises UnknownControllerError."""
    short: dict[str, None] = {}
    for name in names:
        known = next((each for each in (name, short_name(name)) if each in KNOWN or each in component_names()), None)
        if known is None:
            raise UnknownControllerError(name)
        short[known] = None
    return list(short)


def _with_companions(names: list[str]) -> list[str]:
    return list(dict.fromkeys([*names, *(COMPANIONS[name] for name in names if name in COMPANIONS)]))


class Controllers:
    """The controllers of one server: its own, and those with the names, components among them."""

    def __init__(self, context: ControllerContext, components: ComponentContext, names: Iterable[str]) -> None:
        self._context = context
        self._component_context = components
        names = _with_companions(short_names(names))
        self._names = [name for name in names if name in KNOWN]
        self._components = {name: load_component(name, components.version) for name in names if name not in KNOWN}
        self._tasks: list[asyncio.Task[None]] = []
        self._component_tasks: list[asyncio.Task[None]] = []

    def start(self) -> None:
        """Start the controllers in the running event loop, from what is stored now."""
        runs = [_Run(self._context, [controller], prefix) for controller, prefix in OWN]
        if self._names:
            runs.append(_Run(self._context, [KNOWN[name] for name in self._names], EVERYTHING))
        caches = WatchCaches(self._context.state)
        self._tasks = [asyncio.create_task(task) for task in (*(run.forever() for run in runs), caches.forever())]

    def start_components(self) -> None:
        """Start the components, which are clients of a server that listens. One that ends with an error is logged."""
        for name, component in self._components.items():
            task = asyncio.create_task(component(self._component_context), name=name)
            task.add_done_callback(_log_error)
            self._component_tasks.append(task)

    async def stop_components(self) -> None:
        """Stop the components, while the server still answers them. Raises the error that has ended one before."""
        tasks, self._component_tasks = self._component_tasks, []
        await _cancel(tasks)

    async def stop(self) -> None:
        """Stop all controllers, each between two writes. Raises the error that has ended one before."""
        await self.stop_components()
        tasks, self._tasks = self._tasks, []
        await _cancel(tasks)


async def _cancel(tasks: list[asyncio.Task[None]]) -> None:
    for task in tasks:
        task.cancel()
        with suppress(asyncio.CancelledError):
            await task


def _log_error(task: asyncio.Task[None]) -> None:
    if not task.cancelled() and (error := task.exception()) is not None:
        log.error("controller %s: %s", task.get_name(), error, exc_info=error)


class _Run:
    """One task that runs controllers over the keys under a prefix."""

    def __init__(self, context: ControllerContext, controllers: Iterable[NewController], prefix: str) -> None:
        self._store = context.state.registry.store
        self._prefix = prefix
        self._controllers = [controller(context) for controller in controllers]
        self._woken = asyncio.Event()
        self._failures: dict[tuple[Controller, str], int] = {}
        self._later: set[asyncio.TimerHandle] = set()

    async def forever(self) -> None:
        """Run the controllers until the task is cancelled."""
        try:
            while True:
                await self._from_now_on()
        finally:
            for handle in self._later:
                handle.cancel()

    async def _from_now_on(self) -> None:
        """Run the controllers until the watch is cut off, so that they have to begin anew."""
        revision = self._store.revision
        watch = self._store.watch(self._prefix, revision)
        watch.wake = self._woken.set
        try:
            entries = (await self._store.range(self._prefix, revision=revision)).entries
            for controller in self._controllers:
                controller.begin(entries)
            while not watch.overflown:
                self._woken.clear()
                if not await self._some(watch):
                    await self._woken.wait()
        finally:
            self._store.unwatch(watch)

    async def _some(self, watch: Watch) -> bool:
        """Look at one key of each controller; return whether there were any. All writes are seen before each key."""
        busy = False
        for controller in self._controllers:
            while watch.queue:
                event = watch.take()
                for each in self._controllers:
                    each.observe(event)
            if controller.todo:
                busy = True
                await self._one(controller)
                await asyncio.sleep(0)  # others in the loop have their turn
        return busy

    async def _one(self, controller: Controller) -> None:
        """Look at the next key of a controller, and again later if that fails. No error ends the controller."""
        key = next(iter(controller.todo))
        del controller.todo[key]
        try:
            await controller.sync(key)
        except TryAgainError as wait:
            self._again(controller, key, wait.delay)
        except Exception as why:
            expected = isinstance(why, StatusError | UnknownOwnerError)
            level = logging.DEBUG if expected else logging.ERROR
            log.log(level, "%s: %s: %s", type(controller).__name__, key, why, exc_info=not expected)
            failures = self._failures[controller, key] = self._failures.get((controller, key), 0) + 1
            self._again(controller, key, min(FIRST_DELAY * 2 ** (failures - 1), LONGEST_DELAY))
        else:
            self._failures.pop((controller, key), None)

    def _again(self, controller: Controller, key: str, delay: float) -> None:
        def now() -> None:
            self._later.discard(handle)
            controller.todo[key] = None
            self._woken.set()

        handle = asyncio.get_running_loop().call_later(delay, now)
        self._later.add(handle)
