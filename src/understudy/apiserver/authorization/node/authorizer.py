"""The authorizer of kubelets: each may read what belongs to its own node, and use what every node needs.

The admission plugin NodeRestriction keeps nodes from writing what belongs to others.

Source: k8s.io/kubernetes/plugin/pkg/auth/authorizer/node/node_authorizer.go.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

from understudy.apiserver.authorization.node import graph
from understudy.apiserver.authorization.node.graph import Graph, GroupResource
from understudy.apiserver.authorization.rbac.rules import Rule
from understudy.machinery.auth.authorization import Attributes, Decision, StoredObjects, SubjectRules
from understudy.machinery.auth.users import User
from understudy.machinery.golang.text import go_quote
from understudy.machinery.releases import features
from understudy.machinery.releases.features import Gates
from understudy.machinery.releases.version import Version

LEASES = "kube-node-lease"
READ = ("get", "list", "watch")
OWN = ("get", "create", "update", "patch", "delete")
ALLOWED, NO_OPINION = Decision(True), Decision(False)


class NodeAuthorizer:
    """Decides about users `system:node:NAME` of the group `system:nodes`; has no opinion about others.

    rules  allow every node what no rule of this class is about: those of the cluster role `system:node`
    """

    def __init__(self, objects: StoredObjects, version: Version, gates: Gates, rules: Sequence[Rule]) -> None:
        self._graph = Graph(objects)
        self._gates = gates
        self._rules = rules

    def authorize(self, user: User, attributes: Attributes) -> Decision:
        """Return whether a node may do it. The reason of a refusal tells what the node could do."""
        node = user.node
        if node is None:
            return NO_OPINION
        if not node:
            return Decision(False, f"unknown node for user {go_quote(user.name)}")
        judge = _JUDGES.get((attributes.group, attributes.resource)) if attributes.is_resource else None
        return judge(self, node, attributes) if judge else self._by_rules(attributes)

    def rules_for(self, user: User, namespace: str) -> SubjectRules:
        """Return that the rules of a node cannot be listed, and none for others."""
        if user.node is None:
            return SubjectRules([], [], incomplete=False)
        return SubjectRules([], [], True, "node authorizer does not support user rule resolution")

    def _by_rules(self, attributes: Attributes) -> Decision:
        return ALLOWED if any(rule.allows(attributes) for rule in self._rules) else NO_OPINION

    def _related(self, node: str, attributes: Attributes) -> Decision:
        """Allow requests by name for objects that belong to the node. Upstream: `authorize`."""
        if not attributes.name:
            return Decision(False, "No Object name found")
        resource = (attributes.group, attributes.resource)
        if self._graph.has_path(node, resource, attributes.namespace, attributes.name):
            return ALLOWED
        return Decision(False, f"no relationship found between node '{node}' and this object")

    def _read(self, node: str, attributes: Attributes) -> Decision:
        """Allow reads of single objects in a namespace. Upstream: `authorizeReadNamespacedObject`."""
        if attributes.verb not in READ:
            return Decision(False, "can only read resources of this type")
        if attributes.subresource:
            return Decision(False, "cannot read subresource")
        if not attributes.namespace:
            return Decision(False, "can only read namespaced object of this type")
        return self._related(node, attributes)

    def _get(self, node: str, attributes: Attributes) -> Decision:
        if attributes.verb != "get":
            return Decision(False, "can only get individual resources of this type")
        if attributes.subresource:
            return Decision(False, "cannot get subresource")
        return self._related(node, attributes)

    def _volume_claim(self, node: str, attributes: Attributes) -> Decision:
        if attributes.subresource != "status":
            return self._get(node, attributes)
        if attributes.verb not in ("update", "patch"):
            return Decision(False, "can only get/update/patch this type")
        return self._related(node, attributes)

    def _service_account(self, node: str, attributes: Attributes) -> Decision:
        """Allow tokens and, in releases that have a gate for it, reads of the accounts of a node's pods."""
        gate = features.KUBELET_SERVICE_ACCOUNT_TOKEN_FOR_CREDENTIAL_PROVIDERS
        if attributes.verb == "get" and not attributes.subresource and self._gates.has(gate):
            if self._gates[gate] or self._gates[features.POD_CERTIFICATE_REQUEST]:
                return self._read(node, attributes)
            return Decision(False, "not allowed to get service accounts")
        if attributes.verb != "create" or not attributes.name:
            return Decision(False, "can only create tokens for individual service accounts")
        if attributes.subresource != "token":
            return Decision(False, "can only create token subresource of serviceaccount")
        return self._related(node, attributes)

    def _lease(self, node: str, attributes: Attributes) -> Decision:
        """Allow a node its own lease. The name of a new one is not known here."""
        if attributes.verb not in OWN:
            return Decision(False, "can only get, create, update, patch, or delete a node lease")
        if attributes.namespace != LEASES:
            return Decision(False, f"can only access leases in the {go_quote(LEASES)} system namespace")
        if attributes.verb != "create" and attributes.name != node:
            return Decision(False, "can only access node lease with the same name as the requesting node")
        return ALLOWED

    def _csi_node(self, node: str, attributes: Attributes) -> Decision:
        """Allow a node its own CSINode. The name of a new one is not known here."""
        if attributes.verb not in OWN:
            return Decision(False, "can only get, create, update, patch, or delete a CSINode")
        if attributes.subresource:
            return Decision(False, "cannot authorize CSINode subresources")
        if attributes.verb != "create" and attributes.name != node:
            return Decision(False, "can only access CSINode with the same name as the requesting node")
        return ALLOWED

    def _slice(self, node: str, attributes: Attributes) -> Decision:
        """Allow a node its own resource slices. The node of a new one is not known here."""
        if attributes.subresource:
            return Decision(False, "cannot authorize ResourceSlice subresources")
        match attributes.verb:
            case "create":
                return ALLOWED
            case "get" | "update" | "patch" | "delete":
                return self._related(node, attributes)
            case "watch" | "list" | "deletecollection":
                if not self._gates[features.AUTHORIZE_NODE_WITH_SELECTORS] or _selects_node(node, attributes):
                    return ALLOWED
                text = "can only list/watch/deletecollection resourceslices with nodeName field selector"
                return Decision(False, text)
        verbs = "get, watch, list, create, update, patch, delete, deletecollection"
        return Decision(False, f"only the following verbs are allowed for a ResourceSlice: {verbs}")

    def _certificate_request(self, node: str, attributes: Attributes) -> Decision:
        if not self._gates[features.POD_CERTIFICATE_REQUEST]:
            return NO_OPINION
        if attributes.subresource:
            return Decision(False, "nodes may not access the status subresource of PodCertificateRequests")
        match attributes.verb:
            case "create":
                return ALLOWED
            case "get":
                return self._related(node, attributes)
            case "list" | "watch":
                if _selects_node(node, attributes):
                    return ALLOWED
                return Decision(False, "can only list/watch podcertificaterequests with nodeName field selector")
        return Decision(False, f"nodes may not {attributes.verb} podcertificaterequests")

    def _node(self, node: str, attributes: Attributes) -> Decision:
        if not self._gates[features.AUTHORIZE_NODE_WITH_SELECTORS]:
            return self._by_rules(attributes)
        match attributes.subresource, attributes.verb:
            case ("", "create" | "update" | "patch") | ("status", "update" | "patch"):
                return ALLOWED
            case "", "get" | "list" | "watch":
                if attributes.name == node:
                    return ALLOWED
                what = f"'{attributes.name}'" if attributes.name else "all nodes"
                return Decision(False, f"node '{node}' cannot read {what}, only its own Node object")
        return NO_OPINION

    def _pod(self, node: str, attributes: Attributes) -> Decision:
        if not self._gates[features.AUTHORIZE_NODE_WITH_SELECTORS]:
            return self._by_rules(attributes)
        match attributes.subresource, attributes.verb:
            case "", "get":
                return self._related(node, attributes)
            case "", "list" | "watch":
                if _selects_node(node, attributes):
                    return ALLOWED
                if attributes.name:
                    return self._related(node, attributes)
                return Decision(False, "can only list/watch pods with spec.nodeName field selector")
            case ("", "create" | "delete") | ("status", "update" | "patch") | ("eviction", "create"):
                return ALLOWED
        return NO_OPINION


_JUDGES: Mapping[GroupResource, Callable[[NodeAuthorizer, str, Attributes], Decision]] = {
    graph.SECRETS: NodeAuthorizer._read,
    graph.CONFIG_MAPS: NodeAuthorizer._read,
    graph.VOLUME_CLAIMS: NodeAuthorizer._volume_claim,
    graph.VOLUMES: NodeAuthorizer._get,
    graph.CLAIMS: NodeAuthorizer._get,
    graph.ATTACHMENTS: NodeAuthorizer._get,
    graph.SERVICE_ACCOUNTS: NodeAuthorizer._service_account,
    ("coordination.k8s.io", "leases"): NodeAuthorizer._lease,
    ("storage.k8s.io", "csinodes"): NodeAuthorizer._csi_node,
    graph.SLICES: NodeAuthorizer._slice,
    ("", "nodes"): NodeAuthorizer._node,
    graph.PODS: NodeAuthorizer._pod,
    graph.CERTIFICATE_REQUESTS: NodeAuthorizer._certificate_request,
}


def _selects_node(node: str, attributes: Attributes) -> bool:
    """Report whether only objects are asked for that name the node."""
    return any(
        term.equal and term.label == "spec.nodeName" and term.value == node for term in attributes.field_selector
    )
