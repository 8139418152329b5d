"""Worlds that understudy brings along are loaded by their names, with parameters, on every release."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from functools import partial
from pathlib import Path
from typing import Any

import pytest
import yaml

from tests.releases import NEWEST, RELEASES, every_release
from understudy import LoadError, Server
from understudy.apiserver.client.manifests import Document, read_manifests
from understudy.apiserver.encoding.world_forms import read_world
from understudy.apiserver.serving.release import Release
from understudy.cli import main as cli
from understudy.machinery.releases.features import Gate, Gates
from understudy.machinery.releases.version import V1_32, V1_33, V1_34, Version
from understudy.worlds.catalog import PREFIX, chosen, worlds
from understudy.worlds.written import FOLDER

ROOT = Path(__file__).parents[3]


def gates_for(names: Iterable[str], release: Version) -> dict[str, bool] | None:
    """Return the feature gates to turn on for worlds, None if the release does not have one."""
    gates = Gates.of(release)
    needs = [Gate(need) for name in names for need in chosen(name).world.needs]
    return {gate: True for gate in needs if not gates[gate]} if all(map(gates.has, needs)) else None


def read(text: str, release: Version = NEWEST) -> list[Document]:
    """Return the documents of a manifest, of a world in the form of a release."""
    gates = Gates.of(release, gates_for([text], release) if text.removeprefix(PREFIX) in worlds() else None)
    return [*read_manifests(text, partial(read_world, version=release, kinds=Release.of(release), gates=gates))]


@every_release
def test_all_worlds_can_be_loaded(release: Version) -> None:
    """Every world is taken by every release that has what it needs: nothing refused, no field of a device dropped."""
    gates = {name: gates_for([name], release) for name in worlds()}
    possible = {name: needed for name, needed in gates.items() if needed is not None}
    with Server(
        emulated_version=str(release), feature_gates={k: v for g in possible.values() for k, v in g.items()}
    ) as server:
        for name in possible:
            for obj in server.apply(f"world:{name}"):
                if obj["kind"] == "ResourceSlice":
                    [sent] = [d.obj for d in read(f"world:{name}", release) if named(d.obj) == named(obj)]
                    assert without_defaults(sent["spec"]) == without_defaults(obj["spec"])
            server.reset()
    assert release < V1_34 or len(possible) == len(worlds())


def named(obj: Any) -> tuple[str, str]:
    return obj["kind"], obj["metadata"]["name"]


def without_defaults(spec: Any) -> Any:
    """Return devices by name with their fields, and counters."""
    return spec.get("sharedCounters"), [sorted(device) for device in spec.get("devices") or []]


@pytest.mark.parametrize(
    ("name", "release", "gates", "says"),
    [
        (
            "partitions",
            V1_32,
            {},
            r"DRAPartitionableDevices, which .* 1\.32 does not have; it came with 1\.33$",
        ),
        ("extended-resources", V1_33, {}, "does not have; it came with 1.34$"),
        ("tainted-devices", V1_33, {}, "which is off in Kubernetes 1.33: --feature-gates DRADeviceTaints=true$"),
        ("shared-devices", NEWEST, {"DRAConsumableCapacity": False}, "which is off in Kubernetes"),
    ],
)
def test_world_that_a_release_cannot_have(name: str, release: Version, gates: dict[str, bool], says: str) -> None:
    """A world without which its point would be lost says what it needs, and since when there is that."""
    with pytest.raises(LoadError, match=says):
        Server(emulated_version=str(release), feature_gates=gates, load=[f"world:{name}"]).__enter__()


def test_counters_stand_beside_devices_in_older_releases() -> None:
    """Until 1.34 a slice has the counters that its devices consume; since 1.35 they have slices of their own."""
    for release, slices in ((V1_34, 2), (NEWEST, 3)):
        objects = [document.obj for document in read("world:nvidia-mig", release)]
        found = [obj for obj in objects if obj["kind"] == "ResourceSlice" and obj["spec"]["nodeName"] == "node-1"]
        assert len(found) == found[0]["spec"]["pool"]["resourceSliceCount"] == slices - 1


# What explain-allocation says of the claims of a world.
EXPLAINED = {
    "almost-full": [
        "gpu.example.com/node-1/gpu-0, gpu.example.com/node-1/gpu-1: in use by claim default/training",
        "default/one-more: request gpu gets gpu.example.com/node-2/gpu-1",
        "default/two-more: request gpus: 1 of 2 devices found",
    ],
    "network-devices": [
        "slice storage-zone-1 is for other nodes",
        "request camera gets camera.example.com/site/camera-0",
    ],
    "partitions": ["request partition gets gpu.example.com/node-1/gpu-0-half-0"],
    "shared-claim": ["request gpu gets gpu.example.com/node-2/gpu-0"],
    "tainted-devices": [
        "gpu-1: taint gpu.example.com/maintenance=firmware:NoSchedule is not tolerated",
        "default/maintenance-is-fine: request gpus gets gpu.example.com/node-1/gpu-1",
    ],
}


@pytest.mark.parametrize("name", EXPLAINED)
def test_world_shows_what_it_is_for(name: str, capsys: pytest.CaptureFixture[str]) -> None:
    """The claims of a world fit or not for the reasons for which it was made, whichever way it is read."""
    cli.main(["explain-allocation", f"world:{name}"])
    out = capsys.readouterr().out
    assert [text for text in EXPLAINED[name] if text not in out] == []


@pytest.mark.parametrize(
    ("name", "together"),
    [
        ("partitions", ["half", "whole"]),
        ("shared-devices", ["video", "backup", "telemetry"]),
        ("time-sliced-gpus", ["three-shares", "two-shares"]),
    ],
)
def test_claims_that_do_not_fit_together(name: str, together: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    """Claims that share a device use it up: all but the last fit beside each other."""
    for count, code in ((len(together) - 1, 0), (len(together), 1)):
        flags = [flag for claim in together[:count] for flag in ("--claim", f"default/{claim}")]
        assert cli.main(["explain-allocation", f"world:{name}", *flags]) == code, capsys.readouterr().out
    assert "does not fit" in capsys.readouterr().out


def test_generated_worlds_have_what_is_asked_for() -> None:
    """Parameters say how many nodes, devices and pods there are, and of which driver."""
    objects = [d.obj for d in read("world:nodes?count=3&gpus=2&driver=a.example.com&pods=4&zones=2")]
    assert Counter(obj["kind"] for obj in objects) == {
        "Node": 3,
        "ResourceSlice": 3,
        "DeviceClass": 1,
        "ResourceClaimTemplate": 1,
        "Pod": 4,
    }
    slices = [obj["spec"] for obj in objects if obj["kind"] == "ResourceSlice"]
    assert [(each["driver"], len(each["devices"])) for each in slices] == [("a.example.com", 2)] * 3
    assert len({device["attributes"]["uuid"]["string"] for each in slices for device in each["devices"]}) == 6


# Of each driver: the class, and an expression about its devices as its own documentation shows them.
DRIVERS = {
    "nvidia-gpus": ("gpu.nvidia.com", "device.attributes['gpu.nvidia.com'].productName.lowerAscii().matches('a100')"),
    "nvidia-mig": ("mig.nvidia.com", "device.attributes['gpu.nvidia.com'].profile == '3g.20gb'"),
    "intel-gpus": ("gpu.intel.com", "device.capacity['gpu.intel.com'].memory.isGreaterThan(quantity('8Gi'))"),
    "google-tpus": ("tpu.google.com", "device.attributes['tpu.google.com'].tpuGen == 'v6e'"),
    "dranet-nics": ("dranet", "device.attributes['dra.net'].rdma && device.attributes['dra.net'].mtu > 8000"),
}


@pytest.mark.parametrize("name", DRIVERS)
def test_devices_of_public_drivers_are_found(name: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Expressions that people write for a driver find its devices."""
    class_name, expression = DRIVERS[name]
    exactly = {"deviceClassName": class_name, "selectors": [{"cel": {"expression": expression}}]}
    spec = {"devices": {"requests": [{"name": "r", "exactly": exactly}]}}
    claim = {"apiVersion": "resource.k8s.io/v1", "kind": "ResourceClaim", "metadata": {"name": "c"}, "spec": spec}
    (file := tmp_path / "claim.yaml").write_text(yaml.safe_dump(claim))
    assert cli.main(["explain-allocation", f"world:{name}", str(file)]) == 0, capsys.readouterr()


@pytest.mark.parametrize(
    ("text", "says"),
    [
        (
            "world:almost-ful",
            "no world 'almost-ful'; did you mean 'almost-full'? `understudy worlds` lists all",
        ),
        ("world:xyz", "there is no world 'xyz'; `understudy worlds` lists all"),
        ("world:nodes?cuont=3", "there is no parameter 'cuont', it takes count, gpus, "),
        ("world:nodes?cuont=3", "did you mean 'count'?"),
        ("nodes?count=many", "count is a number from 1 to 100000, not 'many'"),
        ("world:nodes?count=0", "count is a number from 1 to 100000, not '0'"),
        ("world:nodes?count", "count has no value"),
        ("world:nodes?count=1&count=2", "count is given twice"),
        ("world:nvidia-gpus?model=h10", "model is one of a100, h100, t4, not 'h10'; did you mean 'h100'?"),
        ("world:dev?count=1", "there is no parameter 'count', it takes none"),
    ],
)
def test_mistakes_in_names_are_one_line(text: str, says: str, capsys: pytest.CaptureFixture[str]) -> None:
    """A name or parameter that there is not is an error of one line with the nearest name, for every command."""
    with pytest.raises(LoadError, match="^" + text.replace("?", r"\?")) as refused:
        read(text)
    assert says in str(refused.value)
    assert cli.main(["worlds", text]) == 2
    assert capsys.readouterr().err == f"understudy: {refused.value}\n"
    if text.startswith(PREFIX):
        assert cli.main(["validate", text]) == 2
        assert str(refused.value) in capsys.readouterr().err


def test_worlds_are_listed(capsys: pytest.CaptureFixture[str]) -> None:
    """`understudy worlds` has one line for each, with what it is, needs and takes."""
    assert cli.main(["worlds"]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert [line.split()[0] for line in lines] == [*worlds()]
    assert all(len(line) > 50 for line in lines)


@pytest.mark.parametrize("release", [RELEASES[0], NEWEST], ids=str)
def test_worlds_are_printed(release: Version, capsys: pytest.CaptureFixture[str]) -> None:
    """`understudy worlds NAME` prints YAML that says the same: with its comments if nothing changes for the release."""
    assert cli.main(["worlds", "two-node-gpus", "--emulated-version", str(release)]) == 0
    text = capsys.readouterr().out
    assert [*yaml.safe_load_all(text)] == [document.obj for document in read("world:two-node-gpus", release)]
    assert text.startswith("#") == (release == NEWEST)


def test_worlds_can_be_applied() -> None:
    """`Server.apply` takes the name of a world as well, with and without the prefix."""
    with Server() as server:
        assert "Deployment" in {obj["kind"] for obj in server.apply("demo")}
        assert len(server.apply("nodes?count=2")) == len(server.apply("world:nodes?count=2")) == 2


def test_file_comes_before_a_world(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A file in the working directory is loaded in place of the world of its name, unless that has the prefix."""
    monkeypatch.chdir(tmp_path)
    assert len(read("demo")) > 1
    Path("demo").write_text("apiVersion: v1\nkind: Namespace\nmetadata: {name: mine}\n")
    [document] = read("demo")
    assert document.obj["metadata"]["name"] == "mine"
    assert len(read("world:demo")) > 1


@pytest.mark.parametrize("name", ["gpu-clutser", "gpu-cluster-v9"])
def test_unknown_name_lists_the_worlds(name: str) -> None:
    """A name that neither a file nor a world has is an error that lists the worlds; paths of files are not names."""
    with pytest.raises(LoadError, match=rf"^{name}: No such .*; worlds by name are .*; did you mean 'gpu-cluster'\?$"):
        read(name)
    with pytest.raises(LoadError, match=r"No such file or directory$"):
        read(f"{name}.yaml")


def test_worlds_have_one_file_each() -> None:
    """The worlds in `fixtures/` are links to the files of the package: nothing is written twice."""
    links = [file for file in (ROOT / "fixtures").glob("*.yaml") if file.is_symlink()]
    assert {file.resolve() for file in links} <= {file.resolve() for file in FOLDER.glob("*.yaml")}
    assert all(file.resolve().name == file.name for file in links)


@pytest.mark.parametrize(("file", "release"), [("v1alpha3", RELEASES[0]), ("v1beta1", V1_32)])
def test_files_for_old_releases_say_the_same(file: str, release: Version) -> None:
    """The cluster of GPUs in old versions, for clients that read files, is the world as these releases load it."""
    objects = [*yaml.safe_load_all((ROOT / "fixtures" / f"gpu-cluster-{file}.yaml").read_text())]
    assert objects == [document.obj for document in read("gpu-cluster", release)]
