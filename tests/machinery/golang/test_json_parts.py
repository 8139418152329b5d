"""JSON that is encoded in parts is the same as JSON that is encoded at once."""

from __future__ import annotations

from typing import Any

import pytest

from understudy.machinery.golang.json_parts import LONG_TEXT, SHARED_TEXT, encode_in_parts
from understudy.machinery.golang.json_writer import encode, indent
from understudy.machinery.util.pieces import PIECE, join, release

CAUSES = [{"field": f"spec.ports[{number}]", "message": 'a <"b">\n', "of": {}} for number in range(2 * PIECE + 1)]
TEXT = '\u2028<"\n\ud800' * LONG_TEXT
VALUES: list[Any] = [
    {},
    [],
    "",
    {"a": [], "b": {}, "c": None},
    {"a": [1, {"b": [2, "c"]}]},
    {
        "kind": "Status",
        "message": TEXT,
        "details": {"name": "a", "causes": CAUSES},
        "code": 422,
    },
    CAUSES,
    CAUSES[: PIECE + 1],
    {"a": {"b": CAUSES}, "<": 1},
    {"causes": [{"field": "a", "message": TEXT}, *CAUSES, {"field": "b", "message": TEXT}]},
    [TEXT, 1, TEXT],
]


@pytest.mark.parametrize("value", VALUES, ids=range(len(VALUES)))
def test_parts_are_the_whole(value: Any) -> None:
    """All parts together are what is encoded at once, compact and indented; no part is long."""
    parts = [*encode_in_parts(value)]
    assert b"".join(parts) == encode(value)
    assert b"".join(encode_in_parts(value, pretty=True)) == indent(encode(value))
    assert max(map(len, parts)) < 6 * LONG_TEXT + 2


def test_long_texts_are_encoded_once() -> None:
    """A long text that many causes have is encoded once: the parts of all causes are the same object."""
    text = "scope " * SHARED_TEXT
    parts = [*encode_in_parts({"causes": [{"message": text, "field": "a"} for _ in range(10 * PIECE)]})]
    texts = [part for part in parts if len(part) > SHARED_TEXT]
    assert len(texts) == 10 * PIECE
    assert len({id(part) for part in texts}) == 1
    assert len(parts) == 2 * len(texts) + 1


@pytest.mark.parametrize("count", [0, 1, PIECE, PIECE + 1, 3 * PIECE])
def test_pieces(count: int) -> None:
    """Texts joined in pieces are in their order, and a list is empty once it is released."""
    texts = [str(number) for number in range(count)]
    assert join(", ", texts, "[", "]") == f"[{', '.join(texts)}]"
    release(texts)
    assert texts == []
