"""Users that tests make: their tokens, what they may do, and what they are found to have asked for."""

from __future__ import annotations

import json
import stat
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest
import yaml

from tests.http import send
from understudy import Server, StatusError
from understudy.apiserver.client.external.server_user import ServerUser

CONFIG_MAP = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "c", "namespace": "default"}}


@pytest.fixture
def server() -> Iterator[Server]:
    with Server(authorization_mode=["RBAC"], tls=False) as running:
        yield running


def bearer(user: ServerUser) -> dict[str, str]:
    return {"Authorization": f"Bearer {user.token}"}


def test_user_may_do_what_is_allowed(server: Server) -> None:
    """A user is refused what no role allows, and may do it once `allow` says so, in that namespace."""
    driver = server.user("driver", groups=["drivers"])
    with pytest.raises(StatusError, match='User "driver" cannot list resource "pods"'):
        driver.list("pods", "default")
    server.allow("driver", "list", "pods", namespace="default")
    assert driver.list("pods", "default") == []
    with pytest.raises(StatusError, match="at the cluster scope"):
        driver.list("pods")
    server.allow("driver", ["list"], ["pods", "/metrics"])
    assert driver.list("pods") == []


def test_user_logs_in_with_token_and_kubeconfig(server: Server) -> None:
    """The token and the kubeconfig of a user are good for any client, until the server stops."""
    driver = server.user("driver", groups=["drivers"])
    review = send(
        server, "POST", "/apis/authentication.k8s.io/v1/selfsubjectreviews", {}, headers=bearer(driver)
    ).json()
    assert review["status"]["userInfo"]["groups"] == ["drivers", "system:authenticated"]
    config = json.loads(driver.kubeconfig.read_text())
    assert config["users"][0]["user"]["token"] == driver.token
    assert config["clusters"][0]["cluster"]["server"] == server.url
    assert stat.S_IMODE(driver.kubeconfig.stat().st_mode) == 0o600
    server.__exit__()
    assert not driver.kubeconfig.exists()
    server.__enter__()


def test_service_account_is_in_its_groups(server: Server) -> None:
    """A user that is called as a service account is one, groups included."""
    robot = server.user("system:serviceaccount:default:robot")
    assert robot.groups == ("system:serviceaccounts", "system:serviceaccounts:default")


def test_permissions_of_user(server: Server) -> None:
    """The report has what a user asked for, over HTTP as well, and its role allows just that."""
    driver = server.user("driver")
    server.allow("driver", "*", "*")
    driver.apply(CONFIG_MAP)
    assert send(server, "GET", "/api/v1/namespaces/default/configmaps/c", headers=bearer(driver)).status == 200
    permissions = server.permissions("driver")
    assert list(map(str, permissions.used)) == [f"{verb} configmaps in default" for verb in ("create", "get", "patch")]
    assert permissions.refused == []
    assert permissions.role()["rules"] == [
        {"apiGroups": [""], "resources": ["configmaps"], "verbs": ["get", "create", "patch"]}
    ]


def test_roles_of_report_suffice(server: Server) -> None:
    """A user who gets the roles of a report may do what it is about, and nothing else."""
    server.allow("driver", "*", "*")
    driver, other = server.user("driver"), server.user("other")
    driver.apply(CONFIG_MAP)
    for manifest in server.permissions("driver").manifests():
        if "subjects" in manifest:
            manifest["subjects"][0]["name"] = "other"
        server.apply(manifest)
    other.apply(CONFIG_MAP)
    with pytest.raises(StatusError, match="cannot get"):
        other.get("configmaps", "c")


def test_permissions_of_server_that_allows_everything(apiserver: Server) -> None:
    """The report of a server that allows everything names the requests that RBAC would refuse."""
    driver = apiserver.user("driver")
    driver.apply(CONFIG_MAP)
    assert list(map(str, apiserver.permissions("driver").refused)) == [
        "create configmaps in default",
        "patch configmaps in default",
    ]
    apiserver.allow("driver", ["create", "patch"], "configmaps", namespace="default")
    assert apiserver.permissions("driver").refused == []


def test_requests_of_the_server_itself_are_not_noted(server: Server) -> None:
    """Requests that a test makes with `Server.apply`, and those of controllers, are in no report."""
    server.user("driver")
    server.apply(CONFIG_MAP)
    assert server.permissions("system:admin").used == server.permissions("system:apiserver").used == []


def test_reset_forgets_what_was_noted(server: Server) -> None:
    """A server that was reset has noted nothing."""
    driver = server.user("driver")
    server.allow("driver", "list", "pods")
    driver.list("pods")
    server.reset()
    assert server.permissions("driver").used == []


def test_nothing_is_noted_without_being_asked() -> None:
    """Without a user and without the option there is no report, rather than an empty one."""
    with Server() as running, pytest.raises(RuntimeError, match="nothing is noted"):
        running.permissions("driver")


CLAIM = {
    "apiVersion": "resource.k8s.io/v1",
    "kind": "ResourceClaim",
    "metadata": {"name": "gpu", "namespace": "default"},
    "spec": {"devices": {"requests": [{"name": "gpu", "exactly": {"deviceClassName": "gpu.example.com"}}]}},
}


def test_report_has_rights_behind_the_path(server: Server) -> None:
    """Rights that a request needs besides that for its path are noted too, those of drivers by name."""
    server.apply(CLAIM)
    server.allow(
        "driver", ["get", "patch"], ["resourceclaims.resource.k8s.io/status", "resourceclaims.resource.k8s.io/binding"]
    )
    driver = server.user("driver")
    result = {"request": "gpu", "driver": "d.example.com", "pool": "p", "device": "x"}
    path = "/apis/resource.k8s.io/v1/namespaces/default/resourceclaims/gpu/status"
    for status in (
        {"allocation": {"devices": {"results": [result]}}},
        {"devices": [{k: result[k] for k in ("driver", "pool", "device")}]},
    ):
        send(server, "PATCH", path, {"status": status}, headers=bearer(driver))
    permissions = server.permissions("driver")
    assert list(map(str, permissions.used)) == [
        "patch resourceclaims.resource.k8s.io/binding",
        "patch resourceclaims.resource.k8s.io/status in default",
    ]
    (refused,) = permissions.refused
    assert (str(refused), refused.names) == (
        "arbitrary-node:patch resourceclaims.resource.k8s.io/driver in default",
        ("d.example.com",),
    )


@pytest.mark.parametrize("suffix", [".yaml", ".json"])
def test_report_is_written_at_the_end(tmp_path: Path, suffix: str) -> None:
    """The report is a List of roles and bindings, with what each user asked for, in YAML or JSON."""
    path = tmp_path / f"report{suffix}"
    with Server(permission_report=path) as running:
        running.user("driver").list("pods")
        running.reset()
        send(running, "GET", "/api/v1/nodes")
        assert not path.exists()
    report = yaml.safe_load(path.read_text()) if suffix == ".yaml" else json.loads(path.read_text())
    assert report["kind"] == "List"
    assert [(obj["kind"], obj["metadata"]["name"]) for obj in report["items"]] == [
        ("ClusterRole", "driver"),
        ("ClusterRoleBinding", "driver"),
        ("ClusterRole", "system-admin"),
    ]
    assert report["permissions"][0] == {
        "user": "driver",
        "used": [{"verb": "list", "resource": "pods", "count": 1}],
        "refused": [{"verb": "list", "resource": "pods", "count": 1}],
    }


def test_report_is_applied_by_kubectl(kubectl: str, tmp_path: Path) -> None:
    """`kubectl apply -f` makes the roles of a report."""
    path = tmp_path / "report.yaml"
    with Server(permission_report=path) as running:
        running.user("driver").list("pods", "default")
    with Server() as running:
        command = [kubectl, "--kubeconfig", str(running.kubeconfig), "apply", "-f", str(path)]
        output = subprocess.run(command, capture_output=True, text=True, check=True).stdout
        assert output.splitlines() == [
            "role.rbac.authorization.k8s.io/driver created",
            "rolebinding.rbac.authorization.k8s.io/driver created",
        ]
        assert running.get("role", "driver")["rules"][0]["resources"] == ["pods"]


def test_report_needs_a_folder() -> None:
    """A file whose folder does not exist is refused before the server starts."""
    with pytest.raises(ValueError, match="there is no folder"):
        Server(permission_report="/nowhere/report.yaml")
