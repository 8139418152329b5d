"""`understudy allocate`: answers allocation cases, as JSON lines, with the structured allocator of a release.

A case is `{"case": name, "features": {gate: on}, "node": Node, "claims": […], "allocated": […], "classes": […],
"slices": […]}`; gates that are not named are off. The answer is `{"case": name, "answer": …}` with one of

    {"allocations": [AllocationResult, …]}   one for each claim
    {"fits": false}                          the claims do not fit on the node
    {"error": text}                          with "onlyThisNode": true if other nodes may still do
    {"panic": text}                          kube-scheduler of the release crashes
    {"failed": text}                         there is no answer: the line is no case, or the search takes too long

Exit code 0: all cases are answered; 2: one failed, or the release is unknown. Every line that is not empty gets an
answer, whatever is in the others.
"""

from __future__ import annotations

import argparse
import io
import json
import sys
from contextlib import suppress
from typing import TYPE_CHECKING, Any, NoReturn

from understudy.apiserver.serving.release import Release, UnknownReleaseError
from understudy.cli.flags import add_server_flags
from understudy.cli.output import print_error
from understudy.machinery.types import NamedTuple

if TYPE_CHECKING:
    from understudy.cli.program import AddParser
    from understudy.machinery.releases.version import Version
    from understudy.machinery.types import GroupVersionKind, Obj

ANSWERED, FAILED = 0, 2
TIMEOUT = 60.0  # seconds for a case
EXAMPLE = """\
A case, which stands on one line:

  {"case": "one of two devices",
   "features": {"DRAPrioritizedList": true},
   "node": {"metadata": {"name": "node"}},
   "claims": [
     {"apiVersion": "resource.k8s.io/v1", "kind": "ResourceClaim",
      "metadata": {"name": "claim", "namespace": "default"},
      "spec": {"devices": {"requests": [
        {"name": "gpu", "exactly": {"deviceClassName": "gpu", "allocationMode": "ExactCount", "count": 1}}]}}}],
   "allocated": [],
   "classes": [
     {"apiVersion": "resource.k8s.io/v1", "kind": "DeviceClass", "metadata": {"name": "gpu"}, "spec": {}}],
   "slices": [
     {"apiVersion": "resource.k8s.io/v1", "kind": "ResourceSlice", "metadata": {"name": "slice"},
      "spec": {"driver": "gpu.example.com", "nodeName": "node",
               "pool": {"name": "node", "generation": 1, "resourceSliceCount": 1},
               "devices": [{"name": "gpu-0"}, {"name": "gpu-1"}]}}]}

Feature gates that are not named are off. "allocated" are the claims whose devices are in use. Objects may have any
version that the release serves; nothing is defaulted. The answer has an allocation for each claim, or else
{"fits": false} or {"error": "..."}. A line that is no case has {"failed": "..."}, and those after it are answered:

  {"case": "one of two devices",
   "answer": {"allocations": [
     {"devices": {"results": [
        {"request": "gpu", "driver": "gpu.example.com", "pool": "node", "device": "gpu-0"}]},
      "nodeSelector": {"nodeSelectorTerms": [
        {"matchFields": [{"key": "metadata.name", "operator": "In", "values": ["node"]}]}]}}]}}
"""


def add_command(add_parser: AddParser) -> None:
    """Add the command with its flags."""
    about = "Reads allocation cases as JSON lines on standard input, and writes an answer for each."
    parser = add_parser(
        description=about,
        epilog=EXAMPLE,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    add_server_flags(parser, ("emulated_version",))
    about = "give up on a case after this time, 0 for never (default: %(default)g)"
    parser.add_argument("--timeout", type=_seconds, default=TIMEOUT, metavar="SECONDS", help=about)
    parser.set_defaults(run=run)


def _seconds(text: str) -> float:
    """Return a number of seconds. Raises ArgumentTypeError."""
    with suppress(ValueError):
        if float(text) >= 0:
            return float(text)
    raise argparse.ArgumentTypeError(f"{text!r} is no number of seconds")


def run(args: argparse.Namespace) -> int:
    """Answer every case on standard input; return the exit code."""
    try:
        release = Release.named(args.emulated_version).version
    except UnknownReleaseError as why:
        print_error(why)
        return FAILED
    if isinstance(sys.stdin, io.TextIOWrapper):
        sys.stdin.reconfigure(encoding="utf-8", errors="replace")
    exit_code = ANSWERED
    for number, line in enumerate(sys.stdin, 1):
        if not line.strip():
            continue
        case: Any = None
        try:
            case = json.loads(line, parse_constant=_refuse_constant)
            answer = answer_of(case, release, args.timeout or None)
        except Exception as why:  # whatever is wrong with a case, the others are answered
            print_error(f"line {number} has no answer: {_text(why)}")
            answer, exit_code = {"failed": _text(why)}, FAILED
        name = case.get("case") if isinstance(case, dict) else None
        print(json.dumps({"case": name, "answer": answer}), flush=True)
    return exit_code


def _refuse_constant(text: str) -> NoReturn:
    raise ValueError(f"{text} is no JSON")


def _text(why: Exception) -> str:
    """Return the error of a case without an answer, with its type if it is a fault of this program."""
    from understudy.controlplane.allocator.errors import AllocationTimeoutError

    if isinstance(why, AllocationTimeoutError):
        return "the search takes too long"
    if isinstance(why, RecursionError):
        return "it nests too deep"
    return str(why) if isinstance(why, ValueError) else f"{type(why).__name__}: {why}"


class CaseError(ValueError):
    """A value that is no case; `str(error)` says why."""


class Case(NamedTuple):
    """A case, its objects as the Go types of their kinds."""

    features: frozenset[str]
    node: Obj
    claims: list[Obj]
    allocated: list[Obj]
    classes: list[Obj]
    slices: list[Obj]


def read_case(case: Any, version: Version) -> Case:
    """Return a case that was parsed from JSON. Raises CaseError."""
    from understudy.machinery.types import GroupVersionKind

    if not isinstance(case, dict):
        raise CaseError("it is not an object")
    for field in ("node", "claims"):
        if field not in case:
            raise CaseError(f"{field!r} is missing")
    return Case(
        _features(case.get("features")),
        _decoded(case["node"], "node", GroupVersionKind("", "v1", "Node"), version),
        _objects(case, "claims", "ResourceClaim", version),
        _objects(case, "allocated", "ResourceClaim", version),
        _objects(case, "classes", "DeviceClass", version),
        _objects(case, "slices", "ResourceSlice", version),
    )


def answer_of(case: Any, version: Version, timeout: float | None = None) -> dict[str, Any]:
    """Return the answer to a case. Raises CaseError, and AllocationTimeoutError if there is none after some seconds."""
    from understudy.controlplane.allocator import AllocationError, Allocator, AllocatorPanicError
    from understudy.controlplane.allocator.errors import AllocationTimeoutError

    read = read_case(case, version)
    try:
        allocator = Allocator(version, read.features, read.allocated, read.classes, read.slices)
        allocations = allocator.allocate(read.node, read.claims, timeout=timeout)
    except AllocationTimeoutError:
        raise
    except AllocatorPanicError as error:
        return {"panic": str(error)}
    except AllocationError as error:
        return {"error": str(error)} | ({"onlyThisNode": True} if error.only_this_node else {})
    return {"fits": False} if allocations is None else {"allocations": allocations}


def _features(value: Any) -> frozenset[str]:
    """Return the feature gates that are on. Raises CaseError."""
    if not isinstance(value, dict | None) or not all(isinstance(on, bool) for on in (value or {}).values()):
        raise CaseError("'features' has to be an object of booleans")
    return frozenset(gate for gate, on in (value or {}).items() if on)


def _objects(case: Obj, field: str, kind: str, version: Version) -> list[Obj]:
    """Return the objects of a kind of `resource.k8s.io` that a case has in a field. Raises CaseError."""
    from understudy.controlplane.client.resources import RESOURCE_API
    from understudy.machinery.types import GroupVersionKind, split_api_version

    objects = case.get(field)
    if objects is None:
        return []
    if not isinstance(objects, list):
        raise CaseError(f"{field!r} has to be a list")
    decoded = []
    for i, obj in enumerate(objects):
        where, api_version = f"{field}[{i}]", f"resource.k8s.io/{RESOURCE_API[version]}"
        if isinstance(obj, dict) and isinstance(obj.get("apiVersion", api_version), str):
            api_version = obj.get("apiVersion", api_version)
        decoded.append(_decoded(obj, where, GroupVersionKind(*split_api_version(api_version), kind), version))
    return decoded


def _decoded(obj: Any, where: str, gvk: GroupVersionKind, version: Version) -> Obj:
    """Return an object as the Go type of its kind. Raises CaseError, with Go's text for a wrong type."""
    from understudy.machinery.golang.json_reader import DecodeError
    from understudy.machinery.serializer.json import decode_value
    from understudy.machinery.typeinfo.go_types import Schemas

    if not isinstance(obj, dict):
        raise CaseError(f"{where} is not an object")
    schemas = Schemas.of(version)
    if not schemas.has_kind(*gvk):
        raise CaseError(f'{where}: no kind "{gvk.kind}" in version "{gvk.api_version}"')
    try:
        decoded, _ = decode_value(obj, schemas.kind(*gvk))
    except DecodeError as why:
        raise CaseError(f"{where}: {why}") from None
    return {**decoded, "apiVersion": gvk.api_version, "kind": gvk.kind}
