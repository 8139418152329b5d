"""The decorator `dataclass` of the standard library, whose methods are made when they are first called.

The standard library compiles up to six functions when it defines a class, 0.7 ms for a frozen one with Python 3.12. Of
the hundred classes that a server imports, a start makes objects of thirty: this was a fifth of its time. Fields, slots
and what `dataclasses` says of them are the standard library's; so are the classes for type checkers.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable
from dataclasses import MISSING, Field, FrozenInstanceError
from functools import partial
from reprlib import recursive_repr
from typing import TYPE_CHECKING, Any

_ORDER = {"__lt__": "<", "__le__": "<=", "__gt__": ">", "__ge__": ">="}


def _dataclass(
    cls: type | None = None,
    /,
    *,
    eq: bool = True,
    order: bool = False,
    frozen: bool = False,
    kw_only: bool = False,
    slots: bool = False,
) -> Any:
    """Define a dataclass. The options are those of `dataclasses.dataclass`."""
    if cls is None:
        return partial(_dataclass, eq=eq, order=order, frozen=frozen, kw_only=kw_only, slots=slots)
    own = frozenset(vars(cls))
    has_hash = "__hash__" in own and not (cls.__hash__ is None and "__eq__" in own)
    made: Any = dataclasses.dataclass(cls, init=False, repr=False, eq=False, kw_only=kw_only, slots=slots)
    made.__init__ = _Method(made, "__init__", partial(_new_init, frozen=frozen, slots=slots))
    if "__repr__" not in own:
        made.__repr__ = _repr
    if eq:
        if "__eq__" not in own:
            made.__eq__ = _Method(made, "__eq__", partial(_new_comparison, operator="=="))
        if not has_hash:
            made.__hash__ = _Method(made, "__hash__", _new_hash) if frozen else None
    for name, operator in _ORDER.items() if order else ():
        setattr(made, name, _Method(made, name, partial(_new_comparison, operator=operator)))
    if frozen:
        _freeze(made)
        if slots and "__getstate__" not in own:
            made.__getstate__, made.__setstate__ = _get_state, _set_state
    return made


if TYPE_CHECKING:
    from dataclasses import dataclass as dataclass
else:
    dataclass = _dataclass


class _Method:
    """Stands for a method of a class until it is asked for, and makes it then."""

    def __init__(self, cls: type, name: str, make: Callable[[type], tuple[str, str, dict[str, Any]]]) -> None:
        self._cls = cls
        self._name = name
        self._make = make

    def __get__(self, instance: object, owner: type | None = None) -> Any:
        parameters, body, names = self._make(self._cls)
        exec(f"def {self._name}({parameters}):\n {body}", names)
        method = names[self._name]
        method.__module__, method.__qualname__ = self._cls.__module__, f"{self._cls.__qualname__}.{self._name}"
        if self._name == "__init__":
            method.__annotations__ = {f.name: f.type for f in dataclasses.fields(self._cls) if f.init}
        setattr(self._cls, self._name, method)
        return method.__get__(instance, owner)


def _new_init(cls: type, *, frozen: bool, slots: bool) -> tuple[str, str, dict[str, Any]]:
    """Return parameters, body and names of the method that sets all fields."""
    names: dict[str, Any] = {"_set": object.__setattr__, "_MISSING": MISSING}
    parameters, by_keyword, body = ["self"], list[str](), list[str]()
    for field in dataclasses.fields(cls):
        name, default, value = field.name, f"_default_{field.name}", field.name
        parameter = name
        if field.default_factory is not MISSING:
            names[default] = field.default_factory
            parameter = f"{name}=_MISSING"
            value = f"{default}() if {name} is _MISSING else {name}" if field.init else f"{default}()"
        elif field.default is not MISSING and (field.init or slots):  # else the class has it
            names[default] = field.default
            parameter = f"{name}={default}"
            value = name if field.init else default
        elif not field.init:
            continue
        if field.init:
            (by_keyword if field.kw_only else parameters).append(parameter)
        body.append(f"_set(self, {name!r}, {value})" if frozen else f"self.{name} = {value}")
    if hasattr(cls, "__post_init__"):
        body.append("self.__post_init__()")
    return ", ".join([*parameters, *(["*"] if by_keyword else []), *by_keyword]), "\n ".join(body or ["pass"]), names


def _new_comparison(cls: type, *, operator: str) -> tuple[str, str, dict[str, Any]]:
    """Return parameters, body and names of a method that compares all fields with those of another object."""
    mine, others = (_values(cls, of, lambda field: field.compare) for of in ("self", "other"))
    compared = f"{mine} {operator} {others}"
    return "self, other", f"return {compared} if other.__class__ is self.__class__ else NotImplemented", {}


def _new_hash(cls: type) -> tuple[str, str, dict[str, Any]]:
    """Return parameters, body and names of the method that hashes all fields."""
    hashed = _values(cls, "self", lambda field: field.compare if field.hash is None else field.hash)
    return "self", f"return hash({hashed})", {}


def _values(cls: type, of: str, which: Callable[[Field[Any]], bool]) -> str:
    """Return the expression of a tuple of fields."""
    return f"({''.join(f'{of}.{field.name}, ' for field in dataclasses.fields(cls) if which(field))})"


@recursive_repr()
def _repr(self: Any) -> str:
    shown = (f"{field.name}={getattr(self, field.name)!r}" for field in dataclasses.fields(self) if field.repr)
    return f"{type(self).__qualname__}({', '.join(shown)})"


def _freeze(cls: Any) -> None:
    """Let nothing set or delete a field. Classes below that are no dataclasses may have other attributes."""
    names = frozenset(field.name for field in dataclasses.fields(cls))

    def set_attribute(self: Any, name: str, value: object) -> None:
        if type(self) is cls or name in names:
            raise FrozenInstanceError(f"cannot assign to field {name!r}")
        super(cls, self).__setattr__(name, value)

    def delete_attribute(self: Any, name: str) -> None:
        if type(self) is cls or name in names:
            raise FrozenInstanceError(f"cannot delete field {name!r}")
        super(cls, self).__delattr__(name)

    cls.__setattr__, cls.__delattr__ = set_attribute, delete_attribute


def _get_state(self: Any) -> list[Any]:
    return [getattr(self, field.name) for field in dataclasses.fields(self)]


def _set_state(self: Any, state: list[Any]) -> None:
    for field, value in zip(dataclasses.fields(self), state, strict=True):
        object.__setattr__(self, field.name, value)
