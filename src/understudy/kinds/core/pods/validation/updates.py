"""Validation of changes of pods: images, deadlines, more tolerations, fewer gates; and of their status.

https://kubernetes.io/docs/concepts/workloads/pods/#pod-update-and-replacement
"""

from __future__ import annotations

from collections.abc import Sequence
from copy import copy, deepcopy
from typing import Any

from understudy.kinds.common import objectmeta
from understudy.kinds.common.compose import until
from understudy.kinds.common.formats import MAX_INT32, range_text
from understudy.kinds.context import Context
from understudy.kinds.core.pods import annotations as pod_annotations
from understudy.kinds.core.pods.containers_of import KINDS_OF_CONTAINERS
from understudy.kinds.core.pods.pod_options import Options, options
from understudy.kinds.core.pods.qos import qos_class
from understudy.kinds.core.pods.validation import pod_spec, scheduling, status
from understudy.machinery.releases.version import V1_32, V1_37
from understudy.machinery.serializer.json_fast import WithEmptyFields
from understudy.machinery.types import Obj
from understudy.machinery.validation.bad_values import Difference, Typed
from understudy.machinery.validation.field import Errors, Path, forbidden, invalid, not_supported, required

_SPEC, _META = Path("spec"), Path("metadata")
_ANNOTATIONS = _META.child("annotations")
_CORE = "k8s.io/kubernetes/pkg/apis/core"
_SHARED = ("hostNetwork", "hostPID", "hostIPC", "shareProcessNamespace", "hostUsers")
_REBUILT = frozenset(("initContainers", "volumes", "volumeMounts", "resizePolicy", "tolerations", "schedulingGates"))
_REQUIRED = "requiredDuringSchedulingIgnoredDuringExecution"
_UPDATABLE = ",".join(
    (
        "`spec.containers[*].image`",
        "`spec.initContainers[*].image`",
        "`spec.activeDeadlineSeconds`",
        "`spec.tolerations` (only additions to existing tolerations)",
        "`spec.terminationGracePeriodSeconds` (allow it to be set to 1 if it was previously negative)",
    )
)


def _annotations(pod: Obj) -> dict[str, str]:
    annotations: dict[str, str] = pod["metadata"].get("annotations") or {}
    return annotations


def update(pod: Obj, old: Obj, ctx: Context) -> Errors:
    """Check a changed pod (upstream: `ValidatePodUpdate`)."""
    spec, before = pod["spec"], old["spec"]
    opts = options(ctx.release, ctx.gates, before, is_pod=True)
    errors = objectmeta.CORE.updated(pod, old, ctx) + objectmeta.CORE.created(pod, ctx)
    errors += pod_spec.whole(pod, opts)
    errors += pod_annotations.update(_annotations(pod), _annotations(old), spec, _ANNOTATIONS)
    for kind in ("containers", "initContainers"):
        wrong, stop = _images(spec.get(kind) or (), before.get(kind) or (), _SPEC.child(kind))
        errors += wrong
        if stop:
            return errors
    wrong, stop = _deadline(spec, before)
    errors += wrong
    if stop:
        return errors
    errors += _only_more_tolerations(spec.get("tolerations") or [], before.get("tolerations") or [], opts)
    errors += _only_fewer_gates(spec.get("schedulingGates") or [], before.get("schedulingGates") or [])
    if equal_ignoring_empty(spec, before):
        return errors
    return errors + _qos_class_is_kept(pod, old, ctx) + _the_rest(spec, before, ctx)


def _same_qos_class(pod: Obj, old: Obj, ctx: Context) -> Errors:
    now = qos_class(pod, ctx.gates)
    if now == ((old.get("status") or {}).get("qosClass") or qos_class(old, ctx.gates)):
        return []
    return [invalid(_META, (pod.get("status") or {}).get("qosClass", ""), "Pod QoS is immutable")]


_qos_class_is_kept = until(V1_32, _same_qos_class)


def _images(items: Sequence[Obj], before: Sequence[Obj], path: Path) -> tuple[Errors, bool]:
    if len(items) != len(before):
        return [forbidden(path, "pod updates may not add or remove containers")], True
    errors: Errors = []
    for i, container in enumerate(items):
        here, image = path.index(i).child("image"), container.get("image", "")
        if not image:
            errors.append(required(here))
        if image != image.strip():
            errors.append(invalid(here, image, "must not have leading or trailing whitespace"))
    return errors, False


def _deadline(spec: Obj, before: Obj) -> tuple[Errors, bool]:
    """Check that a deadline is only set or brought forward."""
    seconds, stored = spec.get("activeDeadlineSeconds"), before.get("activeDeadlineSeconds")
    path = _SPEC.child("activeDeadlineSeconds")
    if seconds is None:
        if stored is None:
            return [], False
        return [invalid(path, None, "must not update from a positive integer to nil value")], False
    if not 0 <= seconds <= MAX_INT32:
        return [invalid(path, seconds, range_text(0, MAX_INT32))], True
    if stored is not None and stored < seconds:
        return [invalid(path, seconds, "must be less than or equal to previous value")], True
    return [], False


def _only_more_tolerations(items: list[Obj], before: list[Obj], opts: Options) -> Errors:
    def but_seconds(toleration: Obj) -> Obj:
        return {key: value for key, value in toleration.items() if key != "tolerationSeconds"}

    kept = [but_seconds(t) for t in items]
    path = _SPEC.child("tolerations")
    if any(but_seconds(t) not in kept for t in before):
        return [forbidden(path, "existing toleration can not be modified except its tolerationSeconds")]
    return scheduling.tolerations(items, path, opts.version, comparing=opts.comparing_tolerations)


def _only_fewer_gates(items: list[Obj], before: list[Obj]) -> Errors:
    stored = {gate.get("name", "") for gate in before}
    added = {gate.get("name", ""): i for i, gate in enumerate(items)}
    return [
        forbidden(
            _SPEC.child("schedulingGates").index(i).child("name"),
            f"only deletion is allowed, but found new scheduling gate '{name}'",
        )
        for name, i in added.items()
        if name not in stored
    ]


def equal_ignoring_empty(new: Any, old: Any) -> bool:
    """Report whether two values are equal where empty and absent count as the same."""
    if isinstance(new, dict) and isinstance(old, dict):
        return all(equal_ignoring_empty(new.get(key), old.get(key)) for key in {*new, *old})
    if isinstance(new, list) and isinstance(old, list):
        return len(new) == len(old) and all(map(equal_ignoring_empty, new, old))
    return bool(new == old) or (new in (None, []) and old in (None, []))


def _the_rest(spec: Obj, before: Obj, ctx: Context) -> Errors:
    """Check that nothing has changed besides the fields that may change."""
    munged = deepcopy(spec)
    for kind in ("containers", "initContainers"):
        for container, stored in zip(munged.get(kind) or (), before.get(kind) or (), strict=True):
            container["image"] = stored.get("image", "")
    for name in ("activeDeadlineSeconds", "schedulingGates", "tolerations"):
        munged[name] = before.get(name)
    errors: Errors = []
    if before.get("schedulingGates"):
        errors = _narrowed(munged, before)
    if not equal_ignoring_empty(munged, before):
        text = f"pod updates may not change fields other than {_UPDATABLE}\n"
        stored, sent = _internal(before, ctx), _internal(munged, ctx)
        errors.append(forbidden(_SPEC, Difference(text, stored, sent, f"{_CORE}.PodSpec")))
    return errors


def _internal(spec: Obj, ctx: Context) -> Obj:
    """Return a pod's spec as Go holds it: before 1.37, what it shares with its host is in its security context."""
    out = _rebuilt(spec)
    if ctx.release < V1_37:
        context = spec.get("securityContext")
        out["securityContext"] = {} if context is None else copy(context)
        out["securityContext"] |= {name: spec[name] for name in _SHARED if name in spec}
    for kind in KINDS_OF_CONTAINERS:
        if spec.get(kind):
            out[kind] = [_rebuilt(container) for container in spec[kind]]
    return out


def _rebuilt(part: Obj) -> Obj:
    """Return a copy. Lists that the real server rebuilds are nil when they are empty."""
    out = copy(part)
    if isinstance(out, WithEmptyFields):
        out.empty = {name: value for name, value in out.empty.items() if name not in _REBUILT}
    return out


def _narrowed(munged: Obj, before: Obj) -> Errors:
    """Check that a pod behind gates may only run on fewer nodes. Sets back the allowed changes in `munged`."""
    errors: Errors = []
    selector, stored = munged.get("nodeSelector") or {}, before.get("nodeSelector") or {}
    if any(selector.get(key) != value for key, value in stored.items()):
        text = "only additions to spec.nodeSelector are allowed (no mutations or deletions)"
        bad_value = Typed.of_field(munged, "nodeSelector", "map[string]string")
        errors.append(invalid(_SPEC.child("nodeSelector"), bad_value, text))
    munged["nodeSelector"] = before.get("nodeSelector")
    new_affinity, old_affinity = munged.get("affinity") or {}, before.get("affinity") or {}
    path = _SPEC.child("affinity", "nodeAffinity")
    errors += _affinity(new_affinity.get("nodeAffinity"), old_affinity.get("nodeAffinity"), path)
    rest = {key: value for key, value in new_affinity.items() if key != "nodeAffinity"}
    if old_affinity.get("nodeAffinity") is not None:
        rest["nodeAffinity"] = old_affinity["nodeAffinity"]
    munged["affinity"] = rest or before.get("affinity")
    return errors


def _affinity(new_affinity: Obj | None, old_affinity: Obj | None, path: Path) -> Errors:
    old_terms = ((old_affinity or {}).get(_REQUIRED) or {}).get("nodeSelectorTerms") or []
    required_terms = (new_affinity or {}).get(_REQUIRED) or {}
    new_terms = required_terms.get("nodeSelectorTerms")
    here = path.child(_REQUIRED, "nodeSelectorTerms")
    if old_terms and len(old_terms) != len(new_terms or []):
        text = "no additions/deletions to non-empty NodeSelectorTerms list are allowed"
        return [invalid(here, Typed.of_field(required_terms, "nodeSelectorTerms", f"[]{_TERM}"), text)]
    text = "only additions are allowed (no mutations or deletions)"
    return [
        invalid(here.index(i), Typed(new, _TERM), text)
        for i, (new, old) in enumerate(zip(new_terms or [], old_terms, strict=False))
        if not _only_added(new, old)
    ]


_TERM = f"{_CORE}.NodeSelectorTerm"


def _only_added(new: Obj, old: Obj) -> bool:
    parts = ("matchExpressions", "matchFields")
    if not any(old.get(part) for part in parts):
        return not any(new.get(part) for part in parts)
    return all((new.get(part) or [])[: len(old.get(part) or [])] == (old.get(part) or []) for part in parts)


def update_ephemeral(pod: Obj, old: Obj, ctx: Context) -> Errors:
    """Check that ephemeral containers are only added."""
    if pod_annotations.MIRROR in _annotations(old):
        return [forbidden(Path().key(""), "static pods do not support ephemeral containers")]
    errors = objectmeta.CORE.updated(pod, old, ctx) + objectmeta.CORE.created(pod, ctx)
    errors += pod_spec.whole(pod, options(ctx.release, ctx.gates, old["spec"], is_pod=True))
    errors += pod_annotations.update(_annotations(pod), _annotations(old), pod["spec"], _ANNOTATIONS)
    path = _SPEC.child("ephemeralContainers")
    now = {c.get("name", ""): c for c in pod["spec"].get("ephemeralContainers") or ()}
    for container in old["spec"].get("ephemeralContainers") or ():
        name = container.get("name", "")
        if name not in now:
            errors.append(forbidden(path, f'existing ephemeral containers "{name}" may not be removed\n'))
        elif not equal_ignoring_empty(container, now[name]):
            text = f'existing ephemeral containers "{name}" may not be changed\n'
            change = Difference(text, container, _rebuilt(now[name]), f"{_CORE}.EphemeralContainer")
            errors.append(forbidden(path, change))
    return errors


def update_status(pod: Obj, old: Obj, ctx: Context) -> Errors:
    """Check a changed status."""
    errors = objectmeta.CORE.updated(pod, old, ctx)
    errors += pod_annotations.update(_annotations(pod), _annotations(old), pod["spec"], _ANNOTATIONS)
    return errors + status.validate(pod, old, ctx)


def binding(obj: Obj, ctx: Context) -> Errors:
    """Check a Binding, the decision of a scheduler (upstream: `ValidatePodBinding`)."""
    target = obj.get("target") or {}
    kind = target.get("kind", "")
    errors = [] if kind in ("", "Node") else [not_supported(Path("target", "kind"), kind, ("Node", "<empty>"))]
    return errors + ([] if target.get("name") else [required(Path("target", "name"))])
