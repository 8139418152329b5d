"""The environments of expressions in admission policies and in match conditions of webhooks.

Source: `k8s.io/apiserver/pkg/admission/plugin/cel` (`object`, `request`, … and the composed `variables`).
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import lru_cache

from understudy.cel.checker.declarations import Declarations
from understudy.cel.checker.declared_types import DeclaredType
from understudy.cel.checker.environment import Environment, base_libraries, build_declarations
from understudy.cel.types import DYN, STRING, Type, list_of, map_of, struct, type_of
from understudy.machinery.releases.version import V1_32, Version

_VARIABLES = "kubernetes.variables"
_KIND = {"group": "string", "version": "string", "kind": "string"}
_RESOURCE = {"group": "string", "version": "string", "resource": "string"}
_MESSAGES: Mapping[str, Mapping[str, str | Type]] = {
    "kubernetes.GroupVersionKind": _KIND,
    "kubernetes.GroupVersionResource": _RESOURCE,
    "kubernetes.UserInfo": {
        "username": "string",
        "uid": "string",
        "groups": "list(string)",
        "extra": "map(string, list(string))",
    },
    "kubernetes.AdmissionRequest": {
        "kind": "kubernetes.GroupVersionKind",
        "resource": "kubernetes.GroupVersionResource",
        "subResource": "string",
        "requestKind": "kubernetes.GroupVersionKind",
        "requestResource": "kubernetes.GroupVersionResource",
        "requestSubResource": "string",
        "name": "string",
        "namespace": "string",
        "operation": "string",
        "userInfo": "kubernetes.UserInfo",
        "dryRun": "bool",
        "options": "dyn",
    },
    "kubernetes.NamespaceSpec": {"finalizers": "list(string)"},
    "kubernetes.NamespaceCondition": {
        "status": "string",
        "type": "string",
        "lastTransitionTime": "timestamp",
        "message": "string",
        "reason": "string",
    },
    "kubernetes.NamespaceStatus": {"conditions": "list(kubernetes.NamespaceCondition)", "phase": "string"},
    "kubernetes.NamespaceMetadata": {
        "name": "string",
        "generateName": "string",
        "namespace": "string",
        "labels": "map(string, string)",
        "annotations": "map(string, string)",
        "UID": "string",
        "creationTimestamp": "timestamp",
        "deletionGracePeriodSeconds": "int",
        "deletionTimestamp": "timestamp",
        "generation": "int",
        "resourceVersion": "string",
        "finalizers": "list(string)",
    },
    "kubernetes.Namespace": {
        "metadata": "kubernetes.NamespaceMetadata",
        "spec": "kubernetes.NamespaceSpec",
        "status": "kubernetes.NamespaceStatus",
    },
}
_ALWAYS = {
    "object": "dyn",
    "oldObject": "dyn",
    "namespaceObject": "kubernetes.Namespace",
    "request": "kubernetes.AdmissionRequest",
}
_AUTHORIZER = {
    "authorizer": "kubernetes.authorization.Authorizer",
    "authorizer.requestResource": "kubernetes.authorization.ResourceCheck",
}
_SIMPLE = frozenset(("any", "bool", "bytes", "double", "duration", "int", "null", "string", "timestamp", "uint"))

Composed = tuple[tuple[str, Type], ...]


class _OpenFields(dict[str, Type]):
    """The fields of a type that has a field of every name; those that are not declared have one type."""

    def __init__(self, declared: Mapping[str, Type], other: Type) -> None:
        super().__init__(declared)
        self._other = other

    def __missing__(self, name: str) -> Type:
        return self._other

    def __contains__(self, name: object) -> bool:
        return True


_OBJECT_FIELDS = _OpenFields({}, DYN)
# Nothing is assignable to an unknown field of a JSON patch, whose type has no name.
_JSON_PATCH_FIELDS = _OpenFields({"op": STRING, "path": STRING, "from": STRING, "value": DYN}, Type("unknown", ""))


class _PatchDeclarations(Declarations):
    """Declarations with the types that patches are made of: `Object`, `Object.spec` and so on for every path."""

    __slots__ = ()

    def variable(self, name: str) -> Type | None:
        declared = self.variables.get(name)
        return type_of(struct(name)) if declared is None and _is_object_type(name) else declared

    def fields_of(self, message: str) -> Mapping[str, Type] | None:
        if _is_object_type(message):
            return _OBJECT_FIELDS
        return _JSON_PATCH_FIELDS if message == "JSONPatch" else self.fields.get(message)


def _is_object_type(name: str) -> bool:
    """Report whether a name is that of a type of objects to be applied (`DynamicTypeResolver`)."""
    return name == "Object" or name.startswith("Object.")


def policy_environment(
    version: Version,
    *,
    returns: tuple[str, ...] = (),
    params: bool,
    authorizer: bool,
    composed: Composed | None = None,
    patch_types: bool = False,
    strict_cost: bool = True,
) -> Environment:
    """Return the environment of one expression of a policy or webhook.

    returns      the names of the types that the result may have; none of them: any type
    params       whether there is a variable `params`
    composed     the policy's own variables so far, by name and type; None: the policy cannot have any
    patch_types  whether there are types for patches, as in mutations: `Object{…}` and `JSONPatch{…}`
    strict_cost  whether the functions of the Kubernetes libraries have their own costs
    """
    return Environment(
        version,
        features=frozenset(),
        stored=False,
        declarations=_declarations(version, params, authorizer, composed, patch_types),
        result_error=lambda result: _result_error(result, returns, version),
        purpose=("policy", returns, params, authorizer, composed, patch_types),
        strict_cost=strict_cost,
    )


def type_checking_environment(
    version: Version, declared: Mapping[str, DeclaredType | None], composed: Composed
) -> Environment:
    """Return the environment in which the expressions of a policy are checked against types of objects.

    declared  {variable: type of its values, None if that is not known}
    composed  the policy's own variables so far
    """
    return Environment(
        version,
        features=frozenset(),
        stored=True,
        declarations=_typed_declarations(version, tuple(declared.items()), composed),
        result_error=lambda result: "",
        purpose=("type checking", *declared.items(), composed),
    )


@lru_cache(64)
def _typed_declarations(
    version: Version, declared: tuple[tuple[str, DeclaredType | None], ...], composed: Composed
) -> Declarations:
    messages: dict[str, Mapping[str, str | Type]] = {**_MESSAGES, _VARIABLES: dict(composed)}
    variables: dict[str, str | Type] = {**_ALWAYS, "authorizer": _AUTHORIZER["authorizer"], "variables": _VARIABLES}
    for name, type_ in declared:
        fields: dict[str, Mapping[str, Type]] = {}
        variables[name] = DYN if type_ is None else type_.named(f"{name}Type", fields, keywords=True)
        messages |= fields
    return build_declarations(version, base_libraries(version, True), variables, messages)


def _result_error(result: Type, returns: tuple[str, ...], version: Version) -> str:
    """Return the error for the type of a result, "" if it is one of `returns`; 1.31 does not name the type."""
    if not returns or (result.declared_name in returns and not result.nullable):
        return ""
    expected = returns[0] if len(returns) == 1 else f"one of [{' '.join(returns)}]"
    return f"must evaluate to {expected}" + (f" but got {result.declared_name}" if version >= V1_32 else "")


@lru_cache(64)
def _declarations(
    version: Version, params: bool, authorizer: bool, composed: Composed | None, patch_types: bool
) -> Declarations:
    """Return the declarations, cached because policies have many expressions with the same ones."""
    libraries = base_libraries(version, False)
    messages: dict[str, Mapping[str, str | Type]] = dict(_MESSAGES)
    variables = _ALWAYS | ({"params": "dyn"} if params else {}) | (_AUTHORIZER if authorizer else {})
    if composed is not None:
        messages[_VARIABLES] = dict(composed)
        variables |= {"variables": _VARIABLES}
    if not patch_types:
        return build_declarations(version, libraries, variables, messages)
    messages["JSONPatch"] = {}
    declared = build_declarations(version, (*libraries, "jsonpatch"), variables, messages)
    return _PatchDeclarations(declared.macros, declared.functions, declared.variables, declared.fields)


def variable_type(type_: Type | None) -> Type:
    """Return the type with which a policy's variable is declared, given the type of its expression.

    Simple types, and lists and maps of them, are kept; all other types become `dyn`.
    """
    if type_ is None or type_.nullable:
        return DYN
    if type_.kind in _SIMPLE:
        return type_
    parts = [variable_type(part) for part in type_.params]
    match type_.kind, parts:
        case "list", [element]:
            return list_of(element)
        case "map", [key, value]:
            return map_of(key, value)
    return DYN
