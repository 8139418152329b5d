"""A node that runs the containers of its pods as programs of this machine, for tests that were written for a cluster.

It knows what pods of Kubernetes' e2e tests use: commands, arguments and environment, volumes of secrets, config maps,
tokens, metadata and empty folders, readiness by HTTP, TCP or a command, restarts, and the status of all that. An image
is the program of the same name, as `IMAGES` says; containers of other images count as running, and nothing runs.
"""

from __future__ import annotations

import base64
import logging
import re
import shutil
import socket
import ssl
import threading
import time
import urllib.error
import urllib.request
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from scripts.common.comparing import Server
from scripts.common.sandbox import PodNetwork, Sandbox
from scripts.common.threads import working
from understudy.machinery.util.clock import micro_timestamp, timestamp

Obj = dict[str, Any]
ENTRY_POINTS: Mapping[str, Sequence[str]] = {
    "agnhost": ("/usr/local/bin/agnhost",),
    "sample-apiserver": ("/usr/local/bin/sample-apiserver",),
    "etcd": (),  # pods name the command
    "busybox": (),
}
NO_PROGRAM = ("sleep", "infinity")  # for images that are not here
ROUND_SECONDS = 0.2
HEARTBEAT_SECONDS = 10.0
NODES = "/api/v1/nodes"
LEASES = "/apis/coordination.k8s.io/v1/namespaces/kube-node-lease/leases"
STRATEGIC = "application/strategic-merge-patch+json"
CAPACITY = {"cpu": "64", "memory": "64Gi", "pods": "200", "ephemeral-storage": "100Gi"}
_VARIABLE = re.compile(r"\$\(([A-Za-z_][A-Za-z0-9_.-]*)\)")
log = logging.getLogger(__name__)


class NotYetError(Exception):
    """A pod refers to an object that does not exist yet."""


@dataclass
class Container:
    """A container of a pod."""

    spec: Obj
    sandbox: Sandbox
    restarts: int = 0
    started: float = field(default_factory=time.time)
    ended: float = 0.0
    probed: float = 0.0  # when
    is_ready: bool = False

    @property
    def name(self) -> str:
        return str(self.spec["name"])

    def status(self) -> Obj:
        """Return the entry for `status.containerStatuses`."""
        code = self.sandbox.exit_code
        state: Obj = {"running": {"startedAt": timestamp(self.started)}}
        if code is not None:
            self.ended = self.ended or time.time()
            times = {"startedAt": timestamp(self.started), "finishedAt": timestamp(self.ended)}
            state = {"terminated": {"exitCode": code, "reason": "Error" if code else "Completed", **times}}
        image = self.spec["image"]
        return {
            "name": self.name,
            "image": image,
            "imageID": image,
            "containerID": f"host://{self.sandbox.process.pid}",
            "ready": self.is_ready and code is None,
            "started": code is None,
            "restartCount": self.restarts,
            "state": state,
        }


@dataclass
class Pod:
    """A pod that runs."""

    obj: Obj
    folder: Path
    volumes: Mapping[str, Path]
    network: str
    address: str
    started: float = field(default_factory=time.time)
    init: Sandbox | None = None  # the init container that has started last
    to_init: list[Obj] = field(default_factory=list)  # those that have not started yet
    containers: list[Container] = field(default_factory=list)
    told: Obj = field(default_factory=dict)  # the status that was written last

    @property
    def path(self) -> str:
        """Return its path in the API."""
        return f"/api/v1/namespaces/{self.obj['metadata']['namespace']}/pods/{self.obj['metadata']['name']}"

    def phase(self) -> str:
        """Return `status.phase`."""
        codes = [container.sandbox.exit_code for container in self.containers]
        if None in codes or self.obj["spec"]["restartPolicy"] == "Always":
            return "Running"
        return "Failed" if any(codes) else "Succeeded"


class HostNode:
    """A node with the pods that a scheduler has given it.

    programs  files, by the name under which pods find them in /usr/local/bin
    env       variables that every container has, such as the address of the API server
    """

    def __init__(
        self,
        name: str,
        server: Server,
        folder: Path,
        network: PodNetwork,
        programs: Mapping[str, Path],
        env: Mapping[str, str],
    ) -> None:
        self.name, self._server, self._folder, self._network = name, server, folder, network
        self._programs = {f"/usr/local/bin/{program}": path for program, path in programs.items()}
        self._env = env
        self._pods: dict[str, Pod] = {}  # by UID
        self._waiting: dict[str, str] = {}  # why pods wait, by UID

    @contextmanager
    def running(self) -> Iterator[None]:
        """Register the node, and run pods until the block ends."""
        self._register()
        try:
            with working(self._work):
                yield
        finally:
            for pod in self._pods.values():
                self._end(pod)

    def _register(self) -> None:
        labels = {"kubernetes.io/hostname": self.name, "kubernetes.io/os": "linux", "kubernetes.io/arch": "amd64"}
        self._server.must("POST", NODES, {"metadata": {"name": self.name, "labels": labels}})
        lease = {"metadata": {"name": self.name}, "spec": {"holderIdentity": self.name, "leaseDurationSeconds": 40}}
        self._server.must("POST", LEASES, lease)
        conditions = [
            {"type": kind, "status": "True" if kind == "Ready" else "False", "reason": "Kubelet", "message": "it is"}
            for kind in ("MemoryPressure", "DiskPressure", "PIDPressure", "Ready")
        ]
        addresses = [{"type": "InternalIP", "address": self._network.gateway}]
        status = {"conditions": conditions, "addresses": addresses, "capacity": CAPACITY, "allocatable": CAPACITY}
        self._server.call("PATCH", f"{NODES}/{self.name}/status", {"status": status}, STRATEGIC)

    def _work(self, stopped: threading.Event) -> None:
        renewed = 0.0
        while not stopped.wait(ROUND_SECONDS):
            if time.monotonic() > renewed + HEARTBEAT_SECONDS:
                renewal = {"spec": {"renewTime": micro_timestamp(time.time())}}
                self._server.call("PATCH", f"{LEASES}/{self.name}", renewal, STRATEGIC)
                renewed = time.monotonic()
            status, pods = self._server.call("GET", f"/api/v1/pods?fieldSelector=spec.nodeName={self.name}")
            if status == 200:
                self._sync({pod["metadata"]["uid"]: pod for pod in pods["items"]})

    def _sync(self, pods: Mapping[str, Obj]) -> None:
        """Start, watch and end pods, so that those run which the API has."""
        for uid in self._pods.keys() - pods.keys():
            self._end(self._pods.pop(uid))
        for uid, obj in pods.items():
            try:
                self._sync_one(uid, obj)
            except NotYetError as why:
                if self._waiting.get(uid) != str(why):
                    self._waiting[uid] = str(why)
                    log.info("%s waits: %s", obj["metadata"]["name"], why)
            except Exception:  # of a pod such as no test had before; the others run on
                log.exception("%s", obj["metadata"]["name"])

    def _sync_one(self, uid: str, obj: Obj) -> None:
        if "deletionTimestamp" in obj["metadata"]:
            self._delete(uid, obj)
        elif uid in self._pods:
            self._watch(self._pods[uid])
        elif obj["status"].get("phase") == "Pending":
            self._start(uid, obj)

    def _delete(self, uid: str, obj: Obj) -> None:
        pod = self._pods.pop(uid, None)
        if pod:
            self._end(pod)
        path = f"/api/v1/namespaces/{obj['metadata']['namespace']}/pods/{obj['metadata']['name']}"
        self._server.call("DELETE", path, {"gracePeriodSeconds": 0, "preconditions": {"uid": uid}})

    def _start(self, uid: str, obj: Obj) -> None:
        folder = self._folder / uid
        shutil.rmtree(folder, ignore_errors=True)  # what is left of an attempt that came too early
        volumes = {each["name"]: self._volume(obj, each, folder) for each in obj["spec"].get("volumes", ())}
        network, address = self._network.connect()
        pod = self._pods[uid] = Pod(obj, folder, volumes, network, address)
        pod.to_init = [*obj["spec"].get("initContainers", ())]
        self._watch(pod)

    def _is_initialized(self, pod: Pod) -> bool:
        """Run the init containers of a pod one after the other; report whether all have ended well."""
        while pod.init is None or pod.init.exit_code == 0:
            if not pod.to_init:
                return True
            pod.init = Sandbox(*self._arguments(pod, pod.to_init[0]))
            del pod.to_init[0]
        return False

    def _arguments(self, pod: Pod, spec: Obj, turn: int = 0) -> tuple[Any, ...]:
        """Return the arguments of the sandbox of a container. Raises NotYetError."""
        image = str(spec["image"]).rpartition("/")[2].partition(":")[0]
        env = {**self._env, "HOSTNAME": pod.obj["metadata"]["name"]}
        for variable in spec.get("env", ()):
            env[variable["name"]] = expanded(self._variable(pod, variable), env)
        argv = [*spec.get("command", ENTRY_POINTS.get(image, ())), *spec.get("args", ())]
        if image == "agnhost" and not spec.get("args") and not spec.get("command"):
            argv.append("pause")
        if image not in ENTRY_POINTS or not argv:
            argv = list(NO_PROGRAM)
        mounts = {each["mountPath"]: pod.volumes[each["name"]] for each in spec.get("volumeMounts", ())}
        folder = pod.folder / f"{spec['name']}-{turn}"
        argv = [expanded(part, env) for part in argv]
        return folder, pod.network, argv, env, {**self._programs, **mounts}, spec.get("workingDir", "/")

    def _variable(self, pod: Pod, variable: Obj) -> str:
        source = variable.get("valueFrom")
        if not source:
            return str(variable.get("value", ""))
        if "fieldRef" in source:
            return field_of(pod.obj, source["fieldRef"]["fieldPath"], pod.address)
        kind, reference = ("secrets", "secretKeyRef") if "secretKeyRef" in source else ("configmaps", "configMapKeyRef")
        wanted = source[reference]
        data = self._data(pod.obj["metadata"]["namespace"], kind, wanted["name"])
        return data[wanted["key"]].decode()

    # --- volumes

    def _volume(self, pod: Obj, volume: Obj, folder: Path) -> Path:
        """Return the folder of a volume. Raises NotYetError."""
        if "hostPath" in volume:
            return Path(volume["hostPath"]["path"])
        place = folder / "volumes" / str(volume["name"])
        place.mkdir(parents=True)
        sources = volume["projected"]["sources"] if "projected" in volume else [volume]
        for source in sources:
            for name, content in self._files(pod, source):
                file = place / name
                file.parent.mkdir(parents=True, exist_ok=True)
                file.write_bytes(content)
        return place

    def _files(self, pod: Obj, source: Obj) -> Iterator[tuple[str, bytes]]:
        namespace = pod["metadata"]["namespace"]
        if "serviceAccountToken" in source:
            wanted = source["serviceAccountToken"]
            yield wanted["path"], self._token(pod, wanted).encode()
        elif "downwardAPI" in source:
            for item in (each for each in source["downwardAPI"].get("items", ()) if "fieldRef" in each):
                yield item["path"], field_of(pod, item["fieldRef"]["fieldPath"], "").encode()
        elif "secret" in source or "configMap" in source:
            kind, wanted = ("secrets", source["secret"]) if "secret" in source else ("configmaps", source["configMap"])
            name = wanted.get("secretName") or wanted["name"]
            data = self._data(namespace, kind, name, wanted.get("optional", False))
            items = wanted.get("items") or [{"key": each, "path": each} for each in data]
            yield from ((item["path"], data[item["key"]]) for item in items if item["key"] in data)

    def _data(self, namespace: str, kind: str, name: str, is_optional: bool = False) -> dict[str, bytes]:
        """Return the data of a secret or a config map, by key. Raises NotYetError."""
        status, obj = self._server.call("GET", f"/api/v1/namespaces/{namespace}/{kind}/{name}")
        if status != 200:
            if is_optional and status == 404:
                return {}
            raise NotYetError(obj.get("message"))
        encoded = obj.get("data" if kind == "secrets" else "binaryData", {})
        data = {key: base64.b64decode(value) for key, value in encoded.items()}
        if kind == "configmaps":
            data |= {key: value.encode() for key, value in obj.get("data", {}).items()}
        return data

    def _token(self, pod: Obj, wanted: Obj) -> str:
        namespace, account = pod["metadata"]["namespace"], pod["spec"].get("serviceAccountName") or "default"
        bound = {"kind": "Pod", "apiVersion": "v1", "name": pod["metadata"]["name"], "uid": pod["metadata"]["uid"]}
        spec: Obj = {"boundObjectRef": bound, "expirationSeconds": wanted.get("expirationSeconds", 3600)}
        if "audience" in wanted:
            spec["audiences"] = [wanted["audience"]]
        path = f"/api/v1/namespaces/{namespace}/serviceaccounts/{account}/token"
        status, answer = self._server.call("POST", path, {"spec": spec})
        if status != 201:
            raise NotYetError(answer.get("message"))
        return str(answer["status"]["token"])

    # --- what runs

    def _watch(self, pod: Pod) -> None:
        """Start, probe and restart the containers of a pod, and write its status if it has changed."""
        if not pod.containers:
            if not self._is_initialized(pod):
                return
            specs = pod.obj["spec"]["containers"]
            arguments = [self._arguments(pod, spec) for spec in specs]
            pod.containers = [Container(spec, Sandbox(*each)) for spec, each in zip(specs, arguments, strict=True)]
        for container in pod.containers:
            if container.sandbox.exit_code is None:
                self._probe(pod, container)
        self._tell(pod)
        for index, container in enumerate(pod.containers):
            code, policy = container.sandbox.exit_code, pod.obj["spec"]["restartPolicy"]
            is_due = container.ended and time.time() > container.ended + 2 ** min(container.restarts, 5)
            if is_due and (policy == "Always" or (policy == "OnFailure" and code)):
                turn = container.restarts + 1
                pod.containers[index] = Container(
                    container.spec, Sandbox(*self._arguments(pod, container.spec, turn)), turn
                )

    def _probe(self, pod: Pod, container: Container) -> None:
        probe, now = container.spec.get("readinessProbe"), time.time()
        if not probe:
            container.is_ready = True
        elif now > max(
            container.started + probe.get("initialDelaySeconds", 0), container.probed + probe["periodSeconds"]
        ):
            container.probed = now
            container.is_ready = succeeds(probe, pod.address, container)

    def _tell(self, pod: Pod) -> None:
        statuses = [container.status() for container in pod.containers]
        phase, is_ready = pod.phase(), all(each["ready"] for each in statuses)
        conditions = [
            {"type": kind, "status": "True" if good else "False"}
            for kind, good in (
                ("PodReadyToStartContainers", True),
                ("Initialized", True),
                ("ContainersReady", is_ready),
                ("Ready", is_ready),
            )
        ]
        status = {
            "phase": phase,
            "conditions": conditions,
            "hostIP": self._network.gateway,
            "podIP": pod.address,
            "podIPs": [{"ip": pod.address}],
            "startTime": timestamp(pod.started),
            "containerStatuses": statuses,
        }
        if status != pod.told:
            code, answer = self._server.call("PATCH", f"{pod.path}/status", {"status": status}, STRATEGIC)
            if code == 200:
                pod.told = status
            else:
                log.info("%s: %s", pod.path, answer.get("message"))

    def _end(self, pod: Pod) -> None:
        for sandbox in (*filter(None, (pod.init,)), *(container.sandbox for container in pod.containers)):
            sandbox.stop()
        self._network.disconnect(pod.network)


def succeeds(probe: Obj, address: str, container: Container) -> bool:
    """Report whether a probe finds that a container is ready."""
    if "exec" in probe:
        return container.sandbox.run(probe["exec"]["command"]).returncode == 0
    action = probe.get("httpGet") or probe["tcpSocket"]
    port = action["port"]
    if isinstance(port, str):
        port = next(each["containerPort"] for each in container.spec["ports"] if each["name"] == port)
    try:
        if "tcpSocket" in probe:
            with socket.create_connection((address, port), timeout=1):
                return True
        url = f"{action.get('scheme', 'HTTP').lower()}://{address}:{port}{action.get('path', '/')}"
        with urllib.request.urlopen(url, timeout=1, context=ssl._create_unverified_context()) as answer:
            return bool(answer.status < 400)
    except (OSError, urllib.error.URLError):
        return False


def field_of(pod: Obj, path: str, address: str) -> str:
    """Return the value of a `fieldRef` such as `metadata.name` or `metadata.labels['app']`."""
    if path in ("status.podIP", "status.hostIP"):
        return address
    name, _, key = path.partition("['")
    value: Any = pod
    for part in name.split("."):
        value = value.get(part, {})
    if key:
        return str(value.get(key.removesuffix("']"), ""))
    return "\n".join(f'{name}="{each}"' for name, each in value.items()) if isinstance(value, dict) else str(value)


def expanded(text: str, env: Mapping[str, str]) -> str:
    """Return a text with `$(NAME)` replaced by variables."""
    return _VARIABLE.sub(lambda match: env.get(match[1], match[0]), text)
