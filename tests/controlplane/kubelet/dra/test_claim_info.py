"""The file of claims: the real kubelet's format, written whole and read with its checksum."""

from __future__ import annotations

from pathlib import Path

import pytest

from understudy.controlplane.kubelet.dra.api import PREPARE, UNPREPARE, Device
from understudy.controlplane.kubelet.dra.claim_info import CheckpointError, ClaimInfo, ClaimInfoCache
from understudy.machinery.releases.features import Gates
from understudy.machinery.releases.version import V1_33, V1_34, V1_35, V1_36, V1_37, Version
from understudy.machinery.types import Obj

PREFIX = {
    V1_33: "failed to create claimInfo cache: error calling GetOrCreate() on checkpoint state: ",
    V1_36: "create ResourceClaim cache: GetOrCreate() on checkpoint state: ",
}


def info(**devices: list[Device]) -> ClaimInfo:
    return ClaimInfo("u-1", "c", "default", {"p-2", "p-1"}, devices)


def stored(root: Path) -> str:
    return (root / "dra_manager_state").read_text()


def test_new_file(root: Path) -> None:
    """A kubelet that starts for the first time writes a file without claims."""
    ClaimInfoCache(root, V1_36)
    head = r"{\"kind\":\"DRACheckpoint\",\"apiVersion\":\"checkpoint.dra.kubelet.k8s.io/v1\","
    assert stored(root) == rf'{{"Data":"{head}\"ClaimInfoStateList\":null}}","Checksum":4010664294}}'


@pytest.mark.parametrize(("release", "share_id"), [(V1_34, ""), (V1_35, r"\"ShareID\":null,")], ids=str)
def test_format(root: Path, release: Version, share_id: str) -> None:
    """Claims are written as Go writes them: maps sorted, empty lists null; shares from 1.35 on."""
    cache = ClaimInfoCache(root, release)
    cache.add(info(b=[], a=[Device((), "pool", "<dev>", ("a/b=c",))]))
    cache.save()
    assert (
        r"\"ClaimInfoStateList\":[{\"ClaimUID\":\"u-1\",\"ClaimName\":\"c\",\"Namespace\":\"default\","
        r"\"PodUIDs\":{\"p-1\":{},\"p-2\":{}},\"DriverState\":{\"a\":{\"Devices\":[{\"PoolName\":\"pool\","
        r"\"DeviceName\":\"\\u003cdev\\u003e\"," + share_id + r"\"RequestNames\":null,\"CDIDeviceIDs\":[\"a/b=c\"]}]},"
        r"\"b\":{\"Devices\":null}}}]}"
    ) in stored(root)


@pytest.mark.parametrize(
    ("operations", "skipped"),
    [
        ([[]], ()),
        ([["*"], []], ()),
        ([["*"], ["*", "NodePrepareResources"]], ("*",)),
        ([["*"], ["NodeUnprepareResources"]], ("NodeUnprepareResources",)),
        ([["NodeUnprepareResources"], ["NodePrepareResources", "NodeUnprepareResources"]], ("NodeUnprepareResources",)),
        (
            [["NodeUnprepareResources", "NodePrepareResources"], ["*"]],
            ("NodePrepareResources", "NodeUnprepareResources"),
        ),
    ],
)
def test_skipped_operations(root: Path, operations: list[list[str]], skipped: tuple[str, ...]) -> None:
    """A driver is not asked for what all its devices skip; a kubelet that does not know of this refuses the claim."""
    results: list[Obj] = [{"driver": "a", **({"skipNodeOperations": names} if names else {})} for names in operations]
    allocation = {"devices": {"results": [*results, {"driver": "b"}]}}
    metadata = {"uid": "u", "name": "c", "namespace": "default"}
    claim = {"metadata": metadata, "status": {"allocation": allocation}}
    made = ClaimInfo.of(claim, Gates.of(V1_37, {"DRAOptionalNodeOperations": True}))
    assert made.skipped.get("a", ()) == skipped
    asked = [verb for verb in (PREPARE, UNPREPARE) if "a" in made.drivers(verb)]
    assert asked == [verb for verb in (PREPARE, UNPREPARE) if not {verb, "*"} & set(skipped)]
    assert made.drivers(PREPARE)[-1] == "b"
    cache = ClaimInfoCache(root, V1_37)
    cache.add(made)
    cache.save()
    assert list(ClaimInfoCache(root, V1_37)) == [made]
    if skipped:
        assert rf"\"skipNodeOperations\":[\"{skipped[0]}\"" in stored(root)
        with pytest.raises(ValueError, match=r"^DRAOptionalNodeOperations feature gate is disabled on kubelet$"):
            ClaimInfo.of(claim, Gates.of(V1_37))


def test_claims_survive(root: Path) -> None:
    """Saved claims are read again, except for whether they are prepared; deleted ones are not."""
    cache = ClaimInfoCache(root, V1_36)
    kept = info(a=[Device(("r",), "pool", "dev", ("x", "y"), "s-1")])
    kept.prepared = True
    for entry in (kept, gone := ClaimInfo("u-2", "gone", "default", set(), {})):
        cache.add(entry)
    cache.delete(gone)
    cache.save()
    (read,) = ClaimInfoCache(root, V1_36)
    assert (read, read.prepared) == (kept, False)


@pytest.mark.parametrize("release", [V1_33, V1_36], ids=str)
@pytest.mark.parametrize(
    ("content", "error"),
    [
        ('{"Data":"{}","Checksum":1}', "checkpoint is corrupted"),
        ('{"Data":"{}', "unexpected end of JSON input"),
        ("[]", "json: cannot unmarshal array into Go value of type state.Checkpoint"),
    ],
    ids=["checksum", "cut", "no object"],
)
def test_broken_file(root: Path, release: Version, content: str, error: str) -> None:
    """A file that cannot be read is an error, never a file without claims."""
    (root / "dra_manager_state").write_text(content)
    with pytest.raises(CheckpointError) as refused:
        ClaimInfoCache(root, release)
    assert str(refused.value).startswith(f"{PREFIX[release]}failed to get checkpoint dra_manager_state: ")
    assert error in str(refused.value)


def test_cdi_devices_of_requests() -> None:
    """A container gets the devices of its request, and those that a driver returned without requests."""
    devices = [Device(("a",), "p", "1", ("x=1",)), Device(("b",), "p", "2", ("x=2",)), Device((), "p", "3", ("x=3",))]
    claim = info(driver=devices)
    assert [claim.cdi_devices(request) for request in ("", "a", "c")] == [
        ["x=1", "x=2", "x=3"],
        ["x=1", "x=3"],
        ["x=3"],
    ]
