"""Request bodies -> canonical objects, and objects -> bytes.

    obj, strict = decode_json(body, struct)     # canonical: Go's field order, unknown fields dropped, …
    encode(obj)

The caller decides what strict errors (unknown and duplicate fields) mean: an error, warnings or nothing. What cannot be
decoded is a `DecodeError` with Go's text, whatever the body is.

Two decoders do the work. `decode_value` is compiled from the types and fast, and gives up on anything unusual; `exact`
then starts over with a tree of the body that keeps order, duplicates and spelling, and finds the right words.
"""

from __future__ import annotations

import json
import re
from typing import Any, NamedTuple, NoReturn

from understudy.machinery.golang.json_reader import DecodeError, Node, parse, to_text
from understudy.machinery.golang.json_writer import encode
from understudy.machinery.serializer.json_exact import Decoder
from understudy.machinery.serializer.json_fast import struct_converter
from understudy.machinery.serializer.json_raw import NeedsExactDecoder, SourceText
from understudy.machinery.typeinfo.schema import Struct
from understudy.machinery.types import Obj

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
_TELLING_ESCAPE = re.compile(r"\\u(?:[dD][89a-fA-F]|00(?:2[bdeBDE]|3[0-9]|4[57bdBD]|5[04]|6[59bdeBDE]|75))", re.ASCII)
_SNIFFED = 'struct { APIVersion string "json:\\"apiVersion,omitempty\\""; Kind string "json:\\"kind,omitempty\\"" }'
_FOLD = {ord(char): char.lower() for char in "ABCDEFGHIJKLMNOPQRSTUVWXYZ"} | {0x17F: "s", 0x212A: "k"}


def _unique(pairs: list[tuple[str, Any]]) -> Obj:
    found = dict(pairs)
    if len(found) != len(pairs):
        raise NeedsExactDecoder
    return found


def _not_json(text: str) -> NoReturn:
    raise NeedsExactDecoder  # NaN and Infinity


_loads = json.JSONDecoder(object_pairs_hook=_unique, parse_constant=_not_json).decode


class Parsed(NamedTuple):
    """A JSON body, parsed once: first `read_type_meta` reads what it is, then `decode_parsed` makes its object.

    text   the body as text, None if only the exact decoder can read it; then there is no value
    value  Python's, of which the decoded object keeps parts: a body is decoded once
    """

    body: bytes
    text: str | None
    value: Any


def parse_json(body: bytes) -> Parsed:
    """Return a JSON body with its value. Whatever is wrong with it is told by those who read it further."""
    try:
        text = body.decode()
        return Parsed(body, text, _loads(text))
    except (NeedsExactDecoder, ValueError, RecursionError):
        return Parsed(body, None, None)


def decode_json(body: bytes, struct: Struct) -> tuple[Obj, list[str]]:
    """Return the canonical object and the strict errors of a JSON body. Raises DecodeError."""
    return decode_parsed(parse_json(body), struct)


def decode_parsed(parsed: Parsed, struct: Struct) -> tuple[Obj, list[str]]:
    """Return the canonical object and the strict errors of a JSON body that is parsed already. Raises DecodeError."""
    text = parsed.text
    try:
        if text is None or ("\\u" in text and _TELLING_ESCAPE.search(text)):
            raise NeedsExactDecoder
        return struct_converter(struct)(parsed.value, SourceText(text)), []
    except (NeedsExactDecoder, ValueError, RecursionError):
        return _decode_exactly(to_text(parsed.body), struct)


def _decode_exactly(text: str, struct: Struct) -> tuple[Obj, list[str]]:
    try:
        decoder = Decoder(text)
        value = decoder.decode(parse(text), struct)
        return struct_converter(struct)(value, None), decoder.strict
    except RecursionError as error:
        raise DecodeError("exceeded max depth") from error


def decode_yaml(body: bytes, struct: Struct) -> tuple[Obj, list[str]]:
    """The same for a YAML body, whose JSON is decoded (and can be sniffed: `yaml_to_json`). The first strict error is
    the one about duplicate keys. Raises DecodeError."""
    converted, duplicates = yaml_to_json(body)
    obj, strict = decode_json(converted, struct)
    return obj, duplicates + strict


def yaml_to_json(body: bytes) -> tuple[bytes, list[str]]:
    """The JSON of a YAML body, and the strict error about its duplicate keys, if any. Raises DecodeError."""
    from understudy.machinery.golang.yaml_reader import to_json

    return to_json(body)


def decode_value_fast(value: Any, struct: Struct) -> Obj | None:
    """The canonical object of a JSON value, None if anything in it is unusual."""
    try:
        obj: Obj = struct_converter(struct)(value, None)
    except (NeedsExactDecoder, RecursionError):
        return None
    return obj


def decode_value(value: Any, struct: Struct) -> tuple[Obj, list[str]]:
    """The canonical object and the strict errors of a JSON value that is parsed already (the result of a patch). Raises
    DecodeError."""
    obj = decode_value_fast(value, struct)
    return (obj, []) if obj is not None else _decode_exactly(to_text(encode(value)), struct)


def read_type_meta(parsed: Parsed) -> tuple[str, str]:
    """Return (apiVersion, kind) of a JSON body, "" where there is none. Names match in any case, the last one wins.

    Raises DecodeError."""
    quick = _sniff_quickly(parsed.value) if parsed.text is not None else None
    return quick or _sniff_exactly(to_text(parsed.body))


def type_meta_of(value: Any) -> tuple[str, str]:
    """The same of a JSON value that is parsed already."""
    return _sniff_quickly(value) or _sniff_exactly(to_text(encode(value)))


def _sniff_quickly(value: Any) -> tuple[str, str] | None:
    """None if there is anything unusual."""
    if not isinstance(value, dict) or any(_folded(key) for key in value):
        return None
    version, kind = value.get("apiVersion", ""), value.get("kind", "")
    return (version, kind) if type(version) is str and type(kind) is str else None


def _folded(key: str) -> bool:
    """Whether the key means kind or apiVersion, but is spelt otherwise."""
    return key not in ("kind", "apiVersion") and key.translate(_FOLD) in ("kind", "apiversion")


def _sniff_exactly(text: str) -> tuple[str, str]:
    try:
        return _sniff_tree(parse(text))
    except DecodeError as error:
        raise DecodeError(f"couldn't get version/kind; json parse error: {error}") from error


def _sniff_tree(tree: Node) -> tuple[str, str]:
    found = {"apiVersion": "", "kind": ""}
    wrong = ""
    if tree.kind not in ("object", "null"):
        raise DecodeError(f"json: cannot unmarshal {tree.kind} into Go value of type {_SNIFFED}")
    for key, node in tree.value or ():
        name = {"kind": "kind", "apiversion": "apiVersion"}.get(key.translate(_FOLD))
        if name and node.kind == "string":
            found[name] = node.value
        elif name and node.kind != "null":
            wrong = wrong or f"json: cannot unmarshal {node.kind} into Go struct field .{name} of type string"
    if wrong:
        raise DecodeError(wrong)
    return found["apiVersion"], found["kind"]
