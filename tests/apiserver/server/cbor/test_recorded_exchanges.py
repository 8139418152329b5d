"""CBOR is read and written as recorded beside a real kube-apiserver.

`python -m scripts.compare cbor … --save FILE` records recorded/RELEASE.jsonl, beside this file.
"""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from scripts.common.comparing import Server as Asked
from scripts.compare.cbor import exchanges
from understudy import Server

RECORDED = Path(__file__).with_name("recorded")
GATE = {"CBORServingAndStorage": True}


@pytest.mark.parametrize("release", ["1.32", "1.37"])
def test_exchanges_are_as_recorded(release: str) -> None:
    """Objects, lists, watches, apply, errors and negotiation are those of the real server."""
    with Server(emulated_version=release, feature_gates=GATE) as server, Asked(server.url) as asked:
        actual = list(exchanges(asked))
    assert actual == [json.loads(line) for line in (RECORDED / f"{release}.jsonl").read_text().splitlines()]


def test_cbor_is_not_served_without_its_gate() -> None:
    """Neither bodies nor answers are in CBOR by default, and errors do not name it."""
    path, cbor = "/api/v1/namespaces/default/configmaps", "application/cbor"
    with Server() as server, Asked(server.url) as asked:
        read = asked.exchange("GET", path, {"Accept": cbor})
        written = asked.exchange("POST", path, {"Content-Type": cbor}, b"\xa0")
        applied = asked.exchange("PATCH", f"{path}/a", {"Content-Type": "application/apply-patch+cbor"}, b"\xa0")
    assert [read.status, written.status, applied.status] == [406, 415, 415]
    assert not any(b"cbor" in answer.body for answer in (read, written, applied))
