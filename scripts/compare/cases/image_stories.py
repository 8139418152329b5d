"""Stories of `compare access` about ImagePolicyWebhook, which asks a server outside about the images of pods."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import Any

from scripts.common.comparing import Obj
from scripts.compare.cases.access_stories import Ask, Hook, Story, kubeconfig, review
from scripts.compare.cases.token_stories import AUDIT_POLICY, AUDITED, Annotations
from scripts.compare.cases.webhook_server import Answer

PODS = "/api/v1/namespaces/default/pods"
PREFIX = "image-policy.k8s.io"


def images(status: Any, version: str = "v1alpha1", kind: str = "ImageReview") -> Hook:
    """Return the answer of the webhook about images."""
    return Hook(answer=review(status, version, kind, "imagepolicy"), path="/images")


def odd(**fields: Any) -> Hook:
    """Return any answer of the webhook."""
    return Hook(answer=Answer(review=False, **fields), path="/images")


def pod(name: str, *names: str, annotations: Mapping[str, str] = {}, **spec: Any) -> Obj:
    """Return a pod with images."""
    containers = [{"name": f"c{number}", "image": image} for number, image in enumerate(names)]
    metadata = {"name": name, "annotations": dict(annotations)}
    return {"apiVersion": "v1", "kind": "Pod", "metadata": metadata, "spec": {"containers": containers, **spec}}


def made(name: str, *names: str, dry: bool = True, **more: Any) -> Ask:
    """Return the request that makes a pod."""
    return Ask("POST", f"{PODS}?dryRun=All" if dry else PODS, pod(name, *names, **more), token="admintoken")


def patched(name: str, patch: Obj, subresource: str = "") -> Ask:
    """Return the request that changes a pod."""
    path = f"{PODS}/{name}{subresource}"
    return Ask("PATCH", path, patch, token="admintoken", media="application/strategic-merge-patch+json")


def configured(config: Any, legacy: bool = False) -> dict[str, str]:
    """Return the files of a server with a configuration of the plugin; `legacy` is without a kind."""
    plugins = [{"name": "ImagePolicyWebhook", "configuration": config}]
    file = {"apiVersion": "apiserver.config.k8s.io/v1", "kind": "AdmissionConfiguration", "plugins": plugins}
    return {
        "audit.yaml": AUDIT_POLICY,
        "admission.yaml": json.dumps(config if legacy else file),
        "images.kubeconfig": kubeconfig("https://{{hook}}/images", token="secret"),
        "refused.kubeconfig": kubeconfig("https://{{refused}}/images"),
    }


def policy(name: str = "images", **fields: Any) -> Obj:
    """Return a configuration that keeps no answers."""
    kept = {"allowTTL": -1, "denyTTL": -1, "retryBackoff": 1}
    return {"imagePolicy": {"kubeConfigFile": f"{{{{dir}}}}/{name}.kubeconfig", **kept, **fields}}


FLAGS = {
    **AUDITED,
    "enable_admission_plugins": "ImagePolicyWebhook",
    "admission_control_config_file": "{{dir}}/admission.yaml",
}
YES, NO = {"allowed": True}, {"allowed": False, "reason": "not <this> one"}
_NOTES = {f"b.{PREFIX}/ticket": "1", f"a.{PREFIX}/x": "<&>", "other": "o", PREFIX: "none", f"{PREFIX}/y": "none"}
_NOTED = {"auditAnnotations": {"a": "1", "b/c": "2", "d e": "3", "failed-open": "maybe"}}
_INIT: Obj = {"initContainers": [{"name": "i", "image": "init"}]}
_EPHEMERAL = {"spec": {"ephemeralContainers": [{"name": "e", "image": "tools"}]}}
_NEW_IMAGE = {"spec": {"containers": [{"name": "c0", "image": "new"}]}}
_DELETE = Ask("DELETE", f"{PODS}/s", token="admintoken")
_LABEL = {"metadata": {"labels": {"a": "b"}}}
_FULL_STATUS = json.dumps(
    {
        "kind": "Status",
        "apiVersion": "v1",
        "status": "Failure",
        "message": "m",
        "code": 403,
        "reason": "Forbidden",
        "details": {"name": "x", "uid": "y"},
        "metadata": {"resourceVersion": "7"},
    }
)
_STATUS = json.dumps({"kind": "Status", "apiVersion": "v1", "status": "Failure", "message": "m", "code": 403})
_TEXT = {"Content-Type": "text/plain"}

_ASKED: Sequence[Any] = (
    *(images(YES), made("a", "one", "two", "one"), made("b", "one", annotations=_NOTES, **_INIT), Annotations()),
    *(made("s", "one", dry=False), patched("s", _LABEL), patched("s", _EPHEMERAL, "/ephemeralcontainers")),
    *(patched("s", _NEW_IMAGE), patched("s", {"status": {"phase": "Running"}}, "/status"), _DELETE),
    *(images({**YES, **_NOTED}), made("c", "one"), Annotations()),
    *(images(NO), made("d", "bad"), Annotations(), images({**NO, **_NOTED}), made("e", "bad"), Annotations()),
    *(images({"allowed": False}), made("f", "bad"), images({}), made("g", "bad"), images(None), made("h", "bad")),
)
_BROKEN: Sequence[Any] = (
    *(odd(status=400, raw="bad", headers=_TEXT), made("a", "one"), Annotations()),
    *(odd(status=500, raw="worse", headers=_TEXT), made("b", "one"), odd(status=503, raw="busy"), made("c", "one")),
    *(odd(raw="not JSON {"), made("d", "one"), odd(raw=""), made("e", "one")),
    *(odd(raw='{"kind":"Pod","apiVersion":"v1"}'), made("f", "one")),
    *(odd(raw='{"kind":"Odd","apiVersion":"example.com/v1"}'), made("g", "one")),
    *(images(YES, kind="Odd"), made("h", "one"), images(YES, "v1"), made("i", "one")),
    *(odd(raw='{"status":{"allowed":true}}'), made("j", "one")),
    *(images({"allowed": "yes"}), made("k", "one"), odd(closes=True), made("l", "one")),
    *(odd(status=403, raw=_STATUS), made("m", "one"), odd(status=403, raw="no", headers=_TEXT), made("n", "one")),
    *(odd(status=403, raw=_FULL_STATUS), made("o", "one"), odd(status=403, raw="no"), made("p", "one")),
)
_KEPT: Sequence[Any] = (
    *(images({**YES, **_NOTED}), made("a", "one"), images(NO), made("b", "one"), Annotations(), made("c", "two")),
    *(images(YES), made("d", "two"), made("e", "one", annotations=_NOTES), made("f", "two", "one")),
)

IMAGES: dict[str, Story] = {
    "images": Story(FLAGS, _ASKED, configured(policy())),
    "images, a webhook that fails": Story(FLAGS, _BROKEN, configured(policy())),
    "images, a webhook that may fail": Story(FLAGS, _BROKEN, configured(policy(defaultAllow=True))),
    "images, answers are kept": Story(FLAGS, _KEPT, configured(policy(allowTTL=600, denyTTL=0))),
    "images, nobody listens": Story(
        FLAGS, (made("a", "one"), Annotations()), configured(policy("refused"), legacy=True)
    ),
}
