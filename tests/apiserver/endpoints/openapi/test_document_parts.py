"""OpenAPI documents come in parts, and on conditions, as from the real server: see `document_parts`."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from tests.apiserver.endpoints.openapi.document_parts import ask_all
from understudy import Server

RECORDED = sorted((Path(__file__).parent / "recorded" / "parts").glob("*.jsonl"))


@pytest.mark.parametrize("file", RECORDED, ids=lambda file: file.stem)
def test_parts_are_as_recorded(file: Path) -> None:
    """Ranges, preconditions and what they do to each other."""
    with Server(emulated_version=file.stem) as server:
        ours = [json.dumps(each) for each in ask_all(server.url)]
    assert ours == file.read_text().splitlines()
