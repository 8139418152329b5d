"""`understudy record`: what it writes of a cluster, and that a server begins with it."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml

from tests.waiting import wait_until
from understudy import Server, StatusError
from understudy.cli import main as cli
from understudy.controlplane.recorder.cleaning import cleaned

MORE = """
apiVersion: apiextensions.k8s.io/v1
kind: CustomResourceDefinition
metadata: {name: widgets.example.com}
spec:
  group: example.com
  scope: Namespaced
  names: {plural: widgets, singular: widget, kind: Widget}
  versions:
  - name: v1
    served: true
    storage: true
    schema: {openAPIV3Schema: {type: object, x-kubernetes-preserve-unknown-fields: true}}
---
{apiVersion: example.com/v1, kind: Widget, metadata: {name: w, namespace: ml}, spec: {a: "yes", b: "1e3", c: "0x1"}}
---
{apiVersion: v1, kind: Secret, metadata: {name: s, namespace: ml}, stringData: {password: hunter2}}
---
{apiVersion: v1, kind: Service, metadata: {name: svc, namespace: ml}, spec: {clusterIP: 10.0.0.77, ports: [{port: 80}]}}
---
apiVersion: batch/v1
kind: Job
metadata: {name: j, namespace: ml}
spec: {template: {spec: {restartPolicy: Never, containers: [{name: c, image: i}]}}}
---
{apiVersion: v1, kind: ConfigMap, metadata: {name: elsewhere, namespace: default}}
"""


@pytest.fixture(scope="module")
def cluster() -> Iterator[Server]:
    """A cluster in which claims are allocated, and belong to pods that are scheduled."""
    with Server(load=["gpu-cluster", MORE], controllers=["scheduler", "resourceclaim"]) as server:
        wait_until(lambda: server.list("pods"), lambda pods: all("nodeName" in pod["spec"] for pod in pods))
        yield server


def recorded(server: Server, file: Path, *flags: str) -> list[dict[str, Any]]:
    assert cli.main(["record", "--kubeconfig", server.kubeconfig, "-o", str(file), *flags]) == 0
    return list(yaml.safe_load_all(file.read_text()))


def test_server_begins_with_what_was_recorded(
    cluster: Server, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """A new server has the same objects with their status; owners and consumers have their new uids."""
    objects = recorded(cluster, tmp_path / "world.yaml")
    assert capsys.readouterr().err == f"understudy: {len(objects)} objects, without 1 Secret\n"
    assert "hunter2" not in (tmp_path / "world.yaml").read_text()
    with Server(load=[tmp_path / "world.yaml"]) as again:
        for kind in ("resourceslices", "deviceclasses", "resourceclaims", "pods", "jobs", "widgets"):
            before, after = ([unlinked(obj) for obj in server.list(kind)] for server in (cluster, again))
            assert before == after
            assert before
        claims = {claim["metadata"]["name"]: claim for claim in again.list("resourceclaims")}
        pods = {pod["metadata"]["name"]: pod["metadata"]["uid"] for pod in again.list("pods")}
        consumers = {each["name"]: each["uid"] for claim in claims.values() for each in claim["status"]["reservedFor"]}
        assert consumers == pods
        owners = [owner for claim in claims.values() for owner in claim["metadata"].get("ownerReferences", ())]
        assert [owner["uid"] for owner in owners] == [pods["train"]]
        assert {pod["metadata"]["uid"] for pod in cluster.list("pods")}.isdisjoint(pods.values())


def unlinked(obj: dict[str, Any]) -> dict[str, Any]:
    """Return an object without what every server sets anew, uids included."""
    return without_uids(cleaned(obj))  # type: ignore[no-any-return]


def without_uids(value: Any) -> Any:
    if isinstance(value, dict):
        return {name: without_uids(each) for name, each in value.items() if "uid" not in name}
    return [without_uids(each) for each in value] if isinstance(value, list) else value


def test_server_records_itself(cluster: Server, tmp_path: Path) -> None:
    """`Server.record` writes what the command does of the same server, and asks unnoticed."""
    by_command = recorded(
        cluster, tmp_path / "command.yaml", "-n", "ml", "--kinds", "Pod,resourceclaims.resource.k8s.io"
    )
    asked, cluster.manifest_folder = len(cluster.requests), tmp_path
    text = cluster.record("method.yaml", namespaces="ml", kinds=["pods", "ResourceClaim"])
    assert (len(cluster.requests), (tmp_path / "method.yaml").read_text()) == (asked, text)
    assert [*yaml.safe_load_all(text)] == by_command
    assert {obj["kind"] for obj in by_command} == {"Pod", "ResourceClaim"}
    with Server(load=[cluster.record()]) as again:
        assert again.list("widgets") != []
        assert (tmp_path / "command.yaml").read_text() == cluster.record(
            namespaces=["ml"], kinds=["Pod", "ResourceClaim"]
        )


@pytest.mark.parametrize(
    ("kind", "hint"),
    [("Podz", "; did you mean 'Pod'?"), ("leases", ""), ("deployments.app", "; did you mean 'Deployment'?")],
)
def test_kind_that_is_not_recorded_is_an_error(
    cluster: Server, kind: str, hint: str, capsys: pytest.CaptureFixture[str]
) -> None:
    """A misspelt kind, and one that servers make by themselves, is an error: else the world would lack it silently."""
    with pytest.raises(ValueError, match=re.escape(f"objects of kind {kind!r} are not recorded{hint}") + "$"):
        cluster.record(kinds=["nodes", kind])
    assert cli.main(["record", "--kubeconfig", cluster.kubeconfig, "--kinds", kind]) == 2
    assert capsys.readouterr() == ("", f"understudy: objects of kind {kind!r} are not recorded{hint}\n")


def test_namespace_that_does_not_exist_is_an_error(cluster: Server, capsys: pytest.CaptureFixture[str]) -> None:
    """A misspelt namespace is an error; one that the user may not read is taken for one that exists."""
    with pytest.raises(StatusError, match='namespaces "mll" not found'):
        cluster.record(namespaces=["ml", "mll"])
    assert cli.main(["record", "--kubeconfig", cluster.kubeconfig, "-n", "mll"]) == 2
    assert capsys.readouterr() == ("", 'understudy: namespaces "mll" not found\n')


def test_empty_server_is_recorded() -> None:
    """A world without objects can be loaded as well."""
    with Server() as server:
        world = server.record()
    assert re.fullmatch(r"# Recorded from Kubernetes v1\.\d+\.\d+: 0 objects\.\n", world)
    with Server(load=[world]) as again:
        assert again.record() == world


def test_recording_holds_nothing_that_a_server_sets(cluster: Server, tmp_path: Path) -> None:
    """Neither fields that a server sets are recorded nor objects that every server has; namespaces and kinds choose."""
    objects = recorded(cluster, tmp_path / "world.yaml", "-n", "ml")
    names = {(obj["kind"], obj["metadata"]["name"]) for obj in objects}
    assert {("Widget", "w"), ("Node", "node-1"), ("Namespace", "ml")} <= names
    assert names.isdisjoint({("ConfigMap", "elsewhere"), ("Namespace", "default"), ("ClusterRole", "admin")})
    assert not any({"resourceVersion", "managedFields"} & set(obj["metadata"]) for obj in objects)
    [service] = [obj for obj in objects if obj["kind"] == "Service"]
    assert "clusterIP" not in service["spec"]
    kinds = recorded(cluster, tmp_path / "few.yaml", "--kinds", "ResourceSlice,nodes")
    assert {obj["kind"] for obj in kinds} == {"Node", "ResourceSlice"}


def test_what_may_not_be_read_is_said(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Kinds that the user may not list are named, the others are recorded, and the exit code is 1."""
    with Server(authorization_mode=["RBAC"], load=["two-node-gpus"]) as server:
        alice = server.user("alice")
        server.allow("alice", "list", "nodes")
        flags = ["--kubeconfig", alice.kubeconfig, "--namespace", "default", "--kinds", "Node,Pod"]
        assert cli.main(["record", *flags]) == 1
    out, err = capsys.readouterr()
    assert [obj["metadata"]["name"] for obj in yaml.safe_load_all(out)] == ["node-1", "node-2"]
    line = 'not recorded: pods: pods is forbidden: User "alice" cannot list resource "pods"'
    assert f"\n# {line}" in out
    assert f"understudy: {line}" in err


@pytest.mark.parametrize(
    ("flags", "says"),
    [
        (["--kubeconfig", "absent"], "absent: No such file or directory"),
        (["--kubeconfig", "CONFIG", "--context", "prd"], "has no context 'prd'; did you mean 'prod'?"),
        (["--kubeconfig", "CONFIG"], "logs in by exec, which is not supported: `kubectl proxy` does it"),
        (["--server", "http://127.0.0.1:1"], "127.0.0.1:1"),
        (["--server", "http://127.0.0.1:1", "--context", "prod"], "name either a server or a context of a kubeconfig"),
    ],
)
def test_mistakes_are_one_line(flags: list[str], says: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """A kubeconfig, context or server that cannot be used is one line, with exit code 2."""
    config = {
        "current-context": "prod",
        "clusters": [{"name": "c", "cluster": {"server": "https://127.0.0.1:1"}}],
        "contexts": [{"name": "prod", "context": {"cluster": "c", "user": "u"}}],
        "users": [{"name": "u", "user": {"exec": {"command": "login"}}}],
    }
    (file := tmp_path / "config").write_text(yaml.safe_dump(config))
    assert cli.main(["record", *(str(file) if flag == "CONFIG" else flag for flag in flags)]) == 2
    out, err = capsys.readouterr()
    assert (out, err.count("\n")) == ("", 1)
    assert says in err
