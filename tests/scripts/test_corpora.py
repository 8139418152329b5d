"""scripts.record corpora: which recordings share a server of the next release, and how it is started."""

from __future__ import annotations

from pathlib import Path

import pytest

from scripts.record import corpora, flags
from tests.recordings.recorded import ONLY_ADMIN, Recording, recordings
from understudy.machinery.releases.version import V1_37, Version

PREVIEW = Version(1, 38, "alpha")
RECORDINGS = recordings()
EVERY = corpora.chosen_of(PREVIEW, RECORDINGS, [])


def test_recordings_of_the_release_before() -> None:
    """Without names recordings of the release before are sent again, but for those that need more than a server."""
    assert {each.version for each in EVERY} == {V1_37}
    chosen = {each.corpus for each in EVERY}
    assert {"machinery", "validation", "policies", "gates"} <= chosen
    assert not chosen & corpora.OTHERS


@pytest.mark.parametrize(
    ("names", "folders"),
    [
        (["gates"], {"gates/1.37"}),
        (["gates/1.34"], {"gates/1.34"}),
        (["gates", "policies/1.32"], {"gates/1.37", "policies/1.32"}),
        (["gates/1.3"], set()),
    ],
)
def test_recordings_of_names(names: list[str], folders: set[str]) -> None:
    """A corpus stands for its recordings of the release before, a longer name for what it names, of any release."""
    assert {each.folder for each in corpora.chosen_of(PREVIEW, RECORDINGS, names)} == folders


def test_one_recording() -> None:
    """A recording can be chosen by its name."""
    name = "gates/1.34/taints-slice-v1beta1-01"
    assert [each.name for each in corpora.chosen_of(PREVIEW, RECORDINGS, [name])] == [name]


def test_recordings_share_servers() -> None:
    """Recordings whose servers were started in the same way are sent to one server, whatever their corpus."""
    groups = corpora.by_server(V1_37, EVERY)
    assert sum(map(len, groups.values())) == len(EVERY) > 2 * len(groups)
    assert any(started.tokens != ONLY_ADMIN for started in groups)


@pytest.mark.parametrize(
    ("gates", "kept"),
    [
        ("DRAAdminAccess=false,DRADeviceTaints=true", "DRADeviceTaints=true"),  # the first is locked to true
        ("NoSuchGate=true,DRAListTypeAttributes=false", "DRAListTypeAttributes=false"),
        ("WorkloadAwarePreemption=false", ""),  # removed with 1.37
    ],
)
def test_gates_that_a_release_still_has(gates: str, kept: str) -> None:
    """Gates that were removed or locked meanwhile are left out: the server would not start."""
    assert flags.written(flags.gates_of(V1_37, flags.switches(gates))) == kept


def test_versions_that_a_release_still_has() -> None:
    """All versions of a group stand for one that is gone, none for a group that is gone; resource.k8s.io is served."""
    config = flags.switches("scheduling.k8s.io/v1alpha2=true,resource.k8s.io/v1beta1=false,gone.k8s.io/v1=true")
    served = flags.served_of(V1_37, config, {})
    own = {f"resource.k8s.io/{each}": each != "v1beta1" for each in ("v1", "v1beta2", "v1beta1", "v1alpha3")}
    assert served == own | {f"scheduling.k8s.io/{each}": True for each in ("v1", "v1beta1", "v1alpha3")}


def test_groups_of_gates_are_served() -> None:
    """A group that a gate asks for is served: kube-apiserver does not become ready without it."""
    scheduling = {f"scheduling.k8s.io/{each}": True for each in ("v1", "v1beta1", "v1alpha3")}
    assert scheduling.items() <= flags.served_of(V1_37, {}, {"GenericWorkload": True}).items()
    assert not scheduling.keys() & flags.served_of(V1_37, {}, {"GenericWorkload": False}).keys()


def test_file_of_the_new_release(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A recording goes to the folder of its corpus, release and variant."""
    monkeypatch.setattr(corpora, "HERE", tmp_path)
    chosen = next(each for each in EVERY if each.folder == "authorization/1.37-policy")
    assert isinstance(chosen, Recording)
    path = corpora.target(Version(1, 38), chosen)
    assert path == tmp_path / "authorization" / "1.38-policy" / chosen.path.name
    assert path.parent.is_dir()
