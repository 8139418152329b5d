"""Pods that kubelets may write: mirror pods of their own nodes, and the status of what runs there."""

from __future__ import annotations

from collections.abc import Callable, Mapping

from understudy.admission.chain import Attributes, Operation
from understudy.kinds.context import Context
from understudy.kinds.core.pods import pod_references
from understudy.kinds.core.pods.pod_references import MIRROR
from understudy.machinery import errors
from understudy.machinery.golang.text import go_quote
from understudy.machinery.releases.version import V1_33, V1_34
from understudy.machinery.types import Obj


def check(node: str, attributes: Attributes, ctx: Context) -> None:
    """Raise 403 for a write of a pod that the kubelet of a node may not do, 404 for a pod that does not exist."""
    subresource = attributes.point.subresource
    try:
        restrict = _BY_SUBRESOURCE[subresource]
    except KeyError:
        text = f"unexpected pod subresource {go_quote(subresource)}, only 'status' and 'eviction' are allowed"
        raise attributes.forbidden(text) from None
    restrict(node, attributes, ctx)


def _pod(node: str, attributes: Attributes, ctx: Context) -> None:
    """Check that a kubelet creates a mirror pod, or deletes a pod of its node. Upstream: `admitPod`."""
    match attributes.point.operation:
        case Operation.CREATE:
            _create(node, attributes, ctx)
        case Operation.DELETE:
            if attributes.old["spec"].get("nodeName") != node:
                text = f"node {go_quote(node)} can only delete pods with spec.nodeName set to itself"
                raise attributes.forbidden(text)
        case operation:
            text = f"unexpected operation {go_quote(operation)}, node {go_quote(node)} can only create and delete"
            raise attributes.forbidden(f"{text} mirror pods")


def _create(node: str, attributes: Attributes, ctx: Context) -> None:
    """Check that a new pod is a mirror pod of the node that refers to nothing. Upstream: `admitPodCreate`."""
    pod = attributes.new
    if not pod_references.is_mirror(pod):
        text = f"pod does not have {go_quote(MIRROR)} annotation, node {go_quote(node)} can only create mirror pods"
        raise attributes.forbidden(text)
    if pod["spec"].get("nodeName") != node:
        raise attributes.forbidden(f"node {go_quote(node)} can only create pods with spec.nodeName set to itself")
    _check_owner(node, attributes, ctx)
    reference = _reference(pod) if ctx.release >= V1_34 else _reference_before_1_34(pod, ctx)
    if reference:
        raise attributes.forbidden(f"node {go_quote(node)} can not create pods that reference {reference}")


def _check_owner(node: str, attributes: Attributes, ctx: Context) -> None:
    """Check that a new pod is owned by the node, and by nothing else."""
    owners = attributes.new["metadata"].get("ownerReferences") or []
    only = f"node {go_quote(node)} can only create pods with"
    if len(owners) > 1:
        raise attributes.forbidden(f"{only} a single owner reference set to itself")
    owner = owners[0] if owners else {}
    if (owner.get("apiVersion"), owner.get("kind"), owner.get("name")) != ("v1", "Node", node):
        raise attributes.forbidden(f"{only} an owner reference set to itself")
    if not owner.get("controller"):
        raise attributes.forbidden(f"{only} a controller owner reference set to itself")
    if owner.get("blockOwnerDeletion"):
        raise attributes.forbidden(f"node {go_quote(node)} must not set blockOwnerDeletion on an owner reference")
    stored = ctx.lookup("", "nodes", "", node)
    if stored is None:
        raise errors.not_found("", "node", node)
    uid, actual = owner.get("uid", ""), stored["metadata"]["uid"]
    if uid != actual:
        raise attributes.forbidden(f"node {node} UID mismatch: expected {uid} got {actual}")


def _reference_before_1_34(pod: Obj, ctx: Context) -> str:
    """Return a resource that a mirror pod may not refer to and does, "" if there is none."""
    if pod["spec"].get("serviceAccountName"):
        return "a service account"
    if any(pod_references.secrets(pod)):
        return "secrets"
    if any(pod_references.config_maps(pod)):
        return "configmaps"
    if any("clusterTrustBundle" in source for source in pod_references.projected_sources(pod)):
        return "clustertrustbundles"
    if any("persistentVolumeClaim" in volume for volume in pod["spec"].get("volumes") or ()):
        return "persistentvolumeclaims"
    return "resourceclaims" if pod["spec"].get("resourceClaims") and ctx.release >= V1_33 else ""


# What volumes and the sources of projected volumes refer to, in the order in which they are looked for.
_OF_VOLUMES = {
    "configMap": "configmaps (via configmap volumes)",
    "secret": "secrets (via secret volumes)",
    "csi": "csidrivers (via CSI volumes)",
    "glusterfs": "endpoints (via glusterFS volumes)",
    "persistentVolumeClaim": "persistentvolumeclaims",
    "ephemeral": "persistentvolumeclaims (via ephemeral volumes)",
    "azureFile": "secrets (via azureFile volumes)",
}
_OF_SOURCES = {
    "configMap": "configmaps (via projected volumes)",
    "secret": "secrets (via projected volumes)",
    "serviceAccountToken": "serviceaccounts (via projected volumes)",
    "clusterTrustBundle": "clustertrustbundles",
    "podCertificate": "podcertificates",
}


def _reference(pod: Obj) -> str:
    """Return a resource that a mirror pod may not refer to and does, "" if there is none (`HasAPIObjectReference`)."""
    if pod["spec"].get("serviceAccountName"):
        return "serviceaccounts"
    if any(pod_references.secrets(pod)):
        return "secrets"
    if any(pod_references.config_maps(pod)):
        return "configmaps"
    if pod["spec"].get("resourceClaims"):
        return "resourceclaims"
    for volume in pod["spec"].get("volumes") or ():
        sources = (volume.get("projected") or {}).get("sources") or ()
        for each, texts in ((volume, _OF_VOLUMES), *((source, _OF_SOURCES) for source in sources)):
            if reference := next((text for field, text in texts.items() if field in each), ""):
                return reference
    return ""


def _status(node: str, attributes: Attributes, ctx: Context) -> None:
    """Check that a kubelet updates the status of a pod on its node, without what others write there."""
    new, old = attributes.new, attributes.old
    if old["spec"].get("nodeName") != node:
        text = f"node {go_quote(node)} can only update pod status for pods with spec.nodeName set to itself"
        raise attributes.forbidden(text)
    if (new["metadata"].get("labels") or {}) != (old["metadata"].get("labels") or {}):
        raise attributes.forbidden(f"node {go_quote(node)} cannot update labels through pod status")
    status, before = new.get("status") or {}, old.get("status") or {}
    if (status.get("resourceClaimStatuses") or []) != (before.get("resourceClaimStatuses") or []):
        raise attributes.forbidden(f"node {go_quote(node)} cannot update resource claim statues")  # sic
    field = "extendedResourceClaimStatus"
    if ctx.release >= V1_34 and status.get(field) != before.get(field):
        raise attributes.forbidden(f"node {go_quote(node)} cannot update extended resource claim status")


def _eviction(node: str, attributes: Attributes, ctx: Context) -> None:
    """Check that a kubelet evicts a pod of its node."""
    pod = ctx.lookup("", "pods", attributes.namespace, attributes.name)
    if pod is None:
        raise errors.not_found("", "pod", attributes.name)
    if pod["spec"].get("nodeName") != node:
        raise attributes.forbidden(f"node {node} can only evict pods with spec.nodeName set to itself")


_BY_SUBRESOURCE: Mapping[str, Callable[[str, Attributes, Context], None]] = {
    "": _pod,
    "status": _status,
    "eviction": _eviction,
}
