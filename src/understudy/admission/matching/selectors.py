"""Selectors of namespaces and objects, as policies and webhooks have them.

Source: k8s.io/apiserver/pkg/admission/plugin/webhook/predicates/{namespace,object}.
"""

from __future__ import annotations

from understudy.admission.chain import Attributes, Operation
from understudy.kinds.context import Context
from understudy.machinery import errors
from understudy.machinery.selectors.labels import label_selector_matches
from understudy.machinery.types import Obj


def namespace_matches(selector: Obj, attributes: Attributes, ctx: Context) -> bool:
    """Report whether a selector includes the namespace of a request. Requests outside of namespaces always match.

    Raises 404 if the namespace does not exist.
    """
    if not attributes.namespace and attributes.point.resource != "namespaces":
        return True
    return not selector or label_selector_matches(selector, _namespace_labels(attributes, ctx))


def _namespace_labels(attributes: Attributes, ctx: Context) -> dict[str, str]:
    """Return the labels of the namespace of a request; of a namespace that is written, the new ones."""
    point, name = attributes.point, attributes.namespace
    written = point.resource == "namespaces" and point.operation in (Operation.CREATE, Operation.UPDATE)
    if written and not point.subresource:
        return _labels(attributes.new)
    namespace = ctx.lookup("", "namespaces", "", name)
    if namespace is None:
        raise errors.not_found("", "namespaces", name)
    return _labels(namespace)


def object_matches(selector: Obj, attributes: Attributes) -> bool:
    """Report whether a selector includes the new or the old object of a request."""
    if not selector:
        return True
    objects = (attributes.object, attributes.old_object)
    return any(
        obj is not None and "metadata" in obj and label_selector_matches(selector, _labels(obj)) for obj in objects
    )


def _labels(obj: Obj) -> dict[str, str]:
    labels: dict[str, str] = obj["metadata"].get("labels") or {}
    return labels
