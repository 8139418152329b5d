"""JSON and YAML bodies to canonical objects.

    obj, strict = decode_json(body, struct)     # canonical: Go's field order, unknown fields dropped, …
    encode(obj)

The caller decides what strict errors (unknown and duplicate fields) mean: an error, warnings or nothing. A body that
cannot be decoded raises `DecodeError` with Go's text.

Two decoders do the work. `json_fast` is compiled from the types and gives up on anything unusual. `json_exact` then
starts over with a tree of the body that keeps order, duplicates and spelling, and finds the right texts of errors.
"""

from __future__ import annotations

import json
import json.scanner
import re
from collections.abc import Callable
from typing import Any, NoReturn

import orjson

from understudy.machinery.golang.json_reader import DecodeError, Node, check_depth, parse, to_text
from understudy.machinery.golang.json_writer import encode
from understudy.machinery.serializer.json_exact import Decoder
from understudy.machinery.serializer.json_fast import struct_converter
from understudy.machinery.serializer.json_raw import NeedsExactDecoder, SourceText
from understudy.machinery.typeinfo.go_types import Struct
from understudy.machinery.types import NamedTuple, Obj
from understudy.machinery.util.regex import regex

__all__ = [
    "DecodeError",
    "Parsed",
    "decode_json",
    "decode_parsed",
    "decode_value",
    "decode_value_fast",
    "decode_yaml",
    "encode",
    "parse_json",
    "read_type_meta",
    "type_meta_of",
    "yaml_to_json",
]

# Escapes whose result is not what stands there: surrogates, and what a quantity (read without unescaping) may hold.
_TELLING_ESCAPE = regex(r"\\u(?:[dD][89a-fA-F]|00(?:2[bdeBDE]|3[0-9]|4[57bdBD]|5[04]|6[59bdeBDE]|75))", re.ASCII)
LARGE = 512 * 1024  # bytes of a body that others would notice if it were read at once
_SPACES = b" \t\r\n"
_TYPE_META_GO_TYPE = (
    'struct { APIVersion string "json:\\"apiVersion,omitempty\\""; Kind string "json:\\"kind,omitempty\\"" }'
)
_FOLD = {ord(char): char.lower() for char in "ABCDEFGHIJKLMNOPQRSTUVWXYZ"} | {0x17F: "s", 0x212A: "k"}


def _unique(pairs: list[tuple[str, Any]]) -> Obj:
    obj = dict(pairs)
    if len(obj) != len(pairs):
        raise NeedsExactDecoder
    return obj


def _not_json(text: str) -> NoReturn:
    raise NeedsExactDecoder  # NaN and Infinity


def _ascii_int(text: str) -> int:
    """Return a number; Python's own scanner takes digits of all scripts."""
    if not text.isascii():
        raise NeedsExactDecoder
    return int(text)


def _ascii_float(text: str) -> float:
    if not text.isascii():
        raise NeedsExactDecoder
    return float(text)


def _loads_in_turns() -> Callable[[str], Any]:
    """Return a function that reads JSON as `_loads` does, in four times the time, but lets other threads have their
    turn: the scanner in C keeps them waiting while it reads an object, 80 ms for one with 200,000 fields."""
    decoder: Any = json.JSONDecoder(
        object_pairs_hook=_unique, parse_constant=_not_json, parse_int=_ascii_int, parse_float=_ascii_float
    )
    scanner: Any = json.scanner
    decoder.parse_object, decoder.parse_array = json.decoder.JSONObject, json.decoder.JSONArray  # type: ignore[attr-defined]
    decoder.scan_once = scanner.py_make_scanner(decoder)
    decode: Callable[[str], Any] = decoder.decode
    return decode


_loads = json.JSONDecoder(object_pairs_hook=_unique, parse_constant=_not_json).decode
_loads_large = _loads_in_turns()


class Parsed(NamedTuple):
    """A JSON body with its parsed value. `text` and `value` are None if only the exact decoder can read it."""

    body: bytes
    text: str | None
    value: Any


def parse_json(body: bytes) -> Parsed:
    """Parse a JSON body once, for all who read it. Errors are left to those who decode it."""
    try:
        text = body.decode()
        if "\\u" in text and _TELLING_ESCAPE.search(text):
            raise NeedsExactDecoder
        value = _read(body, text) if len(body) < LARGE else _loads_large(text)
        check_depth(text, value)
        return Parsed(body, text, value)
    except (NeedsExactDecoder, ValueError, RecursionError):
        return Parsed(body, None, None)


def _read(body: bytes, text: str) -> Any:
    """Return the value of a JSON text that is not large. Raises NeedsExactDecoder, ValueError.

    orjson, which takes a third of the time, keeps the last of several fields of one name, and changes some numbers. It
    has done neither if it writes the value as it was sent, but for spaces.
    """
    if "\\u" not in text:  # orjson writes most of these escapes as characters
        try:
            value = orjson.loads(body)
            is_as_sent = orjson.dumps(value).translate(None, _SPACES) == body.translate(None, _SPACES)
        except (ValueError, TypeError):  # it does not read, or write, what nests deep
            is_as_sent = False
        if is_as_sent:
            return value
    return _loads(text)


def decode_json(body: bytes, struct: Struct) -> tuple[Obj, list[str]]:
    """Decode a JSON body. Returns the canonical object and the strict errors. Raises DecodeError."""
    return decode_parsed(parse_json(body), struct)


def decode_parsed(parsed: Parsed, struct: Struct) -> tuple[Obj, list[str]]:
    """Decode a parsed JSON body. Returns the canonical object and the strict errors. Raises DecodeError."""
    text = parsed.text
    try:
        if text is None:
            raise NeedsExactDecoder
        return struct_converter(struct)(parsed.value, SourceText(text)), []
    except (NeedsExactDecoder, ValueError, RecursionError):
        return _decode_exactly(to_text(parsed.body), struct)


def _decode_exactly(text: str, struct: Struct) -> tuple[Obj, list[str]]:
    decoder = Decoder(text)
    value = decoder.decode(parse(text), struct)
    return struct_converter(struct)(value, None), decoder.strict


def decode_yaml(body: bytes, struct: Struct) -> tuple[Obj, list[str]]:
    """Decode a YAML body, by way of JSON. Returns the canonical object and the strict errors, the one about duplicate
    keys first. Raises DecodeError."""
    converted, duplicates = yaml_to_json(body)
    obj, strict = decode_json(converted, struct)
    return obj, duplicates + strict


def yaml_to_json(body: bytes) -> tuple[bytes, list[str]]:
    """Convert a YAML body to JSON. Returns it and the strict error about its duplicate keys, if any. Raises
    DecodeError."""
    from understudy.machinery.golang.yaml_reader import to_json

    return to_json(body)


def decode_value_fast(value: Any, struct: Struct) -> Obj | None:
    """Return the canonical object of a parsed JSON value, or None if anything in it is unusual."""
    try:
        obj: Obj = struct_converter(struct)(value, None)
    except (NeedsExactDecoder, RecursionError):
        return None
    return obj


def decode_value(value: Any, struct: Struct) -> tuple[Obj, list[str]]:
    """Decode a parsed JSON value, as the result of a patch. Returns the canonical object and the strict errors. Raises
    DecodeError."""
    obj = decode_value_fast(value, struct)
    return (obj, []) if obj is not None else _decode_exactly(to_text(encode(value)), struct)


def read_type_meta(parsed: Parsed) -> tuple[str, str]:
    """Return (apiVersion, kind) of a parsed body, "" where missing (upstream: `SimpleMetaFactory.Interpret`). Raises
    DecodeError.

    Field names match in any case, and the last of several wins.
    """
    quick = _type_meta_fast(parsed.value) if parsed.text is not None else None
    return quick or _type_meta_exact(to_text(parsed.body))


def type_meta_of(value: Any) -> tuple[str, str]:
    """Return (apiVersion, kind) of a parsed JSON value, "" where missing. Raises DecodeError."""
    return _type_meta_fast(value) or _type_meta_exact(to_text(encode(value)))


def _type_meta_fast(value: Any) -> tuple[str, str] | None:
    """Return (apiVersion, kind) of a value, or None if anything about them is unusual."""
    if not isinstance(value, dict) or any(map(_is_folded, value)):
        return None
    version, kind = value.get("apiVersion", ""), value.get("kind", "")
    return (version, kind) if type(version) is str and type(kind) is str else None


def _is_folded(key: str) -> bool:
    """Report whether a key means `kind` or `apiVersion` but is spelt in another case."""
    return len(key) in (4, 10) and key not in ("kind", "apiVersion") and key.translate(_FOLD) in ("kind", "apiversion")


def _type_meta_exact(text: str) -> tuple[str, str]:
    """Return (apiVersion, kind) of a body, with the texts of Go's errors. Raises DecodeError."""
    try:
        return _type_meta_of_tree(parse(text))
    except DecodeError as error:
        raise DecodeError(f"couldn't get version/kind; json parse error: {error}") from error


def _type_meta_of_tree(tree: Node) -> tuple[str, str]:
    type_meta = {"apiVersion": "", "kind": ""}
    error_text = ""
    if tree.kind not in ("object", "null"):
        raise DecodeError(f"json: cannot unmarshal {tree.kind} into Go value of type {_TYPE_META_GO_TYPE}")
    for key, node in tree.value or ():
        name = {"kind": "kind", "apiversion": "apiVersion"}.get(key.translate(_FOLD))
        if name and node.kind == "string":
            type_meta[name] = node.value
        elif name and node.kind != "null":
            error_text = error_text or f"json: cannot unmarshal {node.kind} into Go struct field .{name} of type string"
    if error_text:
        raise DecodeError(error_text)
    return type_meta["apiVersion"], type_meta["kind"]
