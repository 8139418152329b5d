"""What kube-apiservers of 1.32 and 1.31 found wrong with the metadata of every built-in kind.

A line of `metadata.jsonl` is {"path", "object", "causes": {"create": …, "update": …, subresource: …}}: of a request
with `BAD` in the metadata of a valid object, a letter of `FIELDS` for each cause, in their order. Rules that are
applied again report again. "release" is there where only that release has the kind.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from tests.http import send
from understudy import Server

BAD = {
    "generateName": "Bad_",
    "deletionGracePeriodSeconds": 5,
    "labels": {"a": "not valid!"},
    "annotations": {"not valid!": "1"},
    "ownerReferences": [{"apiVersion": "v1", "kind": "", "name": "o", "uid": "u"}],
    "finalizers": ["plain"],
}
FIELDS = {
    "metadata.generateName": "g",
    "metadata.deletionGracePeriodSeconds": "d",
    "metadata.labels": "l",
    "metadata.annotations": "a",
    "metadata.ownerReferences.kind": "o",
    "metadata.finalizers[0]": "f",
}


def cases() -> list[Any]:
    params = []
    for text in (Path(__file__).parent / "recorded" / "metadata.jsonl").read_text().splitlines():
        line = json.loads(text)
        mark = pytest.mark.apiserver(emulated_version=line.get("release", "1.32"))
        params.append(pytest.param(line, marks=mark, id=f"{line['object']['apiVersion']}-{line['object']['kind']}"))
    return params


def letters(answer: Any) -> str:
    causes = answer["details"]["causes"] if answer["kind"] == "Status" else ()
    return "".join(FIELDS[cause["field"]] for cause in causes)


@pytest.mark.parametrize("line", cases())
def test_bad_metadata_is_reported_as_often_and_in_order(apiserver: Server, line: Any) -> None:
    """Bad metadata is reported as often as by kube-apiserver, and in its order, by every request that writes it."""
    path, obj, dry = line["path"], line["object"], "?dryRun=All"
    bad = {**obj, "metadata": {**obj["metadata"], **BAD}}
    causes = {"create": letters(send(apiserver, "POST", path + dry, bad).json())}
    assert "uid" in send(apiserver, "POST", path, obj).json()["metadata"]
    for target in line["causes"].keys() - {"create"}:
        where = f"{path}/{obj['metadata']['name']}" + ("" if target == "update" else f"/{target}")
        method, body = ("PUT", bad) if target == "finalize" else ("PATCH", {"metadata": BAD})
        causes[target] = letters(send(apiserver, method, where + dry, body).json())
    assert causes == line["causes"]
