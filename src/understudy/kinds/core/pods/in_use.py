"""Tests whether the spec of a stored pod uses a feature (upstream: functions named `…InUse`).

Fields that a stored pod uses are kept, and accepted, though their feature gate is off. {} stands for no stored pod.
"""

from __future__ import annotations

from collections.abc import Iterable

from understudy.kinds.core.pods.containers_of import containers
from understudy.machinery.types import Obj, nested_field
from understudy.machinery.validation.names import label_value_texts


def is_sidecar(container: Obj) -> bool:
    """Report whether an init container keeps running (upstream: `IsRestartableInitContainer`)."""
    return container.get("restartPolicy") == "Always"


def _hooks(spec: Obj) -> Iterable[Obj]:
    for container in containers(spec):
        yield from (hook for hook in (container.get("lifecycle") or {}).values() if isinstance(hook, dict))


def zero_sleep(spec: Obj) -> bool:
    """Report whether a hook sleeps for 0 seconds."""
    return any((hook.get("sleep") or {"seconds": 1}).get("seconds") == 0 for hook in _hooks(spec))


def sidecar_resize_policy(spec: Obj) -> bool:
    """Report whether a sidecar has a resize policy."""
    return any(is_sidecar(c) and c.get("resizePolicy") for c in containers(spec, "initContainers"))


def restart_container_of_init(spec: Obj) -> bool:
    """Report whether an init container that is no sidecar has the resize policy RestartContainer."""
    return any(
        policy.get("restartPolicy") == "RestartContainer"
        for container in containers(spec, "initContainers")
        if not is_sidecar(container)
        for policy in container.get("resizePolicy") or ()
    )


def restart_rules(spec: Obj) -> bool:
    """Report whether a container has a restart policy of its own, other than that of sidecars."""
    return any(
        container.get("restartPolicyRules") or container.get("restartPolicy") not in (None, "Always")
        for container in containers(spec, "initContainers")
    ) or any(container.get("restartPolicy") is not None for container in containers(spec, "containers"))


def restart_of_all(spec: Obj) -> bool:
    """Report whether a container can restart all of the pod, or a sidecar has restart rules."""
    sidecars = (container for container in containers(spec, "initContainers") if is_sidecar(container))
    return restarts_all(spec) or any(sidecar.get("restartPolicyRules") for sidecar in sidecars)


def restarts_all(spec: Obj) -> bool:
    """Report whether the exit of a container can restart all of the pod (upstream: `AllContainersCouldRestart`)."""
    return any(
        rule.get("action") == "RestartAllContainers"
        for container in containers(spec, "containers", "initContainers")
        for rule in container.get("restartPolicyRules") or ()
    )


def env_files(spec: Obj) -> bool:
    """Report whether an environment variable comes from a file."""
    return any(
        nested_field(variable, "valueFrom", "fileKeyRef") is not None
        for container in containers(spec)
        for variable in container.get("env") or ()
    )


def comparing_tolerations(spec: Obj) -> bool:
    """Report whether a toleration compares numbers."""
    return any(toleration.get("operator") in ("Lt", "Gt") for toleration in spec.get("tolerations") or ())


def host_network_of_own_users(spec: Obj) -> bool:
    """Report whether the pod has a user namespace in the network of the host."""
    return spec.get("hostUsers") is False and bool(spec.get("hostNetwork"))


def devices_of_own_users(spec: Obj) -> bool:
    """Report whether a container has block devices while the pod has a user namespace."""
    return spec.get("hostUsers") is False and any(container.get("volumeDevices") for container in containers(spec))


def invalid_affinity_values(spec: Obj) -> bool:
    """Report whether the required node affinity has values that are no label values."""
    return invalid_label_values(
        nested_field(spec, "affinity", "nodeAffinity", "requiredDuringSchedulingIgnoredDuringExecution")
    )


def invalid_label_values(selector: Obj | None) -> bool:
    """Report whether a node selector has values that are no label values (upstream:
    `HasInvalidLabelValueInNodeSelectorTerms`)."""
    return any(
        label_value_texts(value)
        for term in (selector or {}).get("nodeSelectorTerms") or ()
        for expression in term.get("matchExpressions") or ()
        for value in expression.get("values") or ()
    )
