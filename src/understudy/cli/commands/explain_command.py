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
from collections.abc import Iterator
from typing import TYPE_CHECKING

from understudy.cli.flags import add_server_flags
from understudy.cli.output import counted, print_error, print_places
from understudy.cli.remote_server import connection_of
from understudy.cli.world_text import WorldsIn

if TYPE_CHECKING:
    from understudy.apiserver.client.connection import Connection
    from understudy.cli.program import AddParser
    from understudy.controlplane.client.explanations import Explained
    from understudy.machinery.releases.version import Version
    from understudy.machinery.types import Obj
    from understudy.offline.validator import Validator

ALLOCATED, UNALLOCATED, UNREADABLE = 0, 1, 2


class _UnusableError(ValueError):
    """Objects that cannot be read."""


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


def _explained(args: argparse.Namespace) -> Iterator[Explained]:
    """Yield the explanation of each claim that the arguments name. Raises ValueError."""
    from understudy.apiserver.serving.release import Release
    from understudy.controlplane.client.explanations import explain
    from understudy.machinery.releases.features import Gates

    release = Release.named(args.emulated_version).version
    features = frozenset(gate for gate, on in Gates.of(release, args.feature_gates).in_force().items() if on)
    objects = _objects(args, release, features)
    return explain(release, features, objects, args.claim, args.node, lambda nodes: counted(nodes, "nodes looked at"))


# --- where objects come from ------------------------------------------------------------------------------------------


def _objects(args: argparse.Namespace, version: Version, features: frozenset[str]) -> dict[str, list[Obj]]:
    """Return the objects of each kind. Raises _UnusableError."""
    if args.server or args.kubeconfig:
        if args.paths:
            raise _UnusableError("the objects come either from manifests or from a server")
        return asyncio.run(_objects_of_server(connection_of(args), version, features))
    if not args.paths:
        raise _UnusableError("name manifests, --server or --kubeconfig")
    return _objects_of_manifests(args.paths, version, WorldsIn(str(version), args.feature_gates or {}))


def _objects_of_manifests(paths: list[str], version: Version, worlds_in: WorldsIn) -> dict[str, list[Obj]]:
    """Return the objects of each kind in manifests, with their defaults."""
    from understudy.cli.documents import all_objects, read_manifests
    from understudy.controlplane.client.explanations import KINDS
    from understudy.offline.validator import Validator

    documents, unreadable = read_manifests(paths, worlds_in=worlds_in)
    if unreadable:
        print_places(unreadable)
        raise _UnusableError("some manifests cannot be read")
    validator = Validator.of(str(version), {})
    objects: dict[str, list[Obj]] = {kind: [] for kind in KINDS}
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


async def _objects_of_server(
    connection: Connection, version: Version, features: frozenset[str]
) -> dict[str, list[Obj]]:
    """Return the objects of each kind that a server has. Raises _UnusableError."""
    from understudy.controlplane.client.api_client import APIClient
    from understudy.controlplane.client.explanations import objects_of_server
    from understudy.machinery.errors import StatusError

    try:
        async with APIClient(connection, "understudy-explain-allocation") as client:
            return await objects_of_server(client.list, version, features)
    except (StatusError, ConnectionError) as why:
        raise _UnusableError(str(why)) from None
