"""The Node object and its lease. Upstream: `kubelet_node_status.go`, `component-helpers/apimachinery/lease`."""

from __future__ import annotations

import logging
import os
import platform
from collections.abc import Callable
from datetime import UTC, datetime

from understudy.apiserver.endpoints.negotiation import STRATEGIC_PATCH
from understudy.controlplane.client.api_client import APIClient
from understudy.controlplane.client.resources import NODES, Resource
from understudy.machinery.errors import StatusError
from understudy.machinery.releases import features
from understudy.machinery.releases.features import Gates
from understudy.machinery.releases.version import V1_31, V1_36, V1_37, ByRelease, Version
from understudy.machinery.types import Obj, condition_of
from understudy.machinery.util.clock import Clock, timestamp
from understudy.machinery.util.timers import sleep

log = logging.getLogger(__name__)

LEASES = Resource("coordination.k8s.io", "v1", "leases", "Lease")
LEASE_NAMESPACE = "kube-node-lease"
LEASE_SECONDS = 40
RENEW_EVERY, RENEW_TRIES = 10.0, 5  # seconds
UPDATE_EVERY, REPORT_EVERY = 10.0, 300.0  # seconds: when the status is looked at, and written though it is the same
RETRY_EVERY = 1.0  # to register
MAX_PODS = 110
DEFAULT_ADDRESS = "127.0.0.1"
NOT_READY = "node.kubernetes.io/not-ready"  # the taint that admission gives to new nodes
_GO_ARCHITECTURES = {"x86_64": "amd64", "aarch64": "arm64"}
_DECLARED = (
    features.RESTART_ALL_CONTAINERS_ON_CONTAINER_EXITS,
    features.IN_PLACE_POD_LEVEL_RESOURCES_VERTICAL_SCALING,
)
_DECLARED_SINCE_1_36 = (
    *_DECLARED,
    features.EXTEND_WEB_SOCKETS_TO_KUBELET,
    features.IN_PLACE_POD_VERTICAL_SCALING_INIT_CONTAINERS,
)
# The features that a kubelet declares if their gates are on. Upstream: `nodedeclaredfeatures/features/registry.go`.
DECLARED = ByRelease(
    {
        V1_31: _DECLARED,
        V1_36: _DECLARED_SINCE_1_36,
        V1_37: (
            *_DECLARED_SINCE_1_36,
            features.IN_PLACE_POD_VERTICAL_SCALING_MEMORY_BACKED_VOLUMES,
            features.DRA_NODE_ALLOCATABLE_RESOURCES,
            features.DRA_OPTIONAL_NODE_OPERATIONS,
        ),
    }
)
GUARANTEED_RESIZE = "GuaranteedQoSPodCPUResize"  # in 1.35, of every node without a static CPU manager
# Conditions besides Ready: reason and message of their absence.
_PRESSURES = {
    "MemoryPressure": ("KubeletHasSufficientMemory", "kubelet has sufficient memory available"),
    "DiskPressure": ("KubeletHasNoDiskPressure", "kubelet has no disk pressure"),
    "PIDPressure": ("KubeletHasSufficientPID", "kubelet has sufficient PID available"),
}


class NodeKeeper:
    """Registers a node, and renews its lease.

    is_dialed  whether the API server is to reach a kubelet at the address of the node
    """

    def __init__(
        self, client: APIClient, name: str, version: Version, gates: Gates, boot_id: str, clock: Clock,
        *, is_dialed: bool = False,
    ) -> None:  # fmt: skip
        self._client = client
        self._name = name
        self._version = version
        self._gates = gates
        self._boot_id = boot_id
        self._clock = clock
        self._is_dialed = is_dialed
        self._lease: Obj | None = None  # as it was written last

    async def register(self) -> None:
        """Create the Node, or make one that exists ready; try until the server agrees.

        One that exists keeps its capacity and addresses, if it has any. Upstream: `registerWithAPIServer`. The taint
        of nodes that are not ready goes, since there may be no node lifecycle controller, which removes it otherwise.
        """
        while True:
            try:
                await self._register()
                while not await self._remove_taint():
                    log.info("node %s was changed meanwhile", self._name)
                return
            except (StatusError, ConnectionError) as why:
                log.warning("cannot register node %s: %s", self._name, why)
            await sleep(self._clock, RETRY_EVERY)

    async def get(self) -> Obj | None:
        """Return the Node, None if there is none. Raises StatusError, ConnectionError."""
        return await self._client.find(NODES, self._name)

    async def name_port(self, port: int) -> None:
        """Let the Node say at which port its kubelet listens. Raises StatusError, ConnectionError."""
        status = {"status": {"daemonEndpoints": {"kubeletEndpoint": {"Port": port}}}}
        await self._client.patch(NODES, self._name, status, content_type=STRATEGIC_PATCH, subresource="status")

    def warn_of(self, node: Obj | None) -> None:
        """Log what keeps pods from a node that is not registered here: it is missing, or tainted as not ready."""
        if node is None:
            log.warning("there is no node %s, which drivers look for: register_node creates it", self._name)
        elif any(taint["key"] == NOT_READY for taint in node["spec"].get("taints") or ()):
            text = "node %s has the taint %s, so that schedulers give it no pods: register_node makes it ready"
            log.warning(text, self._name, NOT_READY)

    async def renew_lease(self) -> None:
        """Renew the lease of the node every ten seconds until cancelled."""
        while True:
            try:
                await self._renew_lease()
            except (StatusError, ConnectionError) as why:
                log.warning("cannot renew the lease of node %s: %s", self._name, why)
            await sleep(self._clock, RENEW_EVERY)

    async def _register(self) -> None:
        node = self._node()
        try:
            await self._client.create(NODES, node)
        except StatusError as why:
            if why.code != 409:
                raise
            old = await self._client.get(NODES, self._name)
            labels = {"metadata": {"labels": node["metadata"]["labels"]}}
            await self._client.patch(NODES, self._name, labels, content_type=STRATEGIC_PATCH)
            kept = {key for key in ("capacity", "allocatable", "addresses") if old.get("status", {}).get(key)}
            status = {key: value for key, value in node["status"].items() if key not in kept}
            await self._client.patch(
                NODES, self._name, {"status": status}, content_type=STRATEGIC_PATCH, subresource="status"
            )

    async def _remove_taint(self) -> bool:
        """Let pods come to the node, if its user may change taints: NodeRestriction lets no kubelet do so.

        Return False if somebody else was quicker, such as the node lifecycle controller.
        """
        node = await self._client.get(NODES, self._name)
        taints = node["spec"].get("taints") or []
        kept = [taint for taint in taints if taint["key"] != NOT_READY]
        if kept == taints:
            return True
        try:
            await self._client.update(NODES, {**node, "spec": {**node["spec"], "taints": kept}})
        except StatusError as why:
            if why.code == 409:
                return False
            if why.code != 403:
                raise
            log.info("the taint of node %s stays: %s", self._name, why)
        return True

    async def report_status(self, node: Callable[[], Obj | None]) -> None:
        """Write the conditions of the node every five minutes, and soon after they are changed, until cancelled.

        node  returns the Node as it is known, None if there is none

        Upstream: `syncNodeStatus`, with `nodeStatusUpdateFrequency` and `nodeStatusReportFrequency`.
        """
        reported = self._clock.monotonic()
        while True:
            await sleep(self._clock, UPDATE_EVERY)
            known = node()
            due = self._clock.monotonic() - reported >= REPORT_EVERY
            if known is None or not (changed := self._changed_conditions(known, due)):
                continue
            try:
                status = {"status": {"conditions": changed}}
                await self._client.patch(NODES, self._name, status, content_type=STRATEGIC_PATCH, subresource="status")
                reported = self._clock.monotonic()
            except (StatusError, ConnectionError) as why:
                log.warning("cannot write the status of node %s: %s", self._name, why)

    def _changed_conditions(self, node: Obj, due: bool) -> list[Obj]:
        """Return the conditions of a node that differ from what the kubelet says; all of them if a report is due."""
        changed = []
        for condition in self._conditions():
            old = condition_of(node, condition["type"])
            if old.get("status") == condition["status"]:
                condition["lastTransitionTime"] = old["lastTransitionTime"]
                if not due:
                    continue
            changed.append(condition)
        return changed

    async def _renew_lease(self) -> None:
        """Create the lease, or set its time; a few tries. Upstream: `backoffEnsureLease`, `retryUpdateLease`."""
        for tries_left in reversed(range(RENEW_TRIES)):
            try:
                self._lease = await self._renewed_lease()
                return
            except (StatusError, ConnectionError):
                self._lease = None
                if not tries_left:
                    raise

    async def _renewed_lease(self) -> Obj:
        """Return the lease with the time of now, as stored."""
        now = datetime.fromtimestamp(self._clock.now(), UTC).strftime("%Y-%m-%dT%H:%M:%S.%fZ")
        renewed = {"spec": {"renewTime": now}}
        lease = self._lease or await self._client.find(LEASES, self._name, LEASE_NAMESPACE)
        if lease is not None:
            return await self._client.update(LEASES, {**lease, "spec": {**lease["spec"], **renewed["spec"]}})
        node = await self.get()
        metadata: Obj = {"name": self._name, "namespace": LEASE_NAMESPACE}
        if node is not None:
            owner = {"apiVersion": "v1", "kind": "Node", "name": self._name, "uid": node["metadata"]["uid"]}
            metadata["ownerReferences"] = [owner]
        spec = {"holderIdentity": self._name, "leaseDurationSeconds": LEASE_SECONDS, **renewed["spec"]}
        return await self._client.create(LEASES, {"metadata": metadata, "spec": spec})

    def _node(self) -> Obj:
        """Return the Node of this machine. Upstream: `initialNode`."""
        system = platform.system().lower()
        architecture = _GO_ARCHITECTURES.get(platform.machine(), platform.machine())
        resources = _resources()
        return {
            "metadata": {
                "name": self._name,
                "labels": {
                    "kubernetes.io/hostname": self._name,
                    "kubernetes.io/os": system,
                    "kubernetes.io/arch": architecture,
                    "beta.kubernetes.io/os": system,
                    "beta.kubernetes.io/arch": architecture,
                },
                "annotations": {"volumes.kubernetes.io/controller-managed-attach-detach": "true"},
            },
            "status": {
                "capacity": resources,
                "allocatable": resources,
                "conditions": self._conditions(),
                "addresses": self._addresses(),
                "nodeInfo": {
                    "machineID": "",
                    "systemUUID": "",
                    "bootID": self._boot_id,
                    "kernelVersion": platform.release(),
                    "osImage": "understudy",
                    "containerRuntimeVersion": "understudy://",
                    "kubeletVersion": f"v{self._version}.0",
                    "kubeProxyVersion": "",
                    "operatingSystem": system,
                    "architecture": architecture,
                },
                **declared_features(self._version, self._gates),
            },
        }

    def _addresses(self) -> list[Obj]:
        """Return the addresses: without a host name, which nobody can look up, if the node is to be dialed."""
        addresses = [{"type": "InternalIP", "address": DEFAULT_ADDRESS}]
        return addresses if self._is_dialed else [*addresses, {"type": "Hostname", "address": self._name}]

    def _conditions(self) -> list[Obj]:
        now = timestamp(self._clock.now())
        times = {"lastHeartbeatTime": now, "lastTransitionTime": now}
        pressures = [
            {"type": name, "status": "False", **times, "reason": reason, "message": message}
            for name, (reason, message) in _PRESSURES.items()
        ]
        ready = {"type": "Ready", "status": "True", **times, "reason": "KubeletReady"}
        return [*pressures, {**ready, "message": "kubelet is posting ready status"}]


def declared_features(version: Version, gates: Gates) -> Obj:
    """Return `declaredFeatures` of a node, {} if nodes declare none. Upstream: `DiscoverNodeFeatures`.

    Features that the container runtime has to have as well are left out: there is none.
    """
    if not gates[features.NODE_DECLARED_FEATURES]:
        return {}
    names = [str(gate) for gate in DECLARED[version] if gates[gate]]
    if version < V1_36:
        names.append(GUARANTEED_RESIZE)
    return {"declaredFeatures": sorted(names)}


def _resources() -> Obj:
    """Return the capacity of this machine."""
    pages = os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE") // 1024
    return {"cpu": str(os.cpu_count() or 1), "memory": f"{pages}Ki", "pods": str(MAX_PODS)}


def address_of(node: Obj | None) -> str:
    """Return the internal address of a node, that of the loopback interface if it has none."""
    addresses = (node or {}).get("status", {}).get("addresses") or ()
    return next((entry["address"] for entry in addresses if entry["type"] == "InternalIP"), DEFAULT_ADDRESS)
