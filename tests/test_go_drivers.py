"""DRA drivers on upstream's helper `kubeletplugin` of several releases, through the whole life of claims.

Server, controllers and scheduler run in the test, kubelet and driver as processes of their own, which are ended and
started again. The drivers are `tests/go/driver032`, `tests/go/driver` and upstream's dra-example-driver, which Go
builds: `pytest -m go`. That of the newest helper shares its module, and so what Go compiles, with the clients of
`tests/test_go.py`.
"""

from __future__ import annotations

import json
import os
import re
import shutil
import signal
import subprocess
import tempfile
from collections import Counter
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass, field
from fcntl import LOCK_EX, flock
from functools import partial
from pathlib import Path
from typing import Any
from xml.etree import ElementTree

import pytest

from tests.http import watch
from tests.program import PROGRAM
from tests.releases import NEWEST
from tests.waiting import PATIENCE, wait_until
from understudy import Server, StatusError
from understudy.controlplane.dev.controllers import controllers_of
from understudy.machinery.releases.features import Gates
from understudy.machinery.releases.version import V1_32, V1_34, V1_36, Version
from understudy.machinery.types import Obj

pytestmark = pytest.mark.go

MODULE = Path(__file__).parent / "go"
# The arguments with which Go builds each.
DRIVERS = {
    "driver032": ["-modfile=go032.mod", "./driver032"],
    "driver036": ["-modfile=go036.mod", "-tags=helper036", "./driver"],
    "driver037": ["./driver"],
    "example": ["-modfile=goexample.mod", "sigs.k8s.io/dra-example-driver/cmd/dra-example-kubeletplugin"],
}
OWN_FLAGS = ["-kubeconfig", "{kubeconfig}", "-node", "{node}", "-kubelet-dir", "{root}", "-devices", "8"]
FLAGS = {name: OWN_FLAGS for name in DRIVERS if name.startswith("driver")}  # the others read the environment
WITHOUT_WAITING = ["--skip", "publishes-again"]  # the helpers take half a minute, or a whole one
DRIVER, NODE, DEVICES = "gpu.example.com", "host", 60
GATES = {
    V1_32: {"DRAAdminAccess": True},
    V1_34: {"DRADeviceTaints": True, "ResourceHealthStatus": True},
    V1_36: {},
    NEWEST: {},
}


def name_of(parameter: tuple[str, Version]) -> str:
    """Return the name of a test's parameter: a driver and the release of server and kubelet."""
    return f"{parameter[0]} on {parameter[1]}"


every_driver = pytest.mark.parametrize(
    "node",
    [("driver032", V1_32), ("driver032", NEWEST), ("driver036", V1_34), ("driver036", V1_36), ("driver037", NEWEST)],
    indirect=True,
    ids=name_of,
)
drivers_with_taints = pytest.mark.parametrize(
    "node",
    [("driver036", V1_34), ("driver036", V1_36), ("driver036", NEWEST), ("driver037", V1_36), ("driver037", NEWEST)],
    indirect=True,
    ids=name_of,
)


def is_in_use(claim: Obj) -> bool:
    """Report whether a claim has devices, or was generated for a pod, with which it goes."""
    return "allocation" in (claim.get("status") or {}) or "ownerReferences" in claim["metadata"]


@dataclass
class Node:
    """A server, and a node of it with a kubelet and a driver."""

    server: Server
    root: Path
    program: Path
    release: Version
    _processes: dict[str, subprocess.Popen[str]] = field(default_factory=dict)

    @property
    def version(self) -> str:
        """Return the version of `resource.k8s.io` that is used."""
        return "v1" if self.release >= V1_34 else "v1beta1"

    # --- processes

    def start_kubelet(self) -> None:
        """Start the kubelet and wait until it listens."""
        flags = ["--server", self.server.url, "--node", NODE, "--root", str(self.root), "--sync-frequency", "0.5"]
        gates = [f"--feature-gates={name}={str(on).lower()}" for name, on in GATES[self.release].items()]
        argv = [*PROGRAM, "kubelet", *flags, *gates, "--register-node"]
        kubelet = subprocess.Popen(argv, stdout=subprocess.PIPE, text=True)
        self._processes["kubelet"] = kubelet
        assert kubelet.stdout is not None
        assert kubelet.stdout.readline().startswith("understudy: kubelet")

    def start_driver(self) -> None:
        """Start the driver when the kubelet has deleted what another one has published; wait for its devices."""
        wait_until(lambda: not self.server.list("resourceslices"))
        config = self.root / "kubeconfig"
        self.server.write_kubeconfig(config)
        flags = ["-kubeconfig", str(config), "-node", NODE, "-kubelet-dir", str(self.root), "-devices", str(DEVICES)]
        with (self.root / "driver.log").open("a") as log:
            self._processes["driver"] = subprocess.Popen(
                [str(self.program), *flags], stdin=subprocess.PIPE, stdout=log, stderr=log, text=True
            )
        wait_until(lambda: self.server.list("resourceslices"))

    def end(self, name: str, by: signal.Signals = signal.SIGTERM) -> None:
        """End the kubelet or the driver."""
        process = self._processes.pop(name)
        process.send_signal(by)
        process.communicate(timeout=PATIENCE)

    def tell_driver(self, line: str) -> None:
        """Send the driver a command."""
        pipe = self._processes["driver"].stdin
        assert pipe is not None
        pipe.write(f"{line}\n")
        pipe.flush()

    def end_all(self) -> None:
        """End what still runs."""
        for name in list(self._processes):
            self.end(name, signal.SIGKILL)

    # --- what the driver was asked

    def calls(self) -> Counter[str]:
        """Return the number of calls of the driver for each claim: {"prepare UID": 1}."""
        lines = re.findall(r"^(prepare|unprepare) (\S+) (\S+)$", (self.root / "driver.log").read_text(), re.M)
        return Counter(f"{verb} {uid}" for verb, _, uid in lines)

    def calls_for(self, claim: str) -> tuple[int, int]:
        """Return the numbers of calls of the driver to prepare and to unprepare a claim."""
        uid, calls = self.server.get("resourceclaims", claim)["metadata"]["uid"], self.calls()
        return calls[f"prepare {uid}"], calls[f"unprepare {uid}"]

    # --- objects

    def create_claim(self, name: str, *, template: bool = False, **request: Any) -> None:
        """Create a claim for one device, or a template of such claims."""
        body: Obj = {"deviceClassName": "gpu", **request}
        if self.release >= V1_34:
            body = {"exactly": body}
        spec: Obj = {"devices": {"requests": [{"name": "r", **body}]}}
        kind = "ResourceClaimTemplate" if template else "ResourceClaim"
        self._create(kind, name, {"spec": spec} if template else spec)

    def create_pods(self, *names: str, **claim: str) -> None:
        """Create pods that use a claim: `resourceClaimName` or `resourceClaimTemplateName`."""
        container = {"name": "c", "image": "i", "resources": {"claims": [{"name": "gpu"}]}}
        claims = [{"name": "gpu", **claim}]
        spec = {"containers": [container], "resourceClaims": claims}
        metadata = {"namespace": "default"}
        self.server.apply(
            {"apiVersion": "v1", "kind": "Pod", "metadata": {**metadata, "name": name}, "spec": spec} for name in names
        )

    def delete_pods(self, *names: str) -> None:
        """Delete pods."""
        for name in names:
            self.server.delete("pods", name)

    def phase(self, name: str) -> str:
        """Return the phase of a pod, "" if there is none."""
        with suppress(StatusError):
            return str(self.server.get("pods", name)["status"]["phase"])
        return ""

    def reach(self, phase: str, *names: str) -> None:
        """Wait until pods are in a phase; "" means that they are gone."""
        for name in names:
            wait_until(partial(self.phase, name), lambda seen: seen == phase)

    def device_of(self, pod: str) -> str:
        """Return the one device that a pod with one container was given."""
        note = json.loads(self.server.get("pods", pod)["metadata"]["annotations"]["understudy.dev/cdi-devices"])
        [device] = note["c"]
        return str(device).removeprefix(f"{DRIVER}/gpu=")

    def _create(self, kind: str, name: str, spec: Obj) -> None:
        metadata = {"name": name, "namespace": "default"}
        api = f"resource.k8s.io/{self.version}"
        self.server.apply({"apiVersion": api, "kind": kind, "metadata": metadata, "spec": spec})

    # --- what always holds

    def check_all_undone(self) -> None:
        """Check, when pods are gone, that each claim was prepared and unprepared once and that nothing is in use.

        The claim controllers of 1.32 and 1.33, upstream's as well, may overlook a change and leave claims behind.
        """
        if self.release >= V1_34:
            wait_until(lambda: not any(is_in_use(claim) for claim in self.server.list("resourceclaims")))
        calls = self.calls()
        assert set(calls.values()) == {1}
        prepared = {call.removeprefix("prepare ") for call in calls if call.startswith("prepare ")}
        unprepared = {call.removeprefix("unprepare ") for call in calls if call.startswith("unprepare ")}
        assert prepared == unprepared
        state = json.loads(json.loads((self.root / "dra_manager_state").read_text())["Data"])
        assert not state["ClaimInfoStateList"]

    def check_devices(self) -> None:
        """Check that a watch from the beginning shows no device in two allocations, those with admin access apart."""
        held: dict[str, set[str]] = {}
        path = f"/apis/resource.k8s.io/{self.version}/resourceclaims"
        with watch(self.server, path, "&resourceVersion=1&timeoutSeconds=1") as events:
            for event in events:
                claim = event["object"]
                allocation = (claim.get("status") or {}).get("allocation") if event["type"] != "DELETED" else None
                results = (allocation or {}).get("devices", {}).get("results") or ()
                uid = claim["metadata"]["uid"]
                held[uid] = {result["device"] for result in results if not result.get("adminAccess")}
                others = set().union(*(devices for other, devices in held.items() if other != uid))
                assert not held[uid] & others
        assert held


@pytest.fixture(scope="session")
def programs(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    """Return the compiled drivers, which the processes of one run of tests share."""
    go = shutil.which("go")
    if not go:
        pytest.skip("needs Go 1.26 or later on PATH")
    own = tmp_path_factory.getbasetemp()
    out = (own.parent if "PYTEST_XDIST_WORKER" in os.environ else own) / "drivers"
    out.mkdir(exist_ok=True)
    with (out / "lock").open("w") as lock:
        flock(lock, LOCK_EX)
        for name, arguments in DRIVERS.items():
            if not (out / name).exists():
                compile_driver(go, out / name, arguments)
    return {name: out / name for name in DRIVERS}


def compile_driver(go: str, program: Path, arguments: list[str]) -> None:
    """Compile a driver, and check it if it is one of ours."""
    if arguments[-1].startswith("./"):
        subprocess.run([go, "vet", *arguments], cwd=MODULE, check=True, timeout=900)
    subprocess.run([go, "build", "-o", str(program), *arguments], cwd=MODULE, check=True, timeout=900)


@pytest.fixture
def node(programs: dict[str, Path], request: pytest.FixtureRequest) -> Iterator[Node]:
    """Return a node of a release with a driver; check at the end that no device was in two claims."""
    name, release = request.param
    options: dict[str, Any] = {"emulated_version": str(release), "feature_gates": GATES[release]}
    with (
        tempfile.TemporaryDirectory(prefix="node-") as root,
        Server(**options, controllers=controllers_of(Gates.of(release, GATES[release]), [])) as server,
    ):
        node = Node(server, Path(root), programs[name], release)
        server.apply(
            {"apiVersion": f"resource.k8s.io/{node.version}", "kind": "DeviceClass", "metadata": {"name": "gpu"}}
        )
        try:
            node.start_kubelet()
            node.start_driver()
            yield node
            node.check_devices()
        finally:
            node.end_all()


@every_driver
def test_claim_of_a_template(node: Node) -> None:
    """A pod runs when the claim that was made for it is prepared; when the pod goes, so does the claim."""
    node.create_claim("one", template=True)
    node.create_pods("p", resourceClaimTemplateName="one")
    node.reach("Running", "p")
    assert node.device_of("p") == "gpu-0"
    node.delete_pods("p")
    node.reach("", "p")
    node.check_all_undone()


@every_driver
def test_shared_claim(node: Node) -> None:
    """A claim of two pods is prepared once, and unprepared when the last of them goes."""
    node.create_claim("shared")
    node.create_pods("a", "b", resourceClaimName="shared")
    node.reach("Running", "a", "b")
    assert node.device_of("a") == node.device_of("b")
    node.delete_pods("a")
    node.reach("", "a")
    assert node.calls_for("shared") == (1, 0)
    node.delete_pods("b")
    node.reach("", "b")
    node.check_all_undone()


@every_driver
def test_admin_access(node: Node) -> None:
    """A claim with admin access gets a device that is in use, and takes it from nobody."""
    labels = {f"resource.{domain}/admin-access": "true" for domain in ("k8s.io", "kubernetes.io")}
    node.server.apply({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "default", "labels": labels}})
    node.create_claim("user")
    node.create_pods("user", resourceClaimName="user")
    node.reach("Running", "user")
    node.create_claim("admin", adminAccess=True)
    node.create_pods("admin", resourceClaimName="admin")
    node.reach("Running", "admin")
    assert node.device_of("admin") == node.device_of("user")
    node.delete_pods("admin")
    node.reach("", "admin")
    assert node.calls_for("user") == (1, 0)
    node.delete_pods("user")
    node.reach("", "user")
    node.check_all_undone()


@every_driver
def test_restarts(node: Node) -> None:
    """Neither a kubelet nor a driver that is killed and started again has a claim prepared or unprepared twice."""
    node.create_claim("one", template=True)
    node.create_pods("a", "b", "c", resourceClaimTemplateName="one")
    node.reach("Running", "a", "b", "c")
    node.end("kubelet", signal.SIGKILL)
    node.delete_pods("a")
    node.end("driver", signal.SIGKILL)
    node.start_kubelet()
    node.start_driver()
    node.reach("", "a")
    node.end("driver")
    node.delete_pods("b")
    node.create_pods("d", resourceClaimTemplateName="one")
    node.end("kubelet")
    node.start_kubelet()
    node.start_driver()
    node.reach("", "b")
    node.reach("Running", "c", "d")
    node.delete_pods("c", "d")
    node.reach("", "c", "d")
    node.check_all_undone()


@pytest.mark.parametrize("node", [("driver032", V1_32), ("driver037", NEWEST)], indirect=True, ids=name_of)
def test_fifty_pods_at_once(node: Node) -> None:
    """Fifty pods that are created together get a device each; all of them are given back when the pods go."""
    pods = [f"p{i}" for i in range(50)]
    node.create_claim("one", template=True)
    node.create_pods(*pods, resourceClaimTemplateName="one")
    node.reach("Running", *pods)
    assert len({node.device_of(pod) for pod in pods}) == 50
    node.end("kubelet")
    node.start_kubelet()
    node.delete_pods(*pods)
    node.reach("", *pods)
    node.check_all_undone()


@drivers_with_taints
def test_driver_taints_a_device(node: Node) -> None:
    """A pod whose device gets a taint is evicted and the device unprepared; the next pod gets another device."""
    node.create_claim("one", template=True)
    node.create_pods("evicted", "other", resourceClaimTemplateName="one")
    node.reach("Running", "evicted", "other")
    node.tell_driver(f"taint {node.device_of('evicted')} NoExecute")
    node.reach("", "evicted")
    evictions = wait_until(  # the event may come after the pod has gone
        lambda: [event for event in node.server.list("events") if event["reason"] == "DeviceTaintManagerEviction"]
    )
    assert [event["involvedObject"]["name"] for event in evictions] == ["evicted"]
    node.create_pods("next", resourceClaimTemplateName="one")
    node.reach("Running", "next")
    assert node.device_of("next") == "gpu-2"
    node.delete_pods("next", "other")
    node.reach("", "next", "other")
    node.check_all_undone()


@pytest.mark.parametrize("node", [("driver036", V1_36), ("driver037", NEWEST)], indirect=True, ids=name_of)
def test_tolerated_taint(node: Node) -> None:
    """A pod whose claim tolerates the taint stays; up to 1.34 allocations lack the tolerations, and it is evicted."""
    toleration = {"key": f"{DRIVER}/broken", "operator": "Exists", "effect": "NoExecute"}
    node.create_claim("brave", tolerations=[toleration])
    node.create_pods("brave", resourceClaimName="brave")
    node.reach("Running", "brave")
    node.create_claim("one", template=True)
    node.create_pods("evicted", resourceClaimTemplateName="one")
    node.reach("Running", "evicted")
    node.tell_driver(f"taint {node.device_of('brave')} NoExecute")
    wait_until(lambda: "NoExecute" in str(node.server.list("resourceslices")))
    node.tell_driver(f"taint {node.device_of('evicted')} NoExecute")
    node.reach("", "evicted")
    assert node.phase("brave") == "Running"
    node.delete_pods("brave")
    node.reach("", "brave")
    node.check_all_undone()


@drivers_with_taints
def test_driver_reports_health(node: Node) -> None:
    """The health of a device is in the status of the container that uses it, and follows what the driver reports."""

    def health() -> str:
        [status] = node.server.get("pods", "p")["status"]["containerStatuses"]
        [resource] = status["allocatedResourcesStatus"]
        [device] = resource["resources"]
        return str(device["health"])

    node.create_claim("gpu")
    node.create_pods("p", resourceClaimName="gpu")
    node.reach("Running", "p")
    wait_until(health, lambda seen: seen == "Healthy")
    node.tell_driver(f"health {node.device_of('p')} UNHEALTHY")
    wait_until(health, lambda seen: seen == "Unhealthy")
    node.delete_pods("p")
    node.reach("", "p")
    node.check_all_undone()


@pytest.mark.parametrize(
    ("name", "release", "failed", "lacking", "options"),
    [
        pytest.param(
            "driver032", V1_32, {"refuses-other-claims"}, set(), WITHOUT_WAITING, id="driver032, which looks at no uid"
        ),
        pytest.param("driver036", V1_36, set(), set(), WITHOUT_WAITING, id="driver036"),
        pytest.param("driver037", NEWEST, set(), set(), WITHOUT_WAITING, id="driver037"),
        pytest.param("example", V1_32, set(), set(), WITHOUT_WAITING, id="example on 1.32"),
        pytest.param(
            "example", NEWEST, set(), {"is-upgraded-without-a-break", "reports-health", "shows-health-of-pods"}, [],
            id="example on the newest, which takes a minute to publish again",
        ),
    ],
)  # fmt: skip
def test_cases_of_drivers_test(
    name: str, release: Version, failed: set[str], lacking: set[str], options: list[str],
    programs: dict[str, Path], tmp_path: Path,
) -> None:  # fmt: skip
    """Drivers on upstream's helper pass `understudy drivers test`, but for what they lack."""
    report = tmp_path / "report.xml"
    command = " ".join([str(programs[name]), *FLAGS.get(name, [])])
    flags = ["--emulated-version", str(release), "--driver-command", command, *options]
    argv = [*PROGRAM, "drivers", "test", *flags, "--jobs", "3", "--junit", str(report)]
    output = subprocess.run(argv, stdout=subprocess.PIPE, text=True).stdout
    [suite] = ElementTree.parse(report).getroot()
    assert {case.get("name") for case in suite if case.find("failure") is not None} == failed, output
    reasons = {case.get("name"): element.get("message", "") for case in suite for element in case.findall("skipped")}
    assert {case for case, reason in reasons.items() if not reason.startswith("needs ")} == lacking, output
