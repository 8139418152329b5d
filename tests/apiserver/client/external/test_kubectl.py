"""Calls of kubectl by the methods of a server and of its users."""

from __future__ import annotations

import subprocess

import pytest

from understudy import KubectlError, Server

CONFIG_MAP = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "a"}}


def test_input_is_an_object_or_a_text(apiserver: Server, kubectl: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """kubectl reads `stdin`, an object or a text; the text that it prints is returned."""
    monkeypatch.setenv("KUBECTL", kubectl)
    assert apiserver.kubectl("apply", "-f", "-", stdin=CONFIG_MAP).stdout == "configmap/a created\n"
    text = "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: a}\n"
    assert apiserver.kubectl("apply", "-f", "-", stdin=text).stdout == "configmap/a unchanged\n"
    assert apiserver.get("configmaps", "a")["metadata"]["managedFields"][0]["manager"] == "kubectl-client-side-apply"


def test_failure_raises_the_message_of_kubectl(
    apiserver: Server, kubectl: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """An exit code other than 0 is an error that says what kubectl said, or is returned if it is not checked."""
    monkeypatch.setenv("KUBECTL", kubectl)
    with pytest.raises(KubectlError) as failure:
        apiserver.kubectl("get", "podz")
    assert str(failure.value) == 'kubectl get podz: error: the server doesn\'t have a resource type "podz"'
    assert failure.value.returncode == 1
    assert apiserver.kubectl("get", "podz", check=False).stderr == failure.value.stderr


@pytest.mark.apiserver(authorization_mode="RBAC")
def test_users_call_kubectl(apiserver: Server, kubectl: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """kubectl asks as the user of whom the method is, and as an administrator for a server."""
    monkeypatch.setenv("KUBECTL", kubectl)
    ann = apiserver.user("ann")
    apiserver.allow("ann", "get", "configmaps", namespace="default")
    with pytest.raises(KubectlError, match='User "ann" cannot list resource "pods"'):
        ann.kubectl("get", "pods")
    assert apiserver.kubectl("get", "namespaces", "-o", "name").stdout.startswith("namespace/default\n")


@pytest.mark.apiserver(tls=True)
def test_nobody_is_asked_for_a_user_name(apiserver: Server, kubectl: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """The kubeconfig of a server with HTTPS has a token, even if it needs none: else kubectl asks for a user's name."""
    monkeypatch.setenv("KUBECTL", kubectl)
    assert "Kubernetes" in apiserver.kubectl("cluster-info").stdout


def test_user_needs_https(apiserver: Server, kubectl: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Over plain HTTP kubectl would leave out the token of a user and ask as an administrator."""
    monkeypatch.setenv("KUBECTL", kubectl)
    with pytest.raises(RuntimeError, match=r"^kubectl sends tokens over HTTPS only: start the server with tls=True$"):
        apiserver.user("ann").kubectl("get", "pods")


def test_missing_kubectl_is_told(apiserver: Server, monkeypatch: pytest.MonkeyPatch) -> None:
    """Without a kubectl on the machine the error says where it comes from."""
    monkeypatch.setenv("KUBECTL", "/nowhere/kubectl")
    with pytest.raises(FileNotFoundError, match=r"^there is no /nowhere/kubectl: install kubectl \(https://kub"):
        apiserver.kubectl("get", "pods")


def test_waiting_ends(apiserver: Server, kubectl: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """A command that goes on, as a watch does, is ended after a while."""
    monkeypatch.setenv("KUBECTL", kubectl)
    with pytest.raises(subprocess.TimeoutExpired):
        apiserver.kubectl("get", "pods", "--watch", timeout=0.01)
