"""Replace the values that a server makes up by placeholders, which `tests/recordings/compare.py` lists."""

from __future__ import annotations

import re
from collections import Counter
from typing import Any

from scripts.common.comparing import Obj

UUID = re.compile(r"\b[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}\b")
TIME = re.compile(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d(\.\d{6})?Z")
POINTER = re.compile(r"0x[0-9a-f]{8,16}")
DOCUMENT_HASH = re.compile(r"(?<=\?hash=)[0-9A-F]{128}")  # of OpenAPI, whose descriptions are another's
REVISION = re.compile(r"(resource version: \d+, current: |too old resource version: \d+ \()\d+")
VERSION_IN_TEXT = re.compile(r'(?<="resourceVersion":")[1-9]\d*(?=")')
NUMBERED = re.compile(r"<(uid|rv|name|continue|token):(\d+)>")
AGES = {
    "Age",
    "Last Seen",
    "First Seen",
    "Duration",
    "TimeAdded",
    "Completed",
}  # columns of tables that tell how long ago something was


class Placeholders:
    """Replace the values that a server makes up by placeholders, the same value by the same one.

    `resource_versions` holds the number behind each placeholder of a resourceVersion.
    """

    def __init__(self) -> None:
        self.resource_versions: dict[str, int] = {}
        self._known: dict[tuple[str, str], str] = {}  # (kind of placeholder, value) -> placeholder
        self._counts: Counter[str] = Counter()
        self._literals: set[str] = set()  # values that a request had before any answer: the client made them up
        self._columns: list[str] = []

    def number_after(self, text: str) -> None:
        """Number new placeholders after those of a text."""
        for kind, number in NUMBERED.findall(text):
            self._counts[kind] = max(self._counts[kind], int(number))

    def learn(self, placeholder: str, value: str) -> None:
        """Let a placeholder that is there already stand for a value from now on."""
        kind = placeholder[1:].partition(":")[0]
        self._known.setdefault((kind, value), placeholder)
        if kind == "rv":
            self.resource_versions[placeholder] = int(value)

    def keep(self, body: Any) -> None:
        """Keep the values of a request that no answer held as they are, wherever they stand: they are the client's."""
        self._literals |= self._unknown(body)

    def mask_response(self, body: Any) -> Any:
        """Return the JSON value, or text, of an answer with placeholders."""
        self._find_generated_names(body)
        return self._mask(body)

    def mask_request(self, body: Any) -> Any:
        """Return the body of a request with placeholders for what earlier answers held; the rest is the client's."""
        self.keep(body)
        return self._mask(body)

    def mask_reference(self, name: str, value: str) -> str:
        """Return the placeholder, or the text, of a field of an earlier answer that a path refers to."""
        return self._mask_field(name, value)

    def _find_generated_names(self, node: Any) -> None:
        if isinstance(node, dict):
            prefix, name = node.get("generateName"), node.get("name")
            if isinstance(prefix, str) and isinstance(name, str) and name.startswith(prefix) and "uid" in node:
                self._placeholder("name", name)
        for item in node.values() if isinstance(node, dict) else node if isinstance(node, list) else ():
            self._find_generated_names(item)

    def _unknown(self, node: Any) -> set[str]:
        """Return the uids, times and resource versions of a request that no answer held."""
        if isinstance(node, dict):
            version = node.get("resourceVersion")
            own = {version} if isinstance(version, str) and ("rv", version) not in self._known else set()
            return own.union(*map(self._unknown, node.values()))
        if isinstance(node, list):
            return set().union(*map(self._unknown, node))
        texts = [match.group() for pattern in (UUID, TIME) for match in pattern.finditer(str(node))]
        return {text for text in texts if not any((kind, text) in self._known for kind in ("uid", "time"))}

    def _mask(self, node: Any, name: str = "") -> Any:
        if isinstance(node, dict):
            if node.get("kind") == "Table":
                node = self.mask_ages(node)
            if has_version_of_list(node):
                node = {**node, "metadata": {**node["metadata"], "resourceVersion": self._version_of_list(node)}}
            return {self._mask_text(key): self._mask(value, key) for key, value in node.items()}
        if isinstance(node, list):
            return [self._mask(item, name) for item in node]
        return self._mask_field(name, node) if isinstance(node, str) else node

    def _mask_field(self, name: str, text: str) -> str:
        if name == "resourceVersion" and text.isdigit() and text != "0":
            return self._placeholder("rv", text)
        if name == "continue" and text:
            return self._placeholder("continue", text)
        if name == "serverAddress":
            return "<address>"
        if name == "token":
            return "<token>"
        return self._mask_text(text)

    def _mask_text(self, text: str) -> str:
        for (kind, value), placeholder in sorted(self._known.items(), key=lambda item: -len(item[0][1])):
            if kind == "name":
                text = text.replace(value, placeholder)
        text = DOCUMENT_HASH.sub("<hash>", text)
        text = UUID.sub(lambda match: self._placeholder("uid", match.group()), text)
        text = TIME.sub(lambda match: self._mask_time(match), text)
        text = VERSION_IN_TEXT.sub(lambda match: self._placeholder("rv", match.group()), text)
        return REVISION.sub(r"\1<number>", POINTER.sub("<pointer>", text))

    def _mask_time(self, match: re.Match[str]) -> str:
        if match.group() in self._literals:
            return match.group()
        return self._known.setdefault(("time", match.group()), "<microtime>" if match[1] else "<time>")

    def mask_ages(self, table: Obj) -> Obj:
        """Mask the cells that grow with time. Later events of a watch have no columns: the first event's count."""
        self._columns = [column["name"] for column in table.get("columnDefinitions") or ()] or self._columns
        if not table.get("rows"):
            return table
        rows = [{**row, "cells": [*map(masked_cell, self._columns, row["cells"])]} for row in table["rows"]]
        return {**table, "rows": rows}

    def _version_of_list(self, node: Obj) -> str:
        """Return a placeholder of its own: the server may write something else between an object and a list of it."""
        version = str(node["metadata"]["resourceVersion"])
        self._counts["rv"] += 1
        placeholder = f"<rv:{self._counts['rv']}>"
        self._known.setdefault(("rv", version), placeholder)
        self.resource_versions[placeholder] = int(version)
        return placeholder

    def _placeholder(self, kind: str, value: str) -> str:
        if value in self._literals:
            return value
        if (kind, value) not in self._known:
            self._counts[kind] += 1
            self._known[kind, value] = f"<{kind}:{self._counts[kind]}>"
            if kind == "rv":
                self.resource_versions[self._known[kind, value]] = int(value)
        return self._known[kind, value]


def has_version_of_list(node: Obj) -> bool:
    """Report whether an object is a list, or stands in a bookmark: it has a resourceVersion and no uid."""
    metadata = node.get("metadata")
    return isinstance(metadata, dict) and "uid" not in metadata and str(metadata.get("resourceVersion", "")).isdigit()


def masked_cell(column: str, cell: Any) -> Any:
    return "<age>" if column in AGES and cell not in ("<none>", "<unknown>", None) else cell
