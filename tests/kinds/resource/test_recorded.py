"""Answers of real servers to new objects of resource.k8s.io: accepted, or refused with causes."""

from __future__ import annotations

import json
import re
from collections import Counter
from collections.abc import Iterator
from itertools import groupby
from typing import Any

import pytest

from tests.recordings.recorded import Recording, Started, recordings
from tests.releases import RELEASES
from understudy.apiserver.server.options.values import switches
from understudy.machinery.serializer.json import decode_json
from understudy.offline.validator import Validator

RECORDINGS = [each for each in recordings() if each.corpus == "validation"]
PATH = re.compile(r"/apis/resource\.k8s\.io/(?P<version>\w+)/(?:namespaces/(?P<namespace>[^/]+)/)?(?P<resource>\w+)\?")
POINTER = re.compile(r"0x[0-9a-f]{8,16}")

EMULATED = {str(release) for release in RELEASES}
SERVERS = {
    server: list(files)
    for server, files in groupby(RECORDINGS, lambda each: each.started)
    if server.release in EMULATED
}


def creations(files: list[Recording]) -> Iterator[tuple[str, re.Match[str], bytes, Any]]:
    """Yield (case, path, body, answer) of each recorded POST that reached validation."""
    for file in files:
        for line in file.lines():
            request, answer = line.get("request", {}), line.get("response", {})
            path = PATH.match(request.get("path", "") + "?")
            if request.get("method") == "POST" and path and answer["status"] in (201, 422):
                body = request["body"]
                text = body if isinstance(body, str) else json.dumps(body)
                body = text.replace("<time>", "2026-01-01T00:00:00Z").encode()
                yield f"{file.name}: {line['case']}", path, body, answer


def causes(answer: Any) -> Counter[tuple[str, str, str]]:
    if answer["status"] == 201:
        return Counter()
    actual = answer["body"]["details"].get("causes", ())
    return Counter((cause["reason"], cause["field"], cause["message"]) for cause in actual)


@pytest.mark.parametrize("server", SERVERS, ids=lambda server: server.folder)
def test_creation_gets_the_recorded_answer(server: Started) -> None:
    """Every object is accepted or refused as it was recorded, with the same causes, each as often."""
    validator = Validator.of(server.release, switches(server.feature_gates))
    differences = []
    for case, path, body, answer in creations(SERVERS[server]):
        kind = validator.release.resource("resource.k8s.io", path["version"], path["resource"])
        assert kind is not None
        expected = causes(answer)
        if any(field in ("fieldManager", "fieldValidation", "dryRun") for _, field, _ in expected):
            continue  # of the query
        if any("admin-access" in message for _, _, message in expected):
            continue  # of the namespace, which is not there
        obj, _ = decode_json(body, kind.struct(path["version"]))
        obj.setdefault("metadata", {})["namespace"] = path["namespace"] or ""
        actual = Counter(
            (error.type.reason, error.field, POINTER.sub("<pointer>", error.body(kind.release)))
            for error in validator.create(kind, path["version"], obj)[1]
        )
        if actual != expected:
            differences.append((case, actual - expected, expected - actual))
    assert not differences
