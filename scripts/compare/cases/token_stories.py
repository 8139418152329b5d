"""The stories of `compare access` about tokens of service accounts that are kept in Secrets, which a controller fills.

In the token of a request, {{NAME}} is that of the Secret which a step `Keep` has named so.
"""

from __future__ import annotations

from typing import Any, NamedTuple

from scripts.common.comparing import Obj
from scripts.compare.cases.access_stories import MAPS, SERVER, Ask, Story, asks, reviewed
from scripts.compare.cases.configuration_stories import Metrics

CORE = "/api/v1/namespaces/default"
SECRETS, ACCOUNTS = f"{CORE}/secrets", f"{CORE}/serviceaccounts"
NAME_ANNOTATION, UID_ANNOTATION = "kubernetes.io/service-account.name", "kubernetes.io/service-account.uid"
INVALID_SINCE = "kubernetes.io/legacy-token-invalid-since"


class Keep(NamedTuple):
    """Waits until a Secret has a token, and lets requests send it."""

    name: str
    path: str


class Show(NamedTuple):
    """An object as it is stored, once it has a field, or none any more; `gone` for one that is not stored."""

    path: str
    gone: bool = False
    field: str = "metadata"


class Annotations(NamedTuple):
    """The annotations of the last request in the audit log, which the options of the story have to name."""


def account(name: str, *secrets: str) -> Ask:
    """Return the request that adds an account which lists Secrets."""
    body: Obj = {"apiVersion": "v1", "kind": "ServiceAccount", "metadata": {"name": name}}
    if secrets:
        body["secrets"] = [{"name": secret} for secret in secrets]
    return Ask("POST", ACCOUNTS, body, token="admintoken")


def secret(name: str, account: str, data: Obj | None = None, **metadata: Any) -> Ask:
    """Return the request that adds a Secret for an account."""
    annotations = {NAME_ANNOTATION: account, **metadata.pop("annotations", {})}
    body: Obj = {
        "apiVersion": "v1",
        "kind": "Secret",
        "type": "kubernetes.io/service-account-token",
        "metadata": {"name": name, "annotations": annotations, **metadata},
    }
    return Ask("POST", SECRETS, {**body, "data": data} if data else body, token="admintoken")


def deleted(path: str) -> Ask:
    """Return the request that deletes an object."""
    return Ask("DELETE", path, token="admintoken")


AUDITED = {"audit_policy_file": "{{dir}}/audit.yaml", "audit_log_path": "{{dir}}/audit.log"}
AUDIT_POLICY = '{"apiVersion": "audit.k8s.io/v1", "kind": "Policy", "rules": [{"level": "Metadata"}]}'
_BOT, _OLD, _LATE = (f"{SECRETS}/{name}-token" for name in ("bot", "old", "late"))

TOKENS_IN_SECRETS: dict[str, Story] = {
    "tokens in Secrets": Story(
        {**AUDITED, "authorization_mode": "RBAC", "controllers": "serviceaccount-token-controller"},
        (
            *(account("bot"), secret("bot-token", "bot"), Keep("bot", _BOT), Show(_BOT)),
            *(asks("{{bot}}"), Annotations(), Show(_BOT), asks("{{bot}}"), Ask("GET", MAPS, token="{{bot}}")),
            *(reviewed("{{bot}}"), reviewed("{{bot}}", audiences=["x"]), reviewed("{{bot}}", audiences=["x", SERVER])),
            *(account("old", "old-token", "other"), secret("old-token", "old"), Keep("old", _OLD)),
            *(asks("{{old}}"), Annotations(), reviewed("{{old}}"), Show(_OLD)),
            *(account("late"), secret("late-token", "late", labels={INVALID_SINCE: "2025-01-01"}), Keep("late", _LATE)),
            *(asks("{{late}}"), reviewed("{{late}}"), Show(_LATE)),
            *(
                secret("given", "bot", {"token": "eA==", "more": "eQ=="}),
                Show(f"{SECRETS}/given", field="data.namespace"),
            ),
            *(secret("nobodys", "nobody"), Show(f"{SECRETS}/nobodys", gone=True)),
            *(secret("others", "bot", annotations={UID_ANNOTATION: "x"}), Show(f"{SECRETS}/others", gone=True)),
            *(secret("gone", "bot"), Keep("gone", f"{SECRETS}/gone"), deleted(f"{SECRETS}/gone")),
            *(asks("{{gone}}"), reviewed("{{gone}}")),
            *(secret("kept", "bot"), Keep("kept", f"{SECRETS}/kept")),
            *(
                deleted(f"{ACCOUNTS}/bot"),
                Show(f"{SECRETS}/kept", gone=True),
                Show(_BOT, gone=True),
                reviewed("{{kept}}"),
            ),
            Metrics("serviceaccount_"),
        ),
        {"audit.yaml": AUDIT_POLICY},
    ),
}
