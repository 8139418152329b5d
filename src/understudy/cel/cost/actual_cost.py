"""The cost of a call, from the sizes of its arguments and result (`CallCost`, and `costCall` of cel-go).

The rules of cel-go's extension libraries, by overload, come first, then those of the Kubernetes libraries, by function
name, then those of the standard functions, by overload. A call without a rule costs 1.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from itertools import chain

from understudy.cel.cost.overloads import ORDERED_TEXTS
from understudy.cel.library.list_extensions import LONGEST_RANGE
from understudy.cel.library.named_formats import NamedFormat
from understudy.cel.limits.budget import RUNTIME_COST_BUDGET, PanicError
from understudy.cel.values import NONE, Optional, Value, map_keys
from understudy.machinery.releases.version import V1_31, V1_37, ByRelease, Version
from understudy.machinery.types import NamedTuple

CallCost = Callable[[Sequence[Value]], int]
"""The cost of a call, given its arguments (the target of a method first).

Costs of results are those of the results that the arguments will have, so that nothing is made that costs too much.
"""

_STRING_TRAVERSAL = 0.1
_REGEX_STRING_LENGTH = 0.25
_UNAFFORDABLE = 10 * RUNTIME_COST_BUDGET  # size or cost of what no budget allows, whatever its rule
_ALLOCATION = 11  # the call and the list that it makes
_COMPARABLE = ("int", "uint", "double", "bool", "duration", "timestamp", "string", "bytes")


def actual_size(value: Value) -> int:
    """Return the size of a value; one without a length has size 1 (`actualSize`)."""
    if isinstance(value, (str, bytes, list, dict)):
        return len(value)
    if isinstance(value, Optional):
        return 1 if value is NONE else actual_size(value.value)
    size: int = getattr(value, "size", 1)
    return size


def _fixed(_args: Sequence[Value]) -> int:
    return 1


def _scaled(size: int, factor: float = _STRING_TRAVERSAL) -> int:
    return math.ceil(float(size) * factor)


def _string_traversal(args: Sequence[Value]) -> int:
    return _scaled(actual_size(args[0]))


def _twice_string_traversal(args: Sequence[Value]) -> int:
    return _scaled(2 * actual_size(args[0]))


def _join_cost(args: Sequence[Value]) -> int:
    return _scaled(2 * _joined_size(args[0], args[1] if len(args) > 1 else ""))


def _joined_size(values: Value, separator: Value) -> int:
    """Return the size of joined texts, 1 if they cannot be joined. It ends where no budget allows the cost."""
    if not isinstance(values, list) or not isinstance(separator, str):
        return 1
    size = max(len(values) - 1, 0) * len(separator)
    for value in values:
        if not isinstance(value, str):
            return 1
        size += len(value)
        if size > _UNAFFORDABLE:
            break
    return size


def _regex_cost(text: int, pattern: int) -> int:
    """Return the cost of matching a text against a pattern; an empty text counts one."""
    return math.ceil((1.0 + text) * _STRING_TRAVERSAL) * _scaled(pattern, _REGEX_STRING_LENGTH)


def _find_cost(args: Sequence[Value]) -> int:
    return _regex_cost(actual_size(args[0]), actual_size(args[1]))


def _validate_cost(args: Sequence[Value]) -> int:
    return _regex_cost(actual_size(args[1]), args[0].max_regex_size) if isinstance(args[0], NamedFormat) else 1


def _selector_cost(args: Sequence[Value]) -> int:
    """Return the cost of `fieldSelector` and `labelSelector`, which parse their argument into requirements."""
    size = actual_size(args[1])
    return 10 + _scaled(size) + _scaled(size, 0.5) * 50


def _list_traversal(args: Sequence[Value]) -> int:
    return _traversal_cost(args[0])


def _traversal_cost(value: Value) -> int:
    """Return the cost of reading everything in a value (`traversalCost`)."""
    match value:
        case str():
            return int(len(value.encode(errors="surrogatepass")) * _STRING_TRAVERSAL)
        case bytes():
            return int(len(value) * _STRING_TRAVERSAL)
        case list():
            return _sum_of_traversals(value)
        case dict():
            return _sum_of_traversals(chain(map_keys(value), value.values()))
    return 1


def _sum_of_traversals(values: Iterable[Value]) -> int:
    """Return the cost of reading everything in several values. It ends where no budget allows the cost."""
    total = 0
    for value in values:
        total += _traversal_cost(value)
        if total > _UNAFFORDABLE:
            break
    return total


def _contains_ip_cost(*, text: bool) -> CallCost:
    """Return the cost of `containsIP`; an address that is a `text` is parsed first."""

    def cost(args: Sequence[Value]) -> int:
        return _scaled(2 * actual_size(args[0])) + (_scaled(actual_size(args[1])) if text else 0)

    return cost


def _contains_cidr_cost(*, text: bool) -> CallCost:
    """Return the cost of `containsCIDR`; a block that is a `text` is parsed first."""

    def cost(args: Sequence[Value]) -> int:
        size = actual_size(args[0])
        return _scaled(2 * size) + _scaled(size) + 1 + (_scaled(actual_size(args[1])) if text else 0)

    return cost


def _in_list_cost(args: Sequence[Value]) -> int:
    return actual_size(args[1])


def _comparison_cost(args: Sequence[Value]) -> int:
    return _scaled(min(actual_size(args[0]), actual_size(args[1])))


def _equality_cost(args: Sequence[Value]) -> int:
    """Return the cost of `==`; comparing two values of a Kubernetes library costs 1."""
    return 1 if hasattr(args[0], "cel_type") and not isinstance(args[0], (list, dict)) else _comparison_cost(args)


def _concatenation_cost(args: Sequence[Value]) -> int:
    return _scaled(actual_size(args[0]) + actual_size(args[1]))


def _affix_cost(args: Sequence[Value]) -> int:
    return _scaled(actual_size(args[1]))


def _contains_cost(args: Sequence[Value]) -> int:
    return _scaled(actual_size(args[0])) * _scaled(actual_size(args[1]))


def _sets_cost(factor: int) -> CallCost:
    """Return the cost of a function that compares every element of one list with every element of another."""
    return lambda args: 1 + actual_size(args[0]) * actual_size(args[1]) * factor


def _slice_cost(args: Sequence[Value]) -> int:
    values, start, end = args
    is_valid = isinstance(values, list) and type(start) is int and type(end) is int and 0 <= start <= end <= len(values)
    return (end - start if is_valid else 1) + _ALLOCATION


def _range_cost(args: Sequence[Value]) -> int:
    return (max(args[0], 0) if type(args[0]) is int else 1) + _ALLOCATION


def _limited_range_cost(args: Sequence[Value]) -> int:
    """Return the cost of `lists.range` since 1.37, where a range that is not made costs 1."""
    count = args[0]
    return (count if type(count) is int and 0 <= count <= LONGEST_RANGE else 1) + _ALLOCATION


def _reverse_cost(args: Sequence[Value]) -> int:
    return (len(args[0]) if isinstance(args[0], list) else 1) + _ALLOCATION


def _flatten_cost(args: Sequence[Value]) -> int:
    depth = args[1] if len(args) == 2 and isinstance(args[1], int) else 1
    return actual_size(args[0]) * depth + _ALLOCATION


def _self_comparison_cost(args: Sequence[Value]) -> int:
    """Return the cost of comparing every element of a list, or of the keys to sort it by, with every other.

    Raises `PanicError` if the list could not be evaluated.
    """
    compared = args[-1]
    if not isinstance(compared, list):
        raise PanicError("interface conversion: *types.Err is not traits.Lister: missing method Add")
    size = len(compared)
    factor = 2 + _STRING_TRAVERSAL * (size > 0 and isinstance(compared[0], (str, bytes)))
    return int(size * size * factor) + _ALLOCATION


_LIBRARY_COST_GROUPS: Sequence[tuple[str, CallCost]] = (
    ("check", lambda _args: 350000),
    ("fieldSelector labelSelector", _selector_cost),
    ("isSorted sum max min indexOf lastIndexOf", _list_traversal),
    ("url lowerAscii upperAscii substring trim jsonpatch.escapeKey", _string_traversal),
    ("replace split ip.isCanonical", _twice_string_traversal),
    ("join", _join_cost),
    ("find findAll", _find_cost),
    ("cidr ip isIP isCIDR quantity isQuantity semver isSemver", _string_traversal),
    ("containsIP", _contains_ip_cost(text=False)),
    ("containsCIDR", _contains_cidr_cost(text=False)),
    ("validate", _validate_cost),
    ("_==_", _equality_cost),
)
_LIBRARY_COSTS: Mapping[str, CallCost] = {name: cost for names, cost in _LIBRARY_COST_GROUPS for name in names.split()}

_OVERLOAD_COSTS: Mapping[str, CallCost] = {
    "cidr_ip": _fixed,
    "cidr_contains_ip_string": _contains_ip_cost(text=True),
    "cidr_contains_cidr_string": _contains_cidr_cost(text=True),
    "list_sets_contains_list": _sets_cost(1),
    "list_sets_intersects_list": _sets_cost(1),
    "list_sets_equivalent_list": _sets_cost(2),
    "list_includes_dyn_dyn": _list_traversal,
    "list_slice": _slice_cost,
    "lists_range": _range_cost,
    "list_reverse": _reverse_cost,
    "list_flatten": _flatten_cost,
    "list_flatten_int": _flatten_cost,
    "list_distinct": _self_comparison_cost,
    **{f"list_{kind}_sort": _self_comparison_cost for kind in _COMPARABLE},
    **{f"list_{kind}_sortByAssociatedKeys": _self_comparison_cost for kind in _COMPARABLE},
}

_STANDARD_COSTS: Mapping[str, CallCost] = {
    **dict.fromkeys(
        (
            "starts_with_string",
            "ends_with_string",
            "string_to_bytes",
            "bytes_to_string",
            "strings_quote",
            "string_format",
        ),
        _string_traversal,
    ),
    "in_list": _in_list_cost,
    **dict.fromkeys(ORDERED_TEXTS, _comparison_cost),
    "not_equals": _comparison_cost,
    "add_string": _concatenation_cost,
    "add_bytes": _concatenation_cost,
    "matches_string": _find_cost,
    "contains_string": _contains_cost,
}


class _Costs(NamedTuple):
    """The rules of a release, by overload: of cel-go's extension libraries, and of the standard functions."""

    of_extensions: Mapping[str, CallCost]
    of_standard: Mapping[str, CallCost]


_COSTS = ByRelease(
    {
        V1_37: _Costs(
            {**_OVERLOAD_COSTS, "lists_range": _limited_range_cost},
            {
                **_STANDARD_COSTS,
                "starts_with_string": _affix_cost,
                "ends_with_string": _affix_cost,
                "matches": _find_cost,
            },
        ),
        V1_31: _Costs(_OVERLOAD_COSTS, _STANDARD_COSTS),
    }
)


def call_cost(name: str, overloads: Sequence[str], version: Version, *, strict: bool = True) -> CallCost:
    """Return the rule of the cost of a call in a release.

    If the call chooses between overloads at run time, only its name counts.

    strict  whether the functions of the Kubernetes libraries have their own costs; else they cost 1
    """
    overload = overloads[0] if len(overloads) == 1 else ""
    costs = _COSTS[version]
    extension, standard = costs.of_extensions.get(overload), costs.of_standard.get(overload)
    if not strict:
        if name == "_==_":
            return _comparison_cost
        own = None if overload.startswith("cidr_") else extension
        return own or standard or _fixed
    return extension or _LIBRARY_COSTS.get(name) or standard or _fixed
