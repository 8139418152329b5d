"""The stories of `compare access`: servers that ask others who may do what, and what they are asked then.

In flags, files and bodies {{dir}} is the folder with the files of the story, {{hook}} the address of the webhook,
{{refused}} one at which nothing listens, {{ca}} the certificate (base64) that vouches for the webhook.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

from scripts.common.comparing import Obj
from scripts.compare.cases.webhook_server import Answer

TOKENS = 'admintoken,admin,admin,"system:masters"\nalicetoken,alice,u-1,"devs,<&>"\nbobtoken,bob,u-2\nnametoken,Ⓤ,\n'
REVIEWS = "/apis/authorization.k8s.io/v1"
MAPS = "/api/v1/namespaces/default/configmaps"


class Ask(NamedTuple):
    """A request, with the token of a user; None sends none.

    certificate  the file in the folder of the story with the certificate that is shown, without its end; "" for none
    more         headers that may be there several times
    """

    method: str
    path: str
    body: Any = None
    token: str | None = "alicetoken"
    headers: Mapping[str, str] = {}
    media: str = "application/json"
    certificate: str = ""
    more: Sequence[tuple[str, str]] = ()


class Hook(NamedTuple):
    """The answer of the webhook from now on: the status of a review, or any other answer."""

    status: Any = None
    answer: Answer | None = None
    path: str = "/authz"


class Story(NamedTuple):
    """Steps that are taken with a server that is started for them.

    steps     Ask, Hook, and those of `configuration_stories`
    options   flags of the server, by their names in Python
    files     their content by name
    releases  of which there is a recording
    hooks     what the webhook answers from before the server starts, by path
    """

    options: Mapping[str, str]
    steps: Sequence[Any]
    files: Mapping[str, str] = {}
    releases: Sequence[str] = ("1.32", "1.36", "1.37")
    hooks: Mapping[str, str] = {}


def kubeconfig(server: str, **user: Any) -> str:
    """Return a kubeconfig of the webhook."""
    cluster = {"server": server, "certificate-authority-data": "{{ca}}"}
    content = {
        "apiVersion": "v1",
        "kind": "Config",
        "clusters": [{"name": "c", "cluster": cluster}],
        "users": [{"name": "u", "user": user}],
        "contexts": [{"name": "x", "context": {"cluster": "c", "user": "u"}}],
        "current-context": "x",
    }
    return json.dumps(content)


def review(status: Any, version: str = "v1", kind: str = "SubjectAccessReview", group: str = "authorization") -> Answer:
    """Return the answer that is a review with a status."""
    body = {"apiVersion": f"{group}.k8s.io/{version}", "kind": kind, "status": status}
    return Answer(review=False, raw=json.dumps(body))


def plain(**fields: Any) -> Hook:
    """Return any answer of the webhook."""
    return Hook(answer=Answer(review=False, **fields))


ALLOWED, REFUSED = {"allowed": True}, {"allowed": False, "reason": 'not "you" <&>'}
DENIED = {"allowed": False, "denied": True, "reason": "never"}
AUTHORIZED, UNAUTHORIZED = (f"authorization_webhook_cache_{kind}_ttl" for kind in ("authorized", "unauthorized"))
FILE = "authorization_webhook_config_file"
WEBHOOK = {
    "authorization_mode": "Webhook",
    FILE: "{{dir}}/hook.kubeconfig",
    "authorization_webhook_version": "v1",
    AUTHORIZED: "0s",
    UNAUTHORIZED: "0s",
}
FILES = {"hook.kubeconfig": kubeconfig("https://{{hook}}/authz", token="secret")}


def config_map(name: str, **metadata: Any) -> Obj:
    """Return a ConfigMap."""
    return {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": name, **metadata}}


def posted(kind: str, spec: Obj) -> Ask:
    """Return the request of an access review."""
    return Ask(
        "POST", f"{REVIEWS}/{kind.lower()}s", {"apiVersion": "authorization.k8s.io/v1", "kind": kind, "spec": spec}
    )


def of_carol(**resource: Any) -> Ask:
    """Return a review of what another user may do."""
    spec = {"user": "carol", "groups": ["g"], "resourceAttributes": {"resource": "pods", **resource}}
    return posted("SubjectAccessReview", spec)


_FIELDS = "metadata.name%3Da,metadata.namespace!%3Db"
_OWNER = {"apiVersion": "v1", "kind": "Pod", "name": "p", "uid": "u", "blockOwnerDeletion": True}
_AS_CAROL = {"Impersonate-User": "carol", "Impersonate-Group": "g", "Impersonate-Extra-A%2Fb": "c"}
_PATH = {"path": "/x", "verb": "get"}
_EVERYTHING = {"user": "carol", "uid": "1", "groups": ["g"], "extra": {"k": ["v"]}, "nonResourceAttributes": _PATH}
_STATUS = json.dumps({"kind": "Status", "apiVersion": "v1", "status": "Failure", "message": "m", "code": 403})
_ROLE = {
    "apiVersion": "rbac.authorization.k8s.io/v1",
    "kind": "ClusterRole",
    "metadata": {"name": "r"},
    "rules": [{"verbs": ["get"], "apiGroups": [""], "resources": ["pods"]}],
}
_LABEL_SELECTOR = {
    "requirements": [
        {"key": "a", "operator": "In", "values": ["b", "c"]},
        {"key": "d", "operator": "DoesNotExist"},
        {"key": "e", "operator": "Odd", "values": ["f"]},
    ]
}
_FIELD_SELECTOR = {
    "requirements": [
        {"key": "spec.nodeName", "operator": "NotIn", "values": ["n"]},
        {"key": "x", "operator": "In", "values": ["y", "z"]},
    ]
}
_RAW = of_carol(verb="watch", labelSelector={"rawSelector": "z in (b,a),!y,w!=v,u"})
_ME = posted("SelfSubjectAccessReview", {"resourceAttributes": {"verb": "get", "resource": "nodes"}})
_RULES = posted("SelfSubjectRulesReview", {"namespace": "default"})
_POLICY = {"apiVersion": "abac.authorization.kubernetes.io/v1beta1", "kind": "Policy"}
POLICIES = (
    {**_POLICY, "spec": {"user": "alice", "namespace": "default", "resource": "configmaps"}},
    {**_POLICY, "spec": {"group": "devs", "readonly": True, "nonResourcePath": "/healthz*"}},
    {**_POLICY, "spec": {"user": "alice", "group": "others", "namespace": "*", "resource": "*", "apiGroup": "*"}},
    {**_POLICY, "spec": {"user": "*", "readonly": True, "nonResourcePath": "/version"}},
    {"user": "bob", "readonly": True},
    {"user": "bob", "resource": "secrets", "namespace": "n"},
    {"user": "\u24ca", "resource": "pods"},
)
_ACTING = {"as": "jane", "as-uid": "7", "as-groups": ["a", "b"], "as-user-extra": {"x/y%": ["1", "2"]}}
LIST, PAGE = Ask("GET", MAPS), Ask("GET", "/version")
# What the webhook is asked for requests of all kinds.
ASKED: Sequence[Ask | Hook] = (
    Hook(ALLOWED),
    Ask("GET", "/api/v1/nodes"),
    PAGE,
    Ask("GET", "/nowhere/<&>"),
    Ask("GET", MAPS, token="bobtoken"),
    Ask("GET", MAPS, token="nametoken"),
    Ask("GET", "/version", token=None),
    Ask("GET", f"{MAPS}?labelSelector=z%20in%20(b,a),!y,w!%3Dv,u,t%3E1&fieldSelector={_FIELDS}"),
    Ask("GET", f"{MAPS}?labelSelector=%3D%3D"),
    Ask("POST", MAPS, config_map("a")),
    Ask("GET", f"{MAPS}/a"),
    Ask("PUT", f"{MAPS}/b", config_map("b")),
    Ask("PATCH", f"{MAPS}/a", {"data": {"a": "b"}}, media="application/merge-patch+json"),
    Ask("PUT", f"{MAPS}/a", config_map("a", ownerReferences=[_OWNER])),
    Ask("DELETE", f"{MAPS}/a?dryRun=All"),
    Ask("DELETE", f"{MAPS}?labelSelector=a%3Db"),
    Ask("GET", "/api/v1/nodes", headers=_AS_CAROL),
    _ME,
    posted("SubjectAccessReview", _EVERYTHING),
    of_carol(verb="list", labelSelector=_LABEL_SELECTOR, fieldSelector=_FIELD_SELECTOR),
    _RAW,
    _RULES,
    Ask("GET", "/api/v1/nodes", token="admintoken"),
)
# What is made of its answers.
ANSWERED: Sequence[Ask | Hook] = (
    *(Hook(REFUSED), Ask("GET", "/api/v1/nodes/n"), PAGE, _ME),
    *(Hook(DENIED), LIST, _ME),
    *(Hook({"allowed": True, "denied": True, "reason": "both"}), LIST, _ME),
    *(Hook({"allowed": True, "reason": "yes", "evaluationError": "e"}), PAGE),
    *(Hook(REFUSED), Ask("GET", "/api/v1/nodes", headers={"Impersonate-User": "carol"})),
    *(Hook({}), LIST),
    *(plain(status=400, raw="bad", headers={"Content-Type": "text/plain"}), LIST, PAGE),
    *(plain(status=403, raw="no", headers={"Content-Type": "text/plain"}), LIST),
    *(plain(status=404, raw="where"), Ask("POST", MAPS, config_map("c"))),
    *(plain(status=503, raw="busy"), LIST),
    *(plain(raw="not JSON {"), LIST),
    *(plain(raw=""), LIST),
    *(plain(raw='{"kind":"Pod","apiVersion":"v1"}'), LIST),
    *(plain(raw='{"kind":"Odd","apiVersion":"example.com/v1"}'), LIST),
    *(plain(raw='{"status":{"allowed":true}}'), LIST),
    *(Hook(answer=review(ALLOWED, "v1beta1")), LIST),
    *(Hook({"allowed": "yes"}), LIST),
    *(plain(closes=True), LIST),
    *(plain(status=403, raw=_STATUS), LIST, _ME),
)

TOKEN_WEBHOOK = {
    "authentication_token_webhook_config_file": "{{dir}}/tokens.kubeconfig",
    "authentication_token_webhook_version": "v1",
    "authentication_token_webhook_cache_ttl": "1h",
    "authorization_mode": "RBAC",
}
TOKEN_FILES = {"tokens.kubeconfig": kubeconfig("https://{{hook}}/tokens", token="secret")}
SERVER = "https://kubernetes.default.svc"


def of_token(status: Any, version: str = "v1") -> Hook:
    """Return the answer of the webhook about a token."""
    return Hook(answer=review(status, version, "TokenReview", "authentication"), path="/tokens")


def broken(**fields: Any) -> Hook:
    """Return any answer of the webhook that knows tokens."""
    return Hook(answer=Answer(review=False, **fields), path="/tokens")


def asks(token: str) -> Ask:
    """Return a request that is answered with who has sent it."""
    body = {"apiVersion": "authentication.k8s.io/v1", "kind": "SelfSubjectReview"}
    return Ask("POST", "/apis/authentication.k8s.io/v1/selfsubjectreviews", body, token=token)


def reviewed(token: str, **spec: Any) -> Ask:
    """Return the review of a token."""
    body = {"apiVersion": "authentication.k8s.io/v1", "kind": "TokenReview", "spec": {"token": token, **spec}}
    return Ask("POST", "/apis/authentication.k8s.io/v1/tokenreviews", body, token="admintoken")


_CAROL = {"username": "carol", "uid": "7", "groups": ["g", "<&>"], "extra": {"k": ["v"]}}
_GOOD = {"authenticated": True, "user": _CAROL}
KNOWN: Sequence[Ask | Hook] = (
    *(of_token(_GOOD), asks("t1"), asks("t1"), Ask("GET", "/version", token="t1"), Ask("GET", MAPS, token="t1")),
    *(asks("alicetoken"), asks("admintoken"), Ask("GET", "/version", token=None)),
    *(reviewed("t2"), reviewed("t3", audiences=["other"]), reviewed("t4", audiences=[SERVER, "other"])),
    *(of_token({**_GOOD, "audiences": ["other"]}), asks("t5"), reviewed("t6", audiences=["x", "other"])),
    *(of_token({**_GOOD, "audiences": ["y", SERVER]}), asks("t7")),
    *(of_token({"authenticated": True}), asks("t8")),
)
UNKNOWN: Sequence[Ask | Hook] = (
    *(of_token({"authenticated": False}), asks("u1"), asks("u1"), reviewed("u1"), reviewed("u2"), reviewed("u2")),
    *(of_token({"authenticated": False, "error": "no <way>"}), asks("u3"), asks("u3"), reviewed("u4")),
    *(broken(status=400, raw="bad", headers={"Content-Type": "text/plain"}), asks("u5"), asks("u5"), reviewed("u6")),
    *(broken(raw='{"kind":"Pod","apiVersion":"v1"}'), reviewed("u7"), broken(raw=""), reviewed("u8")),
    *(of_token(_GOOD, "v1beta1"), reviewed("u9")),
)
KNOWN_V1BETA1 = (of_token(_GOOD, "v1beta1"), asks("t1"), reviewed("t2"), of_token(_GOOD), asks("t3"), reviewed("t4"))


def bootstrap(number: int, kind: str = "bootstrap.kubernetes.io/token", **changes: str) -> Ask:
    """Return the request that stores a bootstrap token: `token0N.0123456789abcdef`."""
    data = {"token-id": f"token{number}", "token-secret": JOINING, "usage-bootstrap-authentication": "true"}
    changed = {name.replace("_", "-"): value for name, value in changes.items()}
    metadata = {"name": f"bootstrap-token-token{number}", "namespace": "kube-system"}
    body = {"apiVersion": "v1", "kind": "Secret", "metadata": metadata, "type": kind, "stringData": {**data, **changed}}
    return Ask("POST", "/api/v1/namespaces/kube-system/secrets", body, token="admintoken")


JOINING = "0123456789abcdef"
SECRETS = (
    bootstrap(1),
    bootstrap(2, auth_extra_groups="system:bootstrappers:z,system:bootstrappers:a:b"),
    bootstrap(3, auth_extra_groups="system:masters"),
    bootstrap(4, expiration="2999-01-01T00:00:00Z"),
    bootstrap(5, expiration="2001-01-01T00:00:00Z"),
    bootstrap(6, expiration="soon"),
    bootstrap(7, usage_bootstrap_authentication="false"),
    bootstrap(8, "Opaque"),
    bootstrap(9, token_id="token1"),
)
JOINED = (
    *(asks(f"token{number}.{JOINING}") for number in range(1, 10)),
    *(asks(token) for token in (f"token1.{JOINING[::-1]}", f"tokenx.{JOINING}", "token1.0123", f"Token1.{JOINING}")),
    *(reviewed(f"token1.{JOINING}"), reviewed(f"token5.{JOINING}"), reviewed(f"token1.{JOINING}", audiences=["other"])),
)

STORIES: dict[str, Story] = {
    "webhook": Story(WEBHOOK, (*ASKED, *ANSWERED), FILES),
    "webhook v1beta1": Story(
        {**WEBHOOK, "authorization_webhook_version": "v1beta1"},
        (
            *(Hook(answer=review(ALLOWED, "v1beta1")), PAGE, LIST, _RAW),
            *(Hook(answer=review(DENIED, "v1beta1")), PAGE, _RAW),
            *(Hook(ALLOWED), PAGE),
        ),
        FILES,
    ),
    "webhook before RBAC": Story(
        {**WEBHOOK, "authorization_mode": "Webhook,RBAC"},
        (
            *(Hook(REFUSED), PAGE, LIST, _ME),
            *(Hook(DENIED), PAGE, _ME),
            *(plain(status=400), PAGE, LIST, _ME),
            Ask("PUT", f"{MAPS}/new", config_map("new")),
        ),
        FILES,
    ),
    "webhook behind RBAC": Story(
        {**WEBHOOK, "authorization_mode": "Node,RBAC,Webhook"},
        (
            *(Hook(REFUSED), PAGE, LIST),
            *(Hook(ALLOWED), PAGE, LIST),
            Ask("POST", "/apis/rbac.authorization.k8s.io/v1/clusterroles", _ROLE),
        ),
        FILES,
    ),
    "kept answers": Story(
        {**WEBHOOK, AUTHORIZED: "1h", UNAUTHORIZED: "1h"},
        (
            *(Hook(ALLOWED), PAGE, Hook(REFUSED), PAGE, Ask("GET", "/healthz")),
            *(Hook(ALLOWED), Ask("GET", "/healthz"), LIST, Ask("GET", f"{MAPS}?labelSelector=a")),
            Ask("GET", f"{MAPS}?limit=1"),
        ),
        FILES,
    ),
    "ABAC": Story(
        {"authorization_mode": "ABAC", "authorization_policy_file": "{{dir}}/policies.jsonl"},
        (
            *(
                PAGE,
                LIST,
                Ask("POST", MAPS, config_map("a")),
                Ask("GET", "/api/v1/nodes"),
                Ask("GET", "/healthz/x"),
                _ME,
            ),
            *(Ask(step.method, step.path, step.body, token="bobtoken") for step in (PAGE, LIST, _ME)),
            *(Ask("DELETE", f"{MAPS}/a", token="bobtoken"), Ask("GET", "/version", token=None)),
            *(Ask("GET", path, token="nametoken") for path in ("/version", MAPS, "/api/v1/pods")),
            *(Ask("POST", _RULES.path, _RULES.body, token=f"{name}token") for name in ("alice", "bob", "name")),
        ),
        {"policies.jsonl": "\n".join(["# who may do what", "", *map(json.dumps, POLICIES)])},
    ),
    "tokens": Story(TOKEN_WEBHOOK, (*KNOWN, *UNKNOWN), TOKEN_FILES),
    "tokens v1beta1": Story(
        {**TOKEN_WEBHOOK, "authentication_token_webhook_version": "v1beta1"}, KNOWN_V1BETA1, TOKEN_FILES
    ),
    "bootstrap tokens": Story(
        {"enable_bootstrap_token_auth": "true", "authorization_mode": "RBAC"}, (*SECRETS, *JOINED)
    ),
    "acting as another": Story(
        WEBHOOK,
        (Hook(ALLOWED), PAGE),
        {"hook.kubeconfig": kubeconfig("https://{{hook}}/authz", token="secret", **_ACTING)},
    ),
    "nobody listens": Story(
        {**WEBHOOK, FILE: "{{dir}}/refused.kubeconfig"},
        (PAGE, LIST, _ME),
        {"refused.kubeconfig": kubeconfig("https://{{refused}}/authz")},
    ),
}
