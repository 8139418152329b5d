"""scripts.torture round-trip: objects survive every form and every served version, and a lost field is found."""

from __future__ import annotations

import json
import os
import subprocess
from pathlib import Path

import pytest

from scripts.common import commands
from scripts.torture import round_trip
from tests.releases import every_release
from understudy.apiserver.encoding.conversion import from_internal
from understudy.apiserver.serving.release import Release
from understudy.machinery.releases.version import Version
from understudy.machinery.typeinfo.go_types import Schemas

CLASS = {"kind": "DeviceClass", "apiVersion": "resource.k8s.io/v1", "metadata": {"name": "gpu"}, "spec": {}}


def reference(release: Version) -> Path:
    """Return the folder of testdata of k8s.io/api: $K8S_API_TESTDATA/RELEASE, or in Go's module cache."""
    named = os.environ.get("K8S_API_TESTDATA")
    if named:
        return Path(named) / str(release)
    try:
        cache = subprocess.run(["go", "env", "GOMODCACHE"], capture_output=True, text=True, check=True).stdout.strip()
    except (OSError, subprocess.CalledProcessError):
        pytest.skip("needs K8S_API_TESTDATA, or Go and its module cache")
    folders = sorted(Path(cache).glob(f"k8s.io/api@v0.{release.minor}.*/testdata/HEAD"))
    if not folders:
        pytest.skip(f"needs the testdata of k8s.io/api: `go mod download k8s.io/api@v0.{release.minor}.0`")
    return folders[-1]


@every_release
def test_filled_objects_survive(release: Version, capsys: pytest.CaptureFixture[str]) -> None:
    """An object of each kind with every field set is the same after every form of every served version."""
    checked = list(round_trip.check_filled(Release.of(release)))
    assert len(checked) > 75
    assert round_trip.report(Release.of(release), checked) == 0, capsys.readouterr().out


@every_release
def test_encodings_of_reference_objects_agree(release: Version) -> None:
    """A reference object of k8s.io/api is the same in JSON, YAML and protobuf, and is encoded to the same protobuf."""
    files = list(round_trip.known_files(reference(release), Release.of(release)))
    assert len(files) > 80
    differing = {
        file.stem: lines
        for file, gvk in files
        if (lines := list(round_trip.differences_of_encodings(file, Schemas.of(release).kind(*gvk))))
    }
    assert differing == {}


def test_changed_field_is_reported(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """A field that one form has and another has not is a line, and the status is 1."""
    file = tmp_path / "resource.k8s.io.v1.DeviceClass.json"
    file.write_text(json.dumps(CLASS))
    file.with_suffix(".yaml").write_text(json.dumps(CLASS | {"metadata": {"name": "nic"}}))
    assert commands.main("scripts.torture", ["round-trip"], ["round-trip", str(tmp_path)]) == 1
    assert '.yaml: .metadata.name: "gpu" and "nic"' in capsys.readouterr().out


def test_field_lost_by_a_conversion_is_reported(monkeypatch: pytest.MonkeyPatch) -> None:
    """A field that a conversion loses is a line for each version that is converted."""
    lossy = from_internal
    monkeypatch.setattr(
        round_trip,
        "from_internal",
        lambda kind, version, obj: {k: v for k, v in lossy(kind, version, obj).items() if k != "spec"},
    )
    release = Release.named("1.34")
    kind = release.kind("resource.k8s.io", "DeviceClass")
    assert kind is not None
    gvk = kind.gvk("v1")
    lines = [line for line in round_trip.changes(release, gvk, CLASS) if line.startswith("through")]
    assert lines == [
        f"through resource.k8s.io/{version} DeviceClass: .spec: {{}} and nothing"
        for version in ("v1", "v1beta2", "v1beta1")
    ]
