"""The service account and the root authority that every namespace has: as kube-controller-manager 1.36 makes them."""

from __future__ import annotations

import base64
from pathlib import Path
from typing import Any

import pytest
import yaml

from tests.certificates import CN, SERVER, issue
from tests.waiting import wait_until
from understudy import Server, StatusError
from understudy.machinery.types import Obj

NAMES = ["serviceaccount-controller", "root-ca-cert-publisher"]
DESCRIPTION = "kubernetes.io/description"
pytestmark = pytest.mark.apiserver(controllers=["namespace", *NAMES])


def namespace(name: str) -> Obj:
    return {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": name}}


def stored(server: Server, kind: str, name: str, place: str) -> Obj | None:
    """Return an object, None if there is none."""
    try:
        return server.get(kind, name, place)
    except StatusError as why:
        if why.code != 404:
            raise
        return None


def account(server: Server, place: str) -> Obj:
    """Wait for the service account `default` of a namespace; return it."""
    return wait_until(lambda: stored(server, "serviceaccount", "default", place)) or {}


def root_ca(server: Server, place: str) -> Obj:
    """Wait for the ConfigMap of a namespace with the right data and a description; return it."""

    def is_good(obj: Obj | None) -> bool:
        return obj is not None and obj["data"] == {"ca.crt": ""} and DESCRIPTION in obj["metadata"]["annotations"]

    return wait_until(lambda: stored(server, "configmap", "kube-root-ca.crt", place), is_good) or {}


@pytest.mark.parametrize("place", ["default", "kube-system", "later"])
def test_every_namespace_has_both(apiserver: Server, place: str) -> None:
    """Namespaces that are there from the start and later ones get an account and the authority, with their managers."""
    apiserver.apply(namespace("later"))
    assert set(account(apiserver, place)) == {"apiVersion", "kind", "metadata"}
    published = root_ca(apiserver, place)
    assert published["metadata"]["annotations"][DESCRIPTION].startswith("Contains a CA bundle that can be used to ")
    [manager] = published["metadata"]["managedFields"]
    assert (manager["manager"], manager["operation"]) == ("kube-controller-manager", "Update")


def test_what_is_deleted_comes_back(apiserver: Server) -> None:
    """An account and an authority that somebody deletes are made anew."""
    before = account(apiserver, "default"), root_ca(apiserver, "default")
    apiserver.delete("serviceaccount", "default", "default")
    apiserver.delete("configmap", "kube-root-ca.crt", "default")
    after = account(apiserver, "default"), root_ca(apiserver, "default")
    assert all(new["metadata"]["uid"] != old["metadata"]["uid"] for new, old in zip(after, before, strict=True))


def test_changed_authority_is_mended(apiserver: Server) -> None:
    """Wrong data and a missing description are mended, and with them a description of one's own; labels stay."""
    published = root_ca(apiserver, "default")
    annotations = {DESCRIPTION: "mine", "a": "b"}
    changed = {
        "apiVersion": "v1",
        "kind": "ConfigMap",
        "metadata": {"name": "kube-root-ca.crt", "namespace": "default", "annotations": annotations},
    }
    apiserver.apply(changed)
    assert root_ca(apiserver, "default")["metadata"]["annotations"] == annotations
    apiserver.apply({**changed, "data": {"x": "y"}})
    mended = root_ca(apiserver, "default")
    assert mended["metadata"]["annotations"] == {**published["metadata"]["annotations"], "a": "b"}


def test_namespace_that_is_deleted_gets_nothing(apiserver: Server) -> None:
    """Objects that the namespace controller deletes are not made again, so the namespace goes."""
    apiserver.apply(namespace("a"))
    account(apiserver, "a")
    root_ca(apiserver, "a")
    apiserver.delete("namespace", "a")
    wait_until(lambda: stored(apiserver, "namespace", "a", "") is None)
    assert stored(apiserver, "serviceaccount", "default", "a") is None


def test_rights_of_the_controllers() -> None:
    """The roles that kube-controller-manager has are enough."""
    with Server(authorization_mode="RBAC", tls=False, controllers=[*NAMES, "namespace"]) as server:
        account(server, "default")
        root_ca(server, "default")
        server.apply(namespace("a"))
        server.delete("namespace", "a")
        wait_until(lambda: stored(server, "namespace", "a", "") is None)


@pytest.mark.parametrize("own", [False, True])
def test_authority_of_the_server(tmp_path: Path, own: bool) -> None:
    """Over HTTPS the authority is what clients have to trust; of a file that holds a key as well, only certificates."""
    file, holder = tmp_path / "server.pem", issue([(CN, "localhost")], usages=(SERVER,))
    file.write_bytes(holder.key_pem + holder.pem)
    files: dict[str, Any] = {"tls_cert_file": file, "tls_private_key_file": file} if own else {}
    with Server(tls=True, controllers=NAMES, **files) as server:
        published = wait_until(lambda: stored(server, "configmap", "kube-root-ca.crt", "default")) or {}
        trusted = yaml.safe_load(server.kubeconfig.read_text())["clusters"][0]["cluster"]["certificate-authority-data"]
    assert published["data"]["ca.crt"].encode() == base64.b64decode(trusted)
    assert "KEY" not in published["data"]["ca.crt"]
    if own:
        assert published["data"]["ca.crt"].encode() == holder.pem
