"""The environments of admission policies and of webhooks' match conditions.

Source: `k8s.io/apiserver/pkg/admission/plugin/cel` (`object`, `request`, … and the composed `variables`).
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import lru_cache

from understudy.admission.cel.checker.declarations import Declarations
from understudy.admission.cel.checker.environment import Environment, declarations, libraries
from understudy.admission.cel.types import DYN, Type, list_of, map_of
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


def policy_environment(
    release: Version, *, returns: tuple[str, ...] = (), params: bool, authorizer: bool, composed: Composed | None = None
) -> Environment:
    """What an expression may name, and which types it may have.

    returns   the names of the types; none of them: any type
    params    whether there are `params`
    composed  the policy's own variables so far; None: it has none at all
    """
    return Environment(
        release,
        features=frozenset(),
        stored=False,
        declarations=_declarations(release, params, authorizer, composed),
        purpose=("policy", returns, params, authorizer, composed),
        wrong_result=lambda found: _wrong_result(found, returns, release),
    )


def _wrong_result(found: Type, returns: tuple[str, ...], release: Version) -> str:
    if not returns or (found.declared_name in returns and not found.nullable):
        return ""
    expected = returns[0] if len(returns) == 1 else f"one of [{' '.join(returns)}]"
    return f"must evaluate to {expected}" + (f" but got {found.declared_name}" if release >= V1_32 else "")


@lru_cache(64)
def _declarations(release: Version, params: bool, authorizer: bool, composed: Composed | None) -> Declarations:
    variables = _ALWAYS | ({"params": "dyn"} if params else {}) | (_AUTHORIZER if authorizer else {})
    if composed is None:
        return declarations(release, libraries(release, False), variables, _MESSAGES)
    messages: dict[str, Mapping[str, str | Type]] = {**_MESSAGES, _VARIABLES: dict(composed)}
    return declarations(release, libraries(release, False), variables | {"variables": _VARIABLES}, messages)


def variable_type(found: Type | None) -> Type:
    """As which type a variable is seen that has this one: simple types, lists and maps of them; all else is dynamic."""
    if found is None or found.nullable:
        return DYN
    if found.kind in _SIMPLE:
        return found
    parts = [variable_type(part) for part in found.params]
    match found.kind, parts:
        case "list", [element]:
            return list_of(element)
        case "map", [key, value]:
            return map_of(key, value)
    return DYN
