"""Worlds that understudy brings along are loaded by their names."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.releases import every_release
from understudy import LoadError, Server
from understudy.apiserver.client.manifests import WORLDS, read_manifests, world_names
from understudy.machinery.releases.version import V1_33, Version

ROOT = Path(__file__).parents[3]


@every_release
def test_world_has_the_versions_of_the_release(release: Version) -> None:
    """The cluster of GPUs is loaded by its name on every release, in a version of its API that the release serves."""
    with Server(emulated_version=str(release), load=["gpu-cluster"]) as server:
        names = [obj["metadata"]["name"] for obj in server.list("resourceslices")]
    assert names == ["node-1-gpu.example.com", "node-2-gpu.example.com"]


@pytest.mark.parametrize("name", world_names())
def test_every_world_can_be_loaded(name: str) -> None:
    """Every world that an error message names can be loaded."""
    with Server(load=[name]):
        pass


def test_world_that_a_release_does_not_know() -> None:
    """A world that is written in no version that the release serves is refused with its file and the kind."""
    with pytest.raises(LoadError, match=r'claim\.yaml, document 1 \(line \d\): no matches for kind "ResourceClaim"'):
        Server(emulated_version=str(V1_33), load=["claim"]).__enter__()


def test_worlds_can_be_applied() -> None:
    """`Server.apply` takes the name of a world as well."""
    with Server() as server:
        assert "Deployment" in {obj["kind"] for obj in server.apply("demo")}


def test_file_comes_before_a_world(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A file or folder in the working directory is loaded in place of the world of its name."""
    monkeypatch.chdir(tmp_path)
    assert len(list(read_manifests("demo"))) > 1
    Path("demo").write_text("apiVersion: v1\nkind: Namespace\nmetadata: {name: mine}\n")
    [document] = read_manifests("demo")
    assert document.obj["metadata"]["name"] == "mine"


@pytest.mark.parametrize("name", ["gpu-clutser", "gpu-cluster-v9"])
def test_unknown_name_lists_the_worlds(name: str) -> None:
    """A name that neither a file nor a world has is an error that lists the worlds; paths of files are not names."""
    with pytest.raises(LoadError, match=rf"^{name}: No such file or directory; worlds by name are claim, demo, dev, "):
        list(read_manifests(name))
    with pytest.raises(LoadError, match=r"No such file or directory$"):
        list(read_manifests(f"{name}.yaml"))


def test_worlds_have_one_file_each() -> None:
    """The worlds in `fixtures/` are links to the files of the package: nothing is written twice."""
    for file in WORLDS.glob("*.yaml"):
        assert (ROOT / "fixtures" / file.name).resolve() == file.resolve()
