"""Reads a manifest that somebody edits: what it is about, and on which lines its fields stand."""

from __future__ import annotations

from typing import Any

import orjson

from understudy.machinery import errors
from understudy.machinery.golang.yaml_reader import YAMLError
from understudy.machinery.types import Obj
from understudy.offline.documents import documents_in, line_of


def read(body: bytes) -> Obj:
    """Return {"apiVersion", "kind", "namespace", "name", "lines"} of a manifest, or {"problem", "line"} of none.

    lines  of the fields that were asked for, counted from 1; of a field that is missing, that of the one around it

    Raises 400 for a body that is no question.
    """
    text, fields = _question(body)
    try:
        documents = [document for document in documents_in(text) if document.value is not None]
    except YAMLError as why:
        return {"problem": why.problem, "line": why.line}
    if len(documents) != 1 or not isinstance(documents[0].value, dict):
        return {"problem": "want one object", "line": documents[1].root.line if len(documents) > 1 else 1}
    obj, root = documents[0].value, documents[0].root
    metadata = obj.get("metadata")
    about = {"apiVersion": obj.get("apiVersion"), "kind": obj.get("kind")}
    about |= {key: metadata.get(key) for key in ("namespace", "name")} if isinstance(metadata, dict) else {}
    names = {key: value if isinstance(value, str) else "" for key, value in about.items()}
    return {**names, "lines": [line_of(field, root) for field in fields]}


def _question(body: bytes) -> tuple[str, list[str]]:
    """Return the text of a manifest, and paths of fields. Raises 400."""
    try:
        question: Any = orjson.loads(body)
        text, fields = question["text"], question.get("fields", [])
        if not isinstance(text, str) or not all(isinstance(field, str) for field in fields):
            raise TypeError
    except (ValueError, KeyError, TypeError, AttributeError):
        raise errors.bad_request('want {"text": "…", "fields": ["…"]}') from None
    return text, fields
