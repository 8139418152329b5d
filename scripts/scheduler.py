"""Run the real kube-scheduler and kube-controller-manager on understudy, through the life of claims.

    python -m scripts.scheduler --binaries DIR                          once; without --binaries they are found on PATH
    python -m scripts.scheduler --binaries DIR --runs 10                ten times, each on a new server
    python -m scripts.scheduler --binaries DIR --emulated-version 1.34  with both programs of that release
    python -m scripts.scheduler --binaries DIR --server https://127.0.0.1:6443 --token T    on a server that runs

Both programs are those of the emulated release, 1.32 or later, with their defaults, so they speak protobuf. Go builds
them from the module k8s.io/kubernetes, as scripts/build_kubectl.sh builds kubectl: the same go.mod, with

    go build -o DIR/ k8s.io/kubernetes/cmd/kube-scheduler k8s.io/kubernetes/cmd/kube-controller-manager

The scenario (its manifests are in fixtures/scheduler/):

    template     a pod that names a template gets a claim; the claim gets devices; the pod gets the node
    waiting      a second such pod, for which no devices are left, waits, and an event says why
    handover     the first pod is deleted, and its claim with it; the second pod gets the devices
    sharing      two pods share a claim, which is reserved for both, and run on the node of its device
    deployment   a deployment makes pods; when it is deleted, all of them are collected
    job          a job makes pods one after the other until enough of them have succeeded
    records      both programs hold their leases and renew them, and events tell what was done
    namespace    the namespace is deleted, and everything in it

No kubelet runs: the script marks pods on nodes as running, those that are not to be restarted as succeeded, and removes
those that are being deleted. The manifests are in resource.k8s.io/v1beta1, which every release from 1.32 on serves.

With --state FILE the objects at the end of each part are written to a file, one a line, without what differs from one
run to the next: the files of understudy and of a real server of the same release can be compared with diff.
"""

from __future__ import annotations

import argparse
import json
import logging
import re
import shutil
import ssl
import subprocess
import sys
import tempfile
import threading
import time
import urllib.error
import urllib.request
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from scripts.common.kubeconfig import write_kubeconfig
from scripts.common.threads import working
from understudy import Server
from understudy.apiserver.serving.release import DEFAULT
from understudy.machinery.golang.yaml_reader import load_yaml

MANIFESTS = Path(__file__).parent.parent / "fixtures" / "scheduler"
GATE = "--feature-gates=DynamicResourceAllocation=true"
PROGRAMS = {
    "kube-scheduler": ["--secure-port=0", GATE],
    "kube-controller-manager": ["--secure-port=0", GATE],
}
TIMEOUT = 60.0  # seconds that a step of the scenario may take
HEARTBEAT = 5.0  # seconds between two reports of a node
Obj = dict[str, Any]


class ScenarioError(Exception):
    """A step of the scenario did not happen, or went another way."""


@dataclass
class Api:
    """A client of the API server that sends and receives JSON."""

    url: str
    token: str = ""

    def ask(self, method: str, path: str, body: Obj | None = None, kind: str = "application/json") -> Obj:
        """Send a request and return the answer. Raises HTTPError."""
        headers = {"Content-Type": kind} | ({"Authorization": f"Bearer {self.token}"} if self.token else {})
        data = None if body is None else json.dumps(body).encode()
        request = urllib.request.Request(self.url + path, data, headers, method=method)
        with urllib.request.urlopen(request, context=_trusting(self.url), timeout=30) as answer:
            return dict(json.load(answer))

    def items(self, path: str, query: str = "") -> list[Obj]:
        """Return the objects of a collection."""
        return list(self.ask("GET", path + query)["items"])

    def find(self, path: str) -> Obj | None:
        """Return an object, None if there is none."""
        try:
            return self.ask("GET", path)
        except urllib.error.HTTPError as error:
            if error.code == 404:
                return None
            raise

    def create(self, file: str) -> None:
        """Create every object of a manifest."""
        for document in load_yaml((MANIFESTS / file).read_text()):
            obj = document.value
            api = "/api/v1" if obj["apiVersion"] == "v1" else f"/apis/{obj['apiVersion']}"
            namespace = obj["metadata"].get("namespace")
            within = f"/namespaces/{namespace}" if namespace else ""
            plural = obj["kind"].lower() + ("es" if obj["kind"].endswith("s") else "s")
            self.ask("POST", f"{api}{within}/{plural}", obj)

    def delete(self, path: str, **options: Any) -> None:
        """Delete an object with options."""
        self.ask("DELETE", path, {"kind": "DeleteOptions", "apiVersion": "v1", **options})


STRATEGIC = "application/strategic-merge-patch+json"
NODES = "/api/v1/nodes"
CORE = "/api/v1/namespaces/lab"
PODS = f"{CORE}/pods"
CLAIMS = "/apis/resource.k8s.io/v1beta1/namespaces/lab/resourceclaims"
DEPLOYMENTS = "/apis/apps/v1/namespaces/lab/deployments"
REPLICASETS = "/apis/apps/v1/namespaces/lab/replicasets"
JOBS = "/apis/batch/v1/namespaces/lab/jobs"
EVENTS = f"{CORE}/events"
LEASES = "/apis/coordination.k8s.io/v1/namespaces/kube-system/leases"
COMPARED = (NODES, PODS, CLAIMS, DEPLOYMENTS, REPLICASETS, JOBS, EVENTS, LEASES)


def _trusting(url: str) -> ssl.SSLContext | None:
    """Return a TLS context that accepts any certificate, None for plain HTTP."""
    if not url.startswith("https:"):
        return None
    context = ssl.create_default_context()
    context.check_hostname, context.verify_mode = False, ssl.CERT_NONE
    return context


# --- the programs beside the server


@contextmanager
def running_programs(binaries: dict[str, str], api: Api, folder: Path, report: Callable[[str], None]) -> Iterator[None]:
    """Run the two programs until the block is left; then report their error lines."""
    kubeconfig = write_kubeconfig(folder / "kubeconfig", api.url, api.token)
    with ExitStack() as stack:
        for name, flags in PROGRAMS.items():
            log = stack.enter_context((folder / f"{name}.log").open("wb"))
            program = subprocess.Popen([binaries[name], f"--kubeconfig={kubeconfig}", *flags], stdout=log, stderr=log)
            stack.callback(_end, program)
        yield
    for name in PROGRAMS:
        lines = (folder / f"{name}.log").read_text(errors="replace").splitlines()
        for line in lines:
            if line.startswith("E"):
                report(f"{name}: {line}")


@contextmanager
def request_log(file: Path) -> Iterator[None]:
    """Write the server's own log, one line for each request, to a file."""
    log, handler = logging.getLogger("understudy"), logging.FileHandler(file)
    handler.setFormatter(logging.Formatter("%(asctime)s %(message)s"))
    log.setLevel(logging.DEBUG)
    log.addHandler(handler)
    try:
        yield
    finally:
        log.removeHandler(handler)
        handler.close()


def _end(program: subprocess.Popen[bytes]) -> None:
    program.terminate()
    try:
        program.wait(10)
    except subprocess.TimeoutExpired:
        program.kill()
        program.wait()


@contextmanager
def kubelet(api: Api) -> Iterator[None]:
    """Act as the kubelets: nodes are ready, pods on nodes run or have succeeded, and those that are deleted end."""

    def work(stopped: threading.Event) -> None:
        reported = 0.0
        while not stopped.wait(0.1):
            try:
                if time.monotonic() > reported + HEARTBEAT:
                    _heartbeat(api)
                    reported = time.monotonic()
                for pod in api.items(PODS):
                    _update_pod(api, pod)
            except (urllib.error.URLError, OSError):
                continue  # the object has changed or is gone, or the server is: the next round will tell

    with working(work):
        yield


def _heartbeat(api: Api) -> None:
    """Mark every node as ready."""
    now = time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime())
    for node in api.items(NODES):
        alive = {"type": "Ready", "status": "True", "reason": "KubeletReady", "lastHeartbeatTime": now}
        body = {"status": {"conditions": [alive]}}
        api.ask("PATCH", f"{NODES}/{node['metadata']['name']}/status", body, STRATEGIC)


def _update_pod(api: Api, pod: Obj) -> None:
    """Mark a pod on a node as running, or as succeeded if it runs only once; remove it if it is being deleted."""
    path = f"{PODS}/{pod['metadata']['name']}"
    if not pod["spec"].get("nodeName"):
        return
    if "deletionTimestamp" in pod["metadata"]:
        api.delete(path, gracePeriodSeconds=0, preconditions={"uid": pod["metadata"]["uid"]})
    elif pod["status"].get("phase") == "Pending":
        phase, ready = ("Succeeded", "False") if pod["spec"]["restartPolicy"] == "Never" else ("Running", "True")
        body = {"status": {"phase": phase, "conditions": [{"type": "Ready", "status": ready}]}}
        api.ask("PATCH", f"{path}/status", body, STRATEGIC)


# --- the scenario


def until(what: str, condition: Callable[[], Any]) -> Any:
    """Return the value of a condition once it is true. Raises ScenarioError after TIMEOUT seconds."""
    end = time.monotonic() + TIMEOUT
    while True:
        value = condition()
        if value:
            return value
        if time.monotonic() > end:
            raise ScenarioError(f"never happened: {what}")
        time.sleep(0.02)


def check(what: str, actual: Any, expected: Any) -> None:
    """Raise ScenarioError if a value is not the expected one."""
    if actual != expected:
        raise ScenarioError(f"{what}: {actual!r}, not {expected!r}")


def pod_on(api: Api, name: str, node: str) -> Obj:
    """Return a pod once it runs, and check its node."""

    def placed() -> Obj | None:
        pod = api.find(f"{PODS}/{name}")
        return pod if pod and pod["spec"].get("nodeName") and pod["status"]["phase"] == "Running" else None

    pod: Obj = until(f"pod {name} runs", placed)
    check(f"the node of {name}", pod["spec"]["nodeName"], node)
    return pod


def claim_of(api: Api, pod: Obj) -> Obj:
    """Return the claim that was made for a pod."""
    (claim_status,) = pod["status"]["resourceClaimStatuses"]
    return api.ask("GET", f"{CLAIMS}/{claim_status['resourceClaimName']}")


def devices(claim: Obj) -> list[str]:
    """Return the names of the devices that a claim has, sorted."""
    return sorted(result["device"] for result in claim["status"]["allocation"]["devices"]["results"])


def users(claim: Obj) -> list[str]:
    """Return the names of the pods that a claim is reserved for, sorted."""
    return sorted(user["name"] for user in claim["status"].get("reservedFor", ()))


def template(api: Api) -> None:
    """Check that the claim of a pod with a template gets the devices, and the pod the node."""
    api.create("first.yaml")
    pod = pod_on(api, "first", "gpu-node")
    claim = claim_of(api, pod)
    check("its devices", devices(claim), ["gpu-0", "gpu-1"])
    check("reserved for", users(claim), ["first"])
    check("its labels", claim["metadata"]["labels"], {"from": "template"})
    (owner,) = claim["metadata"]["ownerReferences"]
    check("its owner", (owner["kind"], owner["uid"], owner["controller"]), ("Pod", pod["metadata"]["uid"], True))
    check("its finalizers", claim["metadata"]["finalizers"], ["resource.kubernetes.io/delete-protection"])


def waiting(api: Api) -> None:
    """Check that a second pod waits for devices, and that an event says why."""
    api.create("second.yaml")

    def failed_event() -> Obj | None:
        query = "?fieldSelector=involvedObject.name=second,reason=FailedScheduling"
        events = [event for event in api.items(EVENTS, query) if "cannot allocate all claims" in _text(event)]
        return events[0] if events else None

    event = until("the event", failed_event)
    check("who says so", event["reportingComponent"], "default-scheduler")
    pod = api.ask("GET", f"{PODS}/second")
    (condition,) = [c for c in pod["status"]["conditions"] if c["type"] == "PodScheduled"]
    check("its condition", (condition["status"], condition["reason"]), ("False", "Unschedulable"))
    claim = claim_of(api, pod)
    check("its claim", claim.get("status", {}), {})


def _text(event: Obj) -> str:
    return str(event.get("message", ""))


def handover(api: Api) -> None:
    """Check that the second pod gets the devices once the first is deleted."""
    old_claim = claim_of(api, api.ask("GET", f"{PODS}/first"))["metadata"]["name"]
    api.delete(f"{PODS}/first", gracePeriodSeconds=0)
    claim = claim_of(api, pod_on(api, "second", "gpu-node"))
    check("the devices of the next", devices(claim), ["gpu-0", "gpu-1"])
    check("reserved for", users(claim), ["second"])
    until("the claim of the first is gone", lambda: not api.find(f"{CLAIMS}/{old_claim}"))


def sharing(api: Api) -> None:
    """Check that two pods share a claim until both are deleted."""
    api.create("shared.yaml")
    for name in ("left", "right"):
        pod_on(api, name, "nic-node")
    claim = api.ask("GET", f"{CLAIMS}/nic")
    check("reserved for", users(claim), ["left", "right"])
    check("its device", devices(claim), ["nic-0"])
    api.delete(f"{PODS}/left", gracePeriodSeconds=0)
    until("it is reserved for one only", lambda: users(api.ask("GET", f"{CLAIMS}/nic")) == ["right"])
    api.delete(f"{PODS}/right", gracePeriodSeconds=0)
    until("it is free", lambda: "allocation" not in api.ask("GET", f"{CLAIMS}/nic").get("status", {}))


def deployment(api: Api) -> None:
    """Check that a deployment makes pods, and that its deletion collects them."""
    web = "?labelSelector=app=web"
    for policy in ("Background", "Foreground"):
        api.create("deployment.yaml")
        until("it is ready", lambda: api.ask("GET", f"{DEPLOYMENTS}/web").get("status", {}).get("readyReplicas") == 3)
        (replica_set,) = api.items(REPLICASETS, web)
        owners = {pod["metadata"]["ownerReferences"][0]["uid"] for pod in api.items(PODS, web)}
        check("who owns the pods", owners, {replica_set["metadata"]["uid"]})
        api.delete(f"{DEPLOYMENTS}/web", propagationPolicy=policy)
        until("the deployment is gone", lambda: not api.find(f"{DEPLOYMENTS}/web"))
        if policy == "Foreground":
            check("what outlived it", api.items(REPLICASETS, web) + api.items(PODS, web), [])
        until("its pods are gone", lambda: not api.items(REPLICASETS, web) + api.items(PODS, web))


def job(api: Api) -> None:
    """Check that the pods of a job are counted and let go, and collected with it."""
    api.create("job.yaml")
    of_job = "?labelSelector=job-name=sum"

    def finished() -> bool:
        conditions = api.ask("GET", f"{JOBS}/sum").get("status", {}).get("conditions", ())
        return any(condition["type"] == "Complete" and condition["status"] == "True" for condition in conditions)

    until("the job is complete", finished)
    check("how many pods succeeded", api.ask("GET", f"{JOBS}/sum")["status"]["succeeded"], 2)
    pods = api.items(PODS, of_job)
    check("what holds its pods", [pod["metadata"].get("finalizers", []) for pod in pods], [[], []])
    api.delete(f"{JOBS}/sum", propagationPolicy="Background")
    until("its pods are gone", lambda: not api.items(PODS, of_job))


def records(api: Api) -> None:
    """Check that both programs renew their leases, and that events name what was done."""
    for name in PROGRAMS:
        spec = api.ask("GET", f"{LEASES}/{name}")["spec"]
        check(f"whether {name} holds its lease", bool(spec["holderIdentity"]), True)
        renewed = spec["renewTime"]
        until("it is renewed", lambda: api.ask("GET", f"{LEASES}/{name}")["spec"]["renewTime"] > renewed)  # noqa: B023
    expected = {"Scheduled", "FailedScheduling", "ScalingReplicaSet", "SuccessfulCreate", "Completed"}
    until("the events", lambda: expected <= {event["reason"] for event in api.items(EVENTS)})


def namespace(api: Api) -> None:
    """Check that the deletion of the namespace deletes everything in it."""
    check("what is there", bool(api.items(PODS) and api.items(CLAIMS)), True)
    api.delete(CORE)
    until("the namespace is gone", lambda: not api.find(CORE))
    check("what is left", api.items(PODS) + api.items(CLAIMS) + api.items(f"{CORE}/configmaps"), [])


SCENARIO = (template, waiting, handover, sharing, deployment, job, records, namespace)

# What differs from one run to the next, and what stands for it.
_VARYING = {
    r"[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}": "<uid>",
    r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d(\.\d+)?Z": "<time>",
    r'(resourceVersion\\*": ?\\*")\d+': r"\1<version>",
    r"\.[0-9a-f]{16}\b": ".<event>",
    r"-[bcdfghjklmnpqrstvwxz2456789]{5}\b": "-<generated>",
}


def state(api: Api) -> list[str]:
    """Return the objects that are compared, one a line, without what differs from one run to the next."""
    lines = []
    for path in COMPARED:
        for obj in api.items(path):
            obj["metadata"]["managedFields"].sort(key=lambda entry: entry["manager"] + entry.get("subresource", ""))
            text = json.dumps({"path": path, **obj}, sort_keys=True)
            for pattern, placeholder in _VARYING.items():
                text = re.sub(pattern, placeholder, text)
            lines.append(text)
    return sorted(lines)


def run(binaries: dict[str, str], api: Api | None, release: str, verbose: bool, state_file: Path | None = None) -> str:
    """Run the scenario once, and return how long its parts took. Raises ScenarioError."""

    def report(text: str) -> None:
        if verbose:
            print(f"    {text}", flush=True)

    took, states, folder = [], [], Path(tempfile.mkdtemp(prefix="understudy-scheduler-"))
    with ExitStack() as stack:
        if api is None:
            stack.enter_context(request_log(folder / "requests.log"))
            api = Api(stack.enter_context(Server(emulated_version=release)).url)
        api.create("cluster.yaml")
        stack.enter_context(running_programs(binaries, api, folder, report))
        stack.enter_context(kubelet(api))
        for act in SCENARIO:
            began = time.monotonic()
            try:
                act(api)
            except (ScenarioError, urllib.error.URLError, LookupError, ValueError) as error:
                (folder / "state.json").write_text(json.dumps(api.items(PODS) + api.items(CLAIMS), indent=1))
                raise ScenarioError(f"{act.__name__}: {error!r}; logs and what is there: {folder}") from error
            took.append(f"{act.__name__} {time.monotonic() - began:.1f}")
            if state_file:
                states += [f"{act.__name__} {line}\n" for line in state(api)]
                state_file.write_text("".join(states))
    shutil.rmtree(folder)
    return " ".join(took)


def main() -> int:
    parser = argparse.ArgumentParser(description="The real scheduler and controllers on understudy.")
    parser.add_argument("--binaries", metavar="DIR", help="where both programs are (default: PATH)")
    parser.add_argument("--runs", type=int, default=1)
    parser.add_argument("--server", metavar="URL", help="a server that runs already, for one run")
    parser.add_argument("--token", default="")
    parser.add_argument("--emulated-version", default=DEFAULT, metavar="RELEASE", help="default: %(default)s")
    parser.add_argument("--state", type=Path, metavar="FILE", help="write the objects of the last run to this file")
    parser.add_argument("-v", "--verbose", action="store_true", help="print the programs' error lines")
    args = parser.parse_args()
    binaries = {name: shutil.which(name, path=args.binaries) or "" for name in PROGRAMS}
    if missing := [name for name, path in binaries.items() if not path]:
        parser.error(f"{' and '.join(missing)}: not found; see the head of this file")
    api = Api(args.server.rstrip("/"), args.token) if args.server else None
    failed = 0
    for number in range(1, args.runs + 1):
        began = time.monotonic()
        try:
            result = run(binaries, api, args.emulated_version, args.verbose, args.state)
        except ScenarioError as error:
            failed, result = failed + 1, f"FAILED {error}"
        print(f"run {number}: {time.monotonic() - began:.1f} s: {result}", flush=True)
    print(f"{args.runs - failed} of {args.runs} runs went as they should")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
