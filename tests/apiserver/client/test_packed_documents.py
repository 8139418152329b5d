"""Documents that are kept as JSON are those that a reader of whole texts finds."""

from __future__ import annotations

import tracemalloc
from collections.abc import Callable
from typing import Any

import pytest

from understudy.apiserver.encoding.packed_documents import packed_documents
from understudy.machinery.golang.json_writer import encode
from understudy.machinery.golang.yaml_reader import YAMLError, load_yaml

NODE = {"kind": "Node", "metadata": {"name": "n", "labels": dict.fromkeys(map(str, range(40)), "x")}}
LIST = {"kind": "List", "items": [NODE] * 500}


def _read(read: Callable[[], list[Any]]) -> Any:
    """Return the documents that are read, or the error."""
    try:
        return read()
    except YAMLError as error:
        return error.line, error.problem


def _whole(text: str) -> list[Any]:
    return [(value, duplicates, root.line) for value, duplicates, root in load_yaml(text)]


def _unpacked(text: str) -> list[Any]:
    out = []
    for packed in packed_documents(text):
        value = packed.value
        if packed.items is not None:
            value["items"] = [*packed.unpacked()]
        out.append((value, packed.duplicates, packed.line))
    return out


@pytest.mark.parametrize(
    "text",
    [
        "a: 1\n---\n---\nitems:\n- {b: 1.0}\n- x\n- ~\n- [1]\nkind: List\n",
        "items:\n- &a {x: 1}\n- {y: *a}\n- *a\n",
        "kind: List\nitems: &i\n- a\n- {b: *i}\n",
        "items:\n- {a: 1, a: 2}\nitems:\n- {a: 3}\n",
        "items:\n- {a: 1, a: 2}\n- {b: .inf}\n",
        "items:\n- {<<: 3}\n- {b: 1}\nx: [\n",
        "items:\n- {a: *unknown}\n",
        "? [items]\n: - {a: 1}\n",
        '\n {"kind": "List", "items": [{"a": 1.0, "b": 1e300, "c": -0, "d": "<\\u2028>"}, "x", null, [1]], "z": 1}\n',
        '{"items": [{"a": 18446744073709551616, "b": 9223372036854775808, "c": 1e400}]}',
        '{"items": [{"a": 1, "a": 2}]}',
        '{"items": [], "items": {}}',
        '{"items": [{"a": "\\ud83d\\ude00"}]}',
        '{"items": [{"a": NaN}]}',
        '{"items": [{"a": 1} {"b": 2}]}',
        '{"items": [{"a": 1}',
        '{"items": [{"a": 1}]]',
        '{"items"',
        '{"a": 1,}',
        '{"a": 1}\n---\n{"b": 2}\n',
        "{a: b}",
        "{}",
        "",
    ],
)
def test_packed_documents_are_the_documents(text: str) -> None:
    """Values, repeated keys, lines and errors are the same."""
    assert repr(_read(lambda: _unpacked(text))) == repr(_read(lambda: _whole(text)))


@pytest.mark.parametrize("form", ["JSON", "YAML", "documents"])
def test_items_take_the_room_of_their_text(form: str) -> None:
    """A List of many objects, or many documents, take no more than twice the room of their JSON."""
    node = encode(NODE).decode()
    text = {
        "JSON": encode(LIST).decode(),
        "YAML": "\n- ".join(["kind: List\nitems:", *[node] * 500]),
        "documents": "\n---\n".join([node] * 500),
    }[form]
    packed_documents(text)  # imports what it needs
    tracemalloc.start()
    documents = packed_documents(text)
    taken, most = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert len(documents) == (500 if form == "documents" else 1)
    assert taken < 2 * len(text)
    assert most < 4 * len(text)
