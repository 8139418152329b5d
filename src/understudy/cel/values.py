"""The values of an evaluation, and the equality that CEL defines between them.

Python's own types are used where they fit: None, bool, int (CEL's int), `UnsignedInt`, float, str, bytes, list. A map
is a dict whose keys went through `map_key`, because Python takes `True` and `1` for the same key and CEL does not.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator
from dataclasses import dataclass, field
from typing import Any, Final

from understudy.cel import types
from understudy.cel.ast import UnsignedInt
from understudy.cel.errors import EvaluationError
from understudy.cel.limits.interrupts import current_meter
from understudy.cel.types import Type

Value = Any
"""A value: one of the Python types named above, or an instance of a class below or of a library."""

INT_MIN: Final = -(2**63)
INT_MAX: Final = 2**63 - 1
UINT_MAX: Final = 2**64 - 1


@dataclass(frozen=True, slots=True, order=True)
class Duration:
    """A span of time in nanoseconds, at most about 292 years."""

    nanos: int


@dataclass(frozen=True, slots=True, order=True)
class Timestamp:
    """A point in time in nanoseconds since 1970, in the years 1 to 9999.

    `zone` is the offset in minutes with which it was written, and is again.
    """

    nanos: int
    zone: int = field(default=0, compare=False)


class Optional:
    """An optional value; `NONE` is the one without a value."""

    __slots__ = ("value",)

    def __init__(self, value: Value) -> None:
        self.value = value


NONE: Final = Optional(None)


class ErrorValue:
    """An error as a value (`types.Err`): the accumulator of `all`, or data that its schema does not allow.

    The evaluation fails only if it uses the value.
    """

    __slots__ = ("error",)

    def __init__(self, error: EvaluationError) -> None:
        self.error = error


def raise_if_error(value: Value) -> Value:
    """Return a value, or raise the error that it holds."""
    if type(value) is ErrorValue:
        raise value.error.with_traceback(None)
    return value


class _Key:
    """A map key that Python would confuse with another or cannot hash."""

    __slots__ = ("value",)

    def __init__(self, value: Value) -> None:
        self.value = value

    def __eq__(self, other: object) -> bool:
        return isinstance(other, _Key) and equal(self.value, other.value)

    def __hash__(self) -> int:
        return hash(type(self.value))


_TRUE, _FALSE = _Key(True), _Key(False)


def map_key(key: Value) -> Any:
    """Return the key that a value has in the dict of a map."""
    if key is True:
        return _TRUE
    if key is False:
        return _FALSE
    return _Key(key) if isinstance(key, (list, dict)) else key


def map_keys(entries: dict[Any, Value]) -> Iterator[Value]:
    """Yield the keys of a map as values."""
    for key in entries:
        yield key.value if type(key) is _Key else key


class Composite:
    """A value that is made of others, and is neither a list nor a map."""

    __slots__ = ()

    def parts(self) -> Collection[Value]:
        """Return the values that this one is made of."""
        raise NotImplementedError


class Declared:
    """A list or map that is compared as its schema declares: a set, a map by keys, an object."""

    __slots__ = ()

    def equals(self, other: Value) -> bool:
        """Report whether a value is equal to this one."""
        raise NotImplementedError


def type_name(value: Value) -> str:
    """Return the name of a value's run-time type, for messages such as `no such overload`."""
    return type_of(value).name


def type_of(value: Value) -> Type:
    """Return the run-time type of a value, which is also the result of `type(x)`."""
    if (builtin := _TYPES.get(type(value))) is not None:
        return builtin
    if isinstance(value, list) and not isinstance(value, Declared):
        return _TYPES[list]
    library_type: Type = getattr(value, "cel_type", types.DYN)
    return library_type


_TYPES: Final[dict[type, Type]] = {
    bool: types.BOOL,
    bytes: types.BYTES,
    dict: types.map_of(types.DYN, types.DYN),
    float: types.DOUBLE,
    int: types.INT,
    list: types.list_of(types.DYN),
    str: types.STRING,
    type(None): types.NULL,
    Duration: types.DURATION,
    Optional: types.opaque("optional_type"),
    Timestamp: types.TIMESTAMP,
    Type: types.TYPE,
    UnsignedInt: types.UINT,
}


def run_time_type(declared: Type) -> Type:
    """Return a declared type as values have it: that of optionals does not say of what."""
    return types.opaque(declared.name) if declared.kind == "opaque" else declared


_NUMBERS = (int, float)


def is_number(value: Value) -> bool:
    """Report whether a value is an int, uint or double; a bool is none of them."""
    return isinstance(value, _NUMBERS) and value is not True and value is not False


def equal(one: Value, other: Value) -> bool:
    """Report whether two values are equal: numbers by value across types, everything else only within its type.

    Raises `EvaluationError` for values that cannot be compared.
    """
    kind = type(one)
    if kind is str or kind is bool or kind is bytes or one is None:
        return kind is type(other) and bool(one == other)
    if is_number(one):
        return is_number(other) and bool(one == other)
    if isinstance(one, Declared):
        return one.equals(other)
    if isinstance(one, list):
        if not isinstance(other, list) or len(one) != len(other):
            return False
        current_meter().count(len(one))
        return all(map(equal, one, other))
    if isinstance(one, dict):
        if not isinstance(other, dict) or len(one) != len(other):
            return False
        current_meter().count(len(one))
        return all(key in other and equal(value, other[key]) for key, value in one.items())
    if kind is not type(other):
        if hasattr(one, "cel_type"):  # a value of a Kubernetes library
            raise EvaluationError("no such overload")
        return False
    if kind is Optional:
        if one is NONE or other is NONE:
            return one is other
        return equal(one.value, other.value)
    if kind is Type:
        return bool(one.name == other.name)
    return bool(one == other)


def count_values(value: Value, most: int) -> int:
    """Return the number of values in a value, itself included; just more than `most` if there are more."""
    count, pending, meter = 0, [iter((value,))], current_meter()
    while pending:
        for each in pending[-1]:
            count += 1
            if count > most:
                return count
            if parts := _parts(each):
                meter.count(len(parts))
                pending.append(iter(parts))
                break
        else:
            pending.pop()
    return count


def _parts(value: Value) -> Collection[Value]:
    if isinstance(value, list):
        return value
    if isinstance(value, dict):
        return value.values()
    if isinstance(value, Optional):
        return (value.value,)
    return value.parts() if isinstance(value, Composite) else ()


def conversion_error(value: Value, target: str) -> EvaluationError:
    """Return the error of a value that cannot be converted to the type named `target`."""
    return EvaluationError(f"type conversion error from '{type_name(value)}' to '{target}'")


def parses(parse: Callable[[str], object]) -> Callable[[str], bool]:
    """Return the test that `parse` accepts a text, for functions such as `isQuantity` and `isIP`."""

    def test(text: str) -> bool:
        try:
            parse(text)
        except EvaluationError:
            return False
        return True

    return test


def in_range(value: int) -> int:
    """Return a result of signed arithmetic. Raises `EvaluationError` if it overflows."""
    if INT_MIN <= value <= INT_MAX:
        return value
    raise EvaluationError("integer overflow")


def unsigned_in_range(value: int) -> UnsignedInt:
    """Return a result of unsigned arithmetic. Raises `EvaluationError` if it overflows."""
    if 0 <= value <= UINT_MAX:
        return UnsignedInt(value)
    raise EvaluationError("unsigned integer overflow")
