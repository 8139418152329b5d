"""The bytes of a patch: JSON, with the duplicate keys that strict field validation reports.

This module does not know what a patch means. A number becomes an int if it fits 64 bits, else a float
(sigs.k8s.io/json, "preserve ints"). Unusual or malformed bodies are read by `json_reader` as Go reads them.

JSON patches and merge patches are applied to the text of an object, where their own spelling stays: errors show it and
the decoder sees it. So numbers that are not 64-bit integers keep their spelling (`keep_spelling`), and with
`loads_as_written` everything does.
"""

from __future__ import annotations

import json
from collections.abc import Callable
from contextlib import suppress
from math import isinf
from typing import Any, NoReturn

import orjson

from understudy.machinery.golang.json_reader import DecodeError, Node, check_depth, parse, to_bytes, to_text
from understudy.machinery.golang.json_writer import RawNumber, RawString, with_source
from understudy.machinery.golang.text import parse_int
from understudy.machinery.util.regex import regex

_GO_KINDS = {
    dict: "object",
    list: "array",
    str: "string",
    RawString: "string",
    bool: "bool",
    int: "number",
    float: "number",
    RawNumber: "number",
    type(None): "null",
}
_SURROGATE_ESCAPE = regex(r"\\u[dD][89a-fA-F]")
_SURELY_INT64 = 19  # characters of literals that are shorter than this one are those of an int64
Number = Callable[[str], Any]  # makes a value of the literal of a number that is not an int64


def kind_of(value: Any) -> str:
    """Return object, array, string, bool, number or null, as Go's "cannot unmarshal" names the value."""
    return _GO_KINDS[type(value)]


def finite_float(literal: str) -> float:
    """Return the float64 of a literal. Raises DecodeError if it is too large."""
    value = float(literal)
    if value in (float("inf"), float("-inf")):
        raise DecodeError(f"json: cannot unmarshal number {literal} into Go value of type float64")
    return value


def yaml_number(literal: str) -> Any:
    """Return a number as Go's YAML and JSON leave it: whole ones are integers. Raises ValueError if it is too large."""
    value = float(literal)
    if isinf(value):
        raise ValueError(literal)  # to YAML it is a string
    return int(value) if value.is_integer() and abs(value) < 2**63 else value


def keep_spelling(literal: str) -> Any:
    """Return the number of a literal, with the literal's bytes."""
    return with_source(float(literal), literal.encode())


def keep_finite_spelling(literal: str) -> Any:
    """Return the number of a literal, with the literal's bytes. Raises DecodeError if it is too large for a float64."""
    return with_source(finite_float(literal), literal.encode())


_AS_WRITTEN = (keep_spelling, keep_finite_spelling)


def loads(body: bytes, number: Number = finite_float) -> tuple[Any, list[str]]:
    """Parse a body. Returns the value and the paths of duplicate keys in the order in which they are met:
    `metadata.labels.a`, `[0].op`.

    The last of several wins. `number` makes a value of the literal of a number that is not an int64. Raises DecodeError
    with Go's text.
    """
    try:
        return _DECODERS[number](body.decode()), []
    except (ValueError, RecursionError):
        duplicates: list[str] = []
        text = to_text(body)
        return _Reader(text, number, False).value(parse(text), "", duplicates), duplicates


def is_json(body: bytes) -> bool:
    """Report whether a body is JSON at all (Go's `json.Valid`). What orjson takes is; it refuses deep and odd JSON."""
    with suppress(ValueError):
        orjson.loads(body)
        return True
    try:
        loads(body, keep_spelling)
    except DecodeError:
        return False
    return True


def loads_as_written(body: bytes) -> Any:
    """Parse a body that is known to be JSON, and keep the spelling of all values in it."""
    text = to_text(body)
    return _Reader(text, keep_spelling, True).value(parse(text), "", [])


def _unique(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    out = dict(pairs)
    if len(out) != len(pairs):
        raise ValueError("duplicate keys")
    return out


def _integer(literal: str, number: Number) -> Any:
    if len(literal) < _SURELY_INT64:
        return int(literal) if literal != "-0" or number not in _AS_WRITTEN else number(literal)
    try:
        return parse_int(literal)
    except ValueError:
        return number(literal)


def _no_constant(text: str) -> NoReturn:
    raise ValueError(text)  # Python reads NaN and Infinity, JSON has none


def json_decoder(number: Number) -> json.JSONDecoder:
    """Return a decoder of JSON text. It raises ValueError for duplicate keys, NaN and Infinity."""
    return json.JSONDecoder(
        object_pairs_hook=_unique,
        parse_int=lambda literal: _integer(literal, number),
        parse_float=number,
        parse_constant=_no_constant,
    )


def has_surrogates(text: str) -> bool:
    """Report whether JSON text has escapes that make one character of two, or of none."""
    return "\\u" in text and _SURROGATE_ESCAPE.search(text) is not None


def decoder(number: Number) -> Callable[[str], Any]:
    """Return a function that parses JSON text.

    It raises ValueError for what it leaves to Go's own reader as well: duplicate keys, NaN, Infinity and surrogates.
    """
    decode = json_decoder(number).decode

    def decode_text(text: str) -> Any:
        if has_surrogates(text):
            raise ValueError("surrogates")
        value = decode(text)
        check_depth(text, value)
        return value

    return decode_text


_DECODERS: dict[Number, Callable[[str], Any]] = {
    number: decoder(number) for number in (finite_float, yaml_number, keep_spelling, keep_finite_spelling)
}


class _Reader:
    """Makes values of the tree of a body. `spelled`: whether strings, objects and arrays keep their spelling."""

    def __init__(self, text: str, number: Number, spelled: bool) -> None:
        self._text = text
        self._number = number
        self._spelled = spelled

    def value(self, node: Node, path: str, duplicates: list[str]) -> Any:
        """Return the value of a node at `path`, and add the paths of duplicate keys to `duplicates`."""
        if node.kind == "object":
            out: dict[str, Any] = {}
            for key, child in node.value:
                child_path = f"{path}.{key}" if path else key
                if key in out and child_path not in duplicates:
                    duplicates.append(child_path)
                out[key] = self.value(child, child_path, duplicates)
            return self._kept(out, node)
        if node.kind == "array":
            items = [self.value(child, f"{path}[{index}]", duplicates) for index, child in enumerate(node.value)]
            return self._kept(items, node)
        if node.kind == "number":
            fraction = set(node.value) & set(".eE")
            return self._number(node.value) if fraction else _integer(node.value, self._number)
        return self._kept(node.value, node)

    def _kept(self, value: Any, node: Node) -> Any:
        return with_source(value, to_bytes(self._text[node.start : node.end])) if self._spelled else value


__all__ = [
    "DecodeError",
    "decoder",
    "keep_finite_spelling",
    "keep_spelling",
    "kind_of",
    "loads",
    "loads_as_written",
    "yaml_number",
]
