"""What CI and commits run: the GitHub Action and the pre-commit hook of this repository."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
from pathlib import Path

import pytest
import yaml

from understudy.cli import main as cli

ROOT = Path(__file__).parents[2]
BAD = 'apiVersion: v1\nkind: ConfigMap\nmetadata: {name: "A"}\n'


def test_action_annotates_and_writes_sarif(tmp_path: Path) -> None:
    """The action's script checks the paths that it is given, one on a line, fails as the command does, and logs."""
    action = yaml.safe_load((ROOT / "action.yml").read_text())
    *_, step = action["runs"]["steps"]
    (programs := tmp_path / "understudy" / "bin").mkdir(parents=True)
    program = programs / "understudy"
    program.write_text(f'#!/bin/sh\nexec "{sys.executable}" -m understudy "$@"\n')
    program.chmod(0o755)
    (tmp_path / "a file.yaml").write_text(BAD)
    (tmp_path / "other.yaml").write_text(BAD.replace('"A"', "a"))
    inputs = {name: str(default.get("default", "")) for name, default in action["inputs"].items()}
    inputs |= {"paths": "a file.yaml\n\nother.yaml\n", "emulated-version": "1.36,1.37", "sarif-file": "log.sarif"}
    given = {name: inputs[text.split("inputs.")[1].split(" ")[0]] for name, text in step["env"].items()}
    env = {**os.environ, **given, "RUNNER_TEMP": str(tmp_path)}
    done = subprocess.run(["bash", "-e", "-c", step["run"]], cwd=tmp_path, env=env, capture_output=True, text=True)
    assert done.returncode == 1, done.stderr
    assert done.stdout.startswith("::error file=a file.yaml,line=3,title=ConfigMap/A::metadata.name: ")
    assert done.stdout.count("\n") == 1
    assert len(json.loads((tmp_path / "log.sarif").read_text())["runs"][0]["results"]) == 1


def test_hook_checks_the_files_of_a_commit(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """The entry of the hook is a command line of this program, to which pre-commit adds files."""
    [hook] = yaml.safe_load((ROOT / ".pre-commit-hooks.yaml").read_text())
    program, *argv = hook["entry"].split()
    (file := tmp_path / "a.yaml").write_text(BAD)
    assert (program, hook["language"], hook.get("pass_filenames", True)) == ("understudy", "python", True)
    assert hook["require_serial"], "definitions of custom resources have to be in the process that checks these"
    assert [path for path in ("deploy/a.yaml", "charts/app/Chart.yaml") if not re.search(hook["exclude"], path)] == [
        "deploy/a.yaml"
    ]
    assert cli.main([*argv, str(file)]) == 1
    assert capsys.readouterr().out.startswith(f"{file}:3: ConfigMap/A: metadata.name: ")
