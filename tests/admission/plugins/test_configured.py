"""Plugins that read a configuration answer as those of real servers of 1.32 and 1.37, with the same files and flags."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import orjson
import pytest

from tests.clock import FixedClock
from tests.http import send
from tests.releases import often
from understudy import Server
from understudy.machinery.types import Obj

RECORDED = Path(__file__).with_name("recorded") / "configured.jsonl"
# Every run asks the newest release, or the one of a row; -m every_recording asks the others.
ROWS = [
    pytest.param(
        release,
        row,
        id=f"{release}, {row['why']}",
        marks=often(release == row["releases"][0]),
    )
    for row in map(orjson.loads, RECORDED.read_bytes().splitlines())
    for release in row["releases"]
]


def answered(server: Server, exchange: Obj) -> Obj:
    """Send the request of an exchange; return the exchange with the answer to it."""
    method, path = exchange["request"].split(" ", 1)
    headers = {"Impersonate-User": exchange["user"]} if "user" in exchange else {}
    answer = send(server, method, path, exchange.get("body"), exchange.get("media"), headers=headers)
    told = {"status": answer.status, **({"warnings": answer.warnings} if answer.warnings else {})}
    if answer.status >= 400:
        told["answer"] = answer.json()
    elif "kept" in exchange:
        told["kept"] = {name: answer.json()["spec"].get(name) for name in exchange["kept"]}
    asked = {name: value for name, value in exchange.items() if name not in ("status", "warnings", "answer", "kept")}
    return asked | told


def configuration(row: Obj, folder: Path) -> Path:
    """Write the files of a row; return that of the AdmissionConfiguration."""
    (folder / "m").mkdir()
    for name, text in row.get("files", {}).items():
        (folder / "m" / name).write_text(text.replace("$DIR", str(folder)))
    file = folder / "config.yaml"
    file.write_text(row["config"].replace("$DIR", str(folder)))
    return file


@pytest.mark.parametrize(("release", "row"), ROWS)
def test_configured_plugins_answer_as_those_of_the_real_server(release: str, row: Obj, tmp_path: Path) -> None:
    """A server does not start, for the recorded reason, or answers the recorded requests as recorded."""
    options: dict[str, Any] = {
        "emulated_version": release,
        "enable_admission_plugins": list(filter(None, row.get("enable", "").split(","))),
        "admission_control_config_file": configuration(row, tmp_path),
        "clock": FixedClock.at("2026-11-21T12:00:00Z"),
    }
    if error := row.get("error"):
        with pytest.raises(ValueError, match="failed to apply admission") as refused:
            Server(**options)
        assert str(refused.value).replace(str(tmp_path), "$DIR") == error
        return
    with Server(**options) as server:
        for exchange in row["exchanges"]:
            assert answered(server, exchange) == exchange
