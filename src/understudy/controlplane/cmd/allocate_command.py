"""`understudy allocate`: answers allocation cases, as JSON lines, with the structured allocator of a release.

A case is `{"case": name, "features": {gate: on}, "node": Node, "claims": […], "allocated": […], "classes": […],
"slices": […]}`; gates that are not named are off. The answer is `{"case": name, "answer": …}` with one of

    {"allocations": [AllocationResult, …]}   one for each claim
    {"fits": false}                          the claims do not fit on the node
    {"error": text}                          with "onlyThisNode": true if other nodes may still do
    {"panic": text}                          kube-scheduler of the release crashes

Exit code 0: all cases are answered; 2: a line is no case, or the release is unknown.
"""

from __future__ import annotations

import argparse
import json
import sys
from typing import TYPE_CHECKING, Any

from understudy.apiserver.cmd.flags import add_server_flags
from understudy.apiserver.cmd.output import print_error
from understudy.apiserver.kinds.release import Release, UnknownReleaseError

if TYPE_CHECKING:
    from understudy.machinery.releases.version import Version

ANSWERED, UNREADABLE = 0, 2
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
{"fits": false} or {"error": "..."}:

  {"case": "one of two devices",
   "answer": {"allocations": [
     {"devices": {"results": [
        {"request": "gpu", "driver": "gpu.example.com", "pool": "node", "device": "gpu-0"}]},
      "nodeSelector": {"nodeSelectorTerms": [
        {"matchFields": [{"key": "metadata.name", "operator": "In", "values": ["node"]}]}]}}]}}
"""


def add_command(commands: Any) -> None:
    """Add `understudy allocate` to the commands of a parser."""
    about = "Reads allocation cases as JSON lines on standard input, and writes an answer for each."
    parser = commands.add_parser(
        "allocate",
        help="allocate devices to claims without a cluster",
        description=about,
        epilog=EXAMPLE,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    add_server_flags(parser, ("emulated_version",))
    parser.set_defaults(run=run)


def run(args: argparse.Namespace) -> int:
    """Answer every case on standard input; return the exit code."""
    try:
        release = Release.named(args.emulated_version).version
    except UnknownReleaseError as why:
        print_error(why)
        return UNREADABLE
    for number, line in enumerate(sys.stdin, 1):
        if not line.strip():
            continue
        try:
            case = json.loads(line)
            answer = answer_of(case, release)
        except (ValueError, KeyError, TypeError, AttributeError) as why:
            print_error(f"line {number} is no case: {f'{why} is missing' if isinstance(why, KeyError) else why}")
            return UNREADABLE
        print(json.dumps({"case": case["case"], "answer": answer}, ensure_ascii=False), flush=True)
    return ANSWERED


def answer_of(case: dict[str, Any], release: Version) -> dict[str, Any]:
    """Return the answer to a case."""
    from understudy.controlplane.allocator import AllocationError, Allocator, AllocatorPanicError

    features = frozenset(gate for gate, on in (case.get("features") or {}).items() if on)
    in_use, classes, slices = (case.get(name) or [] for name in ("allocated", "classes", "slices"))
    allocator = Allocator(release, features, in_use, classes, slices)
    try:
        allocations = allocator.allocate(case["node"], case["claims"])
    except AllocatorPanicError as error:
        return {"panic": str(error)}
    except AllocationError as error:
        return {"error": str(error)} | ({"onlyThisNode": True} if error.only_this_node else {})
    return {"fits": False} if allocations is None else {"allocations": allocations}
