"""YAML read as the real server reads it: converted to JSON first, as sigs.k8s.io/yaml and go-yaml do with YAML 1.1.

`yes` is true, `010` is 8, timestamps are strings, keys become strings; the JSON has sorted keys, and the last of
duplicate keys wins. libyaml parses the structure, through PyYAML: go-yaml is a port of it, so that both have the same
texts of errors. Where PyYAML is built without libyaml, its parser in Python is used: slower, and errors have its texts.
"""

from __future__ import annotations

import re
from base64 import b64decode
from collections.abc import Callable, Generator, Iterator, Sequence
from math import copysign, inf, isfinite, isnan
from struct import pack, unpack
from typing import Any

from understudy.machinery.golang.json_reader import DecodeError
from understudy.machinery.golang.json_writer import encode, go_number
from understudy.machinery.golang.text import go_float, go_quote
from understudy.machinery.types import NamedTuple
from understudy.machinery.util.regex import regex

_WORDS: dict[str, tuple[str, Any]] = {
    **dict.fromkeys(("y", "Y", "yes", "Yes", "YES", "true", "True", "TRUE", "on", "On", "ON"), ("!!bool", True)),
    **dict.fromkeys(("n", "N", "no", "No", "NO", "false", "False", "FALSE", "off", "Off", "OFF"), ("!!bool", False)),
    **dict.fromkeys(("", "~", "null", "Null", "NULL"), ("!!null", None)),
    **{word: ("!!float", float("nan")) for word in (".nan", ".NaN", ".NAN")},
    **{sign + word: ("!!float", float("inf")) for sign in ("", "+") for word in (".inf", ".Inf", ".INF")},
    **{word: ("!!float", float("-inf")) for word in ("-.inf", "-.Inf", "-.INF")},
}
_INTEGER = regex(r"([+-]?)(?:0[xX]([0-9a-fA-F]+)|0[oO]?([0-7]+)|0[bB]([01]+)|(0|[1-9][0-9]{0,19}))", re.ASCII)
_FLOAT = regex(r"[-+]?(\.[0-9]+|[0-9]+(\.[0-9]*)?)([eE][-+]?[0-9]+)?", re.ASCII)
_TIMESTAMP = regex(r"\d{4}-\d\d?-\d\d?([Tt ]\d\d?:\d\d?:\d\d?(\.\d+)?(Z|[+-]\d\d:\d\d)?)?", re.ASCII)
_ESCAPED_SLASH = regex(r"(?<!\\)(?:\\\\)*\\/")
_RESOLVABLE = ("", "!!str", "!!bool", "!!int", "!!float", "!!null", "!!timestamp")
_LONG_TAG = "tag:yaml.org,2002:"


class YAMLError(DecodeError):
    """A text that is no YAML, or has no JSON; `str(error)` is Go's text.

    problem  Go's text without a line
    line     its line, counted from 1; Go's text may name the one before it, or none
    """

    def __init__(self, problem: str, line: int = 1, *, named_line: int = 0) -> None:
        super().__init__(problem.replace("yaml: ", f"yaml: line {named_line}: ", 1) if named_line else problem)
        self.problem = problem
        self.line = line


def resolve(text: str, tag: str = "") -> tuple[str, Any]:
    """Return (tag, value) of a plain scalar, or of one with an explicit tag (go-yaml: `resolve`). Raises DecodeError if
    the tag does not fit."""
    if tag not in _RESOLVABLE:
        return tag, text
    resolved, value = ("!!str", text) if tag == "!!str" else _resolve_plain(text)
    if tag == "!!float" and resolved == "!!int":
        return tag, float(value)
    if tag not in ("", resolved, "!!str"):
        raise YAMLError(f"yaml: cannot decode {resolved} `{text}` as a {tag}")
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


class Node:
    """A node of the document tree (go-yaml: `node`).

    `kind` is scalar, sequence, mapping or alias. `children` are the items, or keys and values in turn, or the anchored
    node. `line` counts from 1. `start` and `end` are marks of the parser, whose `line` and `column` count from 0: where
    the node begins, and where a scalar ends. `busy` is true while the node is converted, to notice an anchor that
    contains itself.
    """

    __slots__ = ("anchor", "busy", "children", "end", "kind", "line", "plain", "start", "tag", "text")

    def __init__(self, kind: str, event: Any) -> None:
        self.kind = kind
        self.start, self.end = event.start_mark, event.end_mark
        self.line: int = self.start.line + 1
        self.anchor: str = event.anchor or ""
        self.tag = "" if kind == "alias" else _short_tag(event.tag or "")
        self.text: str = event.value if kind == "scalar" else ""
        self.plain = kind == "scalar" and event.implicit[0]
        self.children: list[Node] = []
        self.busy = False


class ConvertedNode(Node):
    """A node that has been converted, in the place of a node whose children are not kept."""

    __slots__ = ("duplicates", "value")

    def __init__(self, node: Node, value: Any, duplicates: list[str]) -> None:
        self.kind, self.line, self.text = "converted", node.line, ""
        self.value = value
        self.duplicates = duplicates


class Document(NamedTuple):
    """One document of a file: its value, an error line for each repeated key ("line 5: …"), and its root,
    which knows the line on which it begins."""

    value: Any
    duplicates: list[str]
    root: Node


def _short_tag(tag: str) -> str:
    return f"!!{tag[len(_LONG_TAG) :]}" if tag.startswith(_LONG_TAG) else tag


def roots(body: bytes, on_end: Callable[[Sequence[Node]], object] | None = None) -> Iterator[Node]:
    """Yield the root of every document. Raises DecodeError with Go's text.

    on_end  is called whenever a collection has been read, with those that are around it, outermost first
    """
    import yaml  # imported here: it takes long, and few requests are YAML

    try:
        if rb"\/" in body:
            _check_escapes(body.decode(errors="replace"))
        loader = _loader(body)
        loader.get_event()  # the start of the stream
        while not loader.check_event(yaml.StreamEndEvent):
            yield _root(loader, on_end)
    except yaml.MarkedYAMLError as error:
        raise _syntax_error(error, body.rstrip().count(b"\n") + 1) from error
    except yaml.reader.ReaderError as error:  # octets that are no characters, or characters that YAML does not allow
        raise YAMLError(f"yaml: {error.reason}", body.count(b"\n", 0, error.position) + 1) from error


def _loader(body: bytes) -> Any:
    """Return PyYAML's loader for a text, by libyaml if it is there.

    libyaml 0.2.6 refuses what nests deeper than 1,000 levels, where go-yaml reads 10,000. Its limit is that of the
    process, and PyYAML, since 6.0.4, sets it by a function whose name begins with an underscore.
    """
    import yaml

    if not hasattr(yaml, "CSafeLoader"):
        return yaml.SafeLoader(body)
    if (limit := getattr(yaml._yaml, "_set_max_nest_level", None)) is not None:
        limit(_LIBYAML_DEPTH)
    return yaml.CSafeLoader(body)


def _check_escapes(text: str) -> None:
    """Raise ScannerError for `\\/` in double quotes, as YAML 1.2 has it and libyaml reads it, but not go-yaml."""
    import yaml

    quoted: list[Any] = []
    try:
        tokens = yaml.scan(text, type(_loader(b"")))
        quoted.extend(token for token in tokens if isinstance(token, yaml.ScalarToken) and token.style == '"')
    except yaml.scanner.ScannerError as error:  # it has read on behind the last token
        if error.context_mark is not None:
            _check_escapes(text[: error.context_mark.index])
    except yaml.reader.ReaderError:
        pass
    for token in quoted:
        start, end = token.start_mark, token.end_mark
        if escape := _ESCAPED_SLASH.search(text, start.index, end.index):
            line = start.line + text.count("\n", start.index, escape.end())
            mark = yaml.Mark("", escape.end(), line, 0, None, None)
            raise yaml.scanner.ScannerError("", start, "found unknown escape character", mark)


_KINDS = {
    "ScalarEvent": "scalar",
    "SequenceStartEvent": "sequence",
    "MappingStartEvent": "mapping",
    "AliasEvent": "alias",
}


def _root(loader: Any, on_end: Callable[[Sequence[Node]], object] | None) -> Node:
    """Build the tree of the next document from a loader's events. Returns its root. Raises DecodeError."""
    anchors: dict[str, Node] = {}
    root: Node | None = None
    open_: list[Node] = []
    flows = 0  # how many of the open collections are in brackets: all within the first such one
    while True:
        event = loader.get_event()
        kind = _KINDS.get(type(event).__name__)
        if kind:
            node = Node(kind, event)
            if kind == "alias":
                if node.anchor not in anchors:
                    raise YAMLError(f"yaml: unknown anchor '{node.anchor}' referenced", node.line)
                node.children.append(anchors[node.anchor])
            elif node.anchor:
                anchors[node.anchor] = node
            if open_:
                open_[-1].children.append(node)
            else:
                root = node
            if kind in ("mapping", "sequence"):
                open_.append(node)
                flows += event.flow_style
                if flows > _MAX_DEPTH or len(open_) - flows > _MAX_DEPTH + 1:
                    named = node.line if node.line > 1 else 0
                    raise YAMLError(f"yaml: exceeded max depth of {_MAX_DEPTH}", node.line, named_line=named)
        elif open_:
            open_.pop()
            flows -= flows > 0
            if on_end is not None:
                on_end(open_)
        elif root:
            return root
        elif event.version not in (None, (1, 1)):
            line = event.start_mark.line
            raise YAMLError("yaml: found incompatible YAML document", line + 1, named_line=line)


# The depth of flow collections, and that of block collections. A sequence may be at the indentation of the mapping
# around it, and does not count then: one more is allowed for the usual case.
_MAX_DEPTH = 10000
_LIBYAML_DEPTH = 3 * _MAX_DEPTH  # enough if libyaml counts both kinds together: our limit comes first


def _syntax_error(error: Any, lines: int) -> YAMLError:
    """Return the error of text that is no YAML (go-yaml: `parser.fail`).

    Go counts lines from 1 in the scanner, from 0 in the parser, and does not name the first one.

    lines  how many lines the text has: what is missing at its end comes after them
    """
    line = error.problem_mark.line if error.problem_mark else 0
    named = line + 1 if line and type(error).__name__ == "ScannerError" else line
    if not line and error.context_mark:
        line = named = error.context_mark.line
    return YAMLError(f"yaml: {error.problem}", min(line + 1, lines), named_line=named)


# --- values

_MAX_ALIAS_RATIO = ((400_000, 0.99), (4_000_000, 0.10))
_Steps = Generator["_Steps", Any, Any]


class _Converter:
    """Converts the nodes of one document to JSON values.

    duplicates  an error line for each repeated key
    line        of the node that was begun last
    """

    def __init__(self) -> None:
        self.duplicates: list[str] = []
        self.line = 1
        self._decoded = 1  # the document itself
        self._aliased = self._depth = 0

    def value(self, root: Node) -> Any:
        """Return the JSON value of a node. Raises DecodeError.

        Documents nest deeper than Python calls: a generator converts one collection, yields a generator for each
        collection inside, and is sent its value.
        """
        steps = [self._steps(root)]
        value = None
        while steps:
            try:
                steps.append(steps[-1].send(value))
                value = None
            except StopIteration as end:
                steps.pop()
                value = end.value
        return value

    def _steps(self, node: Node) -> _Steps:
        """Convert a node of any kind."""
        if node.kind == "scalar":
            return self._scalar(node)
        self.line = node.line
        self._count()
        if isinstance(node, ConvertedNode):
            self.duplicates += node.duplicates
            return node.value
        if node.kind == "alias":
            return (yield from self._alias(node, self._steps))
        node.busy = True
        value = yield from self._sequence(node) if node.kind == "sequence" else self._mapping(node, {})
        node.busy = False
        return value

    def _count(self) -> None:
        """Count a node, and refuse a document with too many aliased ones: a few aliases of aliases make a gigabyte."""
        self._decoded += 1
        self._aliased += self._depth > 0
        if self._decoded > 1000 and self._aliased > 100:
            (low, much), (high, little) = _MAX_ALIAS_RATIO
            share = min(1.0, max(0.0, (self._decoded - low) / (high - low)))
            if self._aliased / self._decoded > much - (much - little) * share:
                raise YAMLError("yaml: document contains excessive aliasing")

    def _alias(self, node: Node, convert: Callable[[Node], _Steps]) -> _Steps:
        """Convert the anchored node of an alias. Raises DecodeError if the alias is inside it."""
        (target,) = node.children
        if target.busy:
            raise YAMLError(f"yaml: anchor '{node.anchor}' value contains itself")
        self._depth += 1
        value = yield convert(target)
        self._depth -= 1
        return value

    def _scalar(self, node: Node) -> Any:
        self.line = node.line
        self._count()
        return _scalar(node)

    def _sequence(self, node: Node) -> _Steps:
        items: list[Any] = []
        for child in node.children:
            value = self._scalar(child) if child.kind == "scalar" else (yield self._steps(child))
            items.append(value)
        return items

    def _mapping(self, node: Node, out: dict[str, Any]) -> _Steps:
        """Add the members of a mapping to `out`, and return it."""
        children = iter(node.children)
        for key_node, value_node in zip(children, children, strict=True):
            if key_node.text == "<<" and (key_node.plain or key_node.tag == "!!merge"):
                yield self._merge(value_node, out)
                continue
            key = self._scalar(key_node) if key_node.kind == "scalar" else (yield self._steps(key_node))
            value = self._scalar(value_node) if value_node.kind == "scalar" else (yield self._steps(value_node))
            name = key if type(key) is str else _key(key, value)
            if name in out:
                key_text = go_quote(key) if isinstance(key, str) else name
                self.duplicates.append(f"line {value_node.line}: key {key_text} already set in map")
            out[name] = value
        return out

    def _merge(self, node: Node, out: dict[str, Any]) -> _Steps:
        """Merge what `<<` refers to: a mapping, or a sequence of mappings, of which the first wins."""
        self.line = node.line
        for each in reversed(node.children) if node.kind == "sequence" else (node,):
            target = each.children[0] if each.kind == "alias" else each
            if target.kind != "mapping":
                raise YAMLError("yaml: map merge requires map or sequence of maps as the value")
            yield self._merged(each, out)

    def _merged(self, node: Node, out: dict[str, Any]) -> _Steps:
        """Merge one mapping, or an alias of one: both count as nodes of the document."""
        self._count()
        if node.kind == "alias":
            yield from self._alias(node, lambda target: self._merged(target, out))
            return
        node.busy = True
        yield from self._mapping(node, out)
        node.busy = False


def _scalar(node: Node) -> Any:
    if not node.tag and not node.plain:
        return node.text
    if node.tag == "!!binary":
        try:
            return b64decode(node.text, validate=True).decode(errors="replace")
        except ValueError as error:
            raise YAMLError("yaml: !!binary value contains invalid base64 data") from error
    return resolve(node.text, node.tag)[1]


def _key(key: Any, value: Any) -> str:
    """Return a key as a string. Raises DecodeError for a value that cannot be a key."""
    if isinstance(key, str):
        return key
    if isinstance(key, bool):
        return "true" if key else "false"
    if isinstance(key, (int, float)):
        return _float_key(key) if isinstance(key, float) else str(key)
    if key is None:
        value_text = go_quote(value) if isinstance(value, str) else _go_value(value)
        raise YAMLError(f"unsupported map key of type: %!s(<nil>), key: <nil>, value: {value_text}")
    raise YAMLError(f"yaml: invalid map key: {_go_value(key)}")


def _float_key(key: float) -> str:
    """Return the shortest text of a float of 32 bits, as which sigs.k8s.io/yaml takes a key."""
    single = _float32(key)
    if not isfinite(single):
        return ".nan" if isnan(single) else ".inf" if single > 0 else "-.inf"
    texts = (f"{single:.{digits}g}" for digits in range(1, 10))
    return go_float(float(next(text for text in texts if _float32(float(text)) == single)), 6)


def _float32(value: float) -> float:
    """Return the nearest float of 32 bits."""
    try:
        return float(unpack("f", pack("f", value))[0])
    except OverflowError:
        return copysign(inf, value)


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


def convert(root: Node) -> Document:
    """Return the document of a root, or of a part of one. Raises YAMLError."""
    converter = _Converter()
    try:
        return Document(converter.value(root), converter.duplicates, root)
    except YAMLError as error:
        error.line = converter.line
        raise


def to_json(body: bytes) -> tuple[bytes, list[str]]:
    """Return the JSON of the first document of a body, and the strict error about its duplicate keys, if any. Raises
    DecodeError."""
    for root in roots(body):
        document = convert(root)
        lines = "\n  ".join(document.duplicates)
        return encode(_sorted(document.value)), [f"yaml: unmarshal errors:\n  {lines}"] if lines else []
    return b"null", []


def _sorted(value: Any) -> Any:
    """Return a value as Go's JSON has it: keys in order, whole floats as integers. Raises DecodeError for infinite
    numbers. It does not recurse."""
    ordered: list[Any] = [value]
    todo: list[tuple[Any, Any]] = [(ordered, 0)]  # containers and the keys or positions of what is to be converted
    while todo:
        container, at = todo.pop()
        item = container[at]
        if isinstance(item, dict):
            item = container[at] = {key: item[key] for key in sorted(item)}
            todo += [(item, key) for key in reversed(item)]
        elif isinstance(item, list):
            todo += [(item, i) for i in reversed(range(len(item)))]
        elif isinstance(item, float):
            if not isfinite(item):
                raise DecodeError(_unsupported(item))
            container[at] = go_number(item)
    return ordered[0]


def load_yaml(text: str) -> list[Document]:
    """Return every document of a manifest that is not empty. Raises DecodeError."""
    documents = [*map(convert, roots(text.encode(errors="surrogatepass")))]
    for document in documents:
        refuse_infinite(document)
    return [document for document in documents if document.value is not None]


def refuse_infinite(document: Document) -> None:
    """Raise YAMLError for a number that JSON does not know, as `sigs.k8s.io/yaml` does. It does not recurse."""
    todo = [document.value]
    while todo:
        value = todo.pop()
        if isinstance(value, dict):
            todo += reversed(value.values())
        elif isinstance(value, list):
            todo += reversed(value)
        elif isinstance(value, float) and not isfinite(value):
            raise YAMLError(f"error converting YAML to JSON: {_unsupported(value)}", document.root.line)


def _unsupported(value: float) -> str:
    """Return the text of Go's JSON about a number that it does not know."""
    return f"json: unsupported value: {'NaN' if isnan(value) else '+Inf' if value > 0 else '-Inf'}"
