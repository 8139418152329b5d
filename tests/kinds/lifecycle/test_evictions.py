"""Evictions and EvictionRequests, written as recorded from a kube-apiserver of 1.37.

A line of `evictions.jsonl` creates an object and takes steps: {"why", "resource", "object", "answer", "steps"}. A step
sets fields of the stored object and puts it back: {"set": {path: value}, "subresource" ("status" if it is not said),
"answer"}. A time is {"now": seconds from now} in what is sent, and `<now+SECONDS>` in answers. An answer is
[status, causes in sorted order], or of what is stored parts of it, and the cells of its table, whose seconds are `N`.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.clock import FixedClock
from tests.http import send
from understudy import Server
from understudy.machinery.types import Obj
from understudy.machinery.util.clock import parse_timestamp, timestamp

COLLECTION = "/apis/lifecycle.k8s.io/v1alpha1/namespaces/default/"
TABLE = "application/json;as=Table;g=meta.k8s.io;v=v1"
CASES = [json.loads(line) for line in Path(__file__).with_name("evictions.jsonl").read_text().splitlines()]
NOW = parse_timestamp("2026-11-21T12:00:00Z")


@pytest.fixture(scope="module")
def server() -> Iterator[Server]:
    with Server(
        emulated_version="1.37",
        feature_gates={"EvictionRequestAPI": True},
        runtime_config={"lifecycle.k8s.io/v1alpha1": True},
        clock=FixedClock(NOW),
    ) as started:
        yield started


def filled(value: Any) -> Any:
    match value:
        case {"now": seconds}:
            return timestamp(NOW + seconds)
        case dict():
            return {key: filled(item) for key, item in value.items()}
        case list():
            return [filled(item) for item in value]
    return value


def masked(value: Any) -> Any:
    """Return JSON with its times as seconds from now."""
    text = re.sub(
        r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\dZ",
        lambda found: f"<now{parse_timestamp(found[0]) - NOW:+.0f}>",
        json.dumps(value),
    )
    return json.loads(text)


def causes(answer: Obj) -> list[list[str]]:
    if "causes" not in answer["details"]:
        return []
    return sorted([one["reason"], one["field"], masked(one["message"])] for one in answer["details"]["causes"])


def changed(obj: Obj, fields: dict[str, Any]) -> Obj:
    for path, value in fields.items():
        *parents, last = path.split(".")
        target = obj
        for parent in parents:
            target = target.setdefault(parent, {})
        target[last] = filled(value)
    return obj


@pytest.mark.parametrize("number", range(len(CASES)), ids=[case["why"] for case in CASES])
def test_recorded_evictions(server: Server, number: int) -> None:
    """Evictions are stored, refused and shown in tables as by kube-apiserver."""
    case = CASES[number]
    obj = filled(case["object"])
    obj["metadata"] = {"name": f"e{number}", **obj.get("metadata", {})}
    created = send(server, "POST", COLLECTION + case["resource"], obj)
    answer = created.json()
    if created.status >= 400:
        assert [created.status, causes(answer)] == case["answer"]
        return
    assert [created.status, [answer["metadata"]["generation"], answer.get("status")]] == case["answer"]
    path = f"{COLLECTION}{case['resource']}/{obj['metadata']['name']}"
    for step in case["steps"]:
        subresource = step.get("subresource", "status")
        sent = changed(send(server, "GET", path).json(), step["set"])
        put = send(server, "PUT", f"{path}/{subresource}" if subresource else path, sent)
        assert summary(server, path, put.status, put.json()) == step["answer"], step["set"]


def summary(server: Server, path: str, status: int, answer: Obj) -> list[Any]:
    """Return the answer to a step in the form of the file."""
    if status >= 400:
        return [status, causes(answer)]
    metadata = answer["metadata"]
    parts = [metadata.get("generation"), metadata.get("labels"), masked(answer.get("status")), answer["spec"]]
    cells = send(server, "GET", path, accept=TABLE).json()["rows"][0]["cells"]
    return [status, parts, [re.sub(r"\d+s", "Ns", str(cell)) for cell in cells]]
