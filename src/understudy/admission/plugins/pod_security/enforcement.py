"""PodSecurity at work: pods are refused, what makes pods is warned of, namespaces are told of the pods they have."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from understudy.admission.context import Context
from understudy.admission.plugins.pod_security.levels import ANYTHING, PRIVILEGED, Policy, Standard, policy
from understudy.admission.plugins.pod_security.pod import Pod, Violation
from understudy.admission.plugins.pod_security.standards import violations
from understudy.admission.validation.core.pods.containers_of import KINDS_OF_CONTAINERS
from understudy.machinery import errors
from understudy.machinery.releases import features
from understudy.machinery.types import Obj, at
from understudy.machinery.validation.field import Errors

MOST = 3000  # pods that are looked at when a namespace changes its level


def check_pod(pod: Obj, ctx: Context) -> None:
    """Raises StatusError (403) for a pod that its namespace does not take; warns of one that it would rather not."""
    found = _policy(pod, ctx)
    if found == ANYTHING:
        return
    checked = _checked(pod["metadata"], pod["spec"], ctx)
    refused = violations(found.enforce, checked, ctx.release)
    if refused:
        text = f'violates PodSecurity "{found.enforce}": {_detail(refused)}'
        raise errors.admission_forbidden("", "pods", pod["metadata"], text)
    _warn(found.warn, checked, ctx)


def check_pod_update(pod: Obj, old: Obj, ctx: Context) -> None:
    """As check_pod, if an image changed or a container is new."""
    if _images(pod) != _images(old):
        check_pod(pod, ctx)


def _images(pod: Obj) -> list[list[tuple[str, str]]]:
    return [[(c["name"], c.get("image", "")) for c in pod["spec"].get(kind) or []] for kind in KINDS_OF_CONTAINERS]


def of_template(*path: str) -> dict[str, Any]:
    """What a strategy has of PodSecurity whose objects make pods from the template at a path: those are warned of."""

    def check(obj: Obj, ctx: Context) -> None:
        template = at(obj, *path)
        found = ANYTHING if template is None or ctx.subresource else _policy(obj, ctx)
        if found.warn.level != PRIVILEGED:
            _warn(found.warn, _checked(template.get("metadata") or {}, template.get("spec") or {}, ctx), ctx)

    return {"check_create": check, "check_update": lambda obj, old, ctx: check(obj, ctx)}


def _policy(obj: Obj, ctx: Context) -> Policy:
    """Of an object's namespace."""
    namespace = ctx.lookup("", "namespaces", "", obj["metadata"]["namespace"])
    return policy(at(namespace, "metadata", "labels"))[0]


def _checked(metadata: Obj, spec: Obj, ctx: Context) -> Pod:
    return Pod(
        metadata, spec, ctx.gates[features.USER_NAMESPACES_POD_SECURITY_STANDARDS] and spec.get("hostUsers") is False
    )


def _warn(standard: Standard, pod: Pod, ctx: Context) -> None:
    found = violations(standard, pod, ctx.release)
    if found:
        ctx.warn(f'would violate PodSecurity "{standard}": {_detail(found)}')


def _detail(found: Iterable[Violation]) -> str:
    return ", ".join(f"{v.reason} ({v.detail})" if v.detail else v.reason for v in found)


# --- namespaces -------------------------------------------------------------------------------------------------------


def check_namespace(namespace: Obj, ctx: Context) -> None:
    """Raises StatusError (422) for labels that make no sense."""
    _refuse(namespace, policy(namespace["metadata"].get("labels"))[1], ctx)


def check_namespace_update(namespace: Obj, old: Obj, ctx: Context) -> None:
    """As check_namespace, for labels that changed. Warns of the pods that a stricter level would refuse."""
    labels, before = (of["metadata"].get("labels") for of in (namespace, old))
    if labels == before:
        return
    (found, wrong), (was, was_wrong) = policy(labels), policy(before)
    if wrong != was_wrong:
        _refuse(namespace, wrong, ctx)
    now, then = found.enforce, was.enforce
    if now.level != PRIVILEGED and (now.minor != then.minor or now.stricter(then)):
        _warn_of_pods(namespace["metadata"]["name"], now, ctx)


def _refuse(namespace: Obj, wrong: Errors, ctx: Context) -> None:
    if wrong:
        raise errors.invalid("", "Namespace", namespace["metadata"]["name"], wrong, ctx.release)


def _warn_of_pods(namespace: str, standard: Standard, ctx: Context) -> None:
    pods = list(ctx.listing("", "pods", namespace))
    if len(pods) > MOST:
        ctx.warn(f"new PodSecurity enforce level only checked against the first {MOST} of {len(pods)} existing pods")
    names: dict[str, list[str]] = {}  # of the pods, by what they violate
    for pod in pods[:MOST]:
        found = violations(standard, _checked(pod["metadata"], pod["spec"], ctx), ctx.release)
        if found:
            names.setdefault(", ".join(v.reason for v in found), []).append(pod["metadata"]["name"])
    if names:
        ctx.warn(f'existing pods in namespace "{namespace}" violate the new PodSecurity enforce level "{standard}"')
    for text in sorted(f"{_first(pods)}: {why}" for why, pods in names.items()):
        ctx.warn(text)


def _first(names: list[str]) -> str:
    others = len(names) - 1
    rest = f" (and {others} other {'pod' if others == 1 else 'pods'})" if others else ""
    return min(names) + rest
