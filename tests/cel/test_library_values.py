"""Values of CEL's libraries in the words of kube-apiserver 1.36, as its own packages answered."""

from __future__ import annotations

import pytest

from understudy.cel import Budget, EvaluationError
from understudy.cel import compile as compile_expression
from understudy.cel.checker.policy_environments import policy_environment
from understudy.machinery.releases.version import V1_32, V1_36, Version


def evaluate(expression: str, release: Version = V1_36) -> object:
    """Return the value of an expression, or the text of its error."""
    compiled = compile_expression(expression, policy_environment(release, params=False, authorizer=False))
    assert compiled.error is None, compiled.error
    try:
        return compiled.run({"object": {"l": None}}, Budget())
    except EvaluationError as error:
        return f"error: {error}"


@pytest.mark.parametrize(
    ("expression", "value"),
    [
        # doubles as texts
        ("string(123456.0)", "123456"),
        ("string(1000000.0)", "1e+06"),
        ("string(0.00001)", "1e-05"),
        ("string(-1.5e300)", "-1.5e+300"),
        ("string(-0.0)", "-0"),
        ("'%s'.format([123456789.125])", "1.23456789125e+08"),
        ("'%.2f'.format([-0.0])", "0.00"),
        ("'%.3e'.format([1234.5])", "1.234500\u00d710\u2070\u00b3"),
        ("(0.0 / 0.0) < 1", "error: NaN values cannot be ordered"),
        # timestamps keep their zone
        ("string(timestamp('2020-01-01T00:00:00.5-02:30') + duration('1h'))", "2020-01-01T01:00:00.5-02:30"),
        ("timestamp('2020-01-01T00:00:00+02:00') == timestamp('2019-12-31T22:00:00Z')", True),
        ("timestamp('2020-01-01T00:00:00+02:00').getHours()", 22),
        # quantities
        ("quantity('2000m').isInteger()", False),
        ("quantity('2k').isInteger()", True),
        ("quantity('1').add(quantity('1')) == quantity('2')", True),
        ("quantity('2') == quantity('1').add(quantity('1'))", "error: no such overload"),
        ("quantity('2') != quantity('1').add(quantity('1'))", True),
        ("quantity('1').sub(-9223372036854775807 - 1).isLessThan(quantity('0'))", True),
        ("quantity('1e30').isGreaterThan(quantity('1e29'))", True),
        ("quantity('.').isInteger()", True),
        ("quantity('5.').compareTo(quantity('5'))", 0),
        # lists of several types
        ("[dyn(1), dyn('a')].max() == 1", True),
        ("[dyn(1), dyn('a')].isSorted()", True),
        ("[dyn(1), dyn('a')].sum() == 1", "error: no such overload"),
        # addresses
        (
            "ip('1:2:3:4:5:6:7:8:9').family()",
            'error: IP Address "1:2:3:4:5:6:7:8:9" parse error during conversion from string: '
            'ParseAddr("1:2:3:4:5:6:7:8:9"): trailing garbage after address (at "9")',
        ),
        (
            "ip('::1::2').family()",
            'error: IP Address "::1::2" parse error during conversion from string: ParseAddr("::1::2"): multiple :: in '
            'address (at ":2")',
        ),
        ("cidr('10.0.0.0/8').containsIP('x')", "error: no such overload"),
        ("ip('1.2.3.4') == dyn('1.2.3.4')", "error: no such overload"),
        # patterns
        ("'abc'.findAll('.*') == ['abc']", True),
        ("'abab'.findAll('b*') == ['', 'b', 'b']", True),
        # formats
        ("format.qualifiedName().validate('/a').value()[0]", "prefix part must be non-empty"),
        ("format.uri().validate('').value()[0]", 'parse "": empty url'),
    ],
)
def test_value(expression: str, value: object) -> None:
    """An expression has the value, or the error, that it has in the real server."""
    assert evaluate(expression) == value


def test_texts_of_older_releases() -> None:
    """Some texts depend on the release, since the packages that make them have changed."""
    assert evaluate("''.lastIndexOf('a')") == -1
    assert evaluate("''.lastIndexOf('a')", V1_32) == "error: index out of range: -1"
    assert evaluate("'%e'.format([1234.5])", V1_32) == "1.234500\u202f\u00d7\u202f10\u2070\u00b3"
    name = "'" + "x" * 64 + "'"
    expression = f"format.labelValue().validate({name}).value()[0]"
    assert evaluate(expression) == "must be no more than 63 bytes"
    assert evaluate(expression, V1_32) == "must be no more than 63 characters"


@pytest.mark.parametrize(
    ("expression", "value"),
    [
        # Python reads no number of more than 4300 digits
        (f"isQuantity('{'1' * 5000}')", True),
        (f"isQuantity('0.{'1' * 5000}')", True),
        (f"isQuantity('{'0' * 5000}')", True),
        (f"isQuantity('-{'1' * 5000}E')", True),
        (f"isQuantity('1e{'1' * 5000}')", False),
        (f"isQuantity('1e-{'1' * 5000}')", False),
        (f"quantity('{'0' * 5000}7').asInteger()", 7),
        (f"quantity('{'1' * 5000}').isInteger()", False),
        (f"quantity('{'1' * 5000}').isGreaterThan(quantity('1'))", True),
        (f"quantity('{'1' * 5000}').asApproximateFloat() == double('Infinity')", True),
        (f"quantity('0.{'0' * 5000}1') == quantity('1n')", True),
        (f"double(object.l == null ? '{'1' * 5000}' : '')", "error: type conversion error from 'string' to 'double'"),
        ("double(object.l == null ? '1e400' : '')", "error: type conversion error from 'string' to 'double'"),
        # the precision, of which Go's package `text` keeps 8 bits for the fewest digits and 16 for the most
        ("'%.400f'.format([1.5])", f"1.5{'0' * 143}"),
        ("size('%.100000f'.format([1.5]))", 162),
        ("'%.100000f'.format([1.0e22])", f"10,000,000,000,000,000,000,000.{'0' * 160}"),
        ("'%.65536f'.format([2.5])", "2"),
        ("size('%.10000009f'.format([1.5]))", 139),
        ("'%.10000010f'.format([1.5])", "%!(NOVERB)"),
        ("'%.3000000000f'.format([1.5])", "%!(NOVERB)"),
        ("'%.3000000000e'.format([1.5])", "%!(NOVERB)"),
        ("'%.9223372036854775807f'.format([1.5])", "%!(NOVERB)"),
        ("'%.20e'.format([1.5])", "     1.500000\u202f\u00d7\u202f10\u2070\u2070"),
        ("size('%.100000e'.format([1.5]))", 34464),
    ],
    ids=lambda value: value[:30] if isinstance(value, str) else "",
)
def test_many_digits(expression: str, value: object) -> None:
    """A text or a precision of many digits has the value that kube-apiserver 1.32 gives it."""
    assert evaluate(expression, V1_32) == value
