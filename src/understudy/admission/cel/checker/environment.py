"""The environments: which libraries, variables and types a release offers to device selectors.

Sources: `k8s.io/dynamic-resource-allocation/cel` (the `device` variable) and `k8s.io/apiserver/pkg/cel/environment`
(the libraries by the version that introduced them). New expressions may use what the release *before* understood, so
that a rollback finds no expression it cannot read; what is already stored may use everything of the release.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from functools import cache
from importlib import import_module

from understudy.admission.cel.checker.declarations import Declarations, Function, read_functions, read_type
from understudy.admission.cel.types import TYPE, Type, opaque, struct, type_of, wrapper
from understudy.machinery.releases.version import V1_32, Version

DEVICE = "kubernetes.DRADevice"

# Libraries in the order their overloads are merged, with the release that introduced each.
_LIBRARIES: tuple[tuple[str, Version], ...] = (
    ("standard", Version(1, 0)),
    ("time", Version(1, 0)),
    ("url", Version(1, 0)),
    ("regex", Version(1, 0)),
    ("lists", Version(1, 0)),
    ("authorization", Version(1, 27)),
    ("optional", Version(1, 28)),
    ("quantity", Version(1, 28)),
    ("strings", Version(1, 29)),
    ("sets", Version(1, 29)),
    ("network", Version(1, 30)),
    ("named_formats", Version(1, 31)),
    ("authorization_selectors", Version(1, 31)),
)
# What the device environment adds, whatever the release before understood.
_DEVICE_LIBRARIES = ("semver",)


def _bool_or_unknown(found: Type) -> str:
    """What is wrong with the result of a device selector, "" for a good one."""
    if found.kind in ("bool", "any") and not found.nullable:
        return ""
    return f"must evaluate to bool or the unknown type, not {found.declared_name}"


@dataclass(frozen=True)
class Environment:
    """What expressions are compiled against. Two are equal if they take the same expressions.

    purpose       tells apart those that differ in declarations or results; () is that of device selectors
    wrong_result  says what is wrong with a result's type, "" for a good one
    """

    release: Version
    features: frozenset[str]
    stored: bool
    declarations: Declarations = field(repr=False, compare=False, hash=False)
    purpose: tuple[object, ...] = ()
    wrong_result: Callable[[Type], str] = field(default=_bool_or_unknown, repr=False, compare=False, hash=False)

    @property
    def empty_column(self) -> int:
        """Where errors say that an empty expression ends: from 1.32 on before its first column, which is 0."""
        return -1 if self.release >= V1_32 else 0


@cache
def device_environment(
    release: Version, *, features: frozenset[str] = frozenset(), stored: bool = False
) -> Environment:
    """Return the environment that device selectors of a release are compiled in.

    `features` names the enabled feature gates that matter to selectors. `stored` is for an expression that the object
    already had before the update being validated: it may use all that the release knows.
    """
    declared = declarations(
        release,
        libraries(release, stored) + _DEVICE_LIBRARIES,
        {"device": DEVICE},
        {
            DEVICE: {
                "driver": "string",
                "attributes": "map(string, map(string, any))",
                "capacity": "map(string, map(string, kubernetes.Quantity))",
            }
        },
    )
    return Environment(release, features, stored, declared)


def libraries(release: Version, stored: bool) -> tuple[str, ...]:
    """Those that every environment of a release has."""
    known = release if stored else release.previous
    return tuple(name for name, since in _LIBRARIES if since <= known)


def declarations(
    release: Version,
    libraries: tuple[str, ...],
    variables: Mapping[str, str | Type],
    messages: Mapping[str, Mapping[str, str | Type]],
) -> Declarations:
    """Variables and the fields of messages are given as types or in their notation."""
    fields = {name: {key: _type(of) for key, of in own.items()} for name, own in messages.items()}
    # Up to 1.31 the name of a message is taken for a value of it.
    names = {name: type_of(struct(name)) if release >= V1_32 else struct(name) for name in messages}
    own = {name: _type(of) for name, of in variables.items()}
    return Declarations(_functions(libraries), {**own, **names, **_type_names()}, {**_message_fields(), **fields})


def _type(of: str | Type) -> Type:
    return read_type(of) if isinstance(of, str) else of


@cache
def _functions(libraries: tuple[str, ...]) -> Mapping[str, Function]:
    modules = (import_module(f"understudy.admission.cel.library.{name}") for name in libraries)
    return read_functions(module.DECLARATIONS for module in modules)


_WRAPPERS = {
    "BoolValue": "bool",
    "BytesValue": "bytes",
    "DoubleValue": "double",
    "FloatValue": "double",
    "Int32Value": "int",
    "Int64Value": "int",
    "StringValue": "string",
    "UInt32Value": "uint",
    "UInt64Value": "uint",
}


@cache
def _type_names() -> Mapping[str, Type]:
    """Names of types that are values of their own."""
    names = {
        name: type_of(read_type(name))
        for name in ("bool", "bytes", "double", "int", "string", "uint", "net.IP", "net.CIDR")
    }
    names["duration"] = type_of(read_type("duration"))
    names["timestamp"] = type_of(read_type("timestamp"))
    names["list"] = type_of(read_type("list(dyn)"))
    names["map"] = type_of(read_type("map(dyn, dyn)"))
    names["null_type"] = type_of(read_type("null"))
    names["type"] = type_of(TYPE)
    names["optional_type"] = type_of(opaque("optional_type"))
    for name, text in (
        ("Any", "any"),
        ("Duration", "duration"),
        ("Timestamp", "timestamp"),
        ("Value", "dyn"),
        ("Struct", "map(string, dyn)"),
        ("ListValue", "list(dyn)"),
    ):
        names[f"google.protobuf.{name}"] = type_of(read_type(text))
    for name, text in _WRAPPERS.items():
        names[f"google.protobuf.{name}"] = type_of(wrapper(read_type(text)))
    for name in ("Empty", "Struct.FieldsEntry"):
        names[f"google.protobuf.{name}"] = type_of(struct(f"google.protobuf.{name}"))
    names["google.protobuf.NullValue.NULL_VALUE"] = read_type("int")
    return names


@cache
def _message_fields() -> Mapping[str, Mapping[str, Type]]:
    """The fields of the well-known messages."""
    fields: dict[str, dict[str, str]] = {
        "Any": {"type_url": "string", "value": "bytes"},
        "Duration": {"seconds": "int", "nanos": "int"},
        "Empty": {},
        "ListValue": {"values": "list(dyn)"},
        "Struct": {"fields": "map(string, dyn)"},
        "Struct.FieldsEntry": {"key": "string", "value": "dyn"},
        "Timestamp": {"seconds": "int", "nanos": "int"},
        "Value": {
            "null_value": "int",
            "number_value": "double",
            "string_value": "string",
            "bool_value": "bool",
            "struct_value": "map(string, dyn)",
            "list_value": "list(dyn)",
        },
    }
    fields |= {name: {"value": of} for name, of in _WRAPPERS.items()}
    return {
        f"google.protobuf.{name}": {field: read_type(text) for field, text in own.items()}
        for name, own in fields.items()
    }
