"""Tokens that are bound to configurations of webhooks, and the gate that allows them."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

import pytest

from tests.http import exchange, send
from understudy import Server

ACCOUNT = "/api/v1/namespaces/default/serviceaccounts/sa"
CONFIGURATIONS = "/apis/admissionregistration.k8s.io/v1/validatingwebhookconfigurations"
REVIEWS = "/apis/authentication.k8s.io/v1/tokenreviews"
RBAC = "/apis/rbac.authorization.k8s.io/v1"
GATE = "APIServerWebhookAuthenticationToken"
URL, SERVICE = "https://hook.example.com/path", "https://s.n.svc:8443/review"
BOUND = {"apiVersion": "admissionregistration.k8s.io/v1", "kind": "ValidatingWebhookConfiguration", "name": "v"}
GROUPS = "admissionReviewAPIGroups"
ONE = "webhook bound requests require exactly one admissionReviewAPIGroups attestation"
ELSEWHERE = "attestations may only be specified with a webhook bound object reference"


def webhook(name: str, client: Mapping[str, Any], groups: list[str]) -> Mapping[str, Any]:
    rule = {"apiGroups": groups, "apiVersions": ["v1"], "operations": ["CREATE"], "resources": ["nothings"]}
    return {
        "name": name,
        "clientConfig": client,
        "rules": [rule],
        "sideEffects": "None",
        "admissionReviewVersions": ["v1"],
    }


WEBHOOKS = [
    webhook("a.example.com", {"url": URL}, ["apps"]),
    webhook("b.example.com", {"service": {"name": "s", "namespace": "n", "port": 8443, "path": "/review"}}, ["*"]),
]


def filled(server: Server) -> Server:
    """Return the server with an account that may attest for two groups, and a configuration of webhooks.

    Who sends no credentials may do everything."""
    everybody = {"apiGroup": "rbac.authorization.k8s.io", "kind": "Group", "name": "system:unauthenticated"}
    role = {"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": "cluster-admin"}
    binding = {"metadata": {"name": "all"}, "roleRef": role, "subjects": [everybody]}
    server.apply({"apiVersion": "rbac.authorization.k8s.io/v1", "kind": "ClusterRoleBinding", **binding})
    create(server, "/api/v1/namespaces/default/serviceaccounts", {"metadata": {"name": "sa"}})
    create(server, CONFIGURATIONS, {"metadata": {"name": "v"}, "webhooks": WEBHOOKS})
    names = ["apps", "batch", "*"]
    rule = {"apiGroups": ["authentication.k8s.io"], "resources": [GROUPS], "resourceNames": names, "verbs": ["attest"]}
    create(server, f"{RBAC}/clusterroles", {"metadata": {"name": "attest"}, "rules": [rule]})
    role = {"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": "attest"}
    subject = {"kind": "ServiceAccount", "name": "sa", "namespace": "default"}
    binding = {"metadata": {"name": "attest"}, "roleRef": role, "subjects": [subject]}
    create(server, f"{RBAC}/clusterrolebindings", binding)
    return server


def create(server: Server, path: str, obj: Mapping[str, Any]) -> Any:
    response = send(server, "POST", path, obj)
    assert response.status == 201, response.body
    return response.json()


@pytest.fixture(scope="module")
def server() -> Iterator[Server]:
    with Server(emulated_version="1.37", authorization_mode="RBAC", feature_gates={GATE: True}, tls=False) as running:
        yield filled(running)


def ask(server: Server, attested: Any, audiences: list[str] | None = None, **bound: Any) -> tuple[int, Any]:
    """Ask for a token that is bound to a configuration; return the status and the answer."""
    spec = {"audiences": audiences or [URL], "boundObjectRef": {**BOUND, **bound}, "attestations": attested}
    return exchange(server, "POST", f"{ACCOUNT}/token", {"spec": spec})


INVALID = [
    pytest.param(None, f"spec.attestations: Invalid value: null: {ONE}", id="none"),
    pytest.param({}, f"spec.attestations: Invalid value: {{}}: {ONE}", id="empty"),
    pytest.param(
        {GROUPS: ["apps"], "a": ["b"]},
        f'spec.attestations: Invalid value: {{"a":["b"],"{GROUPS}":["apps"]}}: {ONE}',
        id="two",
    ),
    pytest.param(
        {"a": ["b"]}, f'spec.attestations[a]: Unsupported value: "a": supported values: "{GROUPS}"', id="unknown"
    ),
    pytest.param(
        {GROUPS: []}, f"spec.attestations[{GROUPS}]: Invalid value: []: must specify a single value", id="no value"
    ),
    pytest.param(
        {GROUPS: None}, f"spec.attestations[{GROUPS}]: Invalid value: null: must specify a single value", id="null"
    ),
    pytest.param(
        {GROUPS: ["a", "b"]},
        f'spec.attestations[{GROUPS}]: Invalid value: ["a","b"]: must specify a single value',
        id="two values",
    ),
    pytest.param(
        {GROUPS: [""]},
        f'spec.attestations[{GROUPS}][0]: Invalid value: "": may not be an empty string',
        id="the core group",
    ),
    pytest.param(
        {GROUPS: ["A"]},
        f'spec.attestations[{GROUPS}][0]: Invalid value: "A": must specify a valid API Group: a lowercase RFC 1123 '
        "subdomain must consist of lower case alphanumeric characters, '-' or '.', and must start and end with an "
        "alphanumeric character (e.g. 'example.com', regex used for validation is "
        "'[a-z0-9]([-a-z0-9]*[a-z0-9])?(\\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*')",
        id="no group",
    ),
]


@pytest.mark.parametrize(("attested", "error"), INVALID)
def test_attestations_are_validated(server: Server, attested: Any, error: str) -> None:
    """A token that is bound to webhooks attests for one API group."""
    status, answer = ask(server, attested)
    assert (status, answer["message"]) == (422, f'TokenRequest.authentication.k8s.io "" is invalid: {error}')


def test_attestations_need_a_configuration(server: Server) -> None:
    """Attestations of a token that is bound to no webhooks are the only error that is reported."""
    spec = {"attestations": {GROUPS: ["apps"]}, "expirationSeconds": 1}
    status, answer = exchange(server, "POST", f"{ACCOUNT}/token", {"spec": spec})
    (cause,) = answer["details"]["causes"]
    assert (status, cause["field"]) == (422, "spec.attestations")
    assert cause["message"] == f'Invalid value: {{"{GROUPS}":["apps"]}}: {ELSEWHERE}'


def test_one_audience(server: Server) -> None:
    """A token that is bound to webhooks is for one audience, which is not this server."""
    status, answer = ask(server, {GROUPS: ["apps"]}, ["a", "b"])
    (cause,) = answer["details"]["causes"]
    message = 'Invalid value: ["a","b"]: must be length 1 when bound to a webhook config'
    assert (status, cause["message"]) == (422, message)
    status, answer = ask(server, {GROUPS: ["apps"]}, ["https://kubernetes.default.svc"])
    assert (status, answer["message"]) == (400, "api server audiences are invalid for webhook token requests")


def test_the_account_needs_the_permission_to_attest(server: Server) -> None:
    """An account that may not attest for a group is told so."""
    status, answer = ask(server, {GROUPS: ["policy"]}, [SERVICE])
    assert (status, answer["message"]) == (
        403,
        f'{GROUPS}.authentication.k8s.io "policy" is forbidden: User "system:serviceaccount:default:sa" cannot attest '
        f'resource "{GROUPS}" in API group "authentication.k8s.io" at the cluster scope',
    )


ISSUED = [
    pytest.param("apps", URL, "v", True, id="by URL"),
    pytest.param("batch", SERVICE, "v", True, id="by service"),
    pytest.param("*", "anything", "v", True, id="for all groups"),
    pytest.param("batch", URL, "v", False, id="no rule about the group"),
    pytest.param("apps", "https://s.n.svc:443/review", "v", False, id="another port"),
    pytest.param("*", URL, "missing", False, id="no configuration"),
]


@pytest.mark.parametrize(("group", "audience", "name", "issued"), ISSUED)
def test_webhook_must_match(server: Server, group: str, audience: str, name: str, issued: bool) -> None:
    """A token is issued if one webhook has both the audience and the group; for others nothing tells what differs."""
    status, answer = ask(server, {GROUPS: [group]}, [audience], name=name)
    if issued:
        assert (status, answer["spec"]["attestations"]) == (201, {GROUPS: [group]})
    else:
        assert (status, answer["message"]) == (403, 'serviceaccounts/token "sa" is forbidden: token request denied')


def test_uid_of_the_configuration(server: Server) -> None:
    """A reference with another uid than its configuration is a conflict."""
    status, answer = ask(server, {GROUPS: ["apps"]}, uid="other")
    assert (status, answer["reason"]) == (409, "Conflict")


def test_token_is_reviewed() -> None:
    """A token lives for ten minutes at most, tells what it is bound to, and ends with that and with the gate."""
    with Server(emulated_version="1.37", authorization_mode="RBAC", feature_gates={GATE: True}, tls=False) as server:
        filled(server)
        answer = ask(server, {GROUPS: ["apps"]})[1]
        assert answer["spec"]["expirationSeconds"] == 600
        review = {"spec": {"token": answer["status"]["token"], "audiences": [URL]}}
        uid = send(server, "GET", f"{CONFIGURATIONS}/v").json()["metadata"]["uid"]
        extra = create(server, REVIEWS, review)["status"]["user"]["extra"]
        assert extra.pop("authentication.kubernetes.io/credential-id")
        assert extra == {
            "authentication.kubernetes.io/validatingwebhookconfiguration-name": ["v"],
            "authentication.kubernetes.io/validatingwebhookconfiguration-uid": [uid],
            f"attestation.authentication.kubernetes.io/{GROUPS}": ["apps"],
        }

        def refused() -> str:
            return str(create(server, REVIEWS, review)["status"]["error"])

        server.set_feature_gates({GATE: False})
        disabled = f'feature gate "{GATE}" is disabled, but token is webhook bound'
        assert refused() == f"[invalid bearer token, {disabled}]"
        server.set_feature_gates({GATE: True})
        send(server, "DELETE", f"{CONFIGURATIONS}/v")
        assert refused() == "[invalid bearer token, service account token has been invalidated]"
        new = create(server, CONFIGURATIONS, {"metadata": {"name": "v"}})["metadata"]["uid"]
        kind = "ValidatingWebhookConfiguration"
        other = f"{kind} UID ({new}) does not match service account validating ref claim ({uid})"
        assert refused() == f"[invalid bearer token, {other}]"


def test_gate_is_off() -> None:
    """Without the gate a valid request is refused for it, and an invalid one for what is wrong."""
    with Server(emulated_version="1.37", tls=False) as server:
        create(server, "/api/v1/namespaces/default/serviceaccounts", {"metadata": {"name": "sa"}})
        status, answer = ask(server, {GROUPS: ["apps"]})
        why = f"admissionregistration.k8s.io/v1, Kind=ValidatingWebhookConfiguration (feature gate {GATE} is disabled)"
        assert (status, answer["message"]) == (400, f"cannot bind token to object of type {why}")
        assert ask(server, None)[0] == 422


@pytest.mark.parametrize(
    ("bound", "gvk"),
    [({}, "/, Kind="), ({**BOUND, "apiVersion": "a/b/c"}, "/, Kind=ValidatingWebhookConfiguration")],
    ids=["empty", "no apiVersion"],
)
@pytest.mark.parametrize("release", ["1.36", "1.37"])
def test_unknown_kinds_are_refused(release: str, bound: Mapping[str, Any], gvk: str) -> None:
    """A token cannot be bound to what has no kind; a text that is no apiVersion counts as none."""
    with Server(emulated_version=release, tls=False) as server:
        create(server, "/api/v1/namespaces/default/serviceaccounts", {"metadata": {"name": "sa"}})
        status, answer = exchange(server, "POST", f"{ACCOUNT}/token", {"spec": {"boundObjectRef": bound}})
        assert (status, answer["message"]) == (400, f"cannot bind token to object of type {gvk}")
