"""Answers of real servers to new objects of resource.k8s.io: accepted, or refused with causes."""

from __future__ import annotations

import json
import lzma
import re
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from understudy.apiserver.offline.validator import Validator
from understudy.machinery.serializer.json import decode_json

RECORDINGS = Path(__file__).parents[2] / "recordings" / "validation"
PATH = re.compile(r"/apis/resource\.k8s\.io/(?P<version>\w+)/(?:namespaces/(?P<namespace>[^/]+)/)?(?P<resource>\w+)\?")
POINTER = re.compile(r"0x[0-9a-f]{8,16}")

GATES = {
    "1.31": {},
    "1.31-classic": {"DRAControlPlaneController": True},
    "1.32-defaults": {},
    "1.32": {"DRAAdminAccess": True, "DRAResourceClaimDeviceStatus": True},
}


def creations(folder: str) -> Iterator[tuple[str, re.Match[str], bytes, Any]]:
    """Yield (case, path, body, answer) of each recorded POST that reached validation."""
    for file in sorted((RECORDINGS / folder).glob("*.jsonl.xz")):
        with lzma.open(file, "rt", encoding="utf-8") as lines:
            for line in map(json.loads, lines):
                request, answer = line.get("request", {}), line.get("response", {})
                path = PATH.match(request.get("path", "") + "?")
                if request.get("method") == "POST" and path and answer["status"] in (201, 422):
                    body = request["body"]
                    text = body if isinstance(body, str) else json.dumps(body)
                    yield (
                        f"{file.name}: {line['case']}",
                        path,
                        text.replace("<time>", "2026-01-01T00:00:00Z").encode(),
                        answer,
                    )


def causes(answer: Any) -> Counter[tuple[str, str, str]]:
    if answer["status"] == 201:
        return Counter()
    actual = answer["body"]["details"].get("causes", ())
    return Counter((cause["reason"], cause["field"], cause["message"]) for cause in actual)


@pytest.mark.parametrize("folder", GATES)
def test_creation_gets_the_recorded_answer(folder: str) -> None:
    """Every object is accepted or refused as it was recorded, with the same causes, each as often."""
    validator = Validator.of(folder.partition("-")[0], GATES[folder])
    differences = []
    for case, path, body, answer in creations(folder):
        kind = validator.release.resource("resource.k8s.io", path["version"], path["resource"])
        assert kind is not None
        expected = causes(answer)
        if any(field in ("fieldManager", "fieldValidation", "dryRun") for _, field, _ in expected):
            continue  # of the query
        obj, _ = decode_json(body, kind.struct(path["version"]))
        obj.setdefault("metadata", {})["namespace"] = path["namespace"] or ""
        actual = Counter(
            (error.type.reason, error.field, POINTER.sub("<pointer>", error.body(kind.release)))
            for error in validator.create(kind, path["version"], obj)[1]
        )
        if actual != expected:
            differences.append((case, actual - expected, expected - actual))
    assert not differences
