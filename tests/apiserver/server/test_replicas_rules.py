"""Rules that are written at one of the servers on an etcd are in force at another for requests that follow a read.

A kube-apiserver learns of them by informers, some time after the write. Here a server that has answered a consistent
read knows everything that was written before it, its rules too.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.etcd import running
from tests.http import send
from tests.waiting import wait_until
from understudy import Server, StatusError
from understudy.machinery.types import Obj

MAPS = "/api/v1/namespaces/default/configmaps"
MAP_RULE = {"apiGroups": [""], "apiVersions": ["v1"], "operations": ["CREATE"], "resources": ["configmaps"]}
ADMISSION, RBAC = "admissionregistration.k8s.io/v1", "rbac.authorization.k8s.io/v1"
ADMIN, GUEST = ({"Authorization": f"Bearer {user}"} for user in ("admin", "guest"))
ROUNDS = 5  # of writing a rule and taking it back: what is late is late in most of them


@pytest.fixture(scope="module")
def servers(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[Server, Server]]:
    """Return the server where rules are written, and the one where they have to be in force."""
    folder: Path = tmp_path_factory.mktemp("etcd")
    tokens = folder / "tokens.csv"
    tokens.write_text('admin,admin,1,"system:masters"\nguest,guest,2,""\n')
    with running(folder) as etcd:
        place: Any = {"etcd_servers": etcd.url, "authorization_mode": "RBAC", "token_auth_file": tokens, "tls": False}
        with Server(**place) as one, Server(**place) as other:
            yield one, other


def create_map(server: Server, name: str) -> tuple[int, str]:
    """Try to create a config map without storing it; return the status and the message of the answer."""
    body = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": name}}
    answer = send(server, "POST", f"{MAPS}?dryRun=All", body, headers=ADMIN)
    return answer.status, answer.json().get("message", "")


def policy(expression: str) -> tuple[Obj, Obj]:
    """Return a policy about config maps, and its binding."""
    spec = {
        "matchConstraints": {"resourceRules": [MAP_RULE]},
        "validations": [{"expression": expression, "message": "the policy says no"}],
    }
    binding = {"policyName": "p", "validationActions": ["Deny"]}
    return (
        {"apiVersion": ADMISSION, "kind": "ValidatingAdmissionPolicy", "metadata": {"name": "p"}, "spec": spec},
        {
            "apiVersion": ADMISSION,
            "kind": "ValidatingAdmissionPolicyBinding",
            "metadata": {"name": "b"},
            "spec": binding,
        },
    )


def test_policy_is_in_force_everywhere(servers: tuple[Server, Server]) -> None:
    """A policy of one server refuses requests at the other, which has read its binding, and no more once it is gone."""
    one, other = servers
    for _ in range(ROUNDS):
        one.create(policy("false")[0])
        one.create(policy("false")[1])
        other.get("validatingadmissionpolicybindings", "b")
        assert create_map(other, "m") == (422, 'configmaps "m" is forbidden: ValidatingAdmissionPolicy \'p\' with '
                                               "binding 'b' denied request: the policy says no")  # fmt: skip
        one.patch("validatingadmissionpolicies", "p", {"spec": policy("true")[0]["spec"]})
        other.get("validatingadmissionpolicies", "p")
        assert create_map(other, "m")[0] == 201
        one.delete("validatingadmissionpolicybindings", "b")
        one.delete("validatingadmissionpolicies", "p")


def test_webhook_is_in_force_everywhere(servers: tuple[Server, Server]) -> None:
    """A webhook of one server is called by the other, which has read it, and no more once it is deleted."""
    one, other = servers
    nowhere = {"url": "https://127.0.0.1:1/nowhere"}
    hook = {
        "name": "hook.example.com",
        "admissionReviewVersions": ["v1"],
        "sideEffects": "None",
        "clientConfig": nowhere,
        "rules": [MAP_RULE],
    }
    configuration = {"apiVersion": ADMISSION, "kind": "ValidatingWebhookConfiguration", "metadata": {"name": "w"}}
    for _ in range(ROUNDS):
        one.create({**configuration, "webhooks": [hook]})
        other.list("validatingwebhookconfigurations")
        status, message = create_map(other, "m")
        assert (status, 'failed calling webhook "hook.example.com"' in message) == (500, True)
        one.delete("validatingwebhookconfigurations", "w")
        assert other.list("validatingwebhookconfigurations") == []
        assert create_map(other, "m")[0] == 201


def test_role_is_in_force_everywhere(servers: tuple[Server, Server]) -> None:
    """A role of one server lets a user in at the other, which has read its binding, and no more once it is deleted."""
    one, other = servers
    role = {
        "apiVersion": RBAC,
        "kind": "Role",
        "metadata": {"name": "reader", "namespace": "default"},
        "rules": [{"apiGroups": [""], "resources": ["configmaps"], "verbs": ["list"]}],
    }
    binding = {
        "apiVersion": RBAC,
        "kind": "RoleBinding",
        "metadata": {"name": "guest", "namespace": "default"},
        "roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": "Role", "name": "reader"},
        "subjects": [{"apiGroup": "rbac.authorization.k8s.io", "kind": "User", "name": "guest"}],
    }

    def status() -> int:
        return send(other, "GET", MAPS, headers=GUEST).status

    one.create(role)
    for _ in range(ROUNDS):
        one.create(binding)
        other.get("rolebindings", "guest", namespace="default")
        assert status() == 200
        one.delete("rolebindings", "guest", namespace="default")
        with pytest.raises(StatusError, match="not found"):
            other.get("rolebindings", "guest", namespace="default")
        assert status() == 403


def test_definition_is_changed_everywhere(servers: tuple[Server, Server]) -> None:
    """The schema that one server gives a custom resource holds at the other, which has read the definition."""
    one, other = servers
    path = "/apis/example.com/v1/namespaces/default/widgets"
    version = {"name": "v1", "served": True, "storage": True, "schema": {"openAPIV3Schema": {"type": "object"}}}
    names = {"plural": "widgets", "singular": "widget", "kind": "Widget"}
    one.create(
        {
            "apiVersion": "apiextensions.k8s.io/v1",
            "kind": "CustomResourceDefinition",
            "metadata": {"name": "widgets.example.com"},
            "spec": {"group": "example.com", "scope": "Namespaced", "names": names, "versions": [version]},
        }
    )
    wait_until(lambda: send(other, "GET", path, headers=ADMIN).status, lambda status: status == 200)
    widget: Obj = {"apiVersion": "example.com/v1", "kind": "Widget", "metadata": {"name": "w"}, "size": 1}
    for size in range(ROUNDS):
        schema = {"type": "object", "properties": {"size": {"type": "integer", "maximum": size}}}
        versions = [{**version, "schema": {"openAPIV3Schema": schema}}]
        one.patch("customresourcedefinitions", "widgets.example.com", {"spec": {"versions": versions}})
        other.get("customresourcedefinitions", "widgets.example.com")
        answers = [
            send(other, "POST", f"{path}?dryRun=All", {**widget, "size": sent}, headers=ADMIN).status
            for sent in (size + 1, size)
        ]
        assert answers == [422, 201]
