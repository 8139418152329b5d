"""What each function costs per unit of size.

A rule takes the overload, the target (None unless it is a method) and the arguments, and answers (cost without the
arguments' own, size of the result or None), or None to leave the call to the next rule. The Kubernetes libraries'
rules, by function name, are asked before the language's, by overload; a call without a rule costs 1.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence

from understudy.admission.cel.ast import Const
from understudy.admission.cel.cost.ranges import ANYTHING, FREE, LIMIT, ONE, Item, Range, exactly
from understudy.admission.cel.cost.sizes import device_size

Estimate = tuple[Range, Range | None]
Rule = Callable[[str, Item | None, Sequence[Item]], Estimate | None]

_TRAVERSAL = 0.1
_REGEX = 0.25
_MAX_FORMAT_REGEX = 128
_MAX_FORMAT_NAME = 64
_ADDRESS = Range(4, 16)
"""Octets of an IP address."""


def _element(of: Item) -> Item | None:
    """What a list holds; None for what is no collection."""
    if not of.type.params:
        return None
    path = (*of.path, "@items") if of.path else ()
    return Item(None, of.type.params[0], path, None, device_size(path) if path else None)


# Kubernetes libraries


def _constant(cost: int) -> Rule:
    return lambda _overload, _target, _args: (exactly(cost), None)


def _over_list(_overload: str, target: Item | None, _args: Sequence[Item]) -> Estimate | None:
    assert target is not None
    element = _element(target)
    if element is None:
        return target.known.scaled(_TRAVERSAL), None
    each = ONE
    if element.type.kind in ("string", "bytes"):
        each += element.known.scaled(_TRAVERSAL)
    return target.known * each, None


def _parse_sized(_overload: str, _target: Item | None, args: Sequence[Item]) -> Estimate | None:
    return args[0].known.scaled(_TRAVERSAL), args[0].known


def _parse(_overload: str, _target: Item | None, args: Sequence[Item]) -> Estimate | None:
    return args[0].known.scaled(_TRAVERSAL), None


def _parse_twice(_overload: str, _target: Item | None, args: Sequence[Item]) -> Estimate | None:
    return args[0].known.scaled(2 * _TRAVERSAL), None


def _ip(_overload: str, _target: Item | None, args: Sequence[Item]) -> Estimate | None:
    return _parse(_overload, _target, args) if args else (ONE, None)


def _text(_overload: str, target: Item | None, _args: Sequence[Item]) -> Estimate | None:
    assert target is not None
    return target.known.scaled(_TRAVERSAL), target.known


def _replace(_overload: str, target: Item | None, args: Sequence[Item]) -> Estimate | None:
    assert target is not None
    size, old, new = target.known, args[0].known, args[1].known
    most, kept_most = _replacements(size.max, old.min, new.max <= old.min)
    least, kept_least = _replacements(size.min, old.max, old.max <= new.min)
    result = Range(least, most) * new + Range(kept_least, kept_most)
    return size.scaled(2 * _TRAVERSAL), result


def _replacements(size: int, old: int, unchanged: bool) -> tuple[int, int]:
    """(how often something is put in, how much of the original stays)."""
    if old == 0:
        return min(size + 1, LIMIT), size
    if unchanged:
        return 0, size
    return min(math.ceil(float(size) / float(old)), LIMIT), 0


def _split(_overload: str, target: Item | None, args: Sequence[Item]) -> Estimate | None:
    assert target is not None
    size, most = target.known, target.known.max
    if len(args) > 1 and isinstance(args[1].node, Const) and type(args[1].node.value) is int:
        most = args[1].node.value % (LIMIT + 1)
    return size.scaled(2 * _TRAVERSAL), Range(0, most)


def _join(_overload: str, target: Item | None, args: Sequence[Item]) -> Estimate | None:
    assert target is not None
    count, size = target.known, FREE
    element = _element(target)
    if element is not None:
        size = count * element.known
    if args:
        size += args[0].known * Range(max(count.min - 1, 0), max(count.max - 1, 0))
    return size.scaled(_TRAVERSAL), size


def _find(_overload: str, target: Item | None, args: Sequence[Item]) -> Estimate | None:
    assert target is not None
    return _regex_cost(target.known, args[0].known), Range(0, target.known.max)


def _regex_cost(text: Range, pattern: Range) -> Range:
    return (text + ONE).scaled(_TRAVERSAL) * pattern.scaled(_REGEX)


def _contains_address(overload: str, _target: Item | None, args: Sequence[Item]) -> Estimate | None:
    cost = (_ADDRESS + _ADDRESS).scaled(_TRAVERSAL)
    if overload == "cidr_contains_ip_string":
        cost += args[0].known.scaled(_TRAVERSAL)
    return cost, None


def _contains_block(overload: str, _target: Item | None, args: Sequence[Item]) -> Estimate | None:
    cost = (_ADDRESS + _ADDRESS).scaled(_TRAVERSAL) + _ADDRESS.scaled(_TRAVERSAL) + ONE
    if overload == "cidr_contains_cidr_string":
        cost += args[0].known.scaled(_TRAVERSAL)
    return cost, None


def _validate(_overload: str, _target: Item | None, args: Sequence[Item]) -> Estimate | None:
    return args[0].known.scaled(_TRAVERSAL).scaled(_MAX_FORMAT_REGEX * _REGEX), None


def _library_equals(_overload: str, _target: Item | None, args: Sequence[Item]) -> Estimate | None:
    """Kubernetes' own types compare at a fixed price."""
    one, other = args
    if one.type.name != other.type.name:
        return None
    match one.type.kind, one.type.name:
        case "opaque", "net.IP" | "net.CIDR":
            return ONE, None
        case "struct", "kubernetes.Quantity" | "kubernetes.Semver":
            return ONE, None
        case "struct", "kubernetes.NamedFormat":
            return Range(1, _MAX_FORMAT_NAME).scaled(_TRAVERSAL), None
        case "struct", "kubernetes.URL":
            size = other.computed or ONE
            return Range(1, size.max).scaled(_TRAVERSAL), None
        case "struct", name if name.startswith("kubernetes.authorization."):
            return ONE, None
    return None


def _selector(_overload: str, _target: Item | None, args: Sequence[Item]) -> Estimate | None:
    size = args[0].known
    return exactly(10) + size.scaled(_TRAVERSAL) + size.scaled(0.5).scaled(50), None


_GROUPS: Sequence[tuple[str, Rule]] = (
    ("check", _constant(350000)),
    ("serviceAccount path group resource subresource namespace name allowed reason error errored", _constant(1)),
    ("fieldSelector labelSelector", _selector),
    ("isSorted sum max min indexOf lastIndexOf", _over_list),
    ("url", _parse_sized),
    ("lowerAscii upperAscii substring trim", _text),
    ("replace", _replace),
    ("split", _split),
    ("join", _join),
    ("find findAll", _find),
    ("cidr isIP isCIDR quantity isQuantity", _parse),
    ("ip", _ip),
    ("ip.isCanonical", _parse_twice),
    ("masked prefixLength family", _constant(1)),
    ("isUnspecified isLoopback isLinkLocalMulticast isLinkLocalUnicast isGlobalUnicast", _constant(1)),
    ("containsIP", _contains_address),
    ("containsCIDR", _contains_block),
    ("validate", _validate),
    ("format.named", _constant(1)),
    ("sign asInteger isInteger asApproximateFloat isGreaterThan isLessThan compareTo add sub", _constant(1)),
    ("getScheme getHostname getHost getPort getEscapedPath getQuery", _constant(1)),
    ("_==_", _library_equals),
)
LIBRARY: Mapping[str, Rule] = {name: rule for names, rule in _GROUPS for name in names.split()}


# The language's own functions


def _format(_overload: str, target: Item | None, _args: Sequence[Item]) -> Estimate | None:
    return (target.size if target else ANYTHING).scaled(_TRAVERSAL), None


def _to_bytes(_overload: str, _target: Item | None, args: Sequence[Item]) -> Estimate | None:
    size = args[0].size
    # Wraps around where upstream's multiplication does.
    return size.scaled(_TRAVERSAL), Range(size.min, size.max * 4 % (LIMIT + 1))


def _to_string(_overload: str, _target: Item | None, args: Sequence[Item]) -> Estimate | None:
    size = args[0].size
    return size.scaled(_TRAVERSAL), Range(size.min // 4, size.max)


def _quote(_overload: str, _target: Item | None, args: Sequence[Item]) -> Estimate | None:
    size = args[0].size
    return size.scaled(_TRAVERSAL), Range((size.min + 2) % (LIMIT + 1), (size.max * 2 + 2) % (LIMIT + 1))


def _affix(_overload: str, _target: Item | None, args: Sequence[Item]) -> Estimate | None:
    return args[0].size.scaled(_TRAVERSAL), None


def _in_list(_overload: str, _target: Item | None, args: Sequence[Item]) -> Estimate | None:
    return args[1].size.scaled(1), None


def _matches(_overload: str, target: Item | None, args: Sequence[Item]) -> Estimate | None:
    assert target is not None
    return _regex_cost(target.size, args[0].size), None


def _contains(_overload: str, target: Item | None, args: Sequence[Item]) -> Estimate | None:
    assert target is not None
    return target.size.scaled(_TRAVERSAL) * args[0].size.scaled(_TRAVERSAL), None


def _concatenate(_overload: str, _target: Item | None, args: Sequence[Item]) -> Estimate | None:
    size = args[0].size + args[1].size
    return size.scaled(_TRAVERSAL), size


def _concatenate_lists(_overload: str, _target: Item | None, args: Sequence[Item]) -> Estimate | None:
    return ONE, args[0].size + args[1].size


def _compare(_overload: str, _target: Item | None, args: Sequence[Item]) -> Estimate | None:
    most = min(args[0].size.max, args[1].size.max)
    return Range(min(most, 1), most).scaled(_TRAVERSAL), None


def _sets(factor: float) -> Rule:
    def rule(_overload: str, _target: Item | None, args: Sequence[Item]) -> Estimate | None:
        return (args[0].known * args[1].known).scaled(factor) + ONE, None

    return rule


LANGUAGE: Mapping[str, Rule] = {
    "list_sets_contains_list": _sets(1),
    "list_sets_intersects_list": _sets(1),
    "list_sets_equivalent_list": _sets(2),
    "string_format": _format,
    "string_to_bytes": _to_bytes,
    "bytes_to_string": _to_string,
    "strings_quote": _quote,
    "starts_with_string": _affix,
    "ends_with_string": _affix,
    "in_list": _in_list,
    "matches_string": _matches,
    "contains_string": _contains,
    "add_string": _concatenate,
    "add_bytes": _concatenate,
    "add_list": _concatenate_lists,
    **dict.fromkeys(
        (
            f"{relation}_{kind}"
            for relation in ("less", "greater", "less_equals", "greater_equals")
            for kind in ("string", "bytes")
        ),
        _compare,
    ),
    "equals": _compare,
    "not_equals": _compare,
}


def function_cost(name: str, overload: str, target: Item | None, args: Sequence[Item]) -> Estimate:
    """The cost of one call without its arguments, and the size of the result if it is known."""
    for rule in (LIBRARY.get(name), LANGUAGE.get(overload)):
        found = rule(overload, target, args) if rule else None
        if found is not None:
            return found
    return ONE, None
