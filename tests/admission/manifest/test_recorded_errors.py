"""What is wrong with an AdmissionConfiguration and with manifests is said as real servers of 1.32, 1.36 and 1.37 say it
when they start."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import orjson
import pytest

from understudy import Server

RECORDED = Path(__file__).with_name("recorded") / "errors.jsonl"
ROWS = [orjson.loads(line) for line in RECORDED.read_bytes().splitlines()]
# What the real server ends with is printed by its logger.
OTHERWISE = {
    "in a missing file": "failed to apply admission: Couldn't open admission plugin configuration: open "
    "$DIR/m/none.cfg: no such file or directory"
}


@pytest.mark.parametrize("row", [pytest.param(row, id=row["why"]) for row in ROWS])
def test_errors_at_the_start_are_those_of_the_real_server(row: dict[str, Any], tmp_path: Path) -> None:
    """A server starts, or says in the same words why it does not."""
    (tmp_path / "m").mkdir()
    for name, text in row["files"].items():
        (tmp_path / "m" / name).parent.mkdir(exist_ok=True)
        (tmp_path / "m" / name).write_bytes(text.replace("$DIR", str(tmp_path)).encode())
    file = tmp_path / "config.yaml"
    if row["config"] is not None:
        file.write_text(row["config"].replace("$DIR", str(tmp_path)))

    error = ""
    try:
        Server(emulated_version=row["release"], feature_gates=row["gates"], admission_control_config_file=file)
    except ValueError as why:
        error = str(why)

    assert error.replace(str(tmp_path), "$DIR") == OTHERWISE.get(row["why"], row["error"])


def test_folder_in_the_place_of_the_configuration(tmp_path: Path) -> None:
    """A folder cannot be read, which a kube-apiserver of 1.37 says in these words."""
    text = f'unable to read admission control configuration from "{tmp_path}" [read {tmp_path}: is a directory]'
    with pytest.raises(ValueError, match=re.escape(text)):
        Server(admission_control_config_file=tmp_path)
