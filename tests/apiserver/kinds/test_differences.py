"""Errors that show how Go values differ, whole: what kube-apiservers of 1.32 and 1.31 answered.

A line of `differences.jsonl` creates an object, may patch a subresource of it ("earlier"), and sends an update; it has
the status and the message of the answer, with plain spaces in the difference. Lines of 1.31 are those where it answers
differently.
"""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import pytest

from tests.apiserver.differences.asking import send
from understudy import Server

RECORDED = Path(__file__).parent / "recorded" / "differences.jsonl"
LINES = [json.loads(line) for line in RECORDED.read_text().splitlines()]


def sent(server: Server, method: str, path: str, body: Any, media: str = "application/json") -> tuple[int, Any]:
    answer = send(server, method, path, json.dumps(body).encode(), {"Content-Type": media})
    return answer.status, json.loads(answer.raw)


@pytest.mark.parametrize(
    "line",
    [pytest.param(line, marks=pytest.mark.apiserver(emulated_version=line["release"])) for line in LINES],
    ids=lambda line: f"{line['release']}-{line['object']['kind']}",
)
def test_update(apiserver: Server, line: Any) -> None:
    """What may not change is shown as kube-apiserver shows it."""
    status, made = sent(apiserver, "POST", line["path"], line["object"])
    assert status == 201, made
    path = f"{line['path']}/{made['metadata']['name']}{line.get('subresource', '')}"
    if "earlier" in line:
        sent(apiserver, "PATCH", path, line["earlier"], "application/strategic-merge-patch+json")
    method, query = ("PUT", "") if line["media"] == "application/json" else ("PATCH", "")
    if "apply" in line["media"]:
        query = "?fieldManager=m&force=true"
    status, answer = sent(apiserver, method, path + query, line["body"], line["media"])
    message = re.sub(r"0x[0-9a-f]{6,16}", "<pointer>", answer.get("message", ""))
    assert (status, message) == (line["status"], line["message"])
