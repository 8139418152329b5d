"""The stories of `compare access` about configurations, which are files that servers read again when they change."""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Any, NamedTuple

from scripts.common.comparing import Obj
from scripts.compare.cases.access_stories import (
    ALLOWED,
    DENIED,
    FILES,
    LIST,
    MAPS,
    PAGE,
    REFUSED,
    WEBHOOK,
    Ask,
    Hook,
    Story,
    config_map,
    kubeconfig,
    plain,
    posted,
)

GROUP = "apiserver.config.k8s.io"
RELOADS = "apiserver_authorization_config_controller"
CONDITIONS = "apiserver_authorization_match_condition"
DECISIONS, WEBHOOKS = "apiserver_authorization_decisions", "apiserver_authorization_webhook"


class Write(NamedTuple):
    """The content that a file has from now on. The server has read it when one of these metrics has changed."""

    name: str
    content: str
    metrics: str = RELOADS


class Metrics(NamedTuple):
    """The metrics of the server whose names begin so."""

    prefix: str


def configuration(*authorizers: Obj, version: str = "v1") -> str:
    """Return an AuthorizationConfiguration."""
    content = {"apiVersion": f"{GROUP}/{version}", "kind": "AuthorizationConfiguration", "authorizers": authorizers}
    return json.dumps(content)


def webhook(name: str, *conditions: str, file: str = "hook", **changes: Any) -> Obj:
    """Return an authorizer that asks a webhook, and keeps no answers."""
    fields: Obj = {
        "timeout": "9s",
        "authorizedTTL": "1ns",
        "unauthorizedTTL": "1ns",
        "subjectAccessReviewVersion": "v1",
        "failurePolicy": "NoOpinion",
        "connectionInfo": {"type": "KubeConfigFile", "kubeConfigFile": f"{{{{dir}}}}/{file}.kubeconfig"},
    }
    if conditions:
        expressions = [{"expression": expression} for expression in conditions]
        fields |= {"matchConditionSubjectAccessReviewVersion": "v1", "matchConditions": expressions}
    return {"type": "Webhook", "name": name, "webhook": {**fields, **changes}}


def of(type_: str) -> Obj:
    """Return an authorizer of another type."""
    return {"type": type_, "name": type_.lower()}


RBAC = of("RBAC")
FLAG = {"authorization_config": "{{dir}}/config.json"}
_KUBECONFIGS = {
    "hook.kubeconfig": kubeconfig("https://{{hook}}/authz", token="secret"),
    "second.kubeconfig": kubeconfig("https://{{hook}}/second"),
    "refused.kubeconfig": kubeconfig("https://{{refused}}/authz"),
}
_ME = posted("SelfSubjectAccessReview", {"resourceAttributes": {"verb": "get", "resource": "nodes"}})
_RULES = posted("SelfSubjectRulesReview", {"namespace": "default"})
_SELECTED = Ask("GET", f"{MAPS}?labelSelector=a%20in%20(b,c),d&fieldSelector=metadata.name%3Dx")
_AS_CAROL = {"Impersonate-User": "carol", "Impersonate-Uid": "7", "Impersonate-Extra-K": "v"}
_CAROL = posted(
    "SubjectAccessReview", {"user": "carol", "extra": {"k": ["v"]}, "nonResourceAttributes": {"path": "/x"}}
)
_ROLES = "/apis/rbac.authorization.k8s.io/v1/clusterroles"
_ROLE = {
    "apiVersion": "rbac.authorization.k8s.io/v1",
    "kind": "ClusterRole",
    "metadata": {"name": "r"},
    "rules": [{"verbs": ["get"], "apiGroups": [""], "resources": ["pods"]}],
}
EVERY = (PAGE, LIST, _ME, _CAROL, _SELECTED, Ask("POST", MAPS, config_map("a")), Ask("GET", MAPS, token="bobtoken"))


def configured(*authorizers: Obj, version: str = "v1") -> Obj:
    """Return the files of a story with these authorizers."""
    return {**_KUBECONFIGS, "config.json": configuration(*authorizers, version=version)}


def conditioned(*conditions: str, **changes: Any) -> Story:
    """Return the story of one webhook with conditions, which allows everything it is asked about."""
    return Story(FLAG, (Hook(ALLOWED), *EVERY, Metrics(CONDITIONS)), configured(webhook("a", *conditions, **changes)))


_SEVERAL: Sequence[Ask | Hook] = (
    *(Hook(REFUSED), Hook(REFUSED, path="/second"), PAGE, LIST, _ME),
    *(Hook(ALLOWED, path="/second"), LIST, _ME, Ask("POST", _ROLES, _ROLE)),
    *(Hook(DENIED, path="/second"), LIST, _ME),
    *(plain(status=400, raw="bad"), PAGE, LIST, _ME),
    *(Hook(answer=plain(status=400, raw="bad").answer, path="/second"), PAGE, LIST, _ME),
    Ask("GET", "/api/v1/nodes", headers=_AS_CAROL, token="admintoken"),
    Ask("GET", "/api/v1/nodes", token="admintoken"),
    Ask("GET", "/version", token=None),
)
_OTHER = configuration(webhook("b", "request.user == 'alice'"), RBAC)
_NEW_ROLE = configuration(webhook("a"), RBAC, of("Node"))
_CHANGES: Sequence[Ask | Hook | Write | Metrics] = (
    *(Metrics(RELOADS), Hook(ALLOWED), LIST),
    *(Write("config.json", _OTHER), LIST, Ask("GET", MAPS, token="bobtoken"), Metrics(RELOADS)),
    *(Write("config.json", "{"), LIST, Ask("GET", MAPS, token="bobtoken")),
    *(Write("config.json", configuration(webhook("a"))), Ask("GET", MAPS, token="bobtoken")),
    *(Write("config.json", _NEW_ROLE), Ask("GET", MAPS, token="bobtoken")),
    *(Write("config.json", configuration(of("AlwaysDeny"), RBAC)), PAGE, LIST, Metrics(RELOADS)),
    *(Write("config.json", configuration(of("AlwaysAllow"), RBAC)), LIST, Ask("GET", "/version", token=None)),
    *(Write("config.json", configuration(RBAC, version="v1beta1")), PAGE, LIST, Metrics(RELOADS)),
)

CONFIGURED: dict[str, Story] = {
    "several authorizers": Story(
        FLAG, _SEVERAL, configured(webhook("a"), RBAC, webhook("b", file="second", failurePolicy="Deny"))
    ),
    "what is counted": Story(
        FLAG,
        (
            *(Hook(ALLOWED), LIST, PAGE, Hook(REFUSED), LIST, Hook(DENIED, path="/second"), LIST, _ME, _CAROL),
            *(plain(status=400, raw="bad"), LIST, plain(status=504, raw="late"), PAGE, Metrics(DECISIONS)),
            *(Hook(answer=plain(status=500, raw="bad").answer, path="/second"), LIST, Metrics(DECISIONS)),
            *(Metrics(WEBHOOKS), Ask("GET", MAPS, token="admintoken"), Metrics(DECISIONS)),
        ),
        configured(webhook("a"), RBAC, webhook("b", file="second", failurePolicy="Deny")),
    ),
    "what is counted of flags": Story(
        {**WEBHOOK, "authorization_mode": "Node,Webhook,RBAC"},
        (
            *(Hook(ALLOWED), LIST, PAGE, Hook(REFUSED), LIST, PAGE, Hook(DENIED), LIST),
            *(plain(status=400, raw="bad"), LIST, Metrics(DECISIONS), Metrics(WEBHOOKS)),
        ),
        FILES,
    ),
    "v1alpha1": Story(
        FLAG,
        (Hook(ALLOWED), LIST, Hook(REFUSED), LIST),
        configured(webhook("a", subjectAccessReviewVersion="v1beta1"), version="v1alpha1"),
    ),
    "answers are kept": Story(
        FLAG,
        (Hook(ALLOWED), LIST, PAGE, Hook(REFUSED), LIST, PAGE, _SELECTED, Hook(ALLOWED), _SELECTED),
        configured(webhook("a", authorizedTTL="1h", unauthorizedTTL="1h")),
    ),
    "answers are not kept": Story(
        FLAG,
        (Hook(ALLOWED), LIST, Hook(REFUSED), LIST, Hook(ALLOWED), LIST),
        configured(
            webhook(
                "a",
                authorizedTTL="1h",
                unauthorizedTTL="1h",
                cacheAuthorizedRequests=False,
                cacheUnauthorizedRequests=False,
            )
        ),
        ("1.36", "1.37"),
    ),
    "everybody may": Story(FLAG, (PAGE, LIST, Ask("GET", "/version", token=None)), configured(of("AlwaysAllow"))),
    "nobody may": Story(
        FLAG,
        (Hook({}), PAGE, LIST, _ME, _RULES),
        configured(webhook("a", "false"), webhook("b"), of("AlwaysDeny")),
    ),
    "nobody listens to a configuration": Story(
        FLAG, (PAGE, LIST, _ME), configured(webhook("a", file="refused", failurePolicy="Deny"))
    ),
    "conditions about resources": conditioned(
        "has(request.resourceAttributes)", "request.resourceAttributes.resource == 'configmaps'"
    ),
    "conditions about users": conditioned(
        "request.user in ['alice', 'carol']",
        "request.extra == {} || request.extra['k'] == ['v']",
        "request.groups == [] || 'devs' in request.groups",
        "request.uid != 'u-2' && has(request.uid)",
    ),
    "conditions about selectors": conditioned(
        "request.?resourceAttributes.labelSelector.requirements.orValue([]).exists(r, r.key == 'a' && r.operator == "
        "'In' && 'b' in r.values)",
        "request.resourceAttributes.labelSelector.requirements.all(r, r.key == 'a' || r.values == [])",
        "has(request.resourceAttributes.fieldSelector) && !has(request.resourceAttributes.fieldSelector.rawSelector)",
    ),
    "conditions that fail": conditioned(
        "request.resourceAttributes.namespace == 'default'", "request.nonResourceAttributes.path == '/version'"
    ),
    "conditions that fail and deny": conditioned(
        "request.resourceAttributes.namespace != ''",
        "int(request.resourceAttributes.name) > 0 || request.resourceAttributes.verb == 'list'",
        failurePolicy="Deny",
    ),
    "a configuration changes": Story(FLAG, _CHANGES, configured(webhook("a"), RBAC)),
}
