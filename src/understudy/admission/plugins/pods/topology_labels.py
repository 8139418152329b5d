"""PodTopologyLabels: copy the zone and the region of a node to the pods that are assigned to it (KEP-4742)."""

from __future__ import annotations

from understudy.admission.chain import Attributes, Operation, Point
from understudy.kinds.context import Context
from understudy.machinery.releases import features
from understudy.machinery.types import nested_field

_LABELS = ("topology.kubernetes.io/zone", "topology.kubernetes.io/region")


class PodTopologyLabels:
    """Labels bindings, and new pods with a node, like their node."""

    name = "PodTopologyLabels"

    def handles(self, point: Point) -> bool:
        return point[:3] == (Operation.CREATE, "", "pods") and point.subresource in ("", "binding")

    async def admit(self, attributes: Attributes, ctx: Context) -> None:
        """Copy the labels of the node, if there is one; they replace what the client has sent."""
        if not ctx.gates[features.POD_TOPOLOGY_LABELS_ADMISSION]:
            return
        target, is_binding = attributes.new.get("target") or {}, attributes.point.subresource == "binding"
        if is_binding and target.get("kind") != "Node":
            return
        name = target.get("name") if is_binding else nested_field(attributes.new, "spec", "nodeName")
        node = ctx.lookup("", "nodes", "", name) if name else None
        labels = nested_field(node, "metadata", "labels", default={})
        copied = {label: labels[label] for label in _LABELS if label in labels}
        if copied:
            metadata = attributes.new["metadata"]
            metadata["labels"] = {**(metadata.get("labels") or {}), **copied}
