"""Audit events over HTTP: what a policy lets be logged, and what the events say."""

from __future__ import annotations

import base64
import json
import socket
import ssl
import threading
import urllib.error
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

import pytest

from tests.certificates import CN, SERVER, issue, new_authority
from tests.http import send
from understudy import Server, StatusError

POLICY = """
apiVersion: audit.k8s.io/v1
kind: Policy
omitStages: [RequestReceived]
rules:
- level: None
  users: ["system:apiserver"]
  resources: [{group: "", resources: [events]}]
- level: Metadata
  resources: [{group: "", resources: [secrets]}]
- level: Request
  omitManagedFields: true
  resources: [{group: "", resources: [services]}]
- level: RequestResponse
  omitManagedFields: true
  resources: [{group: "", resources: [serviceaccounts]}]
- level: RequestResponse
  omitStages: []
"""
CONFIG_MAP = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "a"}, "data": {"k": "<&>"}}
POD = {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "p"}}
SPEC = {"containers": [{"name": "c", "image": "i"}]}


@pytest.fixture(scope="module")
def running(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    policy = tmp_path_factory.mktemp("audit") / "policy.yaml"
    policy.write_text(POLICY)
    with Server(audit_policy_file=policy, authorization_mode="RBAC") as server:
        yield server


@pytest.fixture
def server(running: Server) -> Server:
    running.reset()
    return running


def authorization(server: Server) -> str:
    """Return the header that says that the administrator asks."""
    return f"Bearer {json.loads(server.kubeconfig.read_text())['users'][0]['user']['token']}"


def last(server: Server, **fields: str) -> Any:
    """Return the last event with some fields."""
    return [event for event in server.audit if all(event[name] == value for name, value in fields.items())][-1]


def test_event_of_a_write(server: Server) -> None:
    """At RequestResponse an event has both bodies, the user, what is asked for, and who has allowed it."""
    server.create(CONFIG_MAP)
    event = last(server, verb="create")
    assert [*event] == [
        *("kind", "apiVersion", "level", "auditID", "stage", "requestURI", "verb", "user", "sourceIPs", "userAgent"),
        *("objectRef", "responseStatus", "requestObject", "responseObject"),
        *("requestReceivedTimestamp", "stageTimestamp", "annotations"),
    ]
    assert (event["level"], event["stage"]) == ("RequestResponse", "ResponseComplete")
    assert event["requestURI"] == "/api/v1/namespaces/default/configmaps?fieldValidation=Strict"
    assert event["user"]["username"] == "system:apiserver"
    reference = {"resource": "configmaps", "namespace": "default", "name": "a", "apiVersion": "v1"}
    assert event["objectRef"] == reference
    assert event["responseStatus"] == {"metadata": {}, "code": 201}
    assert event["requestObject"] == {"kind": "ConfigMap", "apiVersion": "v1", **CONFIG_MAP}
    assert event["responseObject"]["metadata"]["managedFields"]
    assert event["annotations"] == {"authorization.k8s.io/decision": "allow", "authorization.k8s.io/reason": ""}


def test_levels_decide_what_is_logged(server: Server) -> None:
    """Metadata has no bodies, Request that of the request only; what no rule names is not logged."""
    server.create({"apiVersion": "v1", "kind": "Secret", "metadata": {"name": "s"}, "stringData": {"p": "w"}})
    secret = last(server, verb="create")
    assert secret["level"] == "Metadata"
    assert not {"requestObject", "responseObject"} & secret.keys()
    service = {"kind": "Service", "apiVersion": "v1", "metadata": {"name": "s"}, "spec": {"ports": [{"port": 80}]}}
    server.create(service)
    event = last(server, verb="create")
    assert event["requestObject"]["spec"]["ports"] == [{"protocol": "TCP", "port": 80, "targetPort": 80}]
    assert "responseObject" not in event
    before = len(server.audit)
    server.list("events")
    assert len(server.audit) == before


def test_managed_fields_are_left_out(server: Server) -> None:
    """A rule that omits managed fields does so in objects, lists and tables of its events; other rules log them."""
    managed = {"managedFields": [{"manager": "m", "operation": "Update"}], "name": "a"}
    server.create({"apiVersion": "v1", "kind": "ServiceAccount", "metadata": managed})
    create = last(server, verb="create")
    assert create["requestObject"]["metadata"] == {"name": "a"}
    assert create["responseObject"]["metadata"]["uid"]
    server.create({"apiVersion": "v1", "kind": "ServiceAccount", "metadata": {"name": "b", "labels": {"c": "d"}}})
    assert "managedFields" in json.dumps(server.list("serviceaccounts"))
    assert last(server, verb="list")["responseObject"]["items"]
    path = "/api/v1/namespaces/default/serviceaccounts?includeObject=Object"
    table = "application/json;as=Table;v=v1;g=meta.k8s.io"
    send(server, "GET", path, accept=table, headers={"Authorization": authorization(server)})
    assert last(server, verb="list")["responseObject"]["rows"]
    assert not [event for event in server.audit if "managedFields" in json.dumps(event)]
    server.create(CONFIG_MAP)
    assert "managedFields" in json.dumps(last(server, verb="create")["responseObject"])


def test_stages_of_requests(server: Server) -> None:
    """A watch has begun and is complete; a policy omits stages for all rules."""
    with server.watch("pods", timeout=5):
        assert [event["stage"] for event in server.audit if event["verb"] == "watch"] == ["ResponseStarted"]
    stages = [event["stage"] for event in server.audit if event["verb"] == "watch"]
    assert stages == ["ResponseStarted", "ResponseComplete"]


def test_errors_have_their_status(server: Server) -> None:
    """The status of an event is that of the answer; who was refused is annotated."""
    with pytest.raises(StatusError):
        server.get("configmaps", "nope")
    status = last(server, verb="get")["responseStatus"]
    assert status == {
        "metadata": {},
        "status": "Failure",
        "message": 'configmaps "nope" not found',
        "reason": "NotFound",
        "details": {"name": "nope", "kind": "configmaps"},
        "code": 404,
    }
    with pytest.raises(StatusError):
        server.user("ann").delete("pods", "p")
    refused = last(server, verb="delete")
    assert refused["user"]["username"] == "ann"
    assert refused["annotations"]["authorization.k8s.io/decision"] == "forbid"


def test_unauthenticated_requests_are_logged(server: Server) -> None:
    """A request with a wrong token is logged as an answer that begins, without a user, under the id that it gives."""
    url, headers = f"{server.url}/api/v1/pods", {"Authorization": "Bearer wrong", "Audit-ID": "mine"}
    request = urllib.request.Request(url, headers=headers)
    context = ssl._create_unverified_context()
    with pytest.raises(urllib.error.HTTPError) as refused:
        urllib.request.urlopen(request, context=context)
    assert refused.value.headers["Audit-Id"] == "mine"
    refused.value.close()
    [event] = [event for event in server.audit if event["auditID"] == "mine"]
    assert (event["stage"], event["user"], event["responseStatus"]["code"]) == ("ResponseStarted", {}, 401)
    assert event["sourceIPs"] == ["127.0.0.1"]


def test_impersonated_user_is_logged(server: Server) -> None:
    """An event names the user that asks, and for whom."""
    request = urllib.request.Request(
        f"{server.url}/api/v1/pods",
        headers={
            "Authorization": authorization(server),
            "Impersonate-User": "bob",
        },
    )
    with pytest.raises(urllib.error.HTTPError) as refused:
        urllib.request.urlopen(request, context=ssl._create_unverified_context())
    refused.value.close()
    event = last(server, verb="list")
    assert event["user"]["username"] == "system:admin"
    assert event["impersonatedUser"] == {"username": "bob", "groups": ["system:authenticated"]}


def test_patches_and_deletions(server: Server) -> None:
    """The object of a request is its patch, or its options."""
    server.create(CONFIG_MAP)
    server.patch("configmaps", "a", [{"op": "remove", "path": "/data/k"}])
    assert last(server, verb="patch")["requestObject"] == [{"op": "remove", "path": "/data/k"}]
    server.delete("configmaps", "a", propagation="Orphan")
    options = last(server, verb="delete")["requestObject"]
    assert options == {
        "kind": "DeleteOptions",
        "apiVersion": "meta.k8s.io/__internal",
        "propagationPolicy": "Orphan",
    }


def test_pod_security_is_annotated(server: Server) -> None:
    """Events tell of the enforced level, and of what the level of audits would refuse."""
    labels = {"pod-security.kubernetes.io/enforce": "baseline", "pod-security.kubernetes.io/audit": "restricted"}
    server.create({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "n", "labels": labels}})
    server.create({**POD, "metadata": {"name": "p", "namespace": "n"}, "spec": SPEC})
    annotations = last(server, verb="create")["annotations"]
    assert annotations["pod-security.kubernetes.io/enforce-policy"] == "baseline:latest"
    violations = annotations["pod-security.kubernetes.io/audit-violations"]
    assert violations.startswith('would violate PodSecurity "restricted:latest": allowPrivilegeEscalation != false')


def test_policies_are_annotated(server: Server) -> None:
    """The action Audit, and the annotations of a policy, stand in the event."""
    spec = {
        "matchConstraints": {
            "resourceRules": [
                {"apiGroups": [""], "apiVersions": ["v1"], "operations": ["CREATE"], "resources": ["configmaps"]}
            ]
        },
        "validations": [{"expression": "true"}, {"expression": "1 == 2", "message": "never"}],
        "auditAnnotations": [{"key": "name", "valueExpression": "string(object.metadata.name)"}],
    }
    api = {"apiVersion": "admissionregistration.k8s.io/v1"}
    binding = {"policyName": "p", "validationActions": ["Audit"]}
    server.apply(
        {**api, "kind": "ValidatingAdmissionPolicy", "metadata": {"name": "p"}, "spec": spec},
        {**api, "kind": "ValidatingAdmissionPolicyBinding", "metadata": {"name": "b"}, "spec": binding},
    )
    server.create(CONFIG_MAP)
    annotations = last(server, verb="create")["annotations"]
    assert annotations["p/name"] == "a"
    failure = {"message": "never", "policy": "p", "binding": "b", "expressionIndex": 1, "validationActions": ["Audit"]}
    assert json.loads(annotations["validation.policy.admission.k8s.io/validation_failure"]) == [failure]


def test_webhooks_are_annotated(server: Server) -> None:
    """Events tell which webhooks were asked, whether they changed the object, and how."""

    @server.webhook("configmaps", mutating=True)
    def adds(request: Any) -> Any:
        return [{"op": "add", "path": "/metadata/labels", "value": {"a": "b"}}]

    @server.webhook("configmaps")
    def tells(request: Any) -> Any:
        return {"allowed": True, "auditAnnotations": {"why": "so"}}

    server.create(CONFIG_MAP)
    annotations = last(server, verb="create")["annotations"]
    [mutation] = [json.loads(value) for key, value in annotations.items() if key.startswith("mutation.")]
    assert mutation["mutated"] is True
    assert mutation["configuration"] == "adds"
    patch = json.loads(annotations["patch.webhook.admission.k8s.io/round_0_index_0"])
    assert (patch["patchType"], patch["patch"][0]["op"]) == ("JSONPatch", "add")
    assert [value for key, value in annotations.items() if key.endswith("/why")] == ["so"]


def test_deprecated_versions_are_annotated(server: Server) -> None:
    """Events of deprecated versions say so, and which release has them no longer."""
    server.list("resourceslices.v1beta1.resource.k8s.io")
    assert last(server, verb="list")["annotations"]["k8s.io/deprecated"] == "true"


def test_stale_tokens_are_annotated(server: Server) -> None:
    """Events of a request with a pod's token from an hour ago say so."""
    server.create({"apiVersion": "v1", "kind": "ServiceAccount", "metadata": {"name": "sa"}})
    server.create({**POD, "spec": {**SPEC, "serviceAccountName": "sa"}})
    pod = {"kind": "Pod", "apiVersion": "v1", "name": "p"}
    review = {"spec": {"expirationSeconds": 3607, "boundObjectRef": pod}}
    path, headers = "/api/v1/namespaces/default/serviceaccounts/sa/token", {"Authorization": authorization(server)}
    answer = send(server, "POST", path, review, headers=headers)
    token = answer.json()["status"]["token"]
    server.clock.advance(hours=1, minutes=1)
    send(server, "GET", "/version", headers={"Authorization": f"Bearer {token}"})
    event = last(server, verb="get", requestURI="/version")
    told = event["annotations"]["authentication.k8s.io/stale-token"]
    assert told.startswith("subject: system:serviceaccount:default:sa, seconds after warning threshold: ")


def test_nothing_is_logged_without_a_policy(apiserver: Server) -> None:
    """A server without a policy has no events to show."""
    with pytest.raises(RuntimeError, match=r"^nothing is logged: start with audit_policy=.Metadata., or"):
        _ = apiserver.audit


@pytest.mark.parametrize("format_", ["json", "legacy"])
def test_log_is_written(tmp_path: Path, format_: str) -> None:
    """All events are in the file when the server has stopped, in either format."""
    policy, log = tmp_path / "policy.yaml", tmp_path / "logs" / "audit.log"
    policy.write_text("apiVersion: audit.k8s.io/v1\nkind: Policy\nrules: [{level: Metadata, verbs: [list]}]\n")
    with Server(audit_policy_file=policy, audit_log_path=log, audit_log_format=format_) as server:
        for _ in range(20):
            server.list("pods")
        events = server.audit
    lines = log.read_text().splitlines()
    assert len(lines) == len(events) == 40
    if format_ == "json":
        assert [json.loads(line) for line in lines] == events
    else:
        first = events[0]
        assert lines[0].startswith(first["requestReceivedTimestamp"][:19])
        assert f'AUDIT: id="{first["auditID"]}" stage="RequestReceived" ip="127.0.0.1" method="list"' in lines[0]
        assert lines[0].endswith('namespace="<none>" uri="/api/v1/pods" response="<deferred>"')
        assert lines[1].endswith('response="200"')


@contextmanager
def named_by_common_name(folder: Path) -> Iterator[tuple[int, str]]:
    """Serve TLS with a certificate that has no alternative names; yields the port, and its authority in base64."""
    authority = new_authority()
    holder = issue([(CN, "localhost")], authority, usages=(SERVER,))
    files = folder / "cert.pem", folder / "key.pem"
    files[0].write_bytes(holder.pem)
    files[1].write_bytes(holder.key_pem)
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(*files)

    def serve() -> None:
        while True:
            try:
                client, _ = listener.accept()
            except OSError:
                return
            with suppress(OSError), context.wrap_socket(client, server_side=True) as tls:
                tls.recv(1)

    with socket.create_server(("127.0.0.1", 0)) as listener:
        thread = threading.Thread(target=serve, daemon=True)
        thread.start()
        yield listener.getsockname()[1], base64.b64encode(authority.pem).decode()
        listener.shutdown(socket.SHUT_RDWR)
        thread.join()


def test_certificates_without_names_are_annotated(server: Server, tmp_path: Path) -> None:
    """A webhook whose certificate has only a common name cannot be asked; events name its host (`missing-san`)."""
    rule = {"apiGroups": [""], "apiVersions": ["v1"], "operations": ["CREATE"], "resources": ["configmaps"]}
    with named_by_common_name(tmp_path) as (port, bundle):
        hook = {
            "name": "h.example.com",
            "clientConfig": {"url": f"https://localhost:{port}/", "caBundle": bundle},
            "rules": [rule],
            "sideEffects": "None",
            "failurePolicy": "Ignore",
            "admissionReviewVersions": ["v1"],
        }
        kind = {"apiVersion": "admissionregistration.k8s.io/v1", "kind": "ValidatingWebhookConfiguration"}
        server.create({**kind, "metadata": {"name": "h"}, "webhooks": [hook]})
        server.create(CONFIG_MAP)
    annotations = last(server, verb="create")["annotations"]
    text = "relies on a legacy Common Name field instead of the SAN extension for subject validation"
    assert annotations["missing-san.invalid-cert.kubernetes.io/localhost"] == text
