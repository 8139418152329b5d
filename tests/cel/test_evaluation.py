"""Evaluation of selectors against one device: results, and errors in cel-go's words."""

from __future__ import annotations

import re

import pytest

from tests.releases import NEWEST
from understudy.cel import EvaluationError, device_environment
from understudy.cel import compile as compile_selector
from understudy.machinery.releases.features import DRA_CONSUMABLE_CAPACITY, DRA_LIST_TYPE_ATTRIBUTES
from understudy.machinery.releases.version import V1_35, V1_36, V1_37

DEVICE = {
    "driver": "dra.example.com",
    "attributes": {
        "i": {"int": 42},
        "b": {"bool": True},
        "s": {"string": "héllo"},
        "v": {"version": "1.2.3-beta.1+b2"},
        "other.example.com/i": {"int": -7},
    },
    "capacity": {"mem": "80Gi", "other.example.com/cores": "1500m"},
}
OWN = 'device.attributes["dra.example.com"]'


def evaluate(expression: str) -> bool | str:
    compiled = compile_selector(expression, device_environment(NEWEST))
    assert compiled.error is None, compiled.error
    try:
        return compiled.evaluate(DEVICE)
    except EvaluationError as error:
        return str(error)


@pytest.mark.parametrize(
    ("expression", "result"),
    [
        # the device
        ('device.driver == "dra.example.com"', True),
        (f"{OWN}.b", True),
        (f"{OWN}.i == 42", True),
        ('device.attributes["other.example.com"].i < 0', True),
        (f'{OWN}.v.isGreaterThan(semver("1.2.3-alpha"))', True),
        ('device.capacity["dra.example.com"].mem.compareTo(quantity("80Gi")) == 0', True),
        ('device.capacity["other.example.com"].cores == quantity("1.5")', True),
        # an absent domain is an empty map when it is looked up, and only then
        ('"x" in device.attributes', False),
        ('device.attributes["x"].all(name, false)', True),
        ("has(device.attributes.x)", True),
        ('has(device.attributes["x"].y)', False),
        ("size(device.attributes) == 2", True),
        ('device.attributes["x"].y', "no such key: y"),
        ('device.attributes[?"x"].hasValue()', True),
        ('device.attributes["x"].?y.orValue(true)', True),
        # errors
        ("1 / 0 == 1", "division by zero"),
        ("1 % 0 == 1", "modulus by zero"),
        ("9223372036854775807 + 1 > 0", "integer overflow"),
        ("0u - 1u > 0u", "unsigned integer overflow"),
        ("[1][1] == 1", "index out of bounds: 1"),
        ('{"a": 1}["b"] == 1', "no such key: b"),
        ("dyn([1])[0.5] == 1", "unsupported index value 0.5 in list"),
        ("dyn([1])[1.23456789] == 1", "unsupported index value 1.23456789 in list"),
        ('dyn([1])[double("Infinity")] == 1', "unsupported index value +Inf in list"),
        ('dyn([1])[double("-Infinity")] == 1', "unsupported index value -Inf in list"),
        ('dyn([1])[double("NaN")] == 1', "unsupported index value NaN in list"),
        ("dyn([1])[1e19] == 1", "unsupported index value 1e+19 in list"),
        ("dyn([1])[18446744073709551615u] == 1", "unsupported index value 18446744073709551615 in list"),
        ("dyn([1])[9.2e18] == 1", "index out of bounds: 9.2e+18"),
        ("dyn([1])[0.0] == 1", True),
        ('dyn([1])[?double("NaN")].hasValue()', "unsupported index value NaN in list"),
        ("dyn([1])[?0.5].hasValue()", "unsupported index value 0.5 in list"),
        ("dyn([1])[?7.0].hasValue()", False),
        ("dyn([1]).?a.hasValue()", "unsupported index type 'string' in list"),
        ("has(dyn([1]).a)", "unsupported index type 'string' in list"),
        ("dyn(1)[?0].hasValue()", False),
        ('{1: 2}[dyn(double("Infinity"))] == 1', "no such key: +Inf"),
        ('dyn(1) < "a"', "no such overload"),
        ('dyn(1) == "a"', False),
        ("size(dyn(1)) == 1", "no such overload: size"),
        (f'{OWN}.s.isGreaterThan(semver("1.0.0"))', "no such overload: isGreaterThan(string, kubernetes.Semver)"),
        ("optional.none().value() == 1", "optional.none() dereference"),
        ("[].max() == 1", "max called on empty list"),
        ('"abc".substring(2, 1) == ""', "invalid substring range. start: 2, end: 1"),
        (
            f"{OWN}.i",
            "CEL result of type int could not be converted to bool: unsupported type conversion from 'int' to bool",
        ),
        # && and || absorb an error if the other side decides
        ("(1 / 0 == 1) || true", True),
        ("true || (1 / 0 == 1)", True),
        ("(1 / 0 == 1) && false", False),
        ("(1 / 0 == 1) && true", "division by zero"),
        ("(1 / 0 == 1) || (1 % 0 == 1)", "division by zero"),
        (f"{OWN}.i && true", "no such overload"),
        # and so do the macros built on them
        ("[0, 1, 2].exists(x, 4 / x == 2)", True),
        ("[0, 1].exists(x, 4 / x == 2)", "division by zero"),
        ("[0, 1].all(x, 4 / x == 4)", "division by zero"),
        ("[0, 1].exists_one(x, 4 / x == 4)", "division by zero"),
        # numbers
        ("1u == 1 || false", "compile"),
        ("dyn(1u) == 1 && dyn(1.0) == 1 && 1 < 1.5", True),
        ("-7 / 2 == -3 && -7 % 2 == -1", True),
        ("int(-1.9) == -1 && string(1.0) == '1'", True),
        ("{1: 'a', 2: 'b'}[2] == 'b' && dyn({1: 2})[1.0] == 2", True),
        # libraries
        ('"%d %s %.1f %x".format([1, [true, "a"], 2.5, "hi"]) == "1 [true, \\"a\\"] 2.5 6869"', True),
        ('timestamp("2024-02-29T12:00:00Z").getDayOfYear() == 59', True),
        ('string(duration("90m")) == "5400s"', True),
        ('url("https://a.b:80/c?d=e").getPort() == "80"', True),
        ('cidr("10.0.0.0/8").containsIP("10.1.2.3")', True),
        ('"a,b,c".split(",", 2) == ["a", "b,c"] && ["a", "b"].join("-") == "a-b"', True),
        ("sets.contains([1, 2], [2]) && [3, 1, 2].min() == 1 && ![2, 1].isSorted()", True),
        ('"a1b22".findAll("[0-9]+") == ["1", "22"]', True),
        ('cel.bind(own, device.attributes["dra.example.com"], own.b && own.i > 1)', True),
        ("optional.of(2).optMap(x, x * 2).value() == 4", True),
        ('format.named("dns1123Label").value().validate("A_b").hasValue()', True),
    ],
)
def test_program_answers_as_cel_go(expression: str, result: bool | str) -> None:
    """A program returns the value or raises the error that cel-go's does."""
    if result == "compile":
        assert compile_selector(expression, device_environment(NEWEST)).error is not None
    else:
        assert evaluate(expression) == result


@pytest.mark.parametrize("escape", ["00110000", "92233720", "ffffffff"])
def test_escape_beyond_unicode(escape: str) -> None:
    """A character that Unicode does not have is an error, however large its number is."""
    compiled = compile_selector(f"'\\U{escape}' == ''", device_environment(NEWEST))
    assert compiled.error is not None
    assert compiled.error.startswith("compilation failed: ERROR: <input>:1:1: invalid unicode code point")


def test_expression_with_error_cannot_be_evaluated() -> None:
    """Evaluating an expression that did not compile raises an error."""
    with pytest.raises(EvaluationError):
        compile_selector("nonsense(", device_environment(NEWEST)).evaluate(DEVICE)


@pytest.mark.parametrize(
    ("expression", "result"),
    [
        ("[3, 1, 2].sort() == [1, 2, 3]", True),
        ("['bb', 'a'].sortBy(x, size(x)) == ['a', 'bb']", True),
        ("[1, 2, 2, 1].distinct() == [1, 2]", True),
        ("[[1], [2, 3]].flatten().reverse() == [3, 2, 1]", True),
        ("dyn([1]).flatten() == [1]", True),
        ("dyn(1).flatten() == [1]", "no such overload: int.flatten()"),
        ("[1].flatten(-1) == []", "level must be non-negative"),
        ("[1, 2].slice(0, 5) == []", "cannot slice(0, 5), list is length 2"),
        ("[1, 2].slice(2, 1) == []", "cannot slice(2, 1), start index must be less than or equal to end index"),
        ("lists.range(3).last().value() == 2", True),
        ("[optional.of(1), optional.none()].unwrapOpt() == [1]", True),
        ("{'a': 1, 'b': 2}.transformList(k, v, v > 1, k) == ['b']", True),
        ("['x'].transformMap(i, v, v) == {0: 'x'}", True),
        ("[1, 2].transformMapEntry(i, v, {'a': v}) == {}", "insert failed: key a already exists"),
        ("[1, 0].exists(i, v, 1 / v == 1)", True),
        ("dyn(1).all(i, v, true)", "unsupported comprehension range type: types.Int"),
        ("semver('v01.2', true) == semver('1.2.0')", True),
        ("semver('1.0-rc', true).major() == 1", "short version cannot contain PreRelease/Build meta data"),
    ],
)
def test_libraries_of_later_releases(expression: str, result: bool | str) -> None:
    """The functions and macros that came after 1.32 have the results and errors of kube-apiserver 1.35."""
    compiled = compile_selector(expression, device_environment(V1_35))
    assert compiled.error is None, compiled.error
    if isinstance(result, bool):
        assert compiled.evaluate(DEVICE) is result
    else:
        with pytest.raises(EvaluationError) as failure:
            compiled.evaluate(DEVICE)
        assert str(failure.value) == result


@pytest.mark.parametrize(
    ("expression", "result"),
    [
        ("lists.range(-1).size() == 1", "lists.range: size must be non-negative, got -1"),
        ("lists.range(2000000).size() == 1", "lists.range: size 2000000 exceeds maximum allowed (1000000)"),
        ("'hello'.indexOf('', 100) == 5 && 'hello'.lastIndexOf('', 100) == 5 && 'hello'.indexOf('', 3) == 3", True),
        ("'hello'.indexOf('', -3) == 3", "index out of range: -3"),
        ("type(optional.of(1)) == optional_type", True),
        ("{'a-b': 1}.`a-b` == 1 && has({'a-b': 1}.`a-b`)", True),
        ("{'a-b': 1}.`a-c` == 1", "no such key: a-c"),
        ("[1, 2].includes(2) && 'a'.includes('a') && ![[1]].includes(1)", True),
        ("[1].exists(device, device == 1 && .device.driver == 'dra.example.com')", True),
        ("['dra.example.com'].all(device, [1].all(x, .device.driver == device))", True),
        ("cel.bind(device, 1, .device.attributes['x'].y)", "no such key: y"),
    ],
)
def test_changes_of_cel_go_in_1_37(expression: str, result: bool | str) -> None:
    """Evaluation has the results and errors of kube-apiserver 1.37, recorded as rules of custom resources."""
    compiled = compile_selector(expression, device_environment(V1_37, stored=True))
    assert compiled.error is None, compiled.error
    if isinstance(result, bool):
        assert compiled.evaluate(DEVICE) is result
    else:
        with pytest.raises(EvaluationError, match=f"^{re.escape(result)}$"):
            compiled.evaluate(DEVICE)


def test_attributes_are_lists_behind_their_gate() -> None:
    """With `DRAListTypeAttributes` attributes may be lists, and `includes` looks into them; else they have no value."""
    device = {**DEVICE, "attributes": {"l": {"versions": ["1.2.3"]}}, "allowMultipleAllocations": True}
    gates = frozenset([DRA_LIST_TYPE_ATTRIBUTES, DRA_CONSUMABLE_CAPACITY])
    expression = f"device.allowMultipleAllocations && {OWN}.l.includes(semver('1.2.3')) && {OWN}.l.all(v, true)"
    assert compile_selector(expression, device_environment(V1_36, features=gates)).evaluate(device)
    with pytest.raises(EvaluationError, match="attribute l: unsupported attribute value"):
        compile_selector("true", device_environment(V1_36)).evaluate(device)
