"""NodeRestriction: let kubelets write only what belongs to their own nodes.

Source: k8s.io/kubernetes/plugin/pkg/admission/noderestriction.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping

from understudy.admission.chain import Attributes, Operation, Point
from understudy.admission.plugins.nodes import kubelet_certificates, kubelet_pods
from understudy.admission.plugins.nodes.kubelet_tokens import TokenRestriction
from understudy.kinds.context import Context
from understudy.kinds.core.pods.validation.updates import equal_ignoring_empty
from understudy.machinery.auth.authorization import Authorizer
from understudy.machinery.auth.users import User
from understudy.machinery.golang.text import go_quote
from understudy.machinery.releases import features
from understudy.machinery.releases.version import V1_33
from understudy.machinery.types import Obj
from understudy.machinery.validation.bad_values import Difference

LEASES = "kube-node-lease"
RESTRICTED = "node-restriction.kubernetes.io"
# Labels of Kubernetes that a kubelet may set on its own node, and endings of the prefixes of others.
KUBELET_LABELS = {
    "kubernetes.io/hostname",
    "topology.kubernetes.io/zone",
    "topology.kubernetes.io/region",
    "failure-domain.beta.kubernetes.io/zone",
    "failure-domain.beta.kubernetes.io/region",
    "beta.kubernetes.io/instance-type",
    "node.kubernetes.io/instance-type",
    "kubernetes.io/os",
    "kubernetes.io/arch",
    "beta.kubernetes.io/os",
    "beta.kubernetes.io/arch",
}
KUBELET_PREFIXES = ("kubelet.kubernetes.io", "node.kubernetes.io")
_CLAIM = "*k8s.io/kubernetes/pkg/apis/core.PersistentVolumeClaim"

Restriction = Callable[[str, Attributes, Context], None]


class NodeRestriction:
    """Refuses writes by kubelets of what does not belong to their nodes. It edits nothing, but is asked in its turn."""

    name = "NodeRestriction"

    def __init__(self, authorizer: Authorizer) -> None:
        self._restrictions: Mapping[tuple[str, str], Restriction] = {
            **_RESTRICTIONS,
            ("", "serviceaccounts"): TokenRestriction(authorizer).check,
        }

    def handles(self, point: Point) -> bool:
        """Report whether a request writes: a kubelet that does not say which node is its own may write nothing."""
        return point.operation != Operation.CONNECT

    async def admit(self, attributes: Attributes, ctx: Context) -> None:
        """Raise 403 for what a kubelet may not write, 404 if it concerns a pod or a node that does not exist."""
        user = User.of_info(attributes.user)
        node = user.node
        if node is None:
            return
        if not node:
            raise attributes.forbidden(f"could not determine node from user {go_quote(user.name)}")
        restrict = self._restrictions.get((attributes.point.group, attributes.point.resource))
        if restrict:
            restrict(node, attributes, ctx)


def _node(node: str, attributes: Attributes, ctx: Context) -> None:
    """Let a kubelet write its own node, but for what would let it attract pods. Upstream: `admitNode`."""
    if attributes.name != node:
        text = f"node {go_quote(node)} is not allowed to modify node {go_quote(attributes.name)}"
        raise attributes.forbidden(text)
    if attributes.point.operation == Operation.CREATE:
        if attributes.new["spec"].get("configSource") is not None:
            raise attributes.forbidden(
                f"node {go_quote(node)} is not allowed to create pods with a non-nil configSource"
            )
        if labels := _forbidden_labels(attributes.new, {}):
            raise attributes.forbidden(f"node {go_quote(node)} is not allowed to set the following labels: {labels}")
    elif attributes.point.operation == Operation.UPDATE:
        _node_update(node, attributes, ctx)


def _node_update(node: str, attributes: Attributes, ctx: Context) -> None:
    new, old = attributes.new, attributes.old
    source = new["spec"].get("configSource")
    if source is not None and source != old["spec"].get("configSource"):
        text = f"node {go_quote(node)} is not allowed to update configSource to a new non-nil configSource"
        raise attributes.forbidden(text)
    if not equal_ignoring_empty(new["spec"].get("taints"), old["spec"].get("taints")):
        raise attributes.forbidden(f"node {go_quote(node)} is not allowed to modify taints")
    owners, old_owners = (obj["metadata"].get("ownerReferences") for obj in (new, old))
    if ctx.release >= V1_33 and not equal_ignoring_empty(owners, old_owners):
        raise attributes.forbidden(f"node {go_quote(node)} is not allowed to modify ownerReferences")
    if labels := _forbidden_labels(new, old):
        raise attributes.forbidden(f"is not allowed to modify labels: {labels}")


def _forbidden_labels(new: Obj, old: Obj) -> str:
    """Return the keys of labels that differ and that a kubelet may not write, sorted and joined by commas."""
    labels, before = (dict((obj.get("metadata") or {}).get("labels") or {}) for obj in (new, old))
    changed = (key for key, _ in labels.items() ^ before.items())
    return ", ".join(sorted({key for key in changed if _is_forbidden_label(key)}))


def _is_forbidden_label(key: str) -> bool:
    """Report whether a kubelet may not write a label (`getForbiddenLabels`)."""
    prefix, slash, _ = key.partition("/")
    if not slash:
        return False
    if _is_below(prefix, RESTRICTED):
        return True
    is_of_kubernetes = _is_below(prefix, "kubernetes.io") or _is_below(prefix, "k8s.io")
    allowed = key in KUBELET_LABELS or any(_is_below(prefix, name) for name in KUBELET_PREFIXES)
    return is_of_kubernetes and not allowed


def _is_below(prefix: str, domain: str) -> bool:
    return prefix == domain or prefix.endswith(f".{domain}")


def _volume_claim(node: str, attributes: Attributes, ctx: Context) -> None:
    """Let a kubelet write the sizes and conditions in the status of a claim. Upstream: `admitPVCStatus`."""
    if attributes.point.subresource != "status":
        raise attributes.forbidden("may only update PVC status")
    if attributes.point.operation != Operation.UPDATE:
        raise attributes.forbidden(f"unexpected operation {go_quote(attributes.point.operation)}")
    expands = ctx.gates[features.RECOVER_VOLUME_EXPANSION_FAILURE]
    free = ("capacity", "conditions", *(("allocatedResourceStatuses", "allocatedResources") if expands else ()))
    old, new = (_without(obj, free) for obj in (attributes.old, attributes.new))
    if not equal_ignoring_empty(new, old):
        text = (
            f"node {go_quote(node)} is not allowed to update fields other than status.quantity and status.conditions: "
        )
        raise attributes.forbidden(Difference(text, old, new, _CLAIM).text(ctx.release))


def _without(claim: Obj, fields: tuple[str, ...]) -> Obj:
    """Return a claim without what every update changes, and without fields of its status."""
    metadata = {k: v for k, v in claim["metadata"].items() if k not in ("resourceVersion", "managedFields")}
    status = {k: v for k, v in (claim.get("status") or {}).items() if k not in fields}
    return {**claim, "metadata": metadata, "status": status}


def _lease(node: str, attributes: Attributes, ctx: Context) -> None:
    """Let a kubelet write its own lease. Upstream: `admitLease`."""
    if attributes.namespace != LEASES:
        raise attributes.forbidden(f"can only access leases in the {go_quote(LEASES)} system namespace")
    if attributes.name != node:
        raise attributes.forbidden("can only access node lease with the same name as the requesting node")


def _csi_node(node: str, attributes: Attributes, ctx: Context) -> None:
    if attributes.name != node:
        raise attributes.forbidden("can only access CSINode with the same name as the requesting node")


def _resource_slice(node: str, attributes: Attributes, ctx: Context) -> None:
    """Let a kubelet create and delete slices of its node. The node authorizer has decided about other writes, but
    does not see the objects of a deleted collection."""
    operation = attributes.point.operation
    if operation == Operation.UPDATE:
        return
    resource_slice = attributes.new if operation == Operation.CREATE else attributes.old
    if resource_slice["spec"].get("nodeName") != node:
        verb = operation.lower()
        raise attributes.forbidden(f"can only {verb} ResourceSlice with the same NodeName as the requesting node")


_RESTRICTIONS: Mapping[tuple[str, str], Restriction] = {
    ("", "pods"): kubelet_pods.check,
    ("", "nodes"): _node,
    ("", "persistentvolumeclaims"): _volume_claim,
    ("coordination.k8s.io", "leases"): _lease,
    ("storage.k8s.io", "csinodes"): _csi_node,
    ("resource.k8s.io", "resourceslices"): _resource_slice,
    ("certificates.k8s.io", "certificatesigningrequests"): kubelet_certificates.check_signing_request,
    ("certificates.k8s.io", "podcertificaterequests"): kubelet_certificates.check_pod_certificate_request,
}
