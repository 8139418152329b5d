"""The permission report: from what users ask for to the smallest roles that allow it."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import pytest

from understudy.apiserver.permissions.judge import Judge
from understudy.apiserver.permissions.log import MOST_TEXT, PermissionLog
from understudy.apiserver.permissions.report import Permission, PermissionReport, Permissions
from understudy.apiserver.permissions.resource_names import ResourceName
from understudy.apiserver.permissions.roles import role_name, role_with_binding
from understudy.machinery.auth.authorization import Attributes
from understudy.machinery.auth.users import AUTHENTICATED, MASTERS, User
from understudy.machinery.releases.features import Gates
from understudy.machinery.releases.version import V1_36
from understudy.machinery.types import Obj

DRIVER = User("driver", [AUTHENTICATED])
DRA = "resource.k8s.io"


class Stored:
    """Holds roles and bindings by resource."""

    def __init__(self, **objects: list[Obj]) -> None:
        self._objects = objects

    def stored(self, group: str, resource: str) -> Sequence[Obj]:
        return self._objects.get(resource, [])

    def on_change(self, group: str, resource: str, call: Callable[[], None]) -> None:
        raise AssertionError("a judge decides once")


def ask(verb: str, resource: str, namespace: str = "", name: str = "", group: str = "") -> Attributes:
    resource, _, subresource = resource.partition("/")
    return Attributes("", verb, True, group, "v1", namespace, resource, subresource, name)


def permissions(
    *actions: Attributes,
    refused: Sequence[Attributes] = (),
    user: User = DRIVER,
    allows_everything: bool = False,
    stored: Stored | None = None,
) -> Permissions:
    log = PermissionLog(on=True)
    for action in actions:
        log.note(user, action, allowed=True)
    for action in refused:
        log.note(user, action, allowed=False)
    judge = Judge(stored or Stored(), V1_36, Gates.of(V1_36))
    return PermissionReport(log, judge, allows_everything=allows_everything).of(user.name)


def test_report_holds_no_more_than_it_has_room_for(caplog: pytest.LogCaptureFixture) -> None:
    """Note nothing new once names fill the report, say so once, and count what is missed."""
    notes = PermissionLog(on=True)
    long = [str(number) * (MOST_TEXT // 8) for number in range(1, 10)]
    for name in long:
        notes.note(DRIVER, ask("get", "pods", name=name), allowed=True)
    for number in range(3):
        notes.note(User(long[number], []), ask("list", long[number]), allowed=False)
    (note,) = notes.users["driver"].allowed.values()
    assert (note.count, len(note.names), list(notes.users)) == (9, 7, ["driver"])
    report = PermissionReport(notes, Judge(Stored(), V1_36, Gates.of(V1_36)), allows_everything=False)
    assert report.list()["missed"] == 5
    assert [record.message for record in caplog.records] == [
        "the permission report is full: nothing new is noted in it"
    ]
    notes.clear()
    notes.note(User(long[0], []), ask("list", "pods"), allowed=True)
    assert (notes.missed, list(notes.users)) == (0, [long[0]])


def test_what_was_asked_is_listed_once() -> None:
    """List a question about several objects as one permission, with their names and a count."""
    report = permissions(ask("get", "pods", "a", "x"), ask("get", "pods", "a", "y"), ask("get", "pods", "a", "x"))
    (used,) = report.used
    assert (used, used.names, used.count) == (Permission("get", "pods", "a"), ("x", "y"), 3)
    assert str(used) == "get pods in a"
    assert used.entry() == {"verb": "get", "resource": "pods", "namespace": "a", "names": ["x", "y"], "count": 3}


def test_role_of_one_namespace() -> None:
    """The rights used in one namespace become a Role, in which resources with the same verbs share a rule."""
    report = permissions(
        ask("watch", "pods", "a"),
        ask("list", "pods", "a"),
        ask("list", "configmaps", "a"),
        ask("watch", "configmaps", "a"),
        ask("update", "resourceclaims/status", "a", "c", DRA),
        refused=[ask("delete", "pods", "a", "x")],
    )
    assert report.role() == {
        "apiVersion": "rbac.authorization.k8s.io/v1",
        "kind": "Role",
        "metadata": {"name": "driver", "namespace": "a"},
        "rules": [
            {"apiGroups": [""], "resources": ["configmaps", "pods"], "verbs": ["list", "watch"]},
            {"apiGroups": [DRA], "resources": ["resourceclaims/status"], "verbs": ["update"]},
        ],
    }
    assert report.refused == [Permission("delete", "pods", "a")]


def test_role_of_several_namespaces() -> None:
    """Rights used in several namespaces become one ClusterRole, or a role for each of them."""
    report = permissions(
        ask("get", "pods", "a"), ask("get", "pods", "b"), ask("list", "nodes"), Attributes("/metrics", "get")
    )
    assert report.role()["kind"] == "ClusterRole"
    assert report.role()["rules"] == [
        {"apiGroups": [""], "resources": ["nodes"], "verbs": ["list"]},
        {"apiGroups": [""], "resources": ["pods"], "verbs": ["get"]},
        {"nonResourceURLs": ["/metrics"], "verbs": ["get"]},
    ]
    kinds = [(obj["kind"], obj["metadata"].get("namespace")) for obj in report.manifests()]
    assert kinds == [
        ("ClusterRole", None),
        ("ClusterRoleBinding", None),
        ("Role", "a"),
        ("RoleBinding", "a"),
        ("Role", "b"),
        ("RoleBinding", "b"),
    ]


def test_what_is_allowed_everywhere_is_in_no_role_of_a_namespace() -> None:
    """A verb that the ClusterRole has is not repeated for a namespace."""
    manifests = permissions(ask("list", "pods"), ask("list", "pods", "a")).manifests()
    assert [obj["kind"] for obj in manifests] == ["ClusterRole", "ClusterRoleBinding"]


def test_rules_name_what_is_no_object() -> None:
    """Signers and drivers are named in rules, objects are not."""
    report = permissions(
        ask("approve", "signers", name="example.com/s", group="certificates.k8s.io"),
        ask("arbitrary-node:update", "resourceclaims/driver", name="gpu.example.com", group=DRA),
        ask("get", "pods", name="x"),
    )
    assert [rule.get("resourceNames") for rule in report.role()["rules"]] == [
        None,
        ["example.com/s"],
        ["gpu.example.com"],
    ]


def test_discovery_is_in_no_role() -> None:
    """Rights that every user has by the bootstrap policy are in no role of the report."""
    review = ask("create", "selfsubjectaccessreviews", group="authorization.k8s.io")
    report = permissions(Attributes("/apis", "get"), Attributes("/version", "get"), review)
    assert len(report.used) == 3
    assert report.role()["rules"] == report.manifests() == []


GRANTED = Stored(
    roles=[
        {
            "metadata": {"name": "r", "namespace": "a"},
            "rules": [{"apiGroups": [""], "resources": ["pods"], "verbs": ["get"]}],
        }
    ],
    rolebindings=[
        {
            "metadata": {"name": "r", "namespace": "a"},
            "roleRef": {"kind": "Role", "name": "r"},
            "subjects": [{"kind": "User", "name": "driver"}],
        }
    ],
)


def test_refusals_of_a_server_that_allows_everything() -> None:
    """The refusals in the report are those that RBAC would have made with the stored roles if everything is allowed."""
    actions = [ask("get", "pods", "a"), ask("list", "pods", "a"), Attributes("/version", "get")]
    report = permissions(*actions, allows_everything=True, stored=GRANTED)
    assert len(report.used) == 3
    assert report.refused == [Permission("list", "pods", "a")]
    assert permissions(*actions, allows_everything=True, user=User("root", [MASTERS])).refused == []


def test_administrators_get_roles_without_bindings() -> None:
    """A program that ran as an administrator gets the roles that it would need as somebody else."""
    manifests = permissions(ask("list", "pods"), user=User("system:admin", [MASTERS])).manifests()
    assert [(obj["kind"], obj["metadata"]["name"]) for obj in manifests] == [("ClusterRole", "system-admin")]


@pytest.mark.parametrize(
    ("user", "name", "subject"),
    [
        ("driver", "driver", {"apiGroup": "rbac.authorization.k8s.io", "kind": "User", "name": "driver"}),
        (
            "system:serviceaccount:ns:robot",
            "ns-robot",
            {"kind": "ServiceAccount", "name": "robot", "namespace": "ns"},
        ),
        ("admin", "user-admin", {"apiGroup": "rbac.authorization.k8s.io", "kind": "User", "name": "admin"}),
        ("oidc:a/b", "oidc-a-b", {"apiGroup": "rbac.authorization.k8s.io", "kind": "User", "name": "oidc:a/b"}),
    ],
)
def test_roles_are_named_after_users(user: str, name: str, subject: Obj) -> None:
    """A role is called as its user is, and bound to a service account as such."""
    assert role_name(user) == name
    role, binding = role_with_binding(user, ["get"], ["pods"], "")
    assert role["metadata"]["name"].startswith(f"{name}-")
    assert binding["subjects"] == [subject]
    assert binding["roleRef"]["name"] == role["metadata"]["name"]


@pytest.mark.parametrize(
    ("text", "parsed"),
    [
        ("pods", ("", "pods")),
        ("pods/status", ("", "pods/status")),
        ("deployments.apps", ("apps", "deployments")),
        ("resourceclaims.resource.k8s.io/status", (DRA, "resourceclaims/status")),
        ("resourceclaims/status.resource.k8s.io", (DRA, "resourceclaims/status")),
    ],
)
def test_resources_as_people_write_them(text: str, parsed: tuple[str, str]) -> None:
    """A group stands behind the resource, or behind its subresource."""
    assert ResourceName.parse(text) == parsed
    assert ResourceName.parse(str(ResourceName.parse(text))) == parsed


def test_rules_of_allow() -> None:
    """Resources of one group share a rule, paths have one of their own, and a star is every group."""
    (role, _) = role_with_binding("u", ["get"], ["pods", "nodes", "deployments.apps", "*", "/metrics"], "")
    assert role["rules"] == [
        {"apiGroups": [""], "resources": ["pods", "nodes"], "verbs": ["get"]},
        {"apiGroups": ["apps"], "resources": ["deployments"], "verbs": ["get"]},
        {"apiGroups": ["*"], "resources": ["*"], "verbs": ["get"]},
        {"nonResourceURLs": ["/metrics"], "verbs": ["get"]},
    ]
