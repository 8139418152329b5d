"""scripts.record corpora: which recordings share a server of the next release, and how it is started."""

from __future__ import annotations

from pathlib import Path

import pytest

from scripts.record import corpora
from tests.recordings.recorded import ONLY_ADMIN, Recording, recordings
from understudy.machinery.releases.version import V1_37, Version

PREVIEW = Version(1, 38, "alpha")
EVERY = list(corpora.of_release_before(PREVIEW, recordings()))


def test_recordings_of_the_release_before() -> None:
    """Only recordings of the release before are sent again; without names, those that need nothing but a server."""
    assert {each.version for each in EVERY} == {V1_37}
    chosen = {each.corpus for each in EVERY if corpora.in_corpora(each, [])}
    assert {"machinery", "validation", "policies"} <= chosen
    assert not chosen & corpora.OTHERS
    assert {each.corpus for each in EVERY if corpora.in_corpora(each, ["gates"])} == {"gates"}


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
    assert corpora.written(corpora.gates_of(V1_37, corpora.switches(gates))) == kept


def test_versions_that_a_release_still_has() -> None:
    """All versions of a group stand for one that is gone, none for a group that is gone; resource.k8s.io is served."""
    config = corpora.switches("scheduling.k8s.io/v1alpha2=true,resource.k8s.io/v1beta1=false,gone.k8s.io/v1=true")
    served = corpora.served_of(V1_37, config)
    own = {f"resource.k8s.io/{each}": each != "v1beta1" for each in ("v1", "v1beta2", "v1beta1", "v1alpha3")}
    assert served == own | {f"scheduling.k8s.io/{each}": True for each in ("v1", "v1beta1", "v1alpha3")}


def test_file_of_the_new_release(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A recording goes to the folder of its corpus, release and variant."""
    monkeypatch.setattr(corpora, "HERE", tmp_path)
    chosen = next(each for each in EVERY if each.folder == "authorization/1.37-policy")
    assert isinstance(chosen, Recording)
    path = corpora.target(Version(1, 38), chosen)
    assert path == tmp_path / "authorization" / "1.38-policy" / chosen.path.name
    assert path.parent.is_dir()
