"""Requests that the releases answer differently, whatever the kind.

recorded/releases.jsonl: requests with what kube-apiserver answers since a release: the status, the message of an error
or the user of a SelfSubjectReview, warnings, and of /apis the type. They are sent to an empty server one by one; texts
are sent as they are.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from tests.http import JSON, Response, send
from understudy import Server
from understudy.apiserver.serving.release import releases
from understudy.machinery.releases.version import ByRelease, Version

RECORDED = [json.loads(line) for line in (Path(__file__).parent / "recorded/releases.jsonl").read_text().splitlines()]


def answer(response: Response, path: str) -> dict[str, Any]:
    """Return an answer as it is recorded."""
    out: dict[str, Any] = {"status": response.status, "message": ""}
    try:
        document = response.json()
    except ValueError:
        out["message"] = response.body.decode() if response.status >= 400 else ""
    else:
        status = document.get("status")
        out["message"] = status.get("userInfo") if isinstance(status, dict) else document.get("message")
    if isinstance(out["message"], str):  # cmp.Diff indents by either of two spaces
        out["message"] = out["message"].replace("\N{NO-BREAK SPACE}", " ")
    if response.warnings:
        out["warnings"] = response.warnings
    if path == "/apis":
        out["type"] = response.headers["Content-Type"]
    return out


@pytest.mark.parametrize("release", releases(), ids=str)
def test_requests_are_answered_as_recorded(release: Version) -> None:
    """Each release answers as its kube-apiserver does."""
    different = []
    with Server(emulated_version=str(release)) as server:
        for case in RECORDED:
            expected = ByRelease({Version.parse(since): told for since, told in case["since"].items()})[release]
            media = case["headers"].get("Content-Type", JSON) if case["body"] is not None else None
            body = case["body"].encode() if isinstance(case["body"], str) else case["body"]
            response = send(server, case["method"], case["path"], body, media, headers=case["headers"])
            if (actual := answer(response, case["path"])) != expected:
                different.append((case["method"], case["path"], case["headers"], actual, expected))
    assert different == []
