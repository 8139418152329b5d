"""`k8s.io/sample-apiserver`, unmodified, behind a server: `pytest -m go tests/test_go_aggregated.py`, with Go and etcd.

Go fetches and compiles it, which takes minutes where nothing else of its release was compiled before; therefore
`.ci/run` leaves it out. The expected answers are those of kube-apiserver 1.37 with the same program behind it.
"""

from __future__ import annotations

import json
import os
import shutil
import subprocess
from collections.abc import Iterator
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from tests.certificates import CN, issue, new_authority
from tests.etcd import running
from tests.http import Connection, send
from tests.ports import free_port
from tests.releases import NEWEST
from tests.waiting import wait_until
from understudy import Server

pytestmark = pytest.mark.go

MODULE = "k8s.io/sample-apiserver@v0.37.2"
GROUP = "wardle.example.com"
FLUNDERS = f"/apis/{GROUP}/v1alpha1/namespaces/default/flunders"
FORBIDDEN = (
    f'flunders.{GROUP} is forbidden: User "alice" cannot list resource "flunders" in API group "{GROUP}" '
    'in the namespace "default"'
)


@pytest.fixture(scope="module")
def program(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return the compiled sample-apiserver."""
    go = shutil.which("go")
    if not go:
        pytest.skip("needs Go 1.26 or later on PATH")
    folder = tmp_path_factory.mktemp("bin")
    subprocess.run([go, "install", MODULE], env={**os.environ, "GOBIN": str(folder)}, check=True)
    return folder / "sample-apiserver"


class Cluster:
    """A server with the sample-apiserver behind it at a port."""

    def __init__(self, server: Server, kubectl: str, folder: Path, port: int) -> None:
        self.server, self.port = server, port
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

    def get(self, path: str, token: str, url: str = "") -> Any:
        """Return the answer to a user at a path, of the server or another one."""
        return send(url or self.server.url, "GET", path, headers={"Authorization": f"Bearer {token}"}).json()


@pytest.fixture(scope="module")
def cluster(program: Path, kubectl: str, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Cluster]:
    """Run a server, etcd and the sample-apiserver, which is registered for both of its versions."""
    folder, front = tmp_path_factory.mktemp("aggregated"), new_authority("front")
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
    with running(folder / "etcd") as etcd, server, (folder / "log").open("wb") as log:
        port, known = free_port(), server.kubeconfig
        asked = [f"--{name}kubeconfig={known}" for name in ("", "authentication-", "authorization-")]
        places = [f"--secure-port={port}", "--bind-address=127.0.0.1", f"--cert-dir={folder / 'certs'}"]
        process = subprocess.Popen([program, *places, *asked, f"--etcd-servers={etcd.url}"], stdout=log, stderr=log)
        try:
            cluster = Cluster(server, kubectl, folder, port)
            register(cluster)
            yield cluster
        finally:
            process.terminate()
            process.wait()


def register(cluster: Cluster) -> None:
    """Register the sample-apiserver, and wait until it is available."""
    cluster.kubectl("create", "namespace", "wardle")
    external = {"type": "ExternalName", "externalName": "localhost"}
    cluster.kubectl("create", "-f", "-", **named("v1", "Service", "api", spec=external, namespace="wardle"))
    names = [f"v1alpha1.{GROUP}", f"v1beta1.{GROUP}"]
    for priority, name in enumerate(names, 15):
        spec = {"group": GROUP, "version": name.partition(".")[0], "groupPriorityMinimum": 1000}
        place = {"name": "api", "namespace": "wardle", "port": cluster.port}
        spec |= {"versionPriority": priority, "insecureSkipTLSVerify": True, "service": place}
        cluster.kubectl("create", "-f", "-", **named("apiregistration.k8s.io/v1", "APIService", name, spec=spec))
    waited = ["wait", "--for=condition=Available", "--timeout=120s", *(f"apiservice/{name}" for name in names)]
    assert cluster.kubectl(*waited).count("condition met") == 2


def named(api_version: str, kind: str, name: str, namespace: str = "", **more: Any) -> dict[str, Any]:
    """Return an object."""
    metadata = {"name": name, **({"namespace": namespace} if namespace else {})}
    return {"apiVersion": api_version, "kind": kind, "metadata": metadata, **more}


def test_kubectl_reaches_the_kinds(cluster: Cluster) -> None:
    """kubectl lists the resources, creates, refuses unknown fields as the aggregated server does, watches and reads."""
    wait_until(lambda: cluster.kubectl("api-resources", f"--api-group={GROUP}"), lambda listed: "flunders" in listed)
    flunder = named(f"{GROUP}/v1alpha1", "Flunder", "a", spec={"reference": "x"}, namespace="default")
    created = cluster.kubectl("create", "-f", "-", **flunder)
    assert "Warning: wardle.example.com/v1alpha1 Flunder is deprecated" in created
    assert f"flunder.{GROUP}/a created" in created
    wrong = named(f"{GROUP}/v1alpha1", "Flunder", "b", spec={"nope": "x"}, namespace="default")
    assert 'strict decoding error: unknown field "spec.nope"' in cluster.kubectl("create", "-f", "-", **wrong)
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
