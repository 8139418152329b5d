"""The parameters of policies: objects that a binding names or selects.

Source: `CollectParams` in k8s.io/apiserver/pkg/admission/plugin/policy/generic/policy_dispatcher.go.
"""

from __future__ import annotations

from understudy.admission.objects import ObjectInterfaces, RestMapping
from understudy.machinery.selectors.labels import label_selector_matches
from understudy.machinery.types import GroupVersionKind, Obj, split_api_version


class ConfigurationError(Exception):
    """A policy or binding that cannot be used for a request; the text is the real server's."""


def param_mapping(policy: Obj, objects: ObjectInterfaces) -> RestMapping | None:
    """Return the resource of a policy's parameters, None if it has none.

    Raises ConfigurationError for a kind that is not served.
    """
    param_kind = policy["spec"].get("paramKind")
    if param_kind is None:
        return None
    group, version = split_api_version(param_kind["apiVersion"])
    mapping = objects.rest_mapping(GroupVersionKind(group, version, param_kind["kind"]))
    if mapping is None:
        name = f"{group}/{version}, Kind={param_kind['kind']}"
        raise ConfigurationError(f"failed to find resource referenced by paramKind: '{name}'")
    return mapping


def collect_params(
    mapping: RestMapping | None, param_ref: Obj | None, namespace: str, objects: ObjectInterfaces
) -> list[Obj | None]:
    """Return the parameters to evaluate a policy with, one after the other; [None] without parameters.

    mapping    the resource of the policy's parameters
    namespace  that of the request
    Raises ConfigurationError.
    """
    if mapping is None or param_ref is None:
        return [None]
    stated = param_ref.get("namespace") or ""
    if not mapping.namespaced:
        if stated:
            raise ConfigurationError("paramRef.namespace must not be provided for a cluster-scoped `paramKind`")
        namespace = ""
    elif stated:
        namespace = stated
    elif not namespace:
        text = "cannot use namespaced paramRef in policy binding that matches cluster-scoped resources"
        raise ConfigurationError(text)
    params = _find(mapping, param_ref, namespace, objects)
    if not params and param_ref.get("parameterNotFoundAction") == "Deny":
        raise ConfigurationError("no params found for policy binding with `Deny` parameterNotFoundAction")
    return params


def _find(mapping: RestMapping, param_ref: Obj, namespace: str, objects: ObjectInterfaces) -> list[Obj | None]:
    if param_ref.get("name"):
        named = objects.get(mapping, namespace, param_ref["name"])
        return [] if named is None else [named]
    selector = param_ref["selector"]
    return [
        obj
        for obj in objects.list(mapping, namespace)
        if label_selector_matches(selector, obj["metadata"].get("labels") or {})
    ]
