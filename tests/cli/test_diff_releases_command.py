"""`understudy diff-releases`: what it says about manifests, release by release, and its exit status."""

from __future__ import annotations

import argparse
import json
from pathlib import Path

import pytest

from tests.releases import RELEASES
from understudy.cli.commands import diff_releases_command
from understudy.offline.release_differences import outcomes
from understudy.offline.validator import Validator

CONFIG_MAP = "apiVersion: v1\nkind: ConfigMap\nmetadata: {generateName: a-, creationTimestamp: null}\n"
CLAIM = """\
apiVersion: resource.k8s.io/v1beta1
kind: ResourceClaim
metadata: {name: gpus}
spec:
  devices:
    requests:
    - {name: r0, deviceClassName: gpu, adminAccess: true}
"""


def run(*args: str) -> int:
    parser = argparse.ArgumentParser()
    diff_releases_command.add_arguments(parser)
    return diff_releases_command.run(parser.parse_args(args))


@pytest.fixture
def file(tmp_path: Path) -> Path:
    return tmp_path / "manifest.yaml"


def test_releases_that_agree_share_a_line(file: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """An object that every release accepts as it is has one line, and the command succeeds."""
    file.write_text(CONFIG_MAP)
    assert run(str(file)) == 0
    assert capsys.readouterr().out == f"{file}:1: ConfigMap/a-\n  1.31 to {RELEASES[-1]} accepted\n"


def test_refused_and_changed_objects_have_reasons(file: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """A release without the version refuses, one whose feature gate is off drops the field."""
    file.write_text(f"{CONFIG_MAP}---\n{CLAIM}")
    assert run("--emulated-version", "1.31,1.32", str(file)) == 1
    assert capsys.readouterr().out.splitlines()[2:] == [
        f"{file}:5: ResourceClaim/gpus",
        '  1.31 refused: no matches for kind "ResourceClaim" in version "resource.k8s.io/v1beta1"; '
        "served is resource.k8s.io/v1alpha3",
        "  1.32 changed: spec.devices.requests[0].adminAccess: dropped",
    ]
    assert run("--emulated-version", "1.32", "--feature-gates", "DRAAdminAccess=true", str(file)) == 0


def test_findings_are_reasons(file: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """A release refuses for each thing that `validate` finds in the object."""
    file.write_text(CLAIM.replace("name: r0,", "name: R0, count: -1,"))
    assert run("--emulated-version", "1.32", str(file)) == 1
    lines = capsys.readouterr().out.splitlines()
    assert [line.split(": ")[:2] for line in lines[1:]] == [
        ["  1.32 refused", "spec.devices.requests[0].name"],
        ["  1.32 refused", "spec.devices.requests[0].count"],
    ]


def test_other_defaults_are_changes() -> None:
    """A field that the manifest leaves out is compared with the newest release that accepts the object."""
    pod = {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "p"}, "spec": {"containers": [{"name": "c"}]}}
    pod["spec"]["containers"][0]["image"] = "i"  # type: ignore[index]
    older, newest = Validator.of("1.31"), Validator.of("1.32")
    create = older.create

    def with_another_default(*args: object) -> object:
        obj, errors = create(*args)  # type: ignore[arg-type]
        obj["spec"] |= {"dnsPolicy": "Default", "hostPID": True}
        return obj, errors

    changed = Validator(older.serving, older.gates)
    changed.create = with_another_default  # type: ignore[method-assign, assignment]
    assert [outcome.reasons for outcome in outcomes(pod, [older, newest])] == [(), ()]
    assert [outcome.reasons for outcome in outcomes(pod, [changed, newest])] == [
        (
            'spec.dnsPolicy: set to "Default", in 1.32 set to "ClusterFirst"',
            "spec.hostPID: set to true, in 1.32 not set",
        ),
        (),
    ]


def test_json_output(file: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """`-o json` prints verdicts and reasons by release."""
    file.write_text(CONFIG_MAP)
    assert run("-o", "json", "--emulated-version", "1.32", str(file)) == 0
    assert json.loads(capsys.readouterr().out) == [
        {
            "file": str(file),
            "line": 1,
            "kind": "ConfigMap",
            "namespace": "",
            "name": "a-",
            "releases": {"1.32": {"verdict": "accepted", "reasons": []}},
        }
    ]


def test_unreadable_file_exits_with_2(file: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """A file that cannot be read exits with 2, and the other files are compared all the same."""
    file.write_text(CONFIG_MAP)
    assert run("--emulated-version", "1.32", str(file.with_name("missing.yaml")), str(file)) == 2
    captured = capsys.readouterr()
    assert captured.err == f"{file.with_name('missing.yaml')}: No such file or directory\n"
    assert captured.out.endswith("1.32 accepted\n")


def test_wrong_folder_does_not_pass(file: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """A folder without manifests is an error, and so is one whose manifests are all excluded."""
    assert run("--emulated-version", "1.32", str(file.parent)) == 2
    assert "no manifests there" in capsys.readouterr().err
    file.write_text(CONFIG_MAP)
    assert run("--emulated-version", "1.32", "--exclude", file.name, str(file.parent)) == 2
    assert capsys.readouterr().err == f"{file.parent}: no objects to look at\n"
