"""A server with `--authorization-mode=RBAC`: the answers of kube-apiserver 1.32.5 and 1.36.4."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.http import Response, send
from tests.waiting import wait_until
from understudy import Server, StatusError
from understudy.machinery.types import Obj

RBAC = "/apis/rbac.authorization.k8s.io/v1"
TOKENS = """\
root,root,1,system:masters
ann,ann,2,dev
bob,bob,3
"""


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    tokens = tmp_path_factory.mktemp("tokens") / "tokens.csv"
    tokens.write_text(TOKENS)
    with Server(authorization_mode=["RBAC"], token_auth_file=tokens, tls=False) as running:
        running.apply(
            role("reader", {"apiGroups": [""], "resources": ["pods"], "verbs": ["get", "list"]}),
            role("roles", {"apiGroups": ["rbac.authorization.k8s.io"], "resources": ["*"], "verbs": ["create", "get"]}),
            binding("devs", "reader", {"kind": "Group", "name": "dev"}),
            binding("robots", "reader", {"kind": "ServiceAccount", "name": "robot"}),
            binding("bob-late", "late", {"kind": "User", "name": "bob"}),
            binding("ann-roles", "roles", {"kind": "User", "name": "ann"}),
        )
        yield running


def role(name: str, *rules: dict[str, Any]) -> dict[str, Any]:
    head: Obj = {"apiVersion": "rbac.authorization.k8s.io/v1", "kind": "Role"}
    return {**head, "metadata": {"name": name, "namespace": "default"}, "rules": list(rules)}


def binding(name: str, of: str, *subjects: dict[str, Any]) -> dict[str, Any]:
    head: Obj = {"apiVersion": "rbac.authorization.k8s.io/v1", "kind": "RoleBinding"}
    reference = {"apiGroup": "rbac.authorization.k8s.io", "kind": "Role", "name": of}
    return {
        **head,
        "metadata": {"name": name, "namespace": "default"},
        "roleRef": reference,
        "subjects": list(subjects),
    }


def ask(server: Server, user: str, method: str, path: str, body: Any = None) -> Response:
    """Send a request with a user's token, or without one."""
    headers = {"Authorization": f"Bearer {user}"} if user else {}
    return send(server, method, path, body, headers=headers)


HERE = "/api/v1/namespaces/default/pods"
CORE, IN = 'in API group ""', 'in the namespace "default"'
PODS = f'resource "pods" {CORE}'
LATE = 'rbac: RBAC: role.rbac.authorization.k8s.io "late" not found'


@pytest.mark.parametrize(
    ("user", "method", "path", "message"),
    [
        ("ann", "GET", "/api/v1/pods", f'pods is forbidden: User "ann" cannot list {PODS} at the cluster scope'),
        ("ann", "DELETE", HERE, f'pods is forbidden: User "ann" cannot deletecollection {PODS} {IN}'),
        ("ann", "GET", f"{HERE}?watch=1", f'pods is forbidden: User "ann" cannot watch {PODS} {IN}'),
        (
            "ann",
            "GET",
            f"{HERE}/a/log",
            f'pods "a" is forbidden: User "ann" cannot get resource "pods/log" {CORE} {IN}',
        ),
        ("bob", "GET", HERE, f'pods is forbidden: User "bob" cannot list {PODS} {IN}: {LATE}'),
        (
            "ann",
            "POST",
            "/apis/none.example.com/v1/things",
            'things.none.example.com is forbidden: User "ann" cannot create resource "things" in API group '
            '"none.example.com" at the cluster scope',
        ),
        ("ann", "GET", "/metrics", 'forbidden: User "ann" cannot get path "/metrics"'),
        ("", "GET", "/apis", 'forbidden: User "system:anonymous" cannot get path "/apis"'),
    ],
)
def test_forbidden(server: Server, user: str, method: str, path: str, message: str) -> None:
    """Requests that no role allows are refused before the object is looked for; a missing role is named."""
    answer = ask(server, user, method, path)
    assert (answer.status, answer.json()["message"]) == (403, message)


@pytest.mark.parametrize(
    ("user", "path", "status"),
    [
        ("root", "/api/v1/secrets", 200),
        ("ann", "/api/v1/namespaces/default/pods", 200),
        ("ann", "/api/v1/namespaces/default/pods/absent", 404),
        ("ann", "/apis", 200),
        ("", "/readyz", 200),
        ("unknown", "/readyz", 401),
    ],
)
def test_allowed(server: Server, user: str, path: str, status: int) -> None:
    """Roles, bootstrap roles and the group system:masters allow requests; a wrong token is refused anyway."""
    assert ask(server, user, "GET", path).status == status


@pytest.mark.parametrize(
    ("user", "groups", "reason"),
    [
        ("ann", [], None),
        ("ann", ["dev"], 'RBAC: allowed by RoleBinding "devs/default" of Role "reader" to Group "dev"'),
        (
            "system:serviceaccount:default:robot",
            [],
            'RBAC: allowed by RoleBinding "robots/default" of Role "reader" to ServiceAccount "robot/default"',
        ),
    ],
)
def test_review_gives_the_reason(server: Server, user: str, groups: list[str], reason: str | None) -> None:
    """A SubjectAccessReview is answered with the binding that allows it."""
    asked = {"namespace": "default", "verb": "get", "resource": "pods"}
    body = {"spec": {"user": user, "groups": groups, "resourceAttributes": asked}}
    review = {"apiVersion": "authorization.k8s.io/v1", "kind": "SubjectAccessReview", **body}
    status = ask(server, "root", "POST", "/apis/authorization.k8s.io/v1/subjectaccessreviews", review).json()["status"]
    assert status == ({"allowed": True, "reason": reason} if reason else {"allowed": False})


def test_decisions_follow_writes(server: Server) -> None:
    """A role takes effect with the write that stores it, and ends with its deletion."""
    path = "/api/v1/namespaces/default/pods"
    server.apply(role("late", {"apiGroups": [""], "resources": ["pods"], "verbs": ["list"]}))
    assert ask(server, "bob", "GET", path).status == 200
    server.delete("Role", "late")
    assert ask(server, "bob", "GET", path).status == 403


ESCALATES = (
    'roles.rbac.authorization.k8s.io "more" is forbidden: user "ann" (groups=["dev" "system:authenticated"]) is '
    "attempting to grant RBAC permissions not currently held:\n"
    '{APIGroups:[""], Resources:["secrets"], Verbs:["get" "list"]}'
)


@pytest.mark.parametrize(
    ("obj", "status", "message"),
    [
        (role("same", {"apiGroups": [""], "resources": ["pods"], "verbs": ["get"]}), 201, None),
        (role("more", {"apiGroups": [""], "resources": ["pods", "secrets"], "verbs": ["get", "list"]}), 403, ESCALATES),
        (binding("own", "reader"), 201, None),
        (binding("none", "absent"), 404, 'rolebindings.rbac.authorization.k8s.io "absent" not found'),
    ],
)
def test_nobody_grants_what_they_do_not_hold(
    server: Server, obj: dict[str, Any], status: int, message: str | None
) -> None:
    """Roles and bindings are refused that give more than their writer has."""
    answer = ask(server, "ann", "POST", f"{RBAC}/namespaces/default/{obj['kind'].lower()}s", obj)
    assert (answer.status, answer.json().get("message")) == (status, message)


@pytest.mark.parametrize(("release", "resource"), [("1.31", "roles"), ("1.32", "rolebindings")])
def test_missing_role_is_called_by_the_resource_of_the_request(release: str, resource: str) -> None:
    """A binding to a role that does not exist is 404, which names its own resource since 1.32."""
    with Server(emulated_version=release, authorization_mode="RBAC", tls=False) as server:
        server.allow("ann", "*", "rolebindings.rbac.authorization.k8s.io")
        with pytest.raises(StatusError, match=f'{resource}.rbac.authorization.k8s.io "absent" not found'):
            server.user("ann").apply(binding("none", "absent", {"kind": "User", "name": "bob"}))


def test_update_that_creates_needs_create(server: Server) -> None:
    """A PUT of an object that is missing is judged again, as a create."""
    rules = {"apiGroups": ["coordination.k8s.io"], "resources": ["leases"], "verbs": ["update"]}
    server.apply(role("leases", rules), binding("bob-leases", "leases", {"kind": "User", "name": "bob"}))
    lease = {"apiVersion": "coordination.k8s.io/v1", "kind": "Lease", "metadata": {"name": "a"}, "spec": {}}
    path = "/apis/coordination.k8s.io/v1/namespaces/default/leases/a"
    answer = ask(server, "bob", "PUT", path, lease)
    assert answer.status == 403
    assert 'cannot create resource "leases"' in answer.json()["message"]


def test_anonymous_auth_off(tmp_path: Path) -> None:
    """Without anonymous requests a token is needed for everything."""
    tokens = tmp_path / "tokens.csv"
    tokens.write_text(TOKENS)
    with Server(authorization_mode="RBAC", token_auth_file=tokens, tls=False, anonymous_auth=False) as server:
        assert ask(server, "", "GET", "/readyz").status == 401
        assert ask(server, "ann", "GET", "/readyz").status == 200


def test_kubeconfig_without_token_file_is_an_administrators() -> None:
    """A server with RBAC and without a token file writes a kubeconfig with a token of system:masters."""
    with Server(authorization_mode="RBAC", tls=False) as server:
        token = json.loads(server.kubeconfig.read_text())["users"][0]["user"]["token"]
        assert ask(server, token, "GET", "/api/v1/secrets").status == 200
        assert ask(server, "", "GET", "/api/v1/secrets").status == 403


def test_always_deny() -> None:
    """AlwaysDeny refuses everybody but members of system:masters."""
    with Server(authorization_mode="AlwaysDeny", tls=False) as server:
        answer = ask(server, "", "GET", "/version")
        text = 'forbidden: User "system:anonymous" cannot get path "/version": alwaysdeny: Everything is forbidden.'
        assert (answer.status, answer.json()["message"]) == (403, text)
        assert server.list("namespaces")


@pytest.mark.parametrize(
    ("modes", "message"),
    [
        ([], "at least one authorization-mode must be passed"),
        (["Rbac"], "authorization-mode \"Rbac\" is not a valid mode; did you mean 'RBAC'?"),
        (["ABAC"], "authorization-mode ABAC's authorization policy file not passed"),
        (["RBAC", "RBAC"], 'authorization-mode ["RBAC" "RBAC"] has mode specified more than once'),
    ],
)
def test_wrong_modes(modes: list[str], message: str) -> None:
    """Modes that make no sense are refused when the server is made."""
    with pytest.raises(ValueError, match=f"^{re.escape(message)}$"):
        Server(authorization_mode=modes)


def test_aggregated_roles_are_filled_in() -> None:
    """The controller clusterrole-aggregation gives `view` the rules of the roles that it selects, later ones too."""
    with Server(authorization_mode="RBAC", tls=False, controllers=["clusterrole-aggregation"]) as server:
        rule = {"apiGroups": ["example.com"], "resources": ["widgets"], "verbs": ["get"]}
        labels = {"rbac.authorization.k8s.io/aggregate-to-view": "true"}
        head: Obj = {"apiVersion": "rbac.authorization.k8s.io/v1", "kind": "ClusterRole"}
        server.apply({**head, "metadata": {"name": "widgets", "labels": labels}, "rules": [rule]})
        view = wait_until(lambda: server.get("ClusterRole", "view"), lambda role: rule in (role["rules"] or []))
        assert len(view["rules"]) > 5
        assert view["metadata"]["managedFields"][0]["manager"] == "clusterrole-aggregation-controller"
