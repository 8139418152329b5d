"""Hints on the server's terminal: why a client waits in vain, and which flag would help."""

from __future__ import annotations

import subprocess
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.http import send, watch
from tests.program import serving
from tests.releases import NEWEST, served
from tests.waiting import wait_until
from understudy import Server, StatusError
from understudy.apiserver.server.filters.hints import hints
from understudy.apiserver.server.filters.hints.waits import Waits
from understudy.machinery.types import Obj

KUBELET = (
    "node n1 has no kubelet; `understudy kubelet --node n1 …` stands in for one, `understudy dev` has one for each node"
)
NO_PODS = "makes no pods: that takes kube-controller-manager beside this server, which has no flag for it"
NO_NODE = "has no node: --controllers=scheduler finds one, as `understudy dev` does"
NO_CONTAINERS = "no containers run here: logs, exec, attach and port-forward need the kubelet of a node, proxy a server"
NAMESPACE = "stays until its content is deleted: --controllers=namespace does that"
ACCOUNT = "does not exist: --controllers=serviceaccount makes it in each namespace"
CONTAINERS = [{"name": "c", "image": "i"}]
GOING = {"deletionTimestamp": "2025-01-01T00:00:00Z"}
POD: Obj = {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "p"}, "spec": {"containers": CONTAINERS}}
NODE: Obj = {"apiVersion": "v1", "kind": "Node", "metadata": {"name": "n1"}}
LABELS = {"app": "web"}
DEPLOYMENT: Obj = {
    "apiVersion": "apps/v1",
    "kind": "Deployment",
    "metadata": {"name": "web"},
    "spec": {
        "selector": {"matchLabels": LABELS},
        "template": {"metadata": {"labels": LABELS}, "spec": {"containers": CONTAINERS}},
    },
}
JOB: Obj = {
    "apiVersion": "batch/v1",
    "kind": "Job",
    "metadata": {"name": "j"},
    "spec": {"template": {"spec": {"restartPolicy": "Never", "containers": CONTAINERS}}},
}


@pytest.fixture(autouse=True)
def at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    """Look at once whether somebody acts, since nobody does."""
    monkeypatch.setattr(hints, "DELAY", 0.0)


def given(caplog: pytest.LogCaptureFixture) -> list[str]:
    """Return the hints that were given."""
    texts = [record.getMessage() for record in caplog.records if record.name == "understudy"]
    return [text.removeprefix("hint: ") for text in texts if text.startswith("hint: ")]


def bound(pod: Obj) -> Obj:
    return {**pod, "spec": {**pod["spec"], "nodeName": "n1"}}


@pytest.mark.parametrize(
    ("obj", "path", "text"),
    [
        (DEPLOYMENT, "/apis/apps/v1/namespaces/default/deployments", f"deployment default/web {NO_PODS}"),
        (JOB, "/apis/batch/v1/namespaces/default/jobs", f"job default/j {NO_PODS}"),
        (POD, "/api/v1/namespaces/default/pods", f"pod default/p {NO_NODE}"),
        (bound(POD), "/api/v1/namespaces/default/pods", f"pod default/p does not start: {KUBELET}"),
    ],
)
def test_who_waits_for_an_object_is_told_why(
    apiserver: Server, caplog: pytest.LogCaptureFixture, obj: Obj, path: str, text: str
) -> None:
    """`kubectl rollout status` and `wait` watch one object by its name; a second watch says nothing more."""
    apiserver.apply(NODE, obj)
    query = f"&fieldSelector=metadata.name={obj['metadata']['name']}"
    with watch(apiserver, path, query):
        assert wait_until(lambda: given(caplog)) == [text]
    with watch(apiserver, path, query):
        apiserver.apply({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "a"}})
        apiserver.delete("namespace", "a")
        wait_until(lambda: len(given(caplog)) > 1)
    assert given(caplog)[1:] == [f"namespace a {NAMESPACE}"]


def test_deletions_in_vain(apiserver: Server, caplog: pytest.LogCaptureFixture) -> None:
    """A hint names each object that stays after its deletion, and the controller that it waits for."""
    namespace = {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "a"}}
    apiserver.apply(NODE, bound(POD), DEPLOYMENT, namespace)
    send(apiserver, "DELETE", "/api/v1/namespaces/default/pods/p")
    send(apiserver, "DELETE", "/apis/apps/v1/namespaces/default/deployments/web?propagationPolicy=Foreground")
    send(apiserver, "DELETE", "/api/v1/namespaces/a")
    wait_until(lambda: len(given(caplog)) == 3)
    assert given(caplog) == [
        f"pod default/p stays until a kubelet has ended it (or kubectl delete --force): {KUBELET}",
        "deployment default/web stays until its finalizer foregroundDeletion is removed: "
        "--controllers=garbage-collector does that",
        f"namespace a {NAMESPACE}",
    ]


def test_refused_and_complete_deletions_need_no_hint(apiserver: Server, caplog: pytest.LogCaptureFixture) -> None:
    """Objects that are gone, and objects that were not deleted, give no hint."""
    apiserver.apply(POD, DEPLOYMENT)
    send(apiserver, "DELETE", "/api/v1/namespaces/default/pods/p")
    assert send(apiserver, "DELETE", "/apis/apps/v1/namespaces/default/deployments/web?dryRun=All").status == 200
    with pytest.raises(StatusError):
        apiserver.delete("pod", "missing")
    send(apiserver, "GET", "/api/v1/namespaces/default/pods/p/log")  # is told of at once: the others would be before
    assert given(caplog) == [NO_CONTAINERS]


@pytest.mark.parametrize(
    ("method", "path", "command"),
    [
        ("GET", "/api/v1/namespaces/default/pods/p/log", ""),
        ("POST", "/api/v1/namespaces/default/pods/p/exec?command=ls", ""),
        ("POST", "/api/v1/namespaces/default/pods/p/portforward", ""),
        ("GET", "/api/v1/namespaces/default/pods/p", "kubectl port-forward"),
        ("GET", "/apis/apps/v1/namespaces/default/deployments/web", "kubectl logs"),
    ],
)
def test_containers_are_missing(
    apiserver: Server, caplog: pytest.LogCaptureFixture, method: str, path: str, command: str
) -> None:
    """Requests for logs, commands or ports give one hint that there are no containers, also before kubectl gives up."""
    apiserver.apply(POD, DEPLOYMENT)
    for _ in range(2):
        send(apiserver, method, path, headers={"Kubectl-Command": command} if command else {})
    assert given(caplog) == [NO_CONTAINERS]


def test_node_that_names_its_kubelet_needs_no_hint(apiserver: Server, caplog: pytest.LogCaptureFixture) -> None:
    """A kubelet that a node names tells by its errors what is missing."""
    apiserver.apply(POD, NODE)
    status = {"daemonEndpoints": {"kubeletEndpoint": {"Port": 10250}}}
    apiserver.patch("nodes", "n1", {"status": status}, subresource="status")
    send(apiserver, "GET", "/api/v1/namespaces/default/pods/p", headers={"Kubectl-Command": "kubectl logs"})
    assert given(caplog) == []


def test_missing_service_account(apiserver: Server, caplog: pytest.LogCaptureFixture) -> None:
    """A token for `default` fails since no controller made that account; other accounts are up to the user."""
    for name in ("mine", "default", "default"):
        send(apiserver, "POST", f"/api/v1/namespaces/default/serviceaccounts/{name}/token", {})
    assert given(caplog) == [f"serviceaccount default/default {ACCOUNT}"]


@pytest.mark.apiserver(controllers=["serviceaccount"])
def test_account_that_a_controller_makes(apiserver: Server, caplog: pytest.LogCaptureFixture) -> None:
    """With the controller there is nothing to say, even of a namespace that does not exist."""
    assert send(apiserver, "POST", "/api/v1/namespaces/no/serviceaccounts/default/token", {}).status == 404
    assert given(caplog) == []


def test_reset_forgets_what_was_said(apiserver: Server, caplog: pytest.LogCaptureFixture) -> None:
    """A test that gets a server which another test has used sees its own hints."""
    send(apiserver, "GET", "/api/v1/namespaces/default/pods/p/log")
    apiserver.reset()
    send(apiserver, "GET", "/api/v1/namespaces/default/pods/p/log")
    assert given(caplog) == [NO_CONTAINERS] * 2


class Stored:
    """The pods of a namespace, and the lease of node n1 or of another program."""

    def __init__(self, *pods: Obj, renewed: str = "", lease: str = "kube-node-lease/n1") -> None:
        self._pods = pods
        self._leases = {lease: {"spec": {"renewTime": renewed}}} if renewed else {}

    def lookup(self, group: str, resource: str, namespace: str, name: str) -> Obj | None:
        assert resource == "leases"
        return self._leases.get(f"{namespace}/{name}")

    def listing(self, group: str, resource: str, namespace: str = "") -> list[Obj]:
        return list(self._pods)


NOW = 1735689600.0  # 2025-01-01T00:00:00Z
CONDITIONS = [
    {"type": "NamespaceContentRemaining", "status": "True", "message": "Some resources are remaining: a has 1"},
    {"type": "NamespaceFinalizersRemaining", "status": "False", "message": "All fine"},
]
MANAGED = Stored(renewed="2025-01-01T00:00:00.000000Z", lease="kube-system/kube-controller-manager")
DELETED = {"metadata": {"name": "a", **GOING}}
IN_A = {"metadata": {"name": "p", "namespace": "a", **GOING}, "spec": {"nodeName": "n1"}}


@pytest.mark.parametrize(
    ("kind", "obj", "stored", "controllers", "text"),
    [
        ("pods", {**POD, "status": {"conditions": [{}]}}, Stored(), (), ""),  # a scheduler has looked at it
        ("pods", POD, Stored(), ("scheduler",), ""),
        ("pods", {**POD, "spec": {"schedulingGates": [{"name": "g"}]}}, Stored(), (), ""),
        ("pods", bound(POD), Stored(renewed="2024-12-31T23:59:30.000000Z"), (), ""),
        ("pods", bound(POD), Stored(renewed="2024-12-31T23:59:00.000000Z"), (), f"pod p does not start: {KUBELET}"),
        ("pods", {**bound(POD), "status": {"startTime": "x"}}, Stored(), (), ""),
        ("namespaces", {**DELETED, "status": {"conditions": CONDITIONS}}, Stored(), (), ""),  # somebody empties it
        ("namespaces", DELETED, Stored(), ("namespace",), ""),
        ("namespaces", DELETED, MANAGED, (), ""),
        ("replicationcontrollers", {"metadata": {"name": "r", "generation": 1}}, MANAGED, (), ""),
        ("pods", POD, Stored(renewed="2025-01-01T00:00:00.000000Z", lease="kube-system/kube-scheduler"), (), ""),
        (
            "namespaces",
            {**DELETED, "status": {"conditions": CONDITIONS}},
            Stored(),
            ("namespace",),
            "namespace a stays: Some resources are remaining: a has 1",
        ),
        (
            "namespaces",
            DELETED,
            Stored(IN_A),
            ("namespace",),
            f"pod a/p stays until a kubelet has ended it (or kubectl delete --force): {KUBELET}",
        ),
        ("configmaps", {"metadata": {"name": "c", **GOING, "finalizers": ["mine"]}}, Stored(), (), ""),
        ("configmaps", {"metadata": {"name": "c"}}, Stored(), (), ""),
        (
            "persistentvolumeclaims",
            {"metadata": {"name": "c", **GOING, "finalizers": ["kubernetes.io/pvc-protection"]}},
            Stored(),
            ("namespace",),
            "persistentvolumeclaim c stays until its finalizer kubernetes.io/pvc-protection is removed: that takes "
            "kube-controller-manager beside this server, which has no flag for it",
        ),
    ],
)
def test_only_what_nobody_acts_on_needs_a_hint(
    kind: str, obj: Obj, stored: Stored, controllers: tuple[str, ...], text: str
) -> None:
    """Objects that a controller here or a program beside the server cares for have no hint."""
    resource = next(each for each in served(NEWEST).kinds if (each.group, each.resource) == ("", kind))
    hint = Waits(stored, controllers).hint(resource, obj, NOW)
    assert (hint.text if hint else "") == text


def holds(text: str) -> Callable[[str], bool]:
    """Return a condition: a text holds this one."""
    return lambda shown: text in shown


@pytest.mark.maintenance
def test_kubectl_sees_the_same_answers(kubectl: str, tmp_path: Path) -> None:
    """The server's terminal has a line for each request on which kubectl hangs or is refused."""
    log = tmp_path / "stderr"
    with log.open("w") as stderr, serving("--load", "demo", stderr=stderr.fileno()) as (_, url):
        argv = [kubectl, "--server", url, "--namespace", "shop"]
        for command, text in (
            ("create token default", "serviceaccount shop/default does not exist: "),
            ("rollout status deployment/front", "deployment shop/front makes no pods: "),
            ("port-forward deployment/front 8080:80", "no containers run here: "),
            ("delete namespace shop", "namespace shop stays until its content is deleted: "),
        ):
            home = {"HOME": str(tmp_path), "PATH": "/usr/local/bin:/usr/bin:/bin"}
            waiting = subprocess.Popen([*argv, *command.split()], env=home, stderr=subprocess.DEVNULL)
            try:
                lines = wait_until(log.read_text, holds(text)).splitlines()
            finally:
                waiting.kill()
                waiting.communicate()
    assert [line.partition(":")[0] for line in lines] == ["hint"] * 4
