"""The variables of expressions in policies and match conditions: `object`, `request`, `params`, `authorizer` and so on.

Source: k8s.io/apiserver/pkg/admission/plugin/cel (activation.go, condition.go).
"""

from __future__ import annotations

from typing import Any

from understudy.admission.chain import Attributes
from understudy.admission.objects import VersionedAttributes, admission_request
from understudy.cel.library.authorization import AuthorizerValue, ResourceCheck
from understudy.cel.values import Value
from understudy.kinds.context import Context
from understudy.machinery.auth.authorization import Authorizer
from understudy.machinery.auth.users import User
from understudy.machinery.serializer.json_fast import as_sent
from understudy.machinery.types import GroupVersionResource, Obj

Activation = dict[str, Value]

_NAMESPACE_METADATA = (
    "name",
    "generateName",
    "namespace",
    "uid",
    "resourceVersion",
    "generation",
    "creationTimestamp",
    "deletionTimestamp",
    "deletionGracePeriodSeconds",
    "labels",
    "annotations",
    "finalizers",
)


def new_activation(
    versioned: VersionedAttributes,
    resource: GroupVersionResource,
    *,
    params: Obj | None = None,
    namespace: Obj | None = None,
    authorizer: Authorizer | None = None,
) -> Activation:
    """Return the variables of expressions about a request (`newActivation`).

    resource    the resource that gives the request its version
    namespace   the stored namespace of the request, None outside of namespaces
    authorizer  None: the expressions may not ask for rights
    """
    attributes = versioned.attributes
    if versioned.values is None:
        versioned.values = cel_value(as_sent(versioned.object)), cel_value(as_sent(versioned.old_object))
    activation: Activation = {
        "object": versioned.values[0],
        "oldObject": versioned.values[1],
        "request": cel_value(admission_request(attributes, resource, versioned.kind)),
        "namespaceObject": cel_value(None if namespace is None else _namespace_object(namespace)),
        "params": cel_value(params),
    }
    if authorizer is not None:
        value = activation["authorizer"] = AuthorizerValue(authorizer, User.of_info(attributes.user))
        activation["authorizer.requestResource"] = ResourceCheck(
            value,
            attributes.point.group,
            attributes.point.resource,
            attributes.point.subresource,
            attributes.namespace,
            attributes.name,
        )
    return activation


def request_namespace(attributes: Attributes, ctx: Context) -> Obj | None:
    """Return the stored namespace of a request; None for one outside of namespaces, and for one of a namespace."""
    if not attributes.namespace or attributes.kind == ("", "v1", "Namespace"):
        return None
    return ctx.lookup("", "namespaces", "", attributes.namespace)


def _namespace_object(namespace: Obj) -> Obj:
    """Return the part of a namespace that expressions see (`CreateNamespaceObject`)."""
    fields = {key: namespace["metadata"][key] for key in _NAMESPACE_METADATA if key in namespace["metadata"]}
    return {"metadata": fields, **{key: namespace.get(key) or {} for key in ("spec", "status")}}


_PLAIN = frozenset((str, bool, int, float, type(None)))


def cel_value(value: Any) -> Value:
    """Return a JSON value as a value of CEL: maps, lists, strings and numbers without the notes of their Python
    classes."""
    kind = type(value)
    if kind in _PLAIN:
        return value
    if isinstance(value, dict):
        return {key: cel_value(item) for key, item in value.items()}
    if isinstance(value, list):
        return [cel_value(item) for item in value]
    return next(plain(value) for plain in (str, bool, int, float) if isinstance(value, plain))
