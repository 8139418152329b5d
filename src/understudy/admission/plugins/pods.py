"""What admission adds to pods: tolerations, a priority, overhead of their runtime class; and their class of service."""

from __future__ import annotations

from understudy.admission.context import Context
from understudy.admission.validation.core.pods.annotations import APP_ARMOR
from understudy.admission.validation.core.pods.containers_of import affinity_terms, containers
from understudy.machinery import errors
from understudy.machinery.golang.text import go_quote
from understudy.machinery.quantity import round_up_milli
from understudy.machinery.types import Obj, at

NOT_READY, UNREACHABLE = "node.kubernetes.io/not-ready", "node.kubernetes.io/unreachable"
TOLERATED_SECONDS = 300


def tolerate(pod: Obj, ctx: Context) -> None:
    """A pod outlives five minutes of trouble with its node, unless it says otherwise (DefaultTolerationSeconds)."""
    tolerations = pod["spec"].get("tolerations") or []
    added = [
        {"key": key, "operator": "Exists", "effect": "NoExecute", "tolerationSeconds": TOLERATED_SECONDS}
        for key in (NOT_READY, UNREACHABLE)
        if not any(t.get("key", "") in (key, "") and t.get("effect", "") in ("NoExecute", "") for t in tolerations)
    ]
    if added:
        pod["spec"]["tolerations"] = [*tolerations, *added]


def prioritize(pod: Obj, ctx: Context) -> None:
    """Resolves the priority class. Raises StatusError (403) if it is unknown or the pod states another value."""
    spec, metadata = pod["spec"], pod["metadata"]
    value, policy = 0, "PreemptLowerPriority"
    chosen = spec.get("priorityClassName")
    found = ctx.lookup("scheduling.k8s.io", "priorityclasses", "", chosen) if chosen else _default_class(ctx)
    if chosen and found is None:
        raise _forbidden(metadata, f"no PriorityClass with name {chosen} was found")
    if found is not None:
        spec["priorityClassName"] = found["metadata"]["name"]
        value, policy = found.get("value", 0), found.get("preemptionPolicy", "")
    _resolved(metadata, spec, "priority", value, "the integer value of priority")
    if policy:
        _resolved(metadata, spec, "preemptionPolicy", policy, "the string value of PreemptionPolicy")


def _default_class(ctx: Context) -> Obj | None:
    """The class that is the global default: that of the lowest value, should there be several."""
    classes = [c for c in ctx.listing("scheduling.k8s.io", "priorityclasses", "") if c.get("globalDefault")]
    return min(classes, key=lambda c: int(c.get("value", 0)), default=None)


def _resolved(metadata: Obj, spec: Obj, name: str, value: int | str, what: str) -> None:
    given = spec.get(name)
    if given is not None and given != value:
        rule = "must not be provided in pod spec; priority admission controller computed"
        raise _forbidden(metadata, f"{what} ({given}) {rule} {value} from the given PriorityClass name")
    spec[name] = value


def _forbidden(metadata: Obj, why: str) -> errors.StatusError:
    return errors.admission_forbidden("", "pods", metadata, why)


def keep_priority(pod: Obj, old: Obj, ctx: Context) -> None:
    """What admission resolved on create need not be sent again."""
    for name in ("priority", "preemptionPolicy"):
        if pod["spec"].get(name) is None and old["spec"].get(name) is not None:
            pod["spec"][name] = old["spec"][name]


def apply_runtime_class(pod: Obj, ctx: Context) -> None:
    """Takes overhead and placement over from the runtime class. Raises StatusError (403) where they contradict."""
    spec, metadata = pod["spec"], pod["metadata"]
    chosen, found = spec.get("runtimeClassName"), _runtime_class(spec, ctx)
    if chosen is not None and found is None:
        raise _forbidden(metadata, f"pod rejected: RuntimeClass {go_quote(chosen)} not found")
    overhead = at(found, "overhead", "podFixed")
    if overhead is not None:
        if spec.get("overhead") and spec["overhead"] != overhead:
            raise _forbidden(metadata, "pod rejected: Pod's Overhead doesn't match RuntimeClass's defined Overhead")
        spec["overhead"] = {name: round_up_milli(amount) for name, amount in overhead.items()}
    _place(spec, metadata, at(found, "scheduling", default={}))


def check_overhead(pod: Obj, ctx: Context) -> None:
    """A pod has no overhead but that of its runtime class. Raises StatusError (403)."""
    spec = pod["spec"]
    if spec.get("overhead") and at(_runtime_class(spec, ctx), "overhead", "podFixed") is None:
        text = "pod rejected: Pod Overhead set without corresponding RuntimeClass defined Overhead"
        raise _forbidden(pod["metadata"], text)


def _runtime_class(spec: Obj, ctx: Context) -> Obj | None:
    name = spec.get("runtimeClassName")
    return None if name is None else ctx.lookup("node.k8s.io", "runtimeclasses", "", name)


def _place(spec: Obj, metadata: Obj, scheduling: Obj) -> None:
    wanted, given = scheduling.get("nodeSelector") or {}, spec.get("nodeSelector") or {}
    for key, value in wanted.items():
        if given.get(key, value) != value:
            theirs, ours = (f"{owner}.nodeSelector[{key}]" for owner in ("runtimeClass.scheduling", "pod.spec"))
            raise _forbidden(metadata, f"conflict: {theirs} = {value}; {ours} = {given[key]}")
    if wanted:
        spec["nodeSelector"] = {**given, **wanted}
    for toleration in scheduling.get("tolerations") or []:
        if toleration not in (spec.get("tolerations") or []):
            spec["tolerations"] = [*(spec.get("tolerations") or []), dict(toleration)]


def match_label_keys(pod: Obj) -> None:
    """matchLabelKeys and mismatchLabelKeys become requirements of the term's selector."""
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
    """Profiles stand in annotations and in fields, for nodes of either age: each is filled in from the other."""
    spec = pod["spec"]
    if at(spec, "os", "name") == "windows":
        return
    of_pod = at(spec, "securityContext", "appArmorProfile")
    for container in containers(spec):
        key = APP_ARMOR + container.get("name", "")
        annotations = pod["metadata"].get("annotations") or {}
        of_container = at(container, "securityContext", "appArmorProfile")
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
    kind = at(profile, "type", default="")
    local = at(profile, "localhostProfile")
    if kind == "Localhost" and local is not None:
        return _LOCALHOST + str(local)
    return _PROFILES.get(kind, "")


def _profile(annotation: str) -> Obj | None:
    for kind, text in _PROFILES.items():
        if annotation == text:
            return {"type": kind}
    local = annotation.removeprefix(_LOCALHOST)
    return {"type": "Localhost", "localhostProfile": local} if local and local != annotation else None
