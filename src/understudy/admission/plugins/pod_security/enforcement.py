"""The plugin PodSecurity: refuses pods, warns of what makes pods, checks the labels of namespaces."""

from __future__ import annotations

from collections.abc import Iterable

from understudy.admission.chain import Attributes, Operation, Point
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


# Where objects that make pods have the template of those.
_SPEC_TEMPLATE = ("spec", "template")
TEMPLATES = {
    ("", "podtemplates"): ("template",),
    ("", "replicationcontrollers"): _SPEC_TEMPLATE,
    ("apps", "replicasets"): _SPEC_TEMPLATE,
    ("apps", "deployments"): _SPEC_TEMPLATE,
    ("apps", "statefulsets"): _SPEC_TEMPLATE,
    ("apps", "daemonsets"): _SPEC_TEMPLATE,
    ("batch", "jobs"): _SPEC_TEMPLATE,
    ("batch", "cronjobs"): ("spec", "jobTemplate", *_SPEC_TEMPLATE),
}
_PODS, _NAMESPACES = ("", "pods"), ("", "namespaces")


class PodSecurity:
    """Refuses pods that their namespace does not take, and warns of objects that would make such pods."""

    name = "PodSecurity"

    def handles(self, point: Point) -> bool:
        if point.operation not in (Operation.CREATE, Operation.UPDATE):
            return False
        resource = (point.group, point.resource)
        if point.subresource:
            return resource == _PODS and point.subresource == "ephemeralcontainers"
        return resource in (_PODS, _NAMESPACES) or resource in TEMPLATES

    async def validate(self, attributes: Attributes, ctx: Context) -> None:
        """Raise 403 for a pod that is refused, 422 for a namespace whose labels name no policy."""
        resource = (attributes.point.group, attributes.point.resource)
        obj, old = attributes.new, attributes.old_object
        if resource == _NAMESPACES:
            if old is None:
                _refuse(obj, policy(obj["metadata"].get("labels"))[1], ctx)
            else:
                _check_namespace_update(obj, old, ctx)
        elif resource != _PODS:
            _warn_of_template(obj, at(obj, *TEMPLATES[resource]), ctx)
        elif old is None or _images(obj) != _images(old):
            _check_pod(obj, ctx)


def _check_pod(pod: Obj, ctx: Context) -> None:
    """Raise 403 for a pod that violates the enforced level, warn of one that violates the level of warnings."""
    standards = _policy(pod, ctx)
    if standards == ANYTHING:
        return
    checked = _checked(pod["metadata"], pod["spec"], ctx)
    refused = violations(standards.enforce, checked, ctx.release)
    if refused:
        text = f'violates PodSecurity "{standards.enforce}": {_detail(refused)}'
        raise errors.admission_forbidden("", "pods", pod["metadata"], text)
    _warn(standards.warn, checked, ctx)


def _images(pod: Obj) -> list[list[tuple[str, str]]]:
    return [[(c["name"], c.get("image", "")) for c in pod["spec"].get(kind) or []] for kind in KINDS_OF_CONTAINERS]


def _warn_of_template(obj: Obj, template: Obj | None, ctx: Context) -> None:
    """Warn of pods that would be made from a template and violate the level of warnings."""
    if template is None:
        return
    standard = _policy(obj, ctx).warn
    if standard.level != PRIVILEGED:
        _warn(standard, _checked(template.get("metadata") or {}, template.get("spec") or {}, ctx), ctx)


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


def _check_namespace_update(namespace: Obj, old: Obj, ctx: Context) -> None:
    """Raise 422 for changed labels that name no policy. Warn of the pods that a stricter level would refuse."""
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
