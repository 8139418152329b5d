"""Validation of annotations that pods know: old forms of profiles, mirror pods, the cost of deletion."""

from __future__ import annotations

import re

from understudy.kinds.common.formats import descending_path
from understudy.kinds.core.pods.containers_of import with_paths
from understudy.machinery.types import Obj
from understudy.machinery.validation.field import Errors, Path, forbidden, invalid

MIRROR = "kubernetes.io/config.mirror"
DELETION_COST = "controller.kubernetes.io/pod-deletion-cost"
SECCOMP_POD = "seccomp.security.alpha.kubernetes.io/pod"
SECCOMP_CONTAINER = "container.seccomp.security.alpha.kubernetes.io/"
_LOCALHOST = "localhost/"
# {type of the field: texts of the annotation}
_SECCOMP = {"Unconfined": ("unconfined",), "RuntimeDefault": ("runtime/default", "docker/default")}
_APP_ARMOR = {"Unconfined": ("unconfined",), "RuntimeDefault": ("runtime/default",)}


def validate(annotations: dict[str, str], spec: Obj, path: Path) -> Errors:
    """Check the annotations of a pod or template (upstream: `ValidatePodSpecificAnnotations`)."""
    errors: Errors = []
    if not annotations:
        return errors
    if MIRROR in annotations and not spec.get("nodeName"):
        text = "must set spec.nodeName if mirror pod annotation is set"
        errors.append(invalid(path.key(MIRROR), annotations[MIRROR], text))
    cost = annotations.get(DELETION_COST)
    if cost is not None and not _is_cost(cost):
        errors.append(invalid(path.key(DELETION_COST), cost, "must be a 32bit integer"))
    for key, profile in annotations.items():
        if key == SECCOMP_POD or key.startswith(SECCOMP_CONTAINER):
            errors += _seccomp(profile, path.child(key))
    names = {c.get("name", "") for c, _ in with_paths(spec, path)}
    for key, profile in annotations.items():
        if key.startswith(APP_ARMOR):
            errors += _app_armor(key, profile, names, path.key(key))
    return errors


def _is_cost(text: str) -> bool:
    """Report whether a text is an integer of 32 bits, without a plus sign or leading zeros."""
    return bool(re.fullmatch(r"0|-?[1-9][0-9]{,9}", text)) and -(2**31) <= int(text) < 2**31


def _seccomp(profile: str, path: Path) -> Errors:
    if any(profile in texts for texts in _SECCOMP.values()):
        return []
    if profile.startswith(_LOCALHOST):
        return descending_path(profile.removeprefix(_LOCALHOST), path)
    return [invalid(path, profile, "must be a valid seccomp profile")]


def _app_armor(key: str, profile: str, names: set[str], path: Path) -> Errors:
    name = key.removeprefix(APP_ARMOR)
    errors = [] if name in names else [invalid(path, name, "container not found")]
    if profile and not profile.startswith(_LOCALHOST) and profile not in ("runtime/default", "unconfined"):
        errors.append(invalid(path, profile, f'invalid AppArmor profile name: "{profile}"'))
    return errors


def matching(annotations: dict[str, str], spec: Obj, path: Path) -> Errors:
    """Check that profiles in annotations and in fields agree."""
    if not annotations:
        return []
    of_pod = spec.get("securityContext") or {}
    errors = _agree(
        annotations.get(SECCOMP_POD), of_pod.get("seccompProfile"), path.child("securityContext"), "seccomp"
    )
    for container, here in with_paths(spec, path):
        own = container.get("securityContext") or {}
        text = annotations.get(SECCOMP_CONTAINER + container.get("name", ""))
        errors += _agree(text, own.get("seccompProfile"), here.child("securityContext"), "seccomp")
    if (spec.get("os") or {}).get("name") == "windows":
        return errors
    for container, here in with_paths(spec, path):
        own = container.get("securityContext") or {}
        profile = own.get("appArmorProfile") or of_pod.get("appArmorProfile")
        text = annotations.get(APP_ARMOR + container.get("name", ""))
        errors += _agree(text, profile, here.child("securityContext"), "apparmor")
    return errors


def _agree(text: str | None, profile: Obj | None, path: Path, what: str) -> Errors:
    if text is None or profile is None:
        return []
    field, texts = ("seccompProfile", _SECCOMP) if what == "seccomp" else ("appArmorProfile", _APP_ARMOR)
    kind, here = profile.get("type", ""), path.child(field)
    if kind == "Localhost" and text.startswith(_LOCALHOST):
        if profile.get("localhostProfile") == text.removeprefix(_LOCALHOST):
            return []
        return [forbidden(here.child("localhostProfile"), f"{what} profile in annotation and field must match")]
    if kind not in (*texts, "Localhost") or text in texts.get(kind, ()):
        return []
    return [forbidden(here.child("type"), f"{what} type in annotation and field must match")]


def app_armor_profile(annotation: str) -> Obj | None:
    """Return the field that says the same as an AppArmor annotation (upstream: `ApparmorFieldForAnnotation`)."""
    for kind, texts in _APP_ARMOR.items():
        if annotation in texts:
            return {"type": kind}
    local = annotation.removeprefix(_LOCALHOST)
    return {"type": "Localhost", "localhostProfile": local} if local and local != annotation else None


def update(annotations: dict[str, str], old: dict[str, str], spec: Obj, path: Path) -> Errors:
    """Check that profiles and mirrors stay while a pod lives."""
    errors: Errors = []
    for key, value in old.items():
        if annotations.get(key) != value:
            errors += _fixed(
                key,
                path,
                "may not remove or update AppArmor annotations",
                "may not remove or update mirror pod annotation",
            )
    for key in annotations:
        if key not in old:
            errors += _fixed(key, path, "may not add AppArmor annotations", "may not add mirror pod annotation")
    return errors + validate(annotations, spec, path)


def _fixed(key: str, path: Path, app_armor: str, mirror: str) -> Errors:
    if key.startswith(APP_ARMOR):
        return [forbidden(path.key(key), app_armor)]
    return [forbidden(path.key(key), mirror)] if key == MIRROR else []


APP_ARMOR = "container.apparmor.security.beta.kubernetes.io/"
