"""Errors that print the difference of two Go values, as kube-apiservers of 1.32 and 1.31 printed it.

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

from tests.http import send
from understudy import Server

RECORDED = Path(__file__).parent / "recorded" / "differences.jsonl"
LINES = [json.loads(line) for line in RECORDED.read_text().splitlines()]


@pytest.mark.parametrize(
    "line",
    [pytest.param(line, marks=pytest.mark.apiserver(emulated_version=line["release"])) for line in LINES],
    ids=lambda line: f"{line['release']}-{line['object']['kind']}",
)
def test_immutable_change_prints_the_difference(apiserver: Server, line: Any) -> None:
    """A change of an immutable field is refused with the difference as kube-apiserver prints it."""
    created = send(apiserver, "POST", line["path"], line["object"])
    assert created.status == 201, created.body
    path = f"{line['path']}/{created.json()['metadata']['name']}{line.get('subresource', '')}"
    if "earlier" in line:
        send(apiserver, "PATCH", path, line["earlier"], "application/strategic-merge-patch+json")
    method, query = ("PUT", "") if line["media"] == "application/json" else ("PATCH", "")
    if "apply" in line["media"]:
        query = "?fieldManager=m&force=true"
    response = send(apiserver, method, path + query, line["body"], line["media"])
    message = re.sub(r"0x[0-9a-f]{6,16}", "<pointer>", response.json().get("message", ""))
    assert (response.status, message) == (line["status"], line["message"])
