"""The cost of each function per unit of size (`EstimateCallCost`).

A rule takes the overload, the target (None unless it is a method) and the arguments. It returns (cost without that of
the arguments, size of the result or None), or None to leave the call to the next rule. The rules of the Kubernetes
libraries, by function name, come before those of the standard functions, by overload. A call without a rule costs 1.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence

from understudy.cel.ast import Const
from understudy.cel.cost.estimate import LIMIT, ONE, UNKNOWN_SIZE, ZERO, AstNode, Estimate, fixed
from understudy.cel.cost.overloads import ORDERED_TEXTS
from understudy.machinery.releases.version import V1_31, V1_33, V1_37, ByRelease, Version
from understudy.machinery.types import NamedTuple

CallEstimate = tuple[Estimate, Estimate | None]
Rule = Callable[[str, AstNode | None, Sequence[AstNode]], CallEstimate | None]

_STRING_TRAVERSAL = 0.1
_REGEX_STRING_LENGTH = 0.25
_MAX_FORMAT_REGEX = 128
_MAX_FORMAT_NAME = 64
_ADDRESS_SIZE = Estimate(4, 16)
"""The number of octets in an IP address."""


def _element_node(of: AstNode) -> AstNode | None:
    """Return a list's elements as an argument of cost rules, None if the node is no collection."""
    if not of.type.params:
        return None
    path = (*of.path, "@items") if of.path else ()
    return AstNode(None, of.type.params[0], path, None, of.estimate_size(path) if path else None, of.estimate_size)


# functions of the Kubernetes libraries


def _constant_cost(cost: int) -> Rule:
    """Return the rule of a function with a fixed cost."""
    return lambda _overload, _target, _args: (fixed(cost), None)


def _list_traversal(_overload: str, target: AstNode | None, _args: Sequence[AstNode]) -> CallEstimate | None:
    """Return the cost of reading a list once, with its strings."""
    assert target is not None
    element = _element_node(target)
    if element is None:
        return target.size_or_unknown.scaled(_STRING_TRAVERSAL), None
    each = ONE
    if element.type.kind in ("string", "bytes"):
        each += element.size_or_unknown.scaled(_STRING_TRAVERSAL)
    return target.size_or_unknown * each, None


def _includes_cost(overload: str, target: AstNode | None, args: Sequence[AstNode]) -> CallEstimate | None:
    """Return the cost of `includes`, whose target may be a list without saying so."""
    assert target is not None
    return _list_traversal(overload, target, args) if target.type.params else (target.size_or_unknown * ONE, None)


def _parse_url_cost(_overload: str, _target: AstNode | None, args: Sequence[AstNode]) -> CallEstimate | None:
    return args[0].size_or_unknown.scaled(_STRING_TRAVERSAL), args[0].size_or_unknown


def _parse_cost(_overload: str, _target: AstNode | None, args: Sequence[AstNode]) -> CallEstimate | None:
    return args[0].size_or_unknown.scaled(_STRING_TRAVERSAL), None


def _is_canonical_cost(_overload: str, _target: AstNode | None, args: Sequence[AstNode]) -> CallEstimate | None:
    return args[0].size_or_unknown.scaled(2 * _STRING_TRAVERSAL), None


def _ip_cost(_overload: str, _target: AstNode | None, args: Sequence[AstNode]) -> CallEstimate | None:
    return _parse_cost(_overload, _target, args) if args else (ONE, None)


def _string_traversal(_overload: str, target: AstNode | None, _args: Sequence[AstNode]) -> CallEstimate | None:
    assert target is not None
    return target.size_or_unknown.scaled(_STRING_TRAVERSAL), target.size_or_unknown


def _replace_cost(_overload: str, target: AstNode | None, args: Sequence[AstNode]) -> CallEstimate | None:
    """Return the cost of `replace`, and the size of its result from how often the old text can occur."""
    assert target is not None
    size, old, new = target.size_or_unknown, args[0].size_or_unknown, args[1].size_or_unknown
    most, kept_most = _replacements(size.max, old.min, new.max <= old.min)
    least, kept_least = _replacements(size.min, old.max, old.max <= new.min)
    result = Estimate(least, most) * new + Estimate(kept_least, kept_most)
    return size.scaled(2 * _STRING_TRAVERSAL), result


def _replacements(size: int, old: int, unchanged: bool) -> tuple[int, int]:
    """Return the number of replacements, and the length of the original that stays."""
    if old == 0:
        return min(size + 1, LIMIT), size
    if unchanged:
        return 0, size
    return min(math.ceil(float(size) / float(old)), LIMIT), 0


def _split_cost(_overload: str, target: AstNode | None, args: Sequence[AstNode]) -> CallEstimate | None:
    """Return the cost of `split`; its limit, if it is a literal, bounds the result."""
    assert target is not None
    size, most = target.size_or_unknown, target.size_or_unknown.max
    if len(args) > 1 and isinstance(args[1].node, Const) and type(args[1].node.value) is int:
        most = args[1].node.value % (LIMIT + 1)
    return size.scaled(2 * _STRING_TRAVERSAL), Estimate(0, most)


def _join_cost(_overload: str, target: AstNode | None, args: Sequence[AstNode]) -> CallEstimate | None:
    """Return the cost of `join`: the size of all elements and of the separators between them."""
    assert target is not None
    count, size = target.size_or_unknown, ZERO
    element = _element_node(target)
    if element is not None:
        size = count * element.size_or_unknown
    if args:
        size += args[0].size_or_unknown * Estimate(max(count.min - 1, 0), max(count.max - 1, 0))
    return size.scaled(_STRING_TRAVERSAL), size


def _find_cost(_overload: str, target: AstNode | None, args: Sequence[AstNode]) -> CallEstimate | None:
    assert target is not None
    return _regex_cost(target.size_or_unknown, args[0].size_or_unknown), Estimate(0, target.size_or_unknown.max)


def _regex_cost(text: Estimate, pattern: Estimate) -> Estimate:
    """Return the cost of matching a text against a pattern; an empty text counts one."""
    return (text + ONE).scaled(_STRING_TRAVERSAL) * pattern.scaled(_REGEX_STRING_LENGTH)


def _contains_ip_cost(overload: str, _target: AstNode | None, args: Sequence[AstNode]) -> CallEstimate | None:
    cost = (_ADDRESS_SIZE + _ADDRESS_SIZE).scaled(_STRING_TRAVERSAL)
    if overload == "cidr_contains_ip_string":
        cost += args[0].size_or_unknown.scaled(_STRING_TRAVERSAL)
    return cost, None


def _contains_cidr_cost(overload: str, _target: AstNode | None, args: Sequence[AstNode]) -> CallEstimate | None:
    cost = (_ADDRESS_SIZE + _ADDRESS_SIZE).scaled(_STRING_TRAVERSAL) + _ADDRESS_SIZE.scaled(_STRING_TRAVERSAL) + ONE
    if overload == "cidr_contains_cidr_string":
        cost += args[0].size_or_unknown.scaled(_STRING_TRAVERSAL)
    return cost, None


def _validate_cost(_overload: str, _target: AstNode | None, args: Sequence[AstNode]) -> CallEstimate | None:
    return args[0].size_or_unknown.scaled(_STRING_TRAVERSAL).scaled(_MAX_FORMAT_REGEX * _REGEX_STRING_LENGTH), None


def _library_equality_cost(_overload: str, _target: AstNode | None, args: Sequence[AstNode]) -> CallEstimate | None:
    """Return the cost of comparing two values of a Kubernetes library; most have a fixed one."""
    one, other = args
    if one.type.name != other.type.name:
        return None
    match one.type.kind, one.type.name:
        case "opaque", "net.IP" | "net.CIDR":
            return ONE, None
        case "struct", "kubernetes.Quantity" | "kubernetes.Semver":
            return ONE, None
        case "struct", "kubernetes.NamedFormat":
            return Estimate(1, _MAX_FORMAT_NAME).scaled(_STRING_TRAVERSAL), None
        case "struct", "kubernetes.URL":
            size = other.computed_size or ONE
            return Estimate(1, size.max).scaled(_STRING_TRAVERSAL), None
        case "struct", name if name.startswith("kubernetes.authorization."):
            return ONE, None
    return None


def _selector_cost(_overload: str, _target: AstNode | None, args: Sequence[AstNode]) -> CallEstimate | None:
    """Return the cost of `fieldSelector` and `labelSelector`, which parse their argument."""
    size = args[0].size_or_unknown
    return fixed(10) + size.scaled(_STRING_TRAVERSAL) + size.scaled(0.5).scaled(50), None


_LIBRARY_RULE_GROUPS: Sequence[tuple[str, Rule]] = (
    ("check", _constant_cost(350000)),
    ("serviceAccount path group resource subresource namespace name allowed reason error errored", _constant_cost(1)),
    ("fieldSelector labelSelector", _selector_cost),
    ("isSorted sum max min indexOf lastIndexOf", _list_traversal),
    ("url", _parse_url_cost),
    ("lowerAscii upperAscii substring trim", _string_traversal),
    ("replace", _replace_cost),
    ("split", _split_cost),
    ("join", _join_cost),
    ("find findAll", _find_cost),
    ("cidr isIP isCIDR quantity isQuantity", _parse_cost),
    ("ip", _ip_cost),
    ("ip.isCanonical", _is_canonical_cost),
    ("masked prefixLength family", _constant_cost(1)),
    ("isUnspecified isLoopback isLinkLocalMulticast isLinkLocalUnicast isGlobalUnicast", _constant_cost(1)),
    ("containsIP", _contains_ip_cost),
    ("containsCIDR", _contains_cidr_cost),
    ("validate", _validate_cost),
    ("format.named", _constant_cost(1)),
    ("sign asInteger isInteger asApproximateFloat isGreaterThan isLessThan compareTo add sub", _constant_cost(1)),
    ("getScheme getHostname getHost getPort getEscapedPath getQuery", _constant_cost(1)),
    ("_==_", _library_equality_cost),
)
_LIBRARY_RULES: Mapping[str, Rule] = {name: rule for names, rule in _LIBRARY_RULE_GROUPS for name in names.split()}
_SEMVER_RULES: Mapping[str, Rule] = {"semver": _parse_cost, "isSemver": _parse_cost}
_NEWER_LIBRARY_RULES: Mapping[str, Rule] = {**_LIBRARY_RULES, **_SEMVER_RULES}


# standard functions of CEL


def _format_cost(_overload: str, target: AstNode | None, _args: Sequence[AstNode]) -> CallEstimate | None:
    return (target.size_estimate if target else UNKNOWN_SIZE).scaled(_STRING_TRAVERSAL), None


def _string_to_bytes_cost(_overload: str, _target: AstNode | None, args: Sequence[AstNode]) -> CallEstimate | None:
    size = args[0].size_estimate
    # Wraps around as Go's multiplication does.
    return size.scaled(_STRING_TRAVERSAL), Estimate(size.min, size.max * 4 % (LIMIT + 1))


def _bytes_to_string_cost(_overload: str, _target: AstNode | None, args: Sequence[AstNode]) -> CallEstimate | None:
    size = args[0].size_estimate
    return size.scaled(_STRING_TRAVERSAL), Estimate(size.min // 4, size.max)


def _quote_cost(_overload: str, _target: AstNode | None, args: Sequence[AstNode]) -> CallEstimate | None:
    size = args[0].size_estimate
    return size.scaled(_STRING_TRAVERSAL), Estimate((size.min + 2) % (LIMIT + 1), (size.max * 2 + 2) % (LIMIT + 1))


def _affix_cost(_overload: str, _target: AstNode | None, args: Sequence[AstNode]) -> CallEstimate | None:
    return args[0].size_estimate.scaled(_STRING_TRAVERSAL), None


def _in_list_cost(_overload: str, _target: AstNode | None, args: Sequence[AstNode]) -> CallEstimate | None:
    return args[1].size_estimate.scaled(1), None


def _matches_cost(_overload: str, target: AstNode | None, args: Sequence[AstNode]) -> CallEstimate | None:
    assert target is not None
    return _regex_cost(target.size_estimate, args[0].size_estimate), None


def _matches_function_cost(_overload: str, _target: AstNode | None, args: Sequence[AstNode]) -> CallEstimate | None:
    return _regex_cost(args[0].size_estimate, args[1].size_estimate), None


def _contains_cost(_overload: str, target: AstNode | None, args: Sequence[AstNode]) -> CallEstimate | None:
    assert target is not None
    return target.size_estimate.scaled(_STRING_TRAVERSAL) * args[0].size_estimate.scaled(_STRING_TRAVERSAL), None


def _concatenation_cost(_overload: str, _target: AstNode | None, args: Sequence[AstNode]) -> CallEstimate | None:
    size = args[0].size_estimate + args[1].size_estimate
    return size.scaled(_STRING_TRAVERSAL), size


def _list_concatenation_cost(_overload: str, _target: AstNode | None, args: Sequence[AstNode]) -> CallEstimate | None:
    return ONE, args[0].size_estimate + args[1].size_estimate


def _comparison_cost(_overload: str, _target: AstNode | None, args: Sequence[AstNode]) -> CallEstimate | None:
    most = min(args[0].size_estimate.max, args[1].size_estimate.max)
    return Estimate(min(most, 1), most).scaled(_STRING_TRAVERSAL), None


def _sets_cost(factor: float) -> Rule:
    """Return the rule of a function that compares every element of one list with every element of another."""

    def rule(_overload: str, _target: AstNode | None, args: Sequence[AstNode]) -> CallEstimate | None:
        return (args[0].size_or_unknown * args[1].size_or_unknown).scaled(factor) + ONE, None

    return rule


def _list_cost(cost: Estimate, size: Estimate) -> CallEstimate:
    """Return the cost of a call that makes a list, with the size of the list (`estimateAllocatingListCall`)."""
    return cost + ONE + fixed(10), size


def _slice_cost(_overload: str, target: AstNode | None, args: Sequence[AstNode]) -> CallEstimate | None:
    """Return the cost of `slice`; its bounds, if they are literals, give the size."""
    assert target is not None
    end = _literal_int(args[1], target.size_or_unknown.max)
    size = fixed((end - _literal_int(args[0], 0)) % (LIMIT + 1))  # wraps around as Go's subtraction does
    return _list_cost(size.scaled(1), size)


def _range_cost(_overload: str, _target: AstNode | None, args: Sequence[AstNode]) -> CallEstimate | None:
    size = fixed(_literal_int(args[0], LIMIT))
    return _list_cost(size.scaled(1), size)


def _reverse_cost(_overload: str, target: AstNode | None, _args: Sequence[AstNode]) -> CallEstimate | None:
    assert target is not None
    return _list_cost(target.size_or_unknown.scaled(1), target.size_or_unknown)


def _flatten_cost(_overload: str, target: AstNode | None, args: Sequence[AstNode]) -> CallEstimate | None:
    assert target is not None
    depth = _literal_int(args[0], LIMIT) if args else 1
    return _list_cost(target.size_or_unknown.scaled(float(depth)), target.size_or_unknown)


def _literal_int(node: AstNode, default: int) -> int:
    """Return the value of an int literal, at least 0, and the default for other nodes (`nodeAsIntValue`)."""
    if isinstance(node.node, Const) and type(node.node.value) is int:
        return max(node.node.value, 0)
    return default


def _self_compare_cost(factor: float) -> Rule:
    """Return the rule of a function that compares every element of a list with every other."""

    def rule(_overload: str, target: AstNode | None, args: Sequence[AstNode]) -> CallEstimate | None:
        compared = args[0] if args else target
        assert compared is not None
        size = compared.size_or_unknown * compared.size_or_unknown
        return _list_cost(size.scaled(factor), size)

    return rule


_COMPARABLE = ("int", "uint", "double", "bool", "duration", "timestamp", "string", "bytes")
_LIST_RULES: Mapping[str, Rule] = {
    "list_slice": _slice_cost,
    "lists_range": _range_cost,
    "list_reverse": _reverse_cost,
    "list_flatten": _flatten_cost,
    "list_flatten_int": _flatten_cost,
    "list_distinct": _self_compare_cost(2),
    **{
        f"list_{kind}_{function}": _self_compare_cost(2 + _STRING_TRAVERSAL * (kind in ("string", "bytes")))
        for kind in _COMPARABLE
        for function in ("sort", "sortByAssociatedKeys")
    },
}
"""The rules of cel-go's list library (`ext.Lists`)."""

MAX_ATTRIBUTE_VALUES = 48
_STANDARD_RULES: Mapping[str, Rule] = {
    **_LIST_RULES,
    "dra_includes_dyn_dyn": lambda _overload, _target, _args: (Estimate(0, MAX_ATTRIBUTE_VALUES), None),
    "list_sets_contains_list": _sets_cost(1),
    "list_sets_intersects_list": _sets_cost(1),
    "list_sets_equivalent_list": _sets_cost(2),
    "string_format": _format_cost,
    "string_to_bytes": _string_to_bytes_cost,
    "bytes_to_string": _bytes_to_string_cost,
    "strings_quote": _quote_cost,
    "starts_with_string": _affix_cost,
    "ends_with_string": _affix_cost,
    "in_list": _in_list_cost,
    "matches_string": _matches_cost,
    "contains_string": _contains_cost,
    "add_string": _concatenation_cost,
    "add_bytes": _concatenation_cost,
    "add_list": _list_concatenation_cost,
    **dict.fromkeys(ORDERED_TEXTS, _comparison_cost),
    "equals": _comparison_cost,
    "not_equals": _comparison_cost,
}


class CallRules(NamedTuple):
    """The rules of a release: of the Kubernetes libraries by function name, of cel-go's functions by overload."""

    by_name: Mapping[str, Rule]
    by_overload: Mapping[str, Rule]


_CALL_RULES = ByRelease(
    {
        V1_37: CallRules(
            {**_NEWER_LIBRARY_RULES, "includes": _includes_cost},
            {**_STANDARD_RULES, "matches": _matches_function_cost},
        ),
        V1_33: CallRules(_NEWER_LIBRARY_RULES, _STANDARD_RULES),
        V1_31: CallRules(_LIBRARY_RULES, _STANDARD_RULES),
    }
)


def call_rules(version: Version) -> CallRules:
    """Return the rules of a release."""
    return _CALL_RULES[version]


def estimate_call_cost(
    rules: CallRules, name: str, overload: str, target: AstNode | None, args: Sequence[AstNode]
) -> CallEstimate:
    """Return the cost of one call without its arguments, and the size of the result if it is known.

    rules  those of the release (`call_rules`)
    """
    for rule in (rules.by_name.get(name), rules.by_overload.get(overload)):
        estimate = rule(overload, target, args) if rule else None
        if estimate is not None:
            return estimate
    return ONE, None
