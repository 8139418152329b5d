"""`understudy explain-allocation FILE|DIR|- …`: says why claims cannot be allocated: which device fails which rule.

    claim default/training
      node node-a: does not fit
        default/training: request gpus: 1 of 2 devices found
          gpu.example.com/pool-a/gpu-0: fits
          gpu.example.com/pool-a/gpu-1: in use by claim default/other

The nodes, slices, classes and claims come from manifests, or from a running server. Claims that have an allocation are
in use. Each other one is explained by itself; those that `--claim` names are explained together, as claims of one pod.

Exit code 0: all claims can be allocated; 1: some cannot; 2: something cannot be read or is not there.
"""

from __future__ import annotations

import argparse
import asyncio
import json
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Any

from understudy.cli.flags import add_server_flags
from understudy.cli.output import print_error, print_places
from understudy.cli.remote_server import connection_of
from understudy.cli.world_text import WorldsIn
from understudy.machinery.util.dataclass import dataclass

if TYPE_CHECKING:
    from understudy.apiserver.client.connection import Connection
    from understudy.cli.program import AddParser
    from understudy.controlplane.allocator import Explanation
    from understudy.machinery.releases.version import Version
    from understudy.machinery.types import Obj
    from understudy.offline.validator import Validator

ALLOCATED, UNALLOCATED, UNREADABLE = 0, 1, 2
_KINDS = ("Node", "ResourceClaim", "DeviceClass", "ResourceSlice", "DeviceTaintRule")


class _UnusableError(ValueError):
    """Objects that cannot be read, or that are not there."""


@dataclass(frozen=True, slots=True)
class _Explained:
    """Claims that are allocated together, with what becomes of them on each node."""

    claims: list[str]
    nodes: list[Explanation]

    @property
    def possible(self) -> bool:
        return any(node.fits for node in self.nodes)

    def as_json(self) -> dict[str, Any]:
        return {"claims": self.claims, "possible": self.possible, "nodes": [node.as_json() for node in self.nodes]}

    def lines(self) -> Iterator[str]:
        yield f"claim {', '.join(self.claims)}"
        for node in self.nodes:
            yield from (f"  {line}" for line in node.lines())


def add_command(add_parser: AddParser) -> None:
    """Add the command with its flags."""
    about = "Says why claims cannot be allocated: which device fails which rule on which node."
    parser = add_parser(description=about)
    add = parser.add_argument
    add("paths", nargs="*", metavar="FILE|DIR|-", help="manifests; - reads standard input")
    add("--server", metavar="URL", help="take the objects of this server, which must be of the emulated release")
    add("--kubeconfig", metavar="PATH", help="take the objects of the server of this file's current context")
    add_server_flags(parser, ("emulated_version", "feature_gates"))
    text = "a claim to explain; several are allocated together, as those of a pod (default: each one by itself)"
    add("--claim", action="append", metavar="NAMESPACE/NAME", help=text)
    add("--node", action="append", metavar="NAME", help="a node to look at (default: all)")
    add("-o", "--output", choices=("text", "json"), default="text", help="json: a list of claims with their nodes")
    parser.set_defaults(run=run)


def run(args: argparse.Namespace) -> int:
    """Print the explanations; return the exit code."""
    try:
        explained = list(_explained(args))
    except ValueError as why:
        print_error(why)
        return UNREADABLE
    if args.output == "json":
        print(json.dumps([each.as_json() for each in explained], indent=2))
    else:
        for each in explained:
            print("\n".join(each.lines()))
    return ALLOCATED if all(each.possible for each in explained) else UNALLOCATED


def _explained(args: argparse.Namespace) -> Iterator[_Explained]:
    """Yield the explanation of each claim that the arguments name. Raises ValueError."""
    from understudy.apiserver.serving.release import Release
    from understudy.controlplane.allocator import Allocator
    from understudy.controlplane.allocator.allocated import key_of
    from understudy.controlplane.allocator.checks.taint_rules import GATE, RuleMatcher
    from understudy.machinery.releases.features import Gates

    release = Release.named(args.emulated_version).version
    features = frozenset(gate for gate, on in Gates.of(release, args.feature_gates).in_force().items() if on)
    rules = GATE.get(release) in features
    objects = _objects(args, release, rules)
    claims = {key_of(claim): claim for claim in objects["ResourceClaim"]}
    classes = {class_["metadata"]["name"]: class_ for class_ in objects["DeviceClass"]}
    slices = objects["ResourceSlice"]
    if rules:
        matcher = RuleMatcher(release, classes.get)
        slices = [matcher.tainted(slice_, objects["DeviceTaintRule"]) for slice_ in slices]
    allocator = Allocator(release, features, claims.values(), classes, slices)
    nodes = _named({node["metadata"]["name"]: node for node in objects["Node"]}, args.node, "node")
    if args.claim:
        together = [_named(claims, args.claim, "claim")]
    else:
        together = [[claim] for claim in claims.values() if not (claim.get("status") or {}).get("allocation")]
    for group in together:
        explanations = [allocator.explain(node, group) for node in nodes]
        yield _Explained([key_of(claim) for claim in group], explanations)


def _named(objects: dict[str, Obj], names: Sequence[str] | None, kind: str) -> list[Obj]:
    """Return the objects of names, all without any. Raises _UnusableError for one that is not there."""
    missing = [name for name in names or () if name not in objects]
    if missing:
        raise _UnusableError(f"there is no {kind} {', '.join(missing)}")
    return [objects[name] for name in names or objects]


# --- where objects come from ------------------------------------------------------------------------------------------


def _objects(args: argparse.Namespace, version: Version, rules: bool) -> dict[str, list[Obj]]:
    """Return the objects of each kind. Raises _UnusableError.

    rules  whether DeviceTaintRules are needed
    """
    if args.server or args.kubeconfig:
        if args.paths:
            raise _UnusableError("the objects come either from manifests or from a server")
        return asyncio.run(_objects_of_server(connection_of(args), version, rules))
    if not args.paths:
        raise _UnusableError("name manifests, --server or --kubeconfig")
    return _objects_of_manifests(args.paths, version, WorldsIn(str(version), args.feature_gates or {}))


def _objects_of_manifests(paths: list[str], version: Version, worlds_in: WorldsIn) -> dict[str, list[Obj]]:
    """Return the objects of each kind in manifests, with their defaults."""
    from understudy.cli.documents import all_objects, read_manifests
    from understudy.offline.validator import Validator

    documents, unreadable = read_manifests(paths, worlds_in=worlds_in)
    if unreadable:
        print_places(unreadable)
        raise _UnusableError("some manifests cannot be read")
    validator = Validator.of(str(version), {})
    objects: dict[str, list[Obj]] = {kind: [] for kind in _KINDS}
    for obj in all_objects(documents):
        if isinstance(obj, dict) and obj.get("kind") in objects:
            objects[obj["kind"]].append(_with_defaults(obj, validator))
    return objects


def _with_defaults(obj: Obj, validator: Validator) -> Obj:
    """Return an object as a server decodes it, with the defaults of its version. Raises ValueError."""
    from understudy.machinery.serializer.json import encode

    kind, version, decoded, _ = validator.read(encode(obj))
    kind.behavior.defaults(decoded, validator.context(version))
    if kind.namespaced and not decoded["metadata"].get("namespace"):
        decoded["metadata"]["namespace"] = "default"
    return decoded


async def _objects_of_server(connection: Connection, version: Version, rules: bool) -> dict[str, list[Obj]]:
    """Return the objects of each kind that a server has. Raises _UnusableError."""
    from understudy.controlplane.client import resources
    from understudy.controlplane.client.api_client import APIClient
    from understudy.machinery.errors import StatusError

    of_release = [resources.resource_claims, resources.device_classes, resources.resource_slices]
    of_release += [resources.device_taint_rules] if rules else []
    kinds = [resources.NODES, *(resource(version) for resource in of_release)]
    try:
        async with APIClient(connection, "understudy-explain-allocation") as client:
            lists = [(await client.list(resource))["items"] for resource in kinds]
    except (StatusError, ConnectionError) as why:
        raise _UnusableError(str(why)) from None
    return {resource.kind: [resource.typed(obj) for obj in items] for resource, items in zip(kinds, lists, strict=True)}
