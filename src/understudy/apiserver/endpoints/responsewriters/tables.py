"""Objects as tables and as metadata only (meta.k8s.io), which clients ask for with `as=` in Accept.

Columns are those of the real server (`schemas/RELEASE/resources.json`); cells come from the `row` of a kind's rules.
https://kubernetes.io/docs/reference/using-api/api-concepts/#receiving-resources-as-tables
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import lru_cache
from typing import Any

from understudy.apiserver.endpoints.negotiation import LOG, OBJECT, UNTABLED, Endpoint, Output
from understudy.apiserver.endpoints.request import Request
from understudy.apiserver.kinds import printers
from understudy.apiserver.registry.kind import Kind
from understudy.machinery.errors import StatusError, bad_request
from understudy.machinery.golang.text import go_quote
from understudy.machinery.options import Query
from understudy.machinery.typeinfo.schema import INTERNAL
from understudy.machinery.types import Obj

WITH_METADATA, WITH_OBJECT, WITH_NOTHING = "Metadata", "Object", "None"
PARTIAL, PARTIAL_LIST = "PartialObjectMetadata", "PartialObjectMetadataList"

# Subresources that are objects, but of which no table can be had; kubectl then prints what it finds in them.
UNTABLED_SUBRESOURCES = {
    ("", "pods", "ephemeralcontainers"),
    ("apiextensions.k8s.io", "customresourcedefinitions", "status"),
    ("apiregistration.k8s.io", "apiservices", "status"),
    ("certificates.k8s.io", "certificatesigningrequests", "approval"),
    ("resource.k8s.io", "podschedulingcontexts", "status"),
    ("resource.k8s.io", "resourceclaims", "status"),
}

# As the real server describes the columns of a Scale.
SCALE_DESIRED = "replicas is the desired number of instances for the scaled object."
SCALE_AVAILABLE = "replicas is the actual number of observed instances of the scaled object."

CREATED_AT = "Created At"  # the column of kinds without a printer
# Cells of a kind without a row of its own, by column; other columns stay <none>.
ANY_KIND: Mapping[str, Callable[[Obj, float], Any]] = {
    "Name": lambda obj, now: printers.name(obj),
    "Age": printers.age,
    CREATED_AT: lambda obj, now: obj["metadata"].get("creationTimestamp"),
}


def table(
    kind: Kind,
    version: str,
    objects: Sequence[Obj],
    *,
    versioned: Sequence[Obj],
    request: Request,
    form: Output,
    metadata: Obj | None = None,
    columns: bool = True,
) -> Obj:
    """A Table of `objects`, which are in the internal form; `versioned` are the same in the request's version, with
    kind and apiVersion. metadata: the list's; without it, that of the one object. columns: a watch sends them with
    its first event only. Raises StatusError (400) for an unknown includeObject."""
    include = include_object(request.query)
    definitions = kind.columns.get(version, [])
    row, now = kind.behavior.table_row or _any_row(definitions), request.clock.now()
    if metadata is None:
        found = objects[0]["metadata"].get("resourceVersion")
        metadata = {"resourceVersion": found} if found else {}
    rows = [
        {"cells": row(obj, now), **_conditions(kind, obj), "object": _included(shown, include, form.target_version)}
        for obj, shown in zip(objects, versioned, strict=True)
    ]
    return {
        "kind": "Table",
        "apiVersion": f"meta.k8s.io/{form.target_version}",
        "metadata": metadata,
        "columnDefinitions": definitions if columns else None,
        "rows": rows or _no_rows(definitions),
    }


def _conditions(kind: Kind, obj: Obj) -> Obj:
    found = kind.behavior.row_conditions(obj)
    return {"conditions": found} if found else {}


def scale_table(kind: Kind, version: str, scale: Obj, *, request: Request, form: Output) -> Obj:
    """A Table of the Scale of an object of `kind`. Name and age are those of the kind's own table."""
    own = {column["name"]: column for column in kind.columns[version]}
    wanted = {"type": "integer", "format": "", "description": SCALE_DESIRED, "priority": 0}
    columns = [
        {**own["Name"], "format": ""},
        {"name": "Desired", **wanted},
        {"name": "Available", **wanted, "description": SCALE_AVAILABLE},
        own["Age"],
    ]
    cells = [
        scale["metadata"]["name"],
        scale.get("spec", {}).get("replicas", 0),
        scale.get("status", {}).get("replicas", 0),
        printers.age(scale, request.clock.now()),
    ]
    found = scale["metadata"].get("resourceVersion")
    return {
        "kind": "Table",
        "apiVersion": f"meta.k8s.io/{form.target_version}",
        "metadata": {"resourceVersion": found} if found else {},
        "columnDefinitions": columns,
        "rows": [{"cells": cells, "object": _included(scale, include_object(request.query), form.target_version)}],
    }


@lru_cache(1024)
def endpoint(kind: Kind, subresource: str) -> Endpoint:
    """What can be asked of an object, or of a subresource, in Accept. Reviews and bindings come as they are."""
    if subresource == "log":
        return LOG
    if kind.virtual and "get" not in kind.verbs:
        return UNTABLED
    if not subresource:
        return OBJECT
    readable = "get" in kind.subresources[subresource].verbs
    return OBJECT if readable and (kind.group, kind.resource, subresource) not in UNTABLED_SUBRESOURCES else UNTABLED


def include_object(query: Query) -> str:
    """What rows hold beside their cells: Metadata, Object or None. Raises StatusError (400)."""
    asked = query.get("includeObject") or WITH_METADATA
    if asked not in (WITH_METADATA, WITH_OBJECT, WITH_NOTHING):
        raise bad_request(
            f"Unable to convert to Table as requested: includeObject: Invalid value: {go_quote(asked)}: "
            "must be 'Metadata', 'Object', 'None', or empty"
        )
    return asked


def _included(obj: Obj, include: str, version: str) -> Obj | None:
    if include == WITH_NOTHING:
        return None
    return obj if include == WITH_OBJECT else partial(obj, version)


def _any_row(columns: Sequence[Obj]) -> printers.Row:
    cells = [ANY_KIND.get(column["name"], _none) for column in columns]
    return lambda obj, now: [cell(obj, now) for cell in cells]


def _no_rows(columns: Sequence[Obj]) -> list[Obj] | None:
    """Of kinds that have no printer of their own, the real server says null."""
    return None if any(column["name"] == CREATED_AT for column in columns) else []


def _none(obj: Obj, now: float) -> str:
    return printers.NONE


def partial(obj: Obj, version: str) -> Obj:
    """The object's metadata alone."""
    return {"kind": PARTIAL, "apiVersion": f"meta.k8s.io/{version}", "metadata": obj["metadata"]}


def partial_list(objects: Sequence[Obj], version: str, metadata: Obj) -> Obj:
    """The metadata of every object; of none, the real server says null."""
    items = [partial(obj, version) for obj in objects]
    return {
        "kind": PARTIAL_LIST,
        "apiVersion": f"meta.k8s.io/{version}",
        "metadata": metadata,
        "items": items or None,
    }


def check_conversion(form: Output, kind: Kind, *, listing: bool) -> None:
    """Raises StatusError (406) where an object's form is wanted of a list, or a list's of an object. The text names
    the Go type of the kind's internal form."""
    if form.target != (PARTIAL if listing else PARTIAL_LIST):
        return
    go_type = f"*{kind.struct(INTERNAL).go}" + ("List" if listing else "")
    what = f"a list ({go_type})" if listing else f"not a list ({go_type})"
    message = f"you requested {form.target}, but the requested object is {what}"
    raise StatusError(406, "NotAcceptable", message)
