"""The controllers that run behind a server, if they are asked for.

    namespace           empties a namespace that is being deleted, and then finalizes it
    garbage-collector   deletes or releases the dependents of what is deleted, by their owner references
    clusterrole-aggregation
                        fills in the rules of ClusterRoles that are made of others
    validatingadmissionpolicy-status
                        warns in the status of policies of expressions that do not fit the objects they are about
    serviceaccount      creates the service account `default` of every namespace
    serviceaccount-token
                        puts tokens into Secrets of the type `kubernetes.io/service-account-token`, and deletes those
                        Secrets with their account
    legacy-serviceaccount-token-cleaner
                        marks such Secrets of old releases whose token nobody has used for a year, and deletes them
                        after another one
    root-ca-certificate-publisher
                        publishes in every namespace whose certificates the server's clients have to trust
    podgroup-protection lets a PodGroup that is being deleted go when its pods have ended
    node-lifecycle      taints nodes by their conditions, and removes the taint that new nodes have; this part runs with
                        the scheduler in any case. Asked for by name, it looks at the heartbeats of nodes as well
    taint-eviction      evicts pods from nodes that are not ready or unreachable

Where several servers share a store, they run at the one that holds the Lease `kube-controller-manager`, the scheduler
at the one that holds `kube-scheduler`.

Their names may end in `-controller`, as kube-controller-manager's do. They run in the server's process. Further ones
are components: clients of the server (`understudy.controlplane.components`).
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Collection, Iterable, Mapping, Sequence
from functools import partial
from importlib import import_module
from types import MappingProxyType

from understudy.apiserver.controllers import NewController, cancel, start
from understudy.apiserver.controllers.controller import ControllerContext
from understudy.apiserver.controllers.framework.controller import Controller
from understudy.apiserver.controllers.framework.leader_election import LeaderElector
from understudy.apiserver.controllers.framework.store_informer import StoreInformers
from understudy.controlplane.components import (
    MANAGER_LEASE,
    SCHEDULER_LEASE,
    Component,
    ComponentContext,
    component_names,
    lease_of,
    load_component,
    short_name,
)
from understudy.machinery.auth.users import AUTHENTICATED, User
from understudy.machinery.releases.version import Version
from understudy.machinery.util.spelling import did_you_mean


def _later(module: str, name: str) -> NewController:
    """Return a function that makes a controller, and imports its class only then: most servers run few, or none."""

    def new(context: ControllerContext, informers: StoreInformers) -> Controller[str]:
        make: NewController = getattr(import_module(f"{__name__}.{module}"), name)
        return make(context, informers)

    return new


KNOWN: dict[str, NewController] = {
    "namespace": _later("namespace", "NamespaceController"),
    "garbage-collector": _later("garbage", "GarbageCollector"),
    "clusterrole-aggregation": _later("cluster_role_aggregation", "ClusterRoleAggregationController"),
    "validatingadmissionpolicy-status": _later("policy_status", "PolicyStatusController"),
    "serviceaccount": _later("namespace_defaults", "ServiceAccountController"),
    "serviceaccount-token": _later("service_account_tokens", "TokensController"),
    "legacy-serviceaccount-token-cleaner": _later("token_cleaner", "TokenCleaner"),
    "root-ca-certificate-publisher": _later("namespace_defaults", "RootCAPublisher"),
    "podgroup-protection": _later("pod_group_protection", "PodGroupProtectionController"),
    "node-lifecycle": _later("node_lifecycle", "NodeLifecycleController"),
    "taint-eviction": _later("taint_eviction", "TaintEvictionController"),
}
# Further parts of those that were asked for by name.
PARTS: dict[str, NewController] = {"node-lifecycle": _later("node_health", "NodeHealthController")}
# Those that run with a component that can do nothing without them: new nodes are tainted, and get no pods.
COMPANIONS = {"scheduler": "node-lifecycle"}

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


class ControllerManager:
    """The controllers and components with some names, behind one server of a release.

    names    of those that were asked for, in their short form
    instead  makes controllers with some names in place of those in KNOWN

    Raises UnknownControllerError, UnsupportedControllerError.
    """

    def __init__(
        self, names: Iterable[str], version: Version, instead: Mapping[str, NewController] = MappingProxyType({})
    ) -> None:
        self.names: Collection[str] = short_names(names)
        run = dict.fromkeys([*self.names, *(COMPANIONS[name] for name in self.names if name in COMPANIONS)])
        self._controllers = [instead.get(name, KNOWN[name]) for name in run if name in KNOWN]
        self._controllers += [PARTS[name] for name in self.names if name in PARTS and name not in instead]
        self._components = {name: load_component(name, version) for name in run if name not in KNOWN}
        self._context: ComponentContext | None = None
        self._tasks: list[asyncio.Task[None]] = []
        self._component_tasks: list[asyncio.Task[None]] = []
        self._is_elected = False
        self._listening = asyncio.Event()  # whether clients can reach the server

    def start(self, context: ControllerContext) -> None:
        """Start the controllers in the running event loop, from what is stored now."""
        state = context.state
        self._context = ComponentContext(context.connection, state.release.version, state.gates, state.clock)
        self._is_elected = context.election is not None
        if self._is_elected:
            self._elect(context)
        elif self._controllers:
            self._tasks = [start(context, self._controllers)]

    def start_components(self) -> None:
        """Start the components, which are clients of a server that listens. One that ends with an error is logged."""
        if not self._is_elected:
            self._component_tasks = self._started(self._components)
        self._listening.set()

    def _started(self, components: Mapping[str, Component]) -> list[asyncio.Task[None]]:
        assert self._context is not None
        tasks = [asyncio.create_task(component(self._context), name=name) for name, component in components.items()]
        for task in tasks:
            task.add_done_callback(_log_error)
        return tasks

    def _elect(self, context: ControllerContext) -> None:
        """Run the controllers and components while this server is elected."""
        for lease in (MANAGER_LEASE, SCHEDULER_LEASE):
            controllers = self._controllers if lease == MANAGER_LEASE else []
            components = {name: each for name, each in self._components.items() if lease_of(name) == lease}
            if controllers or components:
                assert context.election is not None
                client = context.clients.client(lease, User(f"system:{lease}", [AUTHENTICATED]))
                elector = LeaderElector(client, context.state.clock, context.election, lease)
                work = partial(self._lead, context, controllers, components)
                self._component_tasks.append(asyncio.create_task(elector.run(work), name=lease))

    async def _lead(
        self, context: ControllerContext, controllers: Sequence[NewController], components: Mapping[str, Component]
    ) -> None:
        """Run controllers, and components once the server listens, until cancelled."""
        tasks = [start(context, controllers)] if controllers else []
        try:
            await self._listening.wait()
            tasks += self._started(components)
            await asyncio.wait(tasks)
        finally:
            await cancel(tasks)

    async def stop_components(self) -> None:
        self._listening.clear()
        tasks, self._component_tasks = self._component_tasks, []
        await cancel(tasks)

    async def stop(self) -> None:
        await self.stop_components()
        tasks, self._tasks = self._tasks, []
        await cancel(tasks)


def _log_error(task: asyncio.Task[None]) -> None:
    if not task.cancelled() and (error := task.exception()) is not None:
        log.error("controller %s: %s", task.get_name(), error, exc_info=error)
