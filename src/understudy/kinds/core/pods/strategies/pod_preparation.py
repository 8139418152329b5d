"""Fills in fields of new pods that follow from others: selectors from labels, AppArmor fields from annotations."""

from __future__ import annotations

from collections.abc import Mapping

from understudy.kinds.context import Context
from understudy.kinds.core.pods.annotations import APP_ARMOR, app_armor_profile
from understudy.kinds.core.pods.containers_of import affinity_terms, containers
from understudy.kinds.core.pods.validation.updates import equal_ignoring_empty
from understudy.machinery.releases import features
from understudy.machinery.releases.version import V1_33, V1_34
from understudy.machinery.types import Obj, nested_field


def match_label_keys(pod: Obj, ctx: Context) -> None:
    """Add matchLabelKeys and mismatchLabelKeys to the label selectors of affinity terms (KEP-3633) and spread
    constraints (KEP-3243) as requirements, in place."""
    labels, spec = pod["metadata"].get("labels") or {}, pod["spec"]
    if ctx.gates[features.MATCH_LABEL_KEYS_IN_POD_AFFINITY]:
        for term in affinity_terms(spec):
            _select_by_keys(term, labels)
    if (
        ctx.gates[features.MATCH_LABEL_KEYS_IN_POD_TOPOLOGY_SPREAD]
        and ctx.gates[features.MATCH_LABEL_KEYS_IN_POD_TOPOLOGY_SPREAD_SELECTOR_MERGE]
    ):
        for constraint in spec.get("topologySpreadConstraints") or ():
            _select_by_keys(constraint, labels)


def _select_by_keys(term: Obj, labels: Mapping[str, str]) -> None:
    selector = term.get("labelSelector")
    if selector is None:
        return
    added = [
        {"key": key, "operator": operator, "values": [labels[key]]}
        for name, operator in (("matchLabelKeys", "In"), ("mismatchLabelKeys", "NotIn"))
        for key in term.get(name) or ()
        if key in labels
    ]
    if added:
        selector["matchExpressions"] = [*(selector.get("matchExpressions") or []), *added]


def count_generation(pod: Obj, old: Obj, ctx: Context) -> None:
    """Count a changed spec in metadata.generation, in place (upstream: `updatePodGeneration`)."""
    if ctx.release >= V1_33 and not equal_ignoring_empty(pod["spec"], old["spec"]):
        pod["metadata"]["generation"] = old["metadata"].get("generation", 0) + 1


def keep_observed_generations(status: Obj, old: Obj) -> None:
    """Keep generations that an update of the status, by a client that does not know them, has left out, in place.

    Conditions are found by type, each of the same type once. Upstream: `preserveOldObservedGeneration`.
    """
    if not status.get("observedGeneration") and old.get("observedGeneration"):
        status["observedGeneration"] = old["observedGeneration"]
    stored: dict[str, list[int]] = {}
    for condition in old.get("conditions") or ():
        stored.setdefault(condition.get("type", ""), []).append(condition.get("observedGeneration", 0))
    for condition in status.get("conditions") or ():
        before = stored.get(condition.get("type", ""))
        generation = before.pop(0) if before else 0
        if not condition.get("observedGeneration") and generation:
            condition["observedGeneration"] = generation


_PROFILES = {"Unconfined": "unconfined", "RuntimeDefault": "runtime/default"}
_LOCALHOST = "localhost/"


def sync_app_armor(pod: Obj, ctx: Context) -> None:
    """Copy AppArmor profiles from annotations to fields that are missing; before 1.34 the other way round, too.

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
            text = _annotation(of_container or of_pod) if ctx.release < V1_34 else ""
            if text:
                pod["metadata"]["annotations"] = {**annotations, key: text}
        elif of_container is None:
            profile = app_armor_profile(annotations[key])
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
