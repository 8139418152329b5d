"""Fills in fields of new pods that follow from others: selectors from labels, AppArmor fields from annotations."""

from __future__ import annotations

from understudy.admission.context import Context
from understudy.admission.validation.core.pods.annotations import APP_ARMOR
from understudy.admission.validation.core.pods.containers_of import affinity_terms, containers
from understudy.machinery.types import Obj, nested_field


def match_label_keys(pod: Obj) -> None:
    """Add matchLabelKeys and mismatchLabelKeys to the label selectors of affinity terms as requirements (KEP-3633), in
    place."""
    labels = pod["metadata"].get("labels") or {}
    for term in affinity_terms(pod["spec"]):
        selector = term.get("labelSelector")
        if selector is None:
            continue
        added = [
            {"key": key, "operator": operator, "values": [labels[key]]}
            for name, operator in (("matchLabelKeys", "In"), ("mismatchLabelKeys", "NotIn"))
            for key in term.get(name) or []
            if key in labels
        ]
        if added:
            selector["matchExpressions"] = [*(selector.get("matchExpressions") or []), *added]


_PROFILES = {"Unconfined": "unconfined", "RuntimeDefault": "runtime/default"}
_LOCALHOST = "localhost/"


def sync_app_armor(pod: Obj, ctx: Context) -> None:
    """Copy AppArmor profiles between annotations and fields, where one is missing.

    Old nodes read the annotations, new ones the fields. Upstream: `applyAppArmorVersionSkew`.
    """
    spec = pod["spec"]
    if nested_field(spec, "os", "name") == "windows":
        return
    of_pod = nested_field(spec, "securityContext", "appArmorProfile")
    for container in containers(spec):
        key = APP_ARMOR + container.get("name", "")
        annotations = pod["metadata"].get("annotations") or {}
        of_container = nested_field(container, "securityContext", "appArmorProfile")
        if key not in annotations:
            text = _annotation(of_container or of_pod)
            if text:
                pod["metadata"]["annotations"] = {**annotations, key: text}
        elif of_container is None:
            profile = _profile(annotations[key])
            if profile is not None and profile != of_pod:
                container["securityContext"] = {**(container.get("securityContext") or {}), "appArmorProfile": profile}
            if profile is None or profile != of_pod:
                ctx.warn(
                    f'metadata.annotations[{key}]: deprecated since v1.30; use the "appArmorProfile" field instead'
                )


def _annotation(profile: Obj | None) -> str:
    kind = nested_field(profile, "type", default="")
    local = nested_field(profile, "localhostProfile")
    if kind == "Localhost" and local is not None:
        return _LOCALHOST + str(local)
    return _PROFILES.get(kind, "")


def _profile(annotation: str) -> Obj | None:
    for kind, text in _PROFILES.items():
        if annotation == text:
            return {"type": kind}
    local = annotation.removeprefix(_LOCALHOST)
    return {"type": "Localhost", "localhostProfile": local} if local and local != annotation else None
