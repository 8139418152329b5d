"""The document as which a definition is stored: JSON of apiextensions.k8s.io/v1beta1, in every release.

That version says once what all versions of the definition share, and keeps the webhook beside the strategy.
"""

from __future__ import annotations

from understudy.kinds.declarations.kind import StoredDocument
from understudy.machinery.types import Obj, nested_field

_API_VERSION = "apiextensions.k8s.io/v1beta1"
# {field of a version in v1: field of the spec in v1beta1, for what all versions have in common}
_HOISTED = {
    "subresources": "subresources",
    "schema": "validation",
    "additionalPrinterColumns": "additionalPrinterColumns",
    "selectableFields": "selectableFields",
}
_SPEC = (
    "group",
    "version",
    "names",
    "scope",
    "validation",
    "subresources",
    "versions",
    "additionalPrinterColumns",
    "selectableFields",
    "conversion",
    "preserveUnknownFields",
)


def _write(definition: Obj) -> Obj:
    """Return a definition in v1beta1."""
    spec = definition["spec"]
    first, *others = versions = [_renamed(version, "jsonPath", "JSONPath") for version in spec["versions"]]
    common = [
        name for name in _HOISTED if all((other.get(name) or None) == (first.get(name) or None) for other in others)
    ]
    hoisted = {_HOISTED[name]: first[name] for name in common if name in first}
    own = [{name: value for name, value in version.items() if name not in common} for version in versions]
    stored = {"preserveUnknownFields": False, **spec, "version": first["name"], "versions": own, **hoisted}
    webhook = nested_field(spec, "conversion", "webhook")
    if webhook is not None:
        client = {"webhookClientConfig": webhook["clientConfig"]} if webhook.get("clientConfig") else {}
        reviews = {"conversionReviewVersions": webhook["conversionReviewVersions"]}
        stored["conversion"] = {"strategy": spec["conversion"]["strategy"], **client, **reviews}
    kind = {"kind": "CustomResourceDefinition", "apiVersion": _API_VERSION}
    current_status = {"conditions": None, "acceptedNames": {"plural": "", "kind": ""}, **definition["status"]}
    return {**kind, **definition, "spec": {n: stored[n] for n in _SPEC if n in stored}, "status": current_status}


def _read(stored: Obj) -> Obj:
    """Return the definition in v1 of a document in v1beta1; one in another version itself."""
    if stored.get("apiVersion") != _API_VERSION:
        return stored
    spec = {"scope": "Namespaced", "preserveUnknownFields": True, **(stored.get("spec") or {})}
    shared = {name: spec.pop(hoisted) for name, hoisted in _HOISTED.items() if spec.get(hoisted) is not None}
    only = {"name": spec.pop("version", ""), "served": True, "storage": True}
    versions = spec.get("versions") or ([only] if only["name"] else [])
    spec["versions"] = [_renamed({**version, **shared}, "JSONPath", "jsonPath") for version in versions]
    if spec.get("conversion"):
        spec["conversion"] = _read_conversion(spec["conversion"])
    return {**stored, "apiVersion": "apiextensions.k8s.io/v1", "spec": spec}


def _read_conversion(conversion: Obj) -> Obj:
    """Return the conversion of a definition in v1."""
    client, reviews = conversion.get("webhookClientConfig"), conversion.get("conversionReviewVersions")
    if conversion.get("strategy") == "Webhook":
        reviews = reviews or ["v1beta1"]
    webhook = {} if client is None else {"clientConfig": client}
    webhook |= {} if reviews is None else {"conversionReviewVersions": reviews}
    return {"strategy": conversion.get("strategy", ""), **({"webhook": webhook} if webhook else {})}


def _renamed(version: Obj, old: str, new: str) -> Obj:
    """Return a version of a definition in whose columns a field has another name."""
    columns = version.get("additionalPrinterColumns")
    if not columns:
        return version
    renamed = [{new if name == old else name: value for name, value in column.items()} for column in columns]
    return {**version, "additionalPrinterColumns": renamed}


STORED_DEFINITION = StoredDocument(write=_write, read=_read)
