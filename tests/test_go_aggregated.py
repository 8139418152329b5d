"""Run two aggregated API servers, unmodified: `pytest -m go tests/test_go_aggregated.py`, with Go and etcd.

Go fetches and compiles them, which takes minutes where nothing else of their release was compiled before; therefore
`.ci/run` leaves them out. The expected answers are those of kube-apiserver 1.37 with the same programs behind it.
"""

from __future__ import annotations

import itertools
import json
import os
import shutil
import subprocess
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import Any

import pytest
import yaml

from scripts.compare.cases.aggregated_server import AggregatedServer
from tests.certificates import CN, issue, new_authority
from tests.etcd import running
from tests.http import Connection, send
from tests.ports import free_port
from tests.releases import NEWEST
from tests.waiting import wait_until
from understudy import Server

pytestmark = pytest.mark.go

SAMPLE_API_SERVER = "k8s.io/sample-apiserver", "v0.37.2"
METRICS_SERVER = "sigs.k8s.io/metrics-server", "v0.9.0"
GROUP = "wardle.example.com"
FLUNDERS = f"/apis/{GROUP}/v1alpha1/namespaces/default/flunders"
FORBIDDEN = (
    f'flunders.{GROUP} is forbidden: User "alice" cannot list resource "flunders" in API group "{GROUP}" '
    'in the namespace "default"'
)
SCRAPES = 10  # seconds between the questions of metrics-server, the least that it takes


def go(*arguments: str, **environment: str) -> str:
    """Run a command of Go, and return its output."""
    program = shutil.which("go")
    if not program:
        pytest.skip("needs Go 1.26 or later on PATH")
    command = [program, *arguments]
    return subprocess.run(command, env={**os.environ, **environment}, check=True, stdout=-1, text=True).stdout


class Cluster:
    """A server with an aggregated one behind it at a port."""

    def __init__(self, server: Server, kubectl: str, folder: Path) -> None:
        self.server, self.folder, self.port = server, folder, free_port()
        self._kubectl = [kubectl, "--kubeconfig", str(server.kubeconfig), "--cache-dir", str(folder / "cache")]

    def kubectl(self, *arguments: str, **more: Any) -> str:
        """Run kubectl, and return its output, errors included."""
        done = subprocess.run(
            [*self._kubectl, *arguments],
            input=json.dumps(more) if more else None,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
        )
        return done.stdout

    def create(self, api_version: str, kind: str, name: str, namespace: str = "", **more: Any) -> str:
        """Create an object, and return the output of kubectl."""
        metadata = {"name": name, **({"namespace": namespace} if namespace else {})}
        return self.kubectl(
            "create", "-f", "-", **{"apiVersion": api_version, "kind": kind, "metadata": metadata, **more}
        )

    def register(self, group: str, versions: Mapping[str, int], namespace: str) -> None:
        """Let versions of a group, with their priorities, be served at the port, and wait until they are available."""
        external = {"type": "ExternalName", "externalName": "localhost"}
        self.create("v1", "Service", "api", namespace, spec=external)
        place = {"name": "api", "namespace": namespace, "port": self.port}
        for version, priority in versions.items():
            spec = {"group": group, "version": version, "groupPriorityMinimum": 1000, "versionPriority": priority}
            spec |= {"insecureSkipTLSVerify": True, "service": place}
            self.create("apiregistration.k8s.io/v1", "APIService", f"{version}.{group}", spec=spec)
        names = [f"apiservice/{version}.{group}" for version in versions]
        waited = self.kubectl("wait", "--for=condition=Available", "--timeout=120s", *names)
        assert waited.count("condition met") == len(names)

    def get(self, path: str, token: str, url: str = "") -> Any:
        """Return the answer to a user at a path, of the server or another one."""
        return send(url or self.server.url, "GET", path, headers={"Authorization": f"Bearer {token}"}).json()

    def known_as(self, account: str, namespace: str) -> Path:
        """Write a kubeconfig of a service account."""
        known = yaml.safe_load(self.server.kubeconfig.read_text())
        token = self.kubectl("create", "token", account, "--namespace", namespace).strip()
        known["users"][0]["user"] = {"token": token}
        path = self.folder / "known"
        path.write_text(yaml.safe_dump(known))
        return path

    @contextmanager
    def runs(self, module: tuple[str, str], *flags: str, kubeconfig: Path | None = None) -> Iterator[None]:
        """Compile a program, and run it at the port as what a kubeconfig says, by default as the administrator."""
        path, version = module
        name = path.rpartition("/")[2]
        go(
            "install",
            f"{path}{'/cmd/metrics-server' if module is METRICS_SERVER else ''}@{version}",
            GOBIN=str(self.folder),
        )
        known = [
            f"--{use}kubeconfig={kubeconfig or self.server.kubeconfig}"
            for use in ("", "authentication-", "authorization-")
        ]
        places = [f"--secure-port={self.port}", "--bind-address=127.0.0.1", f"--cert-dir={self.folder / 'certs'}"]
        with (self.folder / "log").open("wb") as log:
            process = subprocess.Popen([self.folder / name, *places, *known, *flags], stdout=log, stderr=log)
            try:
                yield
            finally:
                process.terminate()
                process.wait()


@contextmanager
def cluster_in(folder: Path, kubectl: str) -> Iterator[Cluster]:
    """Run a server that passes requests on with the certificate and the headers of a front proxy."""
    front = new_authority("front")
    proxy = issue([(CN, "front-proxy-client")], front)
    for name, content in {"ca": front.pem, "cert": proxy.pem, "key": proxy.key_pem}.items():
        (folder / name).write_bytes(content)
    (folder / "tokens").write_text("admin-token,admin,admin,system:masters\nalice-token,alice,alice,devs\n")
    server = Server(
        emulated_version=str(NEWEST),
        tls=True,
        token_auth_file=folder / "tokens",
        authorization_mode=["RBAC"],
        proxy_client_cert_file=folder / "cert",
        proxy_client_key_file=folder / "key",
        requestheader_client_ca_file=folder / "ca",
        requestheader_username_headers=["X-Remote-User"],
        requestheader_group_headers=["X-Remote-Group"],
        requestheader_extra_headers_prefix=["X-Remote-Extra-"],
    )
    with server:
        yield Cluster(server, kubectl, folder)


@pytest.fixture(scope="module")
def cluster(kubectl: str, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Cluster]:
    """Run a server, etcd and the sample-apiserver, which is registered for both of its versions."""
    folder = tmp_path_factory.mktemp("sample")
    with (
        running(folder / "etcd") as etcd,
        cluster_in(folder, kubectl) as cluster,
        cluster.runs(SAMPLE_API_SERVER, f"--etcd-servers={etcd.url}"),
    ):
        cluster.kubectl("create", "namespace", "wardle")
        cluster.register(GROUP, {"v1alpha1": 15, "v1beta1": 16}, "wardle")
        yield cluster


def test_kubectl_reaches_the_kinds(cluster: Cluster) -> None:
    """kubectl lists the resources, creates, refuses unknown fields as the aggregated server does, watches and reads."""
    wait_until(lambda: cluster.kubectl("api-resources", f"--api-group={GROUP}"), lambda listed: "flunders" in listed)
    created = cluster.create(f"{GROUP}/v1alpha1", "Flunder", "a", "default", spec={"reference": "x"})
    assert "Warning: wardle.example.com/v1alpha1 Flunder is deprecated" in created
    assert f"flunder.{GROUP}/a created" in created
    refused = cluster.create(f"{GROUP}/v1alpha1", "Flunder", "b", "default", spec={"nope": "x"})
    assert 'strict decoding error: unknown field "spec.nope"' in refused
    connection = Connection(cluster.server.url)
    watch = connection.open("GET", f"{FLUNDERS}?watch=1", headers={"Authorization": "Bearer admin-token"})
    assert json.loads(watch.readline())["object"]["metadata"]["name"] == "a"
    cluster.kubectl("delete", "flunder", "a")
    assert json.loads(watch.readline())["type"] == "DELETED"
    watch.close()
    connection.close()


def test_rights_are_those_of_the_server(cluster: Cluster) -> None:
    """Users that the front proxy names and bearer tokens are judged by roles of the server, whoever is asked."""
    own = f"https://127.0.0.1:{cluster.port}"
    for url in ("", own):
        assert cluster.get(FLUNDERS, "alice-token", url)["message"] == FORBIDDEN
    cluster.server.allow("alice", ["list"], [f"flunders.{GROUP}"])
    for url in ("", own):
        wait_until(partial(cluster.get, FLUNDERS, "alice-token", url), lambda answer: answer["kind"] == "FlunderList")


def test_openapi_has_the_kinds(cluster: Cluster) -> None:
    """kubectl explains fields by the v3 document, and v2 shares the definitions that both servers have."""
    explained = wait_until(lambda: cluster.kubectl("explain", "flunder.spec"), lambda text: "FlunderSpec" in text)
    assert "fischerReference" in explained
    paths = {f"/apis/{GROUP}/{version}/" for version in ("v1alpha1", "v1beta1")}
    read = partial(cluster.get, "/openapi/v2", "admin-token")
    document = wait_until(read, lambda document: paths <= document["paths"].keys())
    assert [name for name in document["definitions"] if name.endswith("_v2")] == []


def resource_metrics(started: float, scrapes: Iterator[int]) -> str:
    """Return the next page of a kubelet at /metrics/resource: half a core is used by the node, a quarter by its pod."""
    since = SCRAPES * next(scrapes)
    stamp = int((started + since) * 1000)
    pod = 'container="main",namespace="default",pod="busy"'
    return (
        f"node_cpu_usage_seconds_total {since / 2} {stamp}\n"
        f"node_memory_working_set_bytes {1 << 30} {stamp}\n"
        f"container_start_time_seconds{{{pod}}} {started - 3600} {stamp}\n"
        f"container_cpu_usage_seconds_total{{{pod}}} {since / 4} {stamp}\n"
        f"container_memory_working_set_bytes{{{pod}}} {64 << 20} {stamp}\n"
    )


@pytest.fixture
def measured(kubectl: str, tmp_path: Path) -> Iterator[Cluster]:
    """Run a server and metrics-server with the rights of its manifests, which asks the kubelet of a node with a pod."""
    with cluster_in(tmp_path, kubectl) as cluster, AggregatedServer() as kubelet:
        kubelet.serve("/metrics/resource", partial(resource_metrics, time.time(), itertools.count()), "text/plain")
        conditions = [{"type": "Ready", "status": "True"}]
        status: dict[str, Any] = {
            "allocatable": {"cpu": "2", "memory": "4Gi"},
            "capacity": {"cpu": "2", "memory": "4Gi"},
        }
        status |= {"addresses": [{"type": "InternalIP", "address": "127.0.0.1"}], "conditions": conditions}
        status |= {"daemonEndpoints": {"kubeletEndpoint": {"Port": kubelet.port}}}
        cluster.create("v1", "Node", "n1", status=status)
        containers = [{"name": "main", "image": "x"}]
        cluster.create("v1", "Pod", "busy", "default", spec={"nodeName": "n1", "containers": containers})
        running = json.dumps({"status": {"phase": "Running"}})
        cluster.kubectl("patch", "pod", "busy", "--subresource=status", "--patch", running)
        manifests = Path(go("list", "-m", "-f", "{{.Dir}}", "@".join(METRICS_SERVER)).strip()) / "manifests/base"
        cluster.kubectl("create", "-f", str(manifests / "rbac.yaml"))
        with cluster.runs(
            METRICS_SERVER,
            f"--metric-resolution={SCRAPES}s",
            "--kubelet-request-timeout=5s",
            "--kubelet-use-node-status-port",
            "--kubelet-insecure-tls",
            kubeconfig=cluster.known_as("metrics-server", "kube-system"),
        ):
            cluster.register("metrics.k8s.io", {"v1beta1": 100}, "kube-system")
            yield cluster


def test_kubectl_top_shows_what_metrics_server_measures(measured: Cluster) -> None:
    """kubectl shows the usage of nodes and pods that metrics-server makes of two answers of a kubelet."""
    nodes = wait_until(partial(measured.kubectl, "top", "nodes"), lambda shown: "n1" in shown)
    assert nodes.split("\n")[1].split() == ["n1", "500m", "25%", "1024Mi", "25%"]
    shown = measured.kubectl("top", "pods", "--containers", "--no-headers")
    assert shown.split() == ["busy", "main", "250m", "64Mi"]
