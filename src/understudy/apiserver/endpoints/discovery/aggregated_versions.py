"""Reads what aggregated API servers say of their versions, in both forms of discovery.

Upstream: `fetchFreshDiscoveryForService` of kube-aggregator.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import orjson

from understudy.machinery.golang.json_reader import DecodeError
from understudy.machinery.serializer.json import decode_value
from understudy.machinery.serializer.ordering import in_field_order
from understudy.machinery.typeinfo.go_types import Schemas, Struct
from understudy.machinery.types import Obj

ALL_VERSIONS = "k8s.io/api/apidiscovery/v2.APIGroupDiscoveryList"
ONE_VERSION = "k8s.io/apimachinery/pkg/apis/meta/v1.APIResourceList"
NO_KIND: Obj = {"group": "", "version": "", "kind": ""}


def stale(version: str) -> Obj:
    """Return the APIVersionDiscovery of a version whose server has not answered."""
    return {"version": version, "freshness": "Stale"}


def versions_of(body: bytes, schemas: Schemas) -> Mapping[tuple[str, str], Obj]:
    """Return the versions of an APIGroupDiscoveryList in JSON by group and version. Raises ValueError."""
    groups = _decoded(body, schemas.struct(ALL_VERSIONS))["items"] or ()
    return {
        (group["metadata"].get("name", ""), version["version"]): current(version["version"], version.get("resources"))
        for group in groups
        for version in group.get("versions") or ()
    }


def current(version: str, resources: Sequence[Obj] | None) -> Obj:
    """Return the APIVersionDiscovery of a version with some resources, all of which name kinds."""
    named = [_with_kinds(resource) for resource in resources or ()]
    return {"version": version, **({"resources": named} if named else {}), "freshness": "Current"}


def version_of(version: str, body: bytes, schemas: Schemas) -> Obj:
    """Return the version of an APIResourceList in JSON. Raises ValueError."""
    return current(version, _converted(_decoded(body, schemas.struct(ONE_VERSION))["resources"] or ()))


def _decoded(body: bytes, struct: Struct) -> Obj:
    """Return a document without fields that its type does not have. Raises ValueError."""
    try:
        decoded, _ = decode_value(orjson.loads(body), struct)
    except DecodeError as error:
        raise ValueError(str(error)) from None
    return in_field_order(decoded, struct)


def _with_kinds(resource: Obj) -> Obj:
    """Return an APIResourceDiscovery whose kinds are there, if empty: some clients cannot do without."""
    out = {"resource": resource["resource"], "responseKind": NO_KIND, **resource}
    if subresources := resource.get("subresources"):
        out["subresources"] = [
            {"subresource": each["subresource"], "responseKind": NO_KIND, **each} for each in subresources
        ]
    return out


def _converted(resources: Sequence[Obj]) -> list[Obj]:
    """Return APIResources as APIResourceDiscoveries, whose subresources are below them. Raises ValueError for a
    subresource of another scope. Upstream: `ConvertGroupVersionIntoToDiscovery`."""
    converted: dict[str, dict[str, Any]] = {}
    for resource in resources:
        if "/" not in resource["name"]:
            converted[resource["name"]] = _resource(resource)
    for resource in resources:
        name, slash, subresource = resource["name"].partition("/")
        if not slash:
            continue
        scope = _scope(resource)
        empty = {"resource": name, "responseKind": NO_KIND, "scope": scope, "singularResource": "", "verbs": None}
        parent = converted.setdefault(name, empty)
        if parent["scope"] != scope:
            raise ValueError(f"{name} and {resource['name']} have different scopes")
        parent.setdefault("subresources", []).append(
            {"subresource": subresource, "responseKind": _kind(resource), "verbs": resource["verbs"]}
        )
    return list(converted.values())


def _scope(resource: Obj) -> str:
    return "Namespaced" if resource["namespaced"] else "Cluster"


def _kind(resource: Obj) -> Obj:
    return {name: resource.get(name, "") for name in NO_KIND} if resource["kind"] else NO_KIND


def _resource(resource: Obj) -> dict[str, Any]:
    """Return an APIResource as an APIResourceDiscovery."""
    return {
        "resource": resource["name"],
        "responseKind": {name: resource.get(name, "") for name in NO_KIND},
        "scope": _scope(resource),
        "singularResource": resource["singularName"],
        "verbs": resource["verbs"],
        **{name: resource[name] for name in ("shortNames", "categories") if resource.get(name)},
    }
