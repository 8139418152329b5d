"""What is wrong with an AuthorizationConfiguration is said as real servers of 1.32 and 1.37 say it when they start.

Where both say the same, the newer one is asked.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import orjson
import pytest

from understudy import Server

RECORDED = Path(__file__).with_name("recorded") / "errors.jsonl"
ROWS = [orjson.loads(line) for line in RECORDED.read_bytes().splitlines()]
KUBECONFIG = {
    "clusters": [{"name": "c", "cluster": {"server": "https://127.0.0.1:1/"}}],
    "contexts": [{"name": "c", "context": {"cluster": "c"}}],
    "current-context": "c",
    "apiVersion": "v1",
    "kind": "Config",
}


@pytest.mark.parametrize("row", [pytest.param(row, id=f"{row['release']}-{row['why']}") for row in ROWS])
def test_errors_at_the_start_are_those_of_the_real_server(row: dict[str, Any], tmp_path: Path) -> None:
    """A server says in the same words why it does not start."""
    (tmp_path / "hook.kubeconfig").write_text(json.dumps(KUBECONFIG))
    (tmp_path / "empty.kubeconfig").touch()
    file = tmp_path / "config.yaml"
    if row["config"] is not None:
        file.write_text(row["config"].replace("$DIR", str(tmp_path)))
    flags = [flag.replace("$DIR", str(tmp_path)).removeprefix("--").split("=") for flag in row["flags"]]
    options: dict[str, Any] = {name.replace("-", "_"): value for name, value in flags}

    with pytest.raises(ValueError) as refused:  # noqa: PT011 - the text is compared below
        Server(emulated_version=row["release"], authorization_config=file, **options)

    assert str(refused.value).replace(str(tmp_path), "$DIR") == row["error"]
