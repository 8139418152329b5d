"""Explains why claims cannot be allocated, from the objects of a server or of manifests."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Iterable, Iterator, Mapping, Sequence
from typing import Any

from understudy.controlplane.allocator import Allocator, Explanation
from understudy.controlplane.allocator.allocated import key_of
from understudy.controlplane.allocator.checks.taint_rules import GATE, RuleMatcher
from understudy.controlplane.client import resources
from understudy.controlplane.client.resources import Resource
from understudy.machinery.releases.version import Version
from understudy.machinery.types import Obj, dataclass

KINDS = ("Node", "ResourceClaim", "DeviceClass", "ResourceSlice", "DeviceTaintRule")


class UnknownObjectError(ValueError):
    """A claim or a node that is not there."""


@dataclass(frozen=True, slots=True)
class Explained:
    """Claims that are allocated together, with what becomes of them on each node."""

    claims: list[str]
    nodes: list[Explanation]

    @property
    def possible(self) -> bool:
        """Report whether the claims fit on any node."""
        return any(node.fits for node in self.nodes)

    def as_json(self) -> dict[str, Any]:
        """Return the explanation as JSON."""
        return {"claims": self.claims, "possible": self.possible, "nodes": [node.as_json() for node in self.nodes]}

    def lines(self) -> Iterator[str]:
        """Yield the explanation as text."""
        yield f"claim {', '.join(self.claims)}"
        for node in self.nodes:
            yield from (f"  {line}" for line in node.lines())


def has_taint_rules(version: Version, features: frozenset[str]) -> bool:
    """Report whether DeviceTaintRules count, with some feature gates on."""
    return GATE.get(version) in features


def explain(
    version: Version,
    features: frozenset[str],
    objects: Mapping[str, Sequence[Obj]],
    claims: Sequence[str] | None = None,
    nodes: Sequence[str] | None = None,
    follow: Callable[[Sequence[Obj]], Iterable[Obj]] = iter,
) -> Iterator[Explained]:
    """Yield the explanation of each claim that has no allocation.

    features  the names of the feature gates that are on
    objects   those of each of `KINDS`
    claims    explained together instead, as those of a pod: NAMESPACE/NAME
    nodes     to look at, all by default
    follow    yields the nodes for each explanation, to see how far it has come

    Raises UnknownObjectError.
    """
    known = {key_of(claim): claim for claim in objects["ResourceClaim"]}
    classes = {class_["metadata"]["name"]: class_ for class_ in objects["DeviceClass"]}
    slices = objects["ResourceSlice"]
    if has_taint_rules(version, features):
        matcher = RuleMatcher(version, classes.get)
        slices = [matcher.tainted(slice_, objects["DeviceTaintRule"]) for slice_ in slices]
    allocator = Allocator(version, features, known.values(), classes, slices)
    looked_at = _named({node["metadata"]["name"]: node for node in objects["Node"]}, nodes, "node")
    if claims:
        together = [_named(known, claims, "claim")]
    else:
        together = [[claim] for claim in known.values() if not (claim.get("status") or {}).get("allocation")]
    for group in together:
        explanations = [allocator.explain(node, group) for node in follow(looked_at)]
        yield Explained([key_of(claim) for claim in group], explanations)


def _named(objects: Mapping[str, Obj], names: Sequence[str] | None, kind: str) -> list[Obj]:
    """Return the objects of names, all without any. Raises UnknownObjectError for one that is not there."""
    missing = [name for name in names or () if name not in objects]
    if missing:
        raise UnknownObjectError(f"there is no {kind} {', '.join(missing)}")
    return [objects[name] for name in names or objects]


async def objects_of_server(
    list_objects: Callable[[Resource], Awaitable[Obj]], version: Version, features: frozenset[str]
) -> dict[str, list[Obj]]:
    """Return the objects of each kind that a server has, given a function that returns the list of a resource."""
    of_release = [resources.resource_claims, resources.device_classes, resources.resource_slices]
    of_release += [resources.device_taint_rules] if has_taint_rules(version, features) else []
    kinds = [resources.NODES, *(resource(version) for resource in of_release)]
    lists = [(await list_objects(resource)).get("items") or [] for resource in kinds]
    return {resource.kind: [resource.typed(obj) for obj in items] for resource, items in zip(kinds, lists, strict=True)}
