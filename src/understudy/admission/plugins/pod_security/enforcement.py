"""The plugin PodSecurity: refuse pods, warn about pod templates, check the labels of namespaces."""

from __future__ import annotations

from collections.abc import Iterable

from understudy.admission.chain import Attributes, Operation, Point
from understudy.admission.metrics import PodSecurityMetrics
from understudy.admission.plugins.pod_security.configuration import PodSecurityConfiguration
from understudy.admission.plugins.pod_security.levels import (
    AUDIT,
    ENFORCE,
    MODES,
    PREFIX,
    PRIVILEGED,
    WARN,
    Policy,
    Standard,
    policy,
)
from understudy.admission.plugins.pod_security.pod import Pod, Violation
from understudy.admission.plugins.pod_security.recorder import Recorder
from understudy.admission.plugins.pod_security.standards import violations
from understudy.kinds.context import Context
from understudy.kinds.core.pods.containers_of import KINDS_OF_CONTAINERS
from understudy.machinery import errors
from understudy.machinery.golang.text import aggregate
from understudy.machinery.releases import features
from understudy.machinery.releases.version import V1_33
from understudy.machinery.types import Obj, nested_field
from understudy.machinery.validation.field import Errors

MOST = 3000  # pods that are checked when a namespace changes its level


# The paths to the pod templates, by (group, resource).
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
    """Refuses pods that violate the level of their namespace, and warns about templates of such pods."""

    name = "PodSecurity"

    def __init__(self, configuration: PodSecurityConfiguration, metrics: PodSecurityMetrics) -> None:
        self._configuration = configuration
        self._metrics = metrics

    def handles(self, point: Point) -> bool:
        if point.operation not in (Operation.CREATE, Operation.UPDATE):
            return False
        resource = (point.group, point.resource)
        if point.subresource:
            return resource == _PODS and point.subresource == "ephemeralcontainers"
        return resource in (_PODS, _NAMESPACES) or resource in TEMPLATES

    async def validate(self, attributes: Attributes, ctx: Context) -> None:
        """Raise 403 for a pod that violates the enforced level, 422 for a namespace with wrong labels."""
        resource = (attributes.point.group, attributes.point.resource)
        obj, old = attributes.new, attributes.old_object
        record = Recorder(self._metrics, attributes.point, ctx.release)
        if resource == _NAMESPACES:
            if old is None:
                _check_new_namespace(obj, self._configuration, ctx)
            else:
                _check_namespace_update(obj, old, self._configuration, ctx)
        elif reason := self._exemption(attributes):
            ctx.annotate(f"{PREFIX}exempt", reason)
            record.exemption()
        elif resource != _PODS:
            _warn_of_template(obj, nested_field(obj, *TEMPLATES[resource]), self._configuration, ctx, record)
        else:
            _check_pod(obj, old, self._configuration, ctx, record)

    def _exemption(self, attributes: Attributes) -> str:
        """Return the reason not to check a pod or template, whatever it holds; "" if it is checked."""
        if attributes.namespace in self._configuration.namespaces:
            return "namespace"
        return "user" if attributes.user.get("username") in self._configuration.usernames else ""


def _check_pod(
    pod: Obj, old: Obj | None, configuration: PodSecurityConfiguration, ctx: Context, record: Recorder
) -> None:
    """Raise 403 for a pod that violates the enforced level; warn if it violates the level of warnings."""
    standards, label_errors = _policy(pod, configuration, ctx)
    if not label_errors and _allows_everything(standards):
        ctx.annotate(f"{PREFIX}enforce-policy", str(Standard()))
        record.evaluation(ENFORCE, standards.enforce, allowed=True)
        return
    if old is not None and _images(pod) == _images(old):
        return
    if _is_sandboxed(pod["spec"], configuration, ctx, record):
        return
    _note_errors(label_errors, ctx, record)
    ctx.annotate(f"{PREFIX}enforce-policy", str(standards.enforce))
    checked = _checked(pod["metadata"], pod["spec"], ctx)
    refused = violations(standards.enforce, checked, ctx.release)
    record.evaluation(ENFORCE, standards.enforce, allowed=not refused)
    _note_violations(standards.audit, checked, ctx, record)
    if refused:
        text = f'violates PodSecurity "{standards.enforce}": {_detail(refused)}'
        raise errors.admission_forbidden("", "pods", pod["metadata"], text)
    _warn(standards.warn, checked, ctx, record)


def _images(pod: Obj) -> list[list[tuple[str, str]]]:
    """Return (name, image) of all containers by kind: an update that changes none of them is not checked again."""
    return [[(c["name"], c.get("image", "")) for c in pod["spec"].get(kind) or []] for kind in KINDS_OF_CONTAINERS]


def _allows_everything(standards: Policy) -> bool:
    """Report whether all levels are privileged (`FullyPrivileged`)."""
    return all(standard.level == PRIVILEGED for standard in standards)


def _is_sandboxed(spec: Obj, configuration: PodSecurityConfiguration, ctx: Context, record: Recorder) -> bool:
    """Report, and annotate, that a pod has an exempt runtime class."""
    is_exempt = spec.get("runtimeClassName") in configuration.runtime_classes
    if is_exempt:
        ctx.annotate(f"{PREFIX}exempt", "runtimeClass")
        record.exemption()
    return is_exempt


def _warn_of_template(
    obj: Obj, template: Obj | None, configuration: PodSecurityConfiguration, ctx: Context, record: Recorder
) -> None:
    """Warn if pods from a template would violate the level of warnings."""
    if template is None:
        return
    standards, label_errors = _policy(obj, configuration, ctx)
    if not label_errors and (standards.warn.level, standards.audit.level) == (PRIVILEGED, PRIVILEGED):
        return
    spec = template.get("spec") or {}
    if _is_sandboxed(spec, configuration, ctx, record):
        return
    _note_errors(label_errors, ctx, record)
    pod = _checked(template.get("metadata") or {}, spec, ctx)
    _note_violations(standards.audit, pod, ctx, record)
    _warn(standards.warn, pod, ctx, record)


def _policy(obj: Obj, configuration: PodSecurityConfiguration, ctx: Context) -> tuple[Policy, Errors]:
    """Return the policy of the namespace that an object is in, and the errors in its labels."""
    namespace = ctx.lookup("", "namespaces", "", obj["metadata"]["namespace"])
    return policy(nested_field(namespace, "metadata", "labels"), configuration.defaults)


def _checked(metadata: Obj, spec: Obj, ctx: Context) -> Pod:
    """Return a pod as the checks read it."""
    relaxed = ctx.gates[features.USER_NAMESPACES_POD_SECURITY_STANDARDS] and spec.get("hostUsers") is False
    return Pod(metadata, spec, relaxed, ctx.release >= V1_33)


def _note_errors(label_errors: Errors, ctx: Context, record: Recorder) -> None:
    """Count, and note in the audit log, that labels name no policy."""
    if label_errors:
        texts = dict.fromkeys(error.text(ctx.release) for error in label_errors)
        record.error()
        ctx.annotate(f"{PREFIX}error", f"Failed to parse policy: {aggregate(texts)}")


def _note_violations(standard: Standard, pod: Pod, ctx: Context, record: Recorder) -> None:
    """Count, and note in the audit log, that a pod violates the level of audits."""
    if standard.level != PRIVILEGED and (violated := violations(standard, pod, ctx.release)):
        record.evaluation(AUDIT, standard, allowed=False)
        text = f'would violate PodSecurity "{standard}": {_detail(violated)}'
        ctx.annotate(f"{PREFIX}audit-violations", text)


def _warn(standard: Standard, pod: Pod, ctx: Context, record: Recorder) -> None:
    violated = violations(standard, pod, ctx.release)
    if violated:
        record.evaluation(WARN, standard, allowed=False)
        ctx.warn(f'would violate PodSecurity "{standard}": {_detail(violated)}')


def _detail(violated: Iterable[Violation]) -> str:
    return ", ".join(f"{v.reason} ({v.detail})" if v.detail else v.reason for v in violated)


# --- namespaces -------------------------------------------------------------------------------------------------------


def _check_new_namespace(namespace: Obj, configuration: PodSecurityConfiguration, ctx: Context) -> None:
    """Raise 422 for labels that name no policy; warn that those of an exempt namespace are ignored."""
    standards, label_errors = policy(namespace["metadata"].get("labels"), configuration.defaults)
    _refuse(namespace, label_errors, ctx)
    _warn_of_exemption(namespace, standards, configuration, ctx)


def _check_namespace_update(namespace: Obj, old: Obj, configuration: PodSecurityConfiguration, ctx: Context) -> None:
    """Raise 422 for changed labels that name no policy. Warn of the pods that a stricter level would refuse."""
    labels, old_labels = (of["metadata"].get("labels") for of in (namespace, old))
    if labels == old_labels:
        return
    new_policy, new_errors = policy(labels, configuration.defaults)
    old_policy, old_errors = policy(old_labels, configuration.defaults)
    if new_errors != old_errors:
        _refuse(namespace, new_errors, ctx)
    new_standard, old_standard = new_policy.enforce, old_policy.enforce
    if new_standard.level != PRIVILEGED and (
        new_standard.minor != old_standard.minor or new_standard.stricter(old_standard)
    ):
        if namespace["metadata"]["name"] in configuration.namespaces:
            _warn_of_exemption(namespace, new_policy, configuration, ctx)
        else:
            _warn_of_pods(namespace["metadata"]["name"], new_standard, configuration, ctx)


def _warn_of_exemption(
    namespace: Obj, standards: Policy, configuration: PodSecurityConfiguration, ctx: Context
) -> None:
    """Warn that the policy in the labels of an exempt namespace is ignored (`exemptNamespaceWarning`)."""
    name, labels = namespace["metadata"]["name"], namespace["metadata"].get("labels") or {}
    if name not in configuration.namespaces or _are_equivalent(standards, configuration.defaults):
        return
    if _allows_everything(standards):
        return
    ignored = [
        f"{mode}={standard}"
        for mode, standard in zip(MODES, standards, strict=True)
        if standard.level != PRIVILEGED and not labels.keys().isdisjoint((f"{PREFIX}{mode}", f"{PREFIX}{mode}-version"))
    ]
    text = f'namespace "{name}" is exempt from Pod Security, and the policy ({", ".join(ignored)}) will be ignored'
    ctx.warn(text)


def _are_equivalent(left: Policy, right: Policy) -> bool:
    """Report whether two policies allow the same; the version of a privileged level does not matter."""
    pairs = zip(left, right, strict=True)
    return all(one == other or one.level == other.level == PRIVILEGED for one, other in pairs)


def _refuse(namespace: Obj, label_errors: Errors, ctx: Context) -> None:
    """Raise 422 if there are errors in the labels of a namespace."""
    if label_errors:
        raise errors.invalid("", "Namespace", namespace["metadata"]["name"], label_errors, ctx.release)


def _warn_of_pods(namespace: str, standard: Standard, configuration: PodSecurityConfiguration, ctx: Context) -> None:
    """Warn about the stored pods of a namespace that violate a new level, grouped by the reasons."""
    stored, exempt = ctx.listing("", "pods", namespace), configuration.runtime_classes
    pods = [pod for pod in stored if pod["spec"].get("runtimeClassName") not in exempt]
    if len(pods) > MOST:
        ctx.warn(f"new PodSecurity enforce level only checked against the first {MOST} of {len(pods)} existing pods")
    names: dict[str, list[str]] = {}  # names of pods by the reasons of their violations
    for pod in pods[:MOST]:
        violated = violations(standard, _checked(pod["metadata"], pod["spec"], ctx), ctx.release)
        if violated:
            names.setdefault(", ".join(v.reason for v in violated), []).append(pod["metadata"]["name"])
    if names:
        ctx.warn(f'existing pods in namespace "{namespace}" violate the new PodSecurity enforce level "{standard}"')
    for text in sorted(f"{_first(pods)}: {why}" for why, pods in names.items()):
        ctx.warn(text)


def _first(names: list[str]) -> str:
    """Return the first name, with the number of the others: "a (and 2 other pods)"."""
    others = len(names) - 1
    rest = f" (and {others} other {'pod' if others == 1 else 'pods'})" if others else ""
    return min(names) + rest
