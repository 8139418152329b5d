"""Reads the parameter `shardSelector` of lists and watches, an expression of CEL that is never evaluated (KEP-5866).

    shardRange(object.metadata.uid, '0x0000000000000000', '0x8000000000000000') || shardRange(…)

Upstream: `k8s.io/apiserver/pkg/sharding`.
"""

from __future__ import annotations

from understudy.cel import ast
from understudy.cel.compiler import parse_with_macros
from understudy.cel.errors import Report
from understudy.machinery.errors import unknown_error
from understudy.machinery.golang.text import go_quote
from understudy.machinery.releases.version import Version
from understudy.machinery.selectors.shards import Shards
from understudy.machinery.util.deep_recursion import call_deeply
from understudy.machinery.util.regex import regex

_FIELDS = {f"object.metadata.{name}": name for name in ("uid", "namespace")}
_KINDS: dict[type[ast.Node], int] = {  # the numbers that errors show: `ast.ExprKind` of cel-go
    ast.Unspecified: 0,
    ast.Call: 1,
    ast.Comprehension: 2,
    ast.Ident: 3,
    ast.ListExpr: 4,
    ast.Const: 5,
    ast.MapExpr: 6,
    ast.Select: 7,
    ast.StructExpr: 8,
}
_TYPES = {ast.UnsignedInt: "uint64", bool: "bool", int: "int64", float: "float64", bytes: "[]uint8"}
_NULL = "structpb.NullValue"
_END = "0x10000000000000000"  # 2^64, behind the last hash
_NOT_HEXADECIMAL = regex("[^0-9a-f]")


def parse(expression: str, version: Version) -> Shards:
    """Return the shards that an expression names. Raises 500, as kube-apiserver does for what is no such expression."""
    try:
        return call_deeply(_parse, expression.strip(), version)
    except ValueError as why:
        raise unknown_error(f"invalid shard selector: {why}") from None


def _parse(expression: str, version: Version) -> Shards:
    if not expression:
        raise ValueError("empty shard selector is not allowed; omit the parameter for unfiltered lists")
    report = Report(expression)
    tree = parse_with_macros(expression, report, {}, version)
    if tree is None or report.errors:
        raise ValueError(f"CEL parse error: {report.errors[0][1]}")
    ranges = _ranges(tree)
    first = ranges[0][0]
    for field, *_ in ranges:
        if field != first:
            both = f"{go_quote(first)} and {go_quote(field)}"
            raise ValueError(f"all shard ranges must use the same field, got {both}")
    return Shards(_FIELDS[first], tuple((start, end) for _, start, end in ranges))


def _ranges(node: ast.Node) -> list[tuple[str, int, int]]:
    """Return the field, first and last hash of each range, in their order. Raises ValueError."""
    if not isinstance(node, ast.Call):
        raise ValueError(f"unexpected expression kind {_kind(node)}; expected shardRange() call or || operator")
    if node.function == "_||_":
        return [each for argument in node.args for each in _ranges(argument)]
    if node.function != "shardRange":
        raise ValueError(f"unsupported function {go_quote(node.function)}; only shardRange() and || are allowed")
    return [_range(node.args)]


def _range(arguments: list[ast.Node]) -> tuple[str, int, int]:
    if len(arguments) != 3:
        raise ValueError(f"shardRange() requires exactly 3 arguments, got {len(arguments)}")
    try:
        field = _path(arguments[0])
    except ValueError as why:
        raise ValueError(f"shardRange() first argument: {why}") from None
    if field not in _FIELDS:
        raise ValueError(f"unsupported field path {go_quote(field)}; supported: {', '.join(_FIELDS)}")
    start, end = _hash(arguments[1], "hexStart"), _hash(arguments[2], "hexEnd")
    if start >= end:
        raise ValueError(f"shard range start 0x{start:016x} must be less than end 0x{end:016x}")
    return field, start, end


def _path(node: ast.Node) -> str:
    if isinstance(node, ast.Ident):
        return node.name
    if isinstance(node, ast.Select):
        return f"{_path(node.operand)}.{node.field}"
    raise ValueError(f"expected field path (e.g. object.metadata.uid), got expression kind {_kind(node)}")


def _hash(node: ast.Node, name: str) -> int:
    """Return the number of a literal such as '0x8000000000000000'. Raises ValueError."""
    if not isinstance(node, ast.Const):
        raise ValueError(f"{name} must be a string literal (e.g. '0xff'), got expression kind {_kind(node)}")
    text = node.value
    if not isinstance(text, str):
        raise ValueError(f"{name} must be a string literal, got {_TYPES.get(type(text), _NULL)}")
    if not text.startswith("0x"):
        raise ValueError(f"{name} must have '0x' prefix, got {go_quote(text)}")
    digits = text.removeprefix("0x")
    _check_digits(digits, text, name)
    if len(digits) == len(_END) - 2 and text != _END:
        raise ValueError(f"{name}: 17-digit hex value must be '{_END}' (2^64), got {go_quote(text)}")
    if len(digits) < 16:
        whole = go_quote(f"0x{digits:0>16}")
        text = go_quote(text)
        raise ValueError(f"{name} must be a 0x-prefixed 16-digit hex value, got {text} (did you mean {whole}?)")
    return int(digits, 16)


def _check_digits(digits: str, text: str, name: str) -> None:
    if not digits:
        raise ValueError(f"{name}: hex value is required after '0x'")
    size = len(digits.encode(errors="surrogatepass"))
    if size > 17:
        raise ValueError(f"{name}: hex value too long ({size} chars, max 17): {go_quote(digits)}")
    if other := _NOT_HEXADECIMAL.search(digits):
        raise ValueError(f"{name}: invalid hex character {go_quote(other[0])} in {go_quote(text)}")


def _kind(node: ast.Node) -> int:
    return _KINDS[type(node)]
