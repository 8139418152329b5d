"""The environments of expressions: which libraries, variables and types a release offers to device selectors.

Sources: `k8s.io/dynamic-resource-allocation/cel` (the `device` variable) and `k8s.io/apiserver/pkg/cel/environment`
(the libraries by the version that introduced them). New expressions may use what the release *before* knew
(`NewExpressions`), so that a rollback finds no expression it cannot read; stored ones may use everything that the
release knows (`StoredExpressions`).
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import field, replace
from functools import cache

from understudy.cel.checker.declarations import Declarations, Function, read_functions, read_type
from understudy.cel.cost.device_sizes import estimate_size
from understudy.cel.cost.estimate import SizeEstimator, unlimited
from understudy.cel.parser.extension_macros import LIST_MACROS, TWO_VARIABLE_MACROS
from understudy.cel.parser.macros import BINDINGS_MACROS, OPTIONAL_MACROS, STANDARD_MACROS, Macro, MacroKey
from understudy.cel.types import DYN, TYPE, Type, opaque, optional_of, struct, type_of, wrapper
from understudy.machinery.releases.features import DRA_CONSUMABLE_CAPACITY, DRA_LIST_TYPE_ATTRIBUTES
from understudy.machinery.releases.version import V1_31, V1_32, V1_33, V1_34, V1_36, V1_37, Version
from understudy.machinery.types import dataclass

DEVICE = "kubernetes.DRADevice"

# The libraries with the release that introduced each, newest first: expressions may use them once older releases can
# read them. Overloads are merged from the last library to the first.
_LIBRARIES: tuple[tuple[str, Version], ...] = (
    ("includes", V1_37),
    ("list_extensions", V1_34),
    ("semver_normalization", V1_33),
    ("semver", V1_33),
    ("two_variable_comprehensions", V1_32),
    ("authorization_selectors", Version(1, 31)),
    ("named_formats", Version(1, 31)),
    ("network", Version(1, 30)),
    ("sets", Version(1, 29)),
    ("strings", Version(1, 29)),
    ("quantity", Version(1, 28)),
    ("optional", Version(1, 28)),
    ("authorization", Version(1, 27)),
    ("lists", Version(1, 0)),
    ("regex", Version(1, 0)),
    ("url", Version(1, 0)),
    ("time", Version(1, 0)),
    ("standard", Version(1, 0)),
)
# The libraries that came with a release's cel-go, and the release that lost each: every expression may use them.
_CEL_GO_LIBRARIES: tuple[tuple[str, Version, Version | None], ...] = (
    ("optional_lists", V1_33, None),
    ("integer_durations", V1_31, V1_37),
)
# The libraries that device selectors have in every release.
_DEVICE_LIBRARIES = ("bindings", "semver")
_MACROS: Mapping[str, Mapping[MacroKey, Macro]] = {
    "standard": STANDARD_MACROS,
    "optional": OPTIONAL_MACROS,
    "two_variable_comprehensions": TWO_VARIABLE_MACROS,
    "list_extensions": LIST_MACROS,
    "bindings": BINDINGS_MACROS,
}


def _check_result_of(*kinds: str) -> Callable[[Type], str]:
    """Return the check of a device selector's result: it returns the error for a type, "" if the kind is allowed."""

    def result_error(result: Type) -> str:
        if result.kind in kinds and not result.nullable:
            return ""
        return f"must evaluate to bool or the unknown type, not {result.declared_name}"

    return result_error


@dataclass(frozen=True)
class Environment:
    """The names, functions and result types that expressions are compiled with; two are equal if they accept the same.

    `purpose` distinguishes environments that differ in declarations, results or sizes; () is that of device selectors.
    `result_error` returns the error for the type of a result, "" if an expression may have it. `estimate_size` returns
    the sizes of the parts of variables, for the estimate of the cost. Unless `strict_cost`, functions of the Kubernetes
    libraries cost 1 when they are evaluated.
    """

    version: Version
    features: frozenset[str]
    stored: bool
    declarations: Declarations = field(repr=False, compare=False, hash=False)
    result_error: Callable[[Type], str] = field(repr=False, compare=False, hash=False)
    estimate_size: SizeEstimator = field(default=unlimited, repr=False, compare=False, hash=False)
    purpose: tuple[object, ...] = ()
    strict_cost: bool = True

    @property
    def counts_cost(self) -> bool:
        """Report whether every evaluation counts its cost: those about devices do where it may exceed the limit."""
        return self.purpose not in ((), _DERIVED_ATTRIBUTE)

    @property
    def empty_column(self) -> int:
        """Return the column at which errors show an empty expression.

        From 1.32 on it is -1, the column before the first.
        """
        return -1 if self.version >= V1_32 else 0


@cache
def device_environment(
    version: Version, *, features: frozenset[str] = frozenset(), stored: bool = False
) -> Environment:
    """Return the environment of device selectors in a release.

    `features` names the enabled feature gates that matter to selectors. `stored` is for an expression that the object
    already had before the update being validated: it may use everything that the release knows.
    """

    def has(gate: str, since: Version) -> bool:
        """Report whether an expression may use what a gate guards: stored ones may, whether or not it is on."""
        return gate in features or (stored and since <= version)

    attribute = "dyn" if lists_allowed(version, features, stored=stored) else "any"
    device = {
        "driver": "string",
        "attributes": f"map(string, map(string, {attribute}))",
        "capacity": "map(string, map(string, kubernetes.Quantity))",
    }
    if has(DRA_CONSUMABLE_CAPACITY, V1_34):
        device["allowMultipleAllocations"] = "bool"
    libraries = base_libraries(version, stored) + _DEVICE_LIBRARIES
    if has(DRA_LIST_TYPE_ATTRIBUTES, V1_36):
        libraries += ("includes",) if version >= V1_37 else ("device_includes",)
    declared = build_declarations(version, libraries, {"device": DEVICE}, {DEVICE: device})
    results = {"bool", attribute} if version >= V1_37 else {"bool", "any", attribute}
    return Environment(version, features, stored, declared, _check_result_of(*results), estimate_size)


def derived_attribute_environment(
    version: Version, *, features: frozenset[str] = frozenset(), stored: bool = False
) -> Environment:
    """Return the environment of derived attributes, which results in an attribute: a scalar, or a list where allowed.

    The arguments are those of `device_environment`.
    """
    selectors = device_environment(version, features=features, stored=stored)
    lists = lists_allowed(version, features, stored=stored)
    expected = "a primitive scalar (string, integer, boolean, semver)" + " or a list of these scalars" * lists

    def result_error(result: Type) -> str:
        if _is_scalar(result) or (lists and result.kind == "list" and _is_scalar(result.params[0])):
            return ""
        return f"must evaluate to {expected}, not {result.declared_name}"

    return replace(selectors, result_error=result_error, purpose=_DERIVED_ATTRIBUTE)


def lists_allowed(version: Version, features: frozenset[str], *, stored: bool) -> bool:
    """Report whether attributes of devices may be lists: from 1.37 on stored expressions may always say so."""
    return DRA_LIST_TYPE_ATTRIBUTES in features or (stored and version >= V1_37)


_DERIVED_ATTRIBUTE = ("derived attribute",)


def _is_scalar(result: Type) -> bool:
    return not result.nullable and result.declared_name in _SCALARS


_SCALARS = ("bool", "int", "string", "google.protobuf.Any", "dyn", "kubernetes.Semver")


def base_libraries(version: Version, stored: bool) -> tuple[str, ...]:
    """Return the names of the libraries in every environment of a release (`MustBaseEnvSet`)."""
    known = version if stored else version.previous
    names = tuple(name for name, since in reversed(_LIBRARIES) if since <= known)
    return names + tuple(
        name for name, since, lost in _CEL_GO_LIBRARIES if since <= version and (lost is None or version < lost)
    )


def build_declarations(
    version: Version,
    libraries: tuple[str, ...],
    variables: Mapping[str, str | Type],
    messages: Mapping[str, Mapping[str, str | Type]],
) -> Declarations:
    """Return the declarations of libraries, variables and messages; types may be given in their notation."""
    fields = {name: {key: _type(of) for key, of in own.items()} for name, own in messages.items()}
    # Up to 1.31 the name of a message type is declared as a value of that type.
    names = {name: type_of(struct(name)) if version >= V1_32 else struct(name) for name in messages}
    own = {name: _type(of) for name, of in variables.items()}
    macros, functions = _contents(tuple(dict.fromkeys(libraries)))
    return Declarations(
        macros, functions, {**own, **names, **_type_names(version >= V1_37)}, {**_message_fields(), **fields}
    )


def _type(of: str | Type) -> Type:
    return read_type(of) if isinstance(of, str) else of


@cache
def _contents(libraries: tuple[str, ...]) -> tuple[Mapping[MacroKey, Macro], Mapping[str, Function]]:
    """Return the macros and the functions of libraries."""
    macros = {key: macro for name in libraries for key, macro in _MACROS.get(name, {}).items()}
    return macros, read_functions(libraries)


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
def _type_names(optional_of_dyn: bool) -> Mapping[str, Type]:
    """Return the types of the names of types, which are values, too.

    optional_of_dyn  whether the type of optionals is declared as that of optionals of `dyn`
    """
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
    names["optional_type"] = type_of(optional_of(DYN) if optional_of_dyn else opaque("optional_type"))
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
    """Return the types of the fields of the well-known messages."""
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
