"""Names and small helpers that every module shares. Imports nothing of this package."""

from __future__ import annotations

import dataclasses
from collections import namedtuple
from collections.abc import Sequence
from copy import copy
from functools import partial
from operator import attrgetter
from reprlib import recursive_repr
from typing import TYPE_CHECKING, Any, ParamSpec, TypeVar

P = ParamSpec("P")
T = TypeVar("T")

if TYPE_CHECKING:
    from dataclasses import dataclass as dataclass
    from typing import NamedTuple as NamedTuple
else:

    class _NamedTupleMeta(type):
        def __new__(mcs, name, bases, namespace):
            fields = namespace.get("__annotations__", {})
            defaults = [namespace.pop(field) for field in fields if field in namespace]
            made = namedtuple(name, fields, defaults=defaults, module=namespace["__module__"])
            return type(name, (made, *bases[1:]), {"__slots__": (), **namespace})

    # Makes named tuples as that of `typing` does, but compiles no annotations, which is a fifteenth of a start.
    NamedTuple = type.__new__(_NamedTupleMeta, "NamedTuple", (), {})

    class _Initializer:
        """Is the `__init__` of a dataclass until the first object is made, for which it is compiled."""

        def __init__(self, made):
            self._made = made

        def __get__(self, obj, owner):
            made = self._made
            namespace = {"__qualname__": made.__qualname__, "__doc__": made.__doc__, "__module__": made.__module__}
            derived = type(made)(made.__name__, (made,), namespace)
            slots = "__slots__" in made.__dict__  # whose defaults are set by `__init__`
            made.__init__ = dataclasses.dataclass(derived, eq=False, repr=False, slots=slots).__init__
            return made.__init__.__get__(obj, owner)

    def dataclass(cls=None, /, *, frozen=False, eq=True, repr=True, init=True, **options):  # noqa: A002 - names there
        """Make a dataclass as the standard library does, in a fifth of the time, which is a sixth of a start.

        Of its methods only `__init__` is compiled, when an object is made. `frozen` makes it hashable: that nobody sets
        a field is for type checkers to see, since what would refuse that takes longest to compile, and slows objects.
        """
        if cls is None:
            return partial(dataclass, frozen=frozen, eq=eq, repr=repr, init=init, **options)
        own = cls.__dict__
        made = dataclasses.dataclass(cls, eq=False, repr=False, init=False, **options)
        if init and "__init__" not in own:
            made.__init__ = _Initializer(made)
        if repr and "__repr__" not in own:
            made.__repr__ = _repr
        if eq and "__eq__" not in own:
            values = attrgetter("__class__", *(field.name for field in dataclasses.fields(made) if field.compare))

            def equal(self, other):
                return values(self) == values(other) if other.__class__ is self.__class__ else NotImplemented

            made.__eq__ = equal
            if "__hash__" not in own:
                made.__hash__ = (lambda self: hash(values(self))) if frozen else None
        return made


@recursive_repr()
def _repr(self: Any) -> str:
    shown = (f"{field.name}={getattr(self, field.name)!r}" for field in dataclasses.fields(self) if field.repr)
    return f"{type(self).__qualname__}({', '.join(shown)})"


# A decoded API object: JSON values only. A stored object is never edited in place.
Obj = dict[str, Any]


class GroupVersionKind(NamedTuple):
    """An API group, version and kind (upstream: `schema.GroupVersionKind`). The core group is ""."""

    group: str
    version: str
    kind: str

    @property
    def api_version(self) -> str:
        """Return `resource.k8s.io/v1beta1`, or `v1` for the core group."""
        return f"{self.group}/{self.version}" if self.group else self.version

    @property
    def text(self) -> str:
        """Return the kind as Go prints it (`GroupVersionKind.String`): `apps/v1, Kind=Deployment`."""
        return f"{self.group}/{self.version}, Kind={self.kind}"


class GroupVersionResource(NamedTuple):
    """An API group, version and resource (upstream: `schema.GroupVersionResource`). The core group is ""."""

    group: str
    version: str
    resource: str


def split_api_version(api_version: str) -> tuple[str, str]:
    """Split "resource.k8s.io/v1beta1" into ("resource.k8s.io", "v1beta1"), and "v1" into ("", "v1")."""
    group, slash, version = api_version.partition("/")
    return (group, version) if slash else ("", group)


def named_kind(obj: Obj) -> GroupVersionKind:
    """Return the kind that an object names, with "" for what it does not say."""
    return GroupVersionKind(*split_api_version(obj.get("apiVersion") or ""), obj.get("kind") or "")


def default_if_zero(obj: Obj, defaults: dict[str, Any]) -> None:
    """Set each field of `defaults` in `obj`, in place, if it is absent, null, "" or 0 there; False stays."""
    for key, value in defaults.items():
        if obj.get(key) in (None, "", 0) and obj.get(key) is not False:
            obj[key] = value


def default_if_nil(obj: Obj, key: str, value: Any) -> None:
    """Set a field of `obj`, in place, if it is absent or null there; an empty value that was sent stays."""
    if obj.get(key) is None:
        obj[key] = value


def nested_field(obj: Any, *path: str, default: Any = None) -> Any:
    """Return the value at `path` in an object, or `default` if it or a field on the way is absent or null.

    Upstream: `unstructured.NestedFieldNoCopy`. The value is not copied: do not edit it.
    """
    for key in path:
        if not isinstance(obj, dict):
            return default
        obj = obj.get(key)
    return default if obj is None else obj


def controller_of(obj: Obj) -> Obj | None:
    """Return the owner reference of an object's controller, None if it has none (upstream: `GetControllerOf`)."""
    owners = obj["metadata"].get("ownerReferences") or []
    return next((owner for owner in owners if owner.get("controller")), None)


def condition_of(obj: Obj, type_: str) -> Obj:
    """Return the first condition of a type in the status, {} if there is none (upstream: `FindStatusCondition`)."""
    conditions = nested_field(obj, "status", "conditions", default=())
    return next((condition for condition in conditions if condition.get("type") == type_), {})


def condition_is_true(obj: Obj, type_: str) -> bool:
    """Report whether a condition of an object's status is True (upstream: `IsStatusConditionTrue`)."""
    return bool(condition_of(obj, type_).get("status") == "True")


def with_condition(conditions: Sequence[Obj], new: Obj, now: str) -> list[Obj]:
    """Return conditions with a new one, in the place of the one of its type. Upstream: `meta.SetStatusCondition`.

    Its lastTransitionTime is `now` (RFC 3339), or that of the one it replaces if that has the same status.
    """
    old = next((c for c in conditions if c["type"] == new["type"]), None)
    since = old.get("lastTransitionTime") if old and old["status"] == new["status"] else now
    timed = {**new, "lastTransitionTime": since}
    return [timed if c is old else c for c in conditions] if old else [*conditions, timed]


def deep_copy(value: Any) -> Any:
    """Return a copy of a JSON value that shares nothing with it, nor any two of its own parts with each other.

    Objects keep their class, which may note what they were sent with.
    """
    if isinstance(value, dict):
        copied = value.copy() if type(value) is dict else copy(value)
        for name, item in value.items():
            if isinstance(item, (dict, list)):
                copied[name] = deep_copy(item)
        return copied
    return [deep_copy(item) for item in value] if isinstance(value, list) else value


def share_equal_parts(value: Any) -> Any:
    """Return a JSON value in which equal parts are one object, for values that nothing edits any more.

    Parts are equal if they are written in the same way: 1 is not 1.0, and maps have their keys in one order. Objects
    that note what they were sent with stay as they are.
    """
    return _shared(value, {})


def _shared(value: Any, parts: dict[tuple[object, ...], Any]) -> Any:
    """Return the one of some `parts` that is equal to a value, which is added to them if there is none."""
    key: tuple[object, ...]
    if type(value) is dict:
        value = {name: _shared(item, parts) for name, item in value.items()}
        key = (dict, *value, *map(id, value.values()))
    elif type(value) is list:
        value = [_shared(item, parts) for item in value]
        key = (list, *map(id, value))
    elif isinstance(value, dict):
        return value
    else:
        key = (type(value), value)
    return parts.setdefault(key, value)


def same_json(a: Any, b: Any) -> bool:
    """Report whether two values are equal in an `interface{}`, however they are spelt (upstream: `value.Equals`).

    Numbers are an int64 or, with a fraction or beyond 64 bits, a float64: 1 is 1.0, and 2**64 is 2**64 + 1.
    """
    if a is b:
        return True
    if isinstance(a, dict):
        return isinstance(b, dict) and a.keys() == b.keys() and all(same_json(a[key], b[key]) for key in a)
    if isinstance(a, list):
        return isinstance(b, list) and len(a) == len(b) and all(map(same_json, a, b))
    if isinstance(a, str):
        return isinstance(b, str) and str.__eq__(a, b)
    if isinstance(a, bool) or isinstance(b, bool) or not isinstance(a, int | float) or not isinstance(b, int | float):
        return False  # null, true and false are one object each
    return a == b if _is_int64(a) and _is_int64(b) else _as_float(a) == _as_float(b)


def _is_int64(number: int | float) -> bool:
    return isinstance(number, int) and -(2**63) <= number < 2**63


def _as_float(number: int | float) -> float:
    try:
        return float(number)
    except OverflowError:
        return float("inf") if number > 0 else float("-inf")
