"""The checks of the restricted level that the baseline level lacks or has in a weaker form."""

from __future__ import annotations

from understudy.admission.plugins.pod_security.baseline import seccomp
from understudy.admission.plugins.pod_security.pod import Pod, Violation, added_capabilities, named
from understudy.machinery.types import nested_field


def escalation(pod: Pod) -> Violation | None:
    """Require allowPrivilegeEscalation=false of every container."""
    names = pod.having(lambda s: s.get("allowPrivilegeEscalation") is not False)
    text = f"{named('container', names)} must set securityContext.allowPrivilegeEscalation=false"
    return Violation("allowPrivilegeEscalation != false", text) if names else None


def no_capabilities(pod: Pod) -> Violation | None:
    """Require containers to drop all capabilities; they may add NET_BIND_SERVICE."""
    keeping = pod.having(lambda s: "ALL" not in nested_field(s, "capabilities", "drop", default=[]))
    texts = [f'{named("container", keeping)} must set securityContext.capabilities.drop=["ALL"]'] if keeping else []
    texts += filter(None, [added_capabilities(pod, ("NET_BIND_SERVICE",))])
    return Violation("unrestricted capabilities", "; ".join(texts)) if texts else None


_VOLUMES = (
    "configMap",
    "csi",
    "downwardAPI",
    "emptyDir",
    "ephemeral",
    "persistentVolumeClaim",
    "projected",
    "secret",
)
# The error message names the first of these that a volume has, else "unknown".
_NAMED_VOLUMES = (
    "hostPath",
    "gcePersistentDisk",
    "awsElasticBlockStore",
    "gitRepo",
    "nfs",
    "iscsi",
    "glusterfs",
    "rbd",
    "flexVolume",
    "cinder",
    "cephfs",
    "flocker",
    "fc",
    "azureFile",
    "vsphereVolume",
    "quobyte",
    "azureDisk",
    "photonPersistentDisk",
    "portworxVolume",
    "scaleIO",
    "storageos",
)


def volumes(pod: Pod) -> Violation | None:
    """Refuse volumes of other types than those listed in `_VOLUMES`, and images."""
    allowed = (*_VOLUMES, "image") if pod.allows_images else _VOLUMES
    bad = [v for v in pod.spec.get("volumes") or [] if all(v.get(kind) is None for kind in allowed)]
    names = [volume.get("name", "") for volume in bad]
    types = sorted({next((t for t in _NAMED_VOLUMES if v.get(t) is not None), "unknown") for v in bad})
    verb = "uses" if len(names) == 1 else "use"
    text = f"{named('volume', names)} {verb} {named('restricted volume type', types)}"
    return Violation("restricted volume types", text) if names else None


def root(pod: Pod) -> Violation | None:
    """Require runAsNonRoot=true of the pod or of all its containers, unless the pod has a user namespace."""
    if pod.relaxed:
        return None
    reason = "runAsNonRoot != true"
    if setters := pod.setting(lambda s: s.get("runAsNonRoot") is False):
        return Violation(reason, f"{' and '.join(setters)} must not set securityContext.runAsNonRoot=false")
    silent = [] if pod.security.get("runAsNonRoot") else pod.having(lambda s: s.get("runAsNonRoot") is None)
    text = f"pod or {named('container', silent)} must set securityContext.runAsNonRoot=true"
    return Violation(reason, text) if silent else None


def root_user(pod: Pod) -> Violation | None:
    """Refuse runAsUser=0, unless the pod has a user namespace."""
    setters = pod.setting(lambda s: s.get("runAsUser") == 0)
    violation = Violation("runAsUser=0", f"{' and '.join(setters)} must not set runAsUser=0")
    return violation if setters and not pod.relaxed else None


def needs_seccomp(pod: Pod) -> Violation | None:
    """Require a seccomp profile of the pod or of all its containers, and refuse the same profiles as `seccomp`."""
    wrong = seccomp(pod)
    if wrong or nested_field(pod.security, "seccompProfile") is not None:
        return wrong
    names = pod.having(lambda s: s.get("seccompProfile") is None)
    text = 'must set securityContext.seccompProfile.type to "RuntimeDefault" or "Localhost"'
    return Violation("seccompProfile", f"pod or {named('container', names)} {text}") if names else None
