"""YAML read as the real server reads it: converted to JSON first, as sigs.k8s.io/yaml and go-yaml do with YAML 1.1.

`yes` is true, `010` is 8, timestamps are strings, keys become strings; the JSON has sorted keys, and the last of
duplicate keys wins. ruamel.yaml parses the structure; the meaning of scalars and the texts of errors are Go's.
"""

from __future__ import annotations

import re
from base64 import b64decode
from collections.abc import Callable, Iterator
from typing import Any, NamedTuple

from understudy.machinery.golang.json_reader import DecodeError
from understudy.machinery.golang.json_writer import encode, go_number
from understudy.machinery.golang.text import go_float, go_quote

_WORDS: dict[str, tuple[str, Any]] = {
    **dict.fromkeys(("y", "Y", "yes", "Yes", "YES", "true", "True", "TRUE", "on", "On", "ON"), ("!!bool", True)),
    **dict.fromkeys(("n", "N", "no", "No", "NO", "false", "False", "FALSE", "off", "Off", "OFF"), ("!!bool", False)),
    **dict.fromkeys(("", "~", "null", "Null", "NULL"), ("!!null", None)),
    **{word: ("!!float", float("nan")) for word in (".nan", ".NaN", ".NAN")},
    **{sign + word: ("!!float", float("inf")) for sign in ("", "+") for word in (".inf", ".Inf", ".INF")},
    **{word: ("!!float", float("-inf")) for word in ("-.inf", "-.Inf", "-.INF")},
}
_INTEGER = re.compile(r"([+-]?)(?:0[xX]([0-9a-fA-F]+)|0[oO]?([0-7]+)|0[bB]([01]+)|(0|[1-9][0-9]{0,19}))", re.ASCII)
_FLOAT = re.compile(r"[-+]?(\.[0-9]+|[0-9]+(\.[0-9]*)?)([eE][-+]?[0-9]+)?", re.ASCII)
_TIMESTAMP = re.compile(r"\d{4}-\d\d?-\d\d?([Tt ]\d\d?:\d\d?:\d\d?(\.\d+)?(Z|[+-]\d\d:\d\d)?)?", re.ASCII)
_RESOLVABLE = ("", "!!str", "!!bool", "!!int", "!!float", "!!null", "!!timestamp")
_LONG_TAG = "tag:yaml.org,2002:"


def resolve(text: str, tag: str = "") -> tuple[str, Any]:
    """Return (tag, value) of a plain scalar, or of one with an explicit tag (go-yaml: `resolve`). Raises DecodeError if
    the tag does not fit."""
    if tag not in _RESOLVABLE:
        return tag, text
    resolved, value = ("!!str", text) if tag == "!!str" else _resolve_plain(text)
    if tag == "!!float" and resolved == "!!int":
        return tag, float(value)
    if tag not in ("", resolved, "!!str"):
        raise DecodeError(f"yaml: cannot decode {resolved} `{text}` as a {tag}")
    return resolved, value


def _resolve_plain(text: str) -> tuple[str, Any]:
    if text in _WORDS:
        return _WORDS[text]
    if text[0] == ".":
        return ("!!float", float(text)) if _FLOAT.fullmatch(text) else ("!!str", text)
    if text[0] not in "+-0123456789":
        return "!!str", text
    if _TIMESTAMP.fullmatch(text):
        return "!!timestamp", text
    plain = text.replace("_", "")
    integer = _INTEGER.fullmatch(plain)
    if integer:
        sign, *digits = integer.groups()
        value = next(int(d, base) for d, base in zip(digits, (16, 8, 2, 10), strict=True) if d is not None)
        value = -value if sign == "-" else value
        if -(2**63) <= value < (2**63 if sign else 2**64):
            return "!!int", value
    if _FLOAT.fullmatch(plain) and float(plain) not in (float("inf"), float("-inf")):
        return "!!float", float(plain)
    return "!!str", text


# --- structure


class _Node:
    """A node of the document tree (go-yaml: `node`).

    `kind` is scalar, sequence, mapping or alias. `children` are the items, or keys and values in turn, or the anchored
    node. `busy` is true while the node is converted, to notice an anchor that contains itself.
    """

    __slots__ = ("anchor", "busy", "children", "kind", "line", "plain", "tag", "text")

    def __init__(self, kind: str, event: Any) -> None:
        self.kind = kind
        self.line: int = event.start_mark.line + 1
        self.anchor: str = getattr(event, "anchor", None) or ""
        tag = str(getattr(event, "tag", None) or "")
        self.tag = f"!!{tag[len(_LONG_TAG) :]}" if tag.startswith(_LONG_TAG) else tag
        self.text: str = getattr(event, "value", None) or ""
        self.plain = kind == "scalar" and event.implicit[0]
        self.children: list[_Node] = []
        self.busy = False


class Document(NamedTuple):
    """One document of a file: the line on which it begins, its value, and an error line for each key that stands twice
    ("line 5: …")."""

    line: int
    value: Any
    duplicates: list[str]


def _documents(text: str) -> Iterator[_Node]:
    """Yield the root of every document. Raises DecodeError with Go's text."""
    from ruamel.yaml import YAML  # imported here: it takes long, and few requests are YAML
    from ruamel.yaml.error import MarkedYAMLError, YAMLError, YAMLStreamError

    reader = YAML(typ="safe", pure=True)
    reader.version = (1, 1)
    try:
        yield from _roots(reader.parse(text))
    except MarkedYAMLError as error:
        raise DecodeError(_in_go_words(error, text)) from error
    except (YAMLError, YAMLStreamError) as error:  # raised by the reader: a character that YAML does not allow
        raise DecodeError("yaml: control characters are not allowed") from error


def _roots(events: Any) -> Iterator[_Node]:
    """Build the tree of every document from ruamel.yaml's events, and yield its root."""
    anchors: dict[str, _Node] = {}
    open_: list[_Node] = []
    root: _Node | None = None
    for event in events:
        name = type(event).__name__
        if name == "DocumentStartEvent":
            anchors.clear()
            root = None
        elif name == "DocumentEndEvent" and root:
            yield root
        elif name in ("MappingEndEvent", "SequenceEndEvent"):
            open_.pop()
        elif name in _KINDS:
            node = _Node(_KINDS[name], event)
            if node.kind == "alias":
                if node.anchor not in anchors:
                    raise DecodeError(f"yaml: unknown anchor '{node.anchor}' referenced")
                node.children.append(anchors[node.anchor])
            elif node.anchor:
                anchors[node.anchor] = node
            root = root or node
            if open_:
                open_[-1].children.append(node)
            if node.kind in ("mapping", "sequence"):
                open_.append(node)


_KINDS = {
    "ScalarEvent": "scalar",
    "SequenceStartEvent": "sequence",
    "MappingStartEvent": "mapping",
    "AliasEvent": "alias",
}

# Pairs of a pattern for ruamel.yaml's problem and context, and Go's text.
_PROBLEMS = (
    (r"mapping values are not allowed here", "mapping values are not allowed in this context"),
    (r"expected <block end>.*mapping", "did not find expected key"),
    (r"expected <block end>.*collection", "did not find expected '-' indicator"),
    (r"expected ',' or '(.)'", r"did not find expected ',' or '\1'"),
    (r"found character .* that cannot start any token", "found character that cannot start any token"),
    (r"found unknown escape character", "found unknown escape character"),
    (r"expected escape sequence", "did not find expected hexdecimal number"),
    (r"expected '>'", "did not find the expected '>'"),
    (r"expected the node content", "did not find expected node content"),
    (r"expected alphabetic or numeric character", "did not find expected alphabetic or numeric character"),
    (r"sequence entries are not allowed here", "block sequence entries are not allowed in this context"),
    (r"found incompatible YAML document", "found incompatible YAML document"),
)


def _in_go_words(error: Any, text: str) -> str:
    """Return Go's text for an error of ruamel.yaml.

    The line is that of the problem: counted from 1 by the scanner, from 0 by the parser; the end of the text is on a
    line of its own.
    """
    problem = f"{error.problem} {error.context}"
    for pattern, words in _PROBLEMS:
        match = re.search(pattern, problem)
        if match:
            problem = match.expand(words)
            break
    else:
        problem = str(error.problem)
    mark = error.problem_mark or error.context_mark
    line = mark.line if mark else 0
    scanned = type(error).__name__ == "ScannerError"
    if mark and mark.index >= len(text) and mark.column and (not scanned or "could not find expected" in problem):
        line += 1
    where = f"line {line + scanned}: " if line else ""
    return f"yaml: {where}{problem}"


# --- values

_MAX_ALIAS_RATIO = ((400_000, 0.99), (4_000_000, 0.10))


class _Converter:
    """Converts the nodes of one document to JSON values. `duplicates` gathers the keys that stand twice."""

    def __init__(self) -> None:
        self.duplicates: list[str] = []
        self._decoded = 1  # the document itself
        self._aliased = self._depth = 0

    def value(self, node: _Node) -> Any:
        """Return the JSON value of a node. Raises DecodeError."""
        self._count()
        if node.kind == "alias":
            return self._aliased_value(node, self.value)
        if node.kind == "scalar":
            return _scalar(node)
        if node.kind == "sequence":
            return self._guarded(node, lambda: [self.value(child) for child in node.children])
        return self._guarded(node, lambda: self._mapping(node, {}))

    def _count(self) -> None:
        """Count a node, and refuse a document with too many aliased ones: a few aliases of aliases make a gigabyte."""
        self._decoded += 1
        self._aliased += self._depth > 0
        if self._decoded > 1000 and self._aliased > 100:
            (low, much), (high, little) = _MAX_ALIAS_RATIO
            share = min(1.0, max(0.0, (self._decoded - low) / (high - low)))
            if self._aliased / self._decoded > much - (much - little) * share:
                raise DecodeError("yaml: document contains excessive aliasing")

    def _aliased_value(self, node: _Node, convert: Callable[[_Node], Any]) -> Any:
        """Convert the anchored node of an alias. Raises DecodeError if the alias is inside it."""
        (target,) = node.children
        if target.busy:
            raise DecodeError(f"yaml: anchor '{node.anchor}' value contains itself")
        self._depth += 1
        value = convert(target)
        self._depth -= 1
        return value

    def _guarded(self, node: _Node, make: Any) -> Any:
        """Call `make` while the node is marked as busy."""
        node.busy = True
        value = make()
        node.busy = False
        return value

    def _mapping(self, node: _Node, out: dict[str, Any]) -> dict[str, Any]:
        """Add the members of a mapping to `out`, and return it."""
        pairs = zip(node.children[::2], node.children[1::2], strict=True)
        for key_node, value_node in pairs:
            if key_node.kind == "scalar" and key_node.plain and key_node.text == "<<" and not key_node.tag:
                self._merge(value_node, out)
                continue
            key = self.value(key_node)
            value = self.value(value_node)
            name = _key(key, value)
            if name in out:
                key_text = go_quote(key) if isinstance(key, str) else _key(key, value)
                self.duplicates.append(f"line {value_node.line}: key {key_text} already set in map")
            out[name] = value
        return out

    def _merge(self, node: _Node, out: dict[str, Any]) -> None:
        """Merge what `<<` refers to: a mapping, or a sequence of mappings, of which the first wins."""
        for each in reversed(node.children) if node.kind == "sequence" else (node,):
            target = each.children[0] if each.kind == "alias" else each
            if target.kind != "mapping":
                raise DecodeError("yaml: map merge requires map or sequence of maps as the value")
            self._merged(each, out)

    def _merged(self, node: _Node, out: dict[str, Any]) -> None:
        """Merge one mapping, or an alias of one: both count as nodes of the document."""
        self._count()
        if node.kind == "alias":
            self._aliased_value(node, lambda target: self._merged(target, out))
        else:
            self._guarded(node, lambda: self._mapping(node, out))


def _scalar(node: _Node) -> Any:
    if not node.tag and not node.plain:
        return node.text
    if node.tag == "!!binary":
        try:
            return b64decode(node.text, validate=True).decode(errors="replace")
        except ValueError as error:
            raise DecodeError("yaml: !!binary value contains invalid base64 data") from error
    return resolve(node.text, node.tag)[1]


def _key(key: Any, value: Any) -> str:
    """Return a key as a string. Raises DecodeError for a value that cannot be a key."""
    if isinstance(key, str):
        return key
    if isinstance(key, bool):
        return "true" if key else "false"
    if isinstance(key, (int, float)):
        return go_float(key) if isinstance(key, float) else str(key)
    if key is None:
        value_text = go_quote(value) if isinstance(value, str) else _go_value(value)
        raise DecodeError(f"unsupported map key of type: %!s(<nil>), key: <nil>, value: {value_text}")
    raise DecodeError(f"yaml: invalid map key: {_go_value(key)}")


def _go_value(value: Any) -> str:
    """Return a decoded YAML value as %#v prints it."""
    if isinstance(value, list):
        return f"[]interface {{}}{{{', '.join(map(_go_value, value))}}}"
    if isinstance(value, dict):
        items = (f"{go_quote(key)}:{_go_value(item)}" for key, item in sorted(value.items()))
        return f"map[interface {{}}]interface {{}}{{{', '.join(items)}}}"
    if value is None:
        return "interface {}(nil)"
    if isinstance(value, bool):
        return "true" if value else "false"
    return go_quote(value) if isinstance(value, str) else go_float(value)


def _convert(root: _Node) -> Document:
    converter = _Converter()
    try:
        return Document(root.line, converter.value(root), converter.duplicates)
    except RecursionError as error:
        raise DecodeError("yaml: exceeded max depth of 10000") from error


_UTF_16 = {b"\xff\xfe": "utf-16-le", b"\xfe\xff": "utf-16-be"}  # by byte order mark
_WIDTHS = ((0xE0, 0xC0, 2), (0xF0, 0xE0, 3), (0xF8, 0xF0, 4))  # (mask, bits, octets) of a leading octet


def _text(body: bytes) -> str:
    """Decode a body. Raises DecodeError if it is neither UTF-8 nor marked as UTF-16."""
    encoding = _UTF_16.get(body[:2])
    if encoding:
        return body[2:].decode(encoding, "replace")
    try:
        return body.decode()
    except UnicodeDecodeError as error:
        raise DecodeError(f"yaml: {_octets_error(body[error.start : error.start + 4])}") from error


def _octets_error(octets: bytes) -> str:
    """Return go-yaml's text for octets that are not a character."""
    width = next((size for mask, bits, size in _WIDTHS if octets[0] & mask == bits), 0)
    if not width:
        return "invalid leading UTF-8 octet"
    if any(octet & 0xC0 != 0x80 for octet in octets[1:width]):
        return "invalid trailing UTF-8 octet"
    if len(octets) < width:
        return "incomplete UTF-8 octet sequence"
    overlong = octets[0] in (0xC0, 0xC1) or octets[:2] < {3: b"\xe0\xa0", 4: b"\xf0\x90"}.get(width, b"")
    return "invalid length of a UTF-8 sequence" if overlong else "invalid Unicode character"


def to_json(body: bytes) -> tuple[bytes, list[str]]:
    """Return the JSON of the first document of a body, and the strict error about its duplicate keys, if any. Raises
    DecodeError."""
    for root in _documents(_text(body)):
        document = _convert(root)
        lines = "\n  ".join(document.duplicates)
        return encode(_sorted(document.value)), [f"yaml: unmarshal errors:\n  {lines}"] if lines else []
    return b"null", []


def _sorted(value: Any) -> Any:
    if isinstance(value, dict):
        return {key: _sorted(value[key]) for key in sorted(value)}
    if isinstance(value, list):
        return [_sorted(item) for item in value]
    if isinstance(value, float):
        if value != value or value in (float("inf"), float("-inf")):
            text = "NaN" if value != value else "+Inf" if value > 0 else "-Inf"
            raise DecodeError(f"json: unsupported value: {text}")
        return go_number(value)
    return value


def load_yaml(text: str) -> list[Document]:
    """Return every document of a manifest that is not empty. Raises DecodeError."""
    documents = map(_convert, _documents(text))
    return [document for document in documents if document.value is not None]
