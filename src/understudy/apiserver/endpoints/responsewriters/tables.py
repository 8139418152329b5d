"""Tables and metadata-only forms of objects (meta.k8s.io), which clients ask for with `as=` in Accept.

Columns are those of the real server (`schemas/RELEASE/resources.json`); cells come from the `table_row` of a kind.
https://kubernetes.io/docs/reference/using-api/api-concepts/#receiving-resources-as-tables
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import lru_cache
from typing import Any

from understudy.apiserver.endpoints.negotiation import CUSTOM, LIST, LOG, OBJECT, UNTABLED, Endpoint, Output
from understudy.apiserver.endpoints.request import Request
from understudy.apiserver.extensions.fields.printer_columns import column_definitions
from understudy.kinds.common import printers
from understudy.kinds.declarations.codec import Codec
from understudy.kinds.declarations.kind import Kind
from understudy.machinery.errors import StatusError, bad_request, unknown_error
from understudy.machinery.golang.text import go_quote
from understudy.machinery.options import Query
from understudy.machinery.releases.version import V1_34, Version
from understudy.machinery.types import Obj

WITH_METADATA, WITH_OBJECT, WITH_NOTHING = "Metadata", "Object", "None"
PARTIAL, PARTIAL_LIST = "PartialObjectMetadata", "PartialObjectMetadataList"

# Subresources that are objects, but that the server does not convert to tables; kubectl then prints their fields.
UNTABLED_SUBRESOURCES = {
    ("", "pods", "ephemeralcontainers"),
    ("", "pods", "resize"),
    ("apiextensions.k8s.io", "customresourcedefinitions", "status"),
    ("apiregistration.k8s.io", "apiservices", "status"),
    ("certificates.k8s.io", "certificatesigningrequests", "approval"),
    ("resource.k8s.io", "devicetaintrules", "status"),
    ("resource.k8s.io", "podschedulingcontexts", "status"),
    ("resource.k8s.io", "resourceclaims", "status"),
    ("resource.k8s.io", "resourcepoolstatusrequests", "status"),
    ("scheduling.k8s.io", "compositepodgroups", "status"),
    ("scheduling.k8s.io", "podgroups", "status"),
}

# The real server's descriptions of the columns of a Scale.
SCALE_DESIRED = "replicas is the desired number of instances for the scaled object."
SCALE_AVAILABLE = "replicas is the actual number of observed instances of the scaled object."

CUSTOM_SCALE_DESIRED, CUSTOM_SCALE_AVAILABLE = "Number of desired replicas", "Number of actual replicas"

CREATED_AT = "Created At"  # the column of kinds without a printer
# The cells of kinds without a `table_row`, by column; other columns stay <none>.
ANY_KIND: Mapping[str, Callable[[Obj, float], Any]] = {
    "Name": lambda obj, now: printers.name(obj),
    "Age": printers.age,
    CREATED_AT: lambda obj, now: obj["metadata"].get("creationTimestamp"),
}


INITIAL_EVENTS_END = "k8s.io/initial-events-end"  # an annotation


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
    """Return a Table of objects. Raises StatusError (400) for an unknown includeObject.

    objects    in the internal form
    versioned  the same objects in the request's version, with kind and apiVersion
    metadata   metadata of the list; without it, that of the one object is taken
    columns    whether to include column definitions; a watch sends them with its first event only
    """
    make_row = row_maker(kind, version, request=request, form=form)
    definitions = kind.columns.get(version, [])
    if metadata is None:
        revision = objects[0]["metadata"].get("resourceVersion")
        metadata = {"resourceVersion": revision} if revision else {}
    rows = [make_row(obj, out) for obj, out in zip(objects, versioned, strict=True)]
    return {
        "kind": "Table",
        "apiVersion": f"meta.k8s.io/{form.target_version}",
        "metadata": metadata,
        "columnDefinitions": definitions if columns else None,
        "rows": rows or _no_rows(definitions),
    }


def row_maker(
    kind: Kind, version: str, *, request: Request, form: Output, cells: printers.Row | None = None
) -> Callable[[Obj, Obj], Obj]:
    """Return the function that makes the row of an object, given the two forms of it that `table` gets. Raises
    StatusError (400) for an unknown includeObject. `cells` makes its cells, if not the `table_row` of the kind."""
    include, meta_version, codec = include_object(request.query), form.target_version, kind.codec(version)
    cells = cells or kind.behavior.table_row or _any_row(kind.columns.get(version, []))
    now = request.clock.now()
    return lambda obj, out: {
        "cells": cells(obj, now),
        **_conditions(kind, obj),
        "object": _included(codec, out, include, meta_version, kind.release),
    }


def _conditions(kind: Kind, obj: Obj) -> Obj:
    """Return the entry `conditions` of a table row, {} if the object has none."""
    conditions = kind.behavior.row_conditions(obj)
    return {"conditions": conditions} if conditions else {}


def scale_table(kind: Kind, version: str, scale: Obj, *, request: Request, form: Output) -> Obj:
    """Return a Table of the Scale of an object of `kind`. Name and Age are the columns of the kind's own table.

    That of a custom resource is made of its JSON, which leaves out `spec.replicas` if it is 0.
    """
    desired = (scale.get("spec") or {}).get("replicas", 0)
    cells = [
        scale["metadata"]["name"],
        desired if kind.custom is None else desired or None,
        scale.get("status", {}).get("replicas", 0),
        printers.age(scale, request.clock.now()),
    ]
    revision = scale["metadata"].get("resourceVersion")
    return {
        "kind": "Table",
        "apiVersion": f"meta.k8s.io/{form.target_version}",
        "metadata": {"resourceVersion": revision} if revision else {},
        "columnDefinitions": _scale_columns(kind, version),
        "rows": [{"cells": cells, "object": _included_scale(scale, request, form.target_version)}],
    }


def _scale_columns(kind: Kind, version: str) -> list[Obj]:
    """Return the column definitions of a Scale's table."""
    if kind.custom is None:
        own = {column["name"]: column for column in kind.columns[version]}
        name, age, texts = {**own["Name"], "format": ""}, own["Age"], (SCALE_DESIRED, SCALE_AVAILABLE)
    else:
        name, age = column_definitions((), kind.release)
        texts = CUSTOM_SCALE_DESIRED, CUSTOM_SCALE_AVAILABLE
    counts = [
        {"name": title, "type": "integer", "format": "", "description": text, "priority": 0}
        for title, text in zip(("Desired", "Available"), texts, strict=True)
    ]
    return [name, *counts, age]


def endpoint(kind: Kind, subresource: str) -> Endpoint:
    """Return the forms in which an object or a subresource can be read. Reviews and bindings have no tables."""
    return CUSTOM if kind.custom is not None else _endpoint(kind, subresource)


@lru_cache(1024)
def _endpoint(kind: Kind, subresource: str) -> Endpoint:
    """Return the forms of `endpoint` for a built-in kind."""
    if subresource == "log":
        return LOG
    if kind.virtual and "get" not in kind.verbs:
        return UNTABLED
    if not subresource:
        return OBJECT
    readable = "get" in kind.subresources[subresource].verbs
    return OBJECT if readable and (kind.group, kind.resource, subresource) not in UNTABLED_SUBRESOURCES else UNTABLED


def list_endpoint(kind: Kind) -> Endpoint:
    """Return the forms in which a list or a watch can be read."""
    return LIST if kind.custom is None else CUSTOM


def include_object(query: Query) -> str:
    """Return the part of objects that rows include: "Metadata", "Object" or "None". Raises StatusError (400)."""
    value = query.get("includeObject") or WITH_METADATA
    if value not in (WITH_METADATA, WITH_OBJECT, WITH_NOTHING):
        raise bad_request(
            f"Unable to convert to Table as requested: includeObject: Invalid value: {go_quote(value)}: "
            "must be 'Metadata', 'Object', 'None', or empty"
        )
    return value


def _included(codec: Codec, obj: Obj, include: str, meta_version: str, version: Version) -> Obj | None:
    """Return the part of an object that a row includes: since 1.34 always the metadata of the bookmark that ends the
    initial events of a watch."""
    if include == WITH_NOTHING and not (version >= V1_34 and _ends_initial_events(obj)):
        return None
    return codec.in_order(obj) if include == WITH_OBJECT else partial(codec.metadata(obj), meta_version)


def _included_scale(scale: Obj, request: Request, meta_version: str) -> Obj | None:
    """Return the part of a Scale that a row includes."""
    include = include_object(request.query)
    if include == WITH_NOTHING:
        return None
    return scale if include == WITH_OBJECT else partial(scale["metadata"], meta_version)


def _ends_initial_events(obj: Obj) -> bool:
    """Report whether an object is the bookmark that ends the initial events of a watch (KEP-3157)."""
    return (obj["metadata"].get("annotations") or {}).get(INITIAL_EVENTS_END) == "true"


def _any_row(columns: Sequence[Obj]) -> printers.Row:
    """Return the function that makes the row of a kind without a `table_row`."""
    cells = [ANY_KIND.get(column["name"], _none) for column in columns]
    return lambda obj, now: [cell(obj, now) for cell in cells]


def _no_rows(columns: Sequence[Obj]) -> list[Obj] | None:
    """Return the rows of an empty table: null for kinds without a printer, as in the real server."""
    return None if any(column["name"] == CREATED_AT for column in columns) else []


def _none(obj: Obj, now: float) -> str:
    """Return the cell of a column without a value."""
    return printers.NONE


def partial(metadata: Obj, version: str) -> Obj:
    """Return the PartialObjectMetadata of an object, given its metadata."""
    return {"kind": PARTIAL, "apiVersion": f"meta.k8s.io/{version}", "metadata": metadata}


def partial_list(items_metadata: Sequence[Obj], version: str, metadata: Obj) -> Obj:
    """Return the PartialObjectMetadataList of objects, given their metadata; without objects its items are null, as in
    the real server."""
    items = [partial(item, version) for item in items_metadata]
    return {
        "kind": PARTIAL_LIST,
        "apiVersion": f"meta.k8s.io/{version}",
        "metadata": metadata,
        "items": items or None,
    }


def check_conversion(form: Output, kind: Kind, *, listing: bool) -> None:
    """Raise StatusError (406) if a client asks for the list form of one object, or the other way round.

    The message names the Go type of the kind's internal form.
    """
    if form.target != (PARTIAL if listing else PARTIAL_LIST):
        return
    if kind.custom is not None and not listing:
        raise unknown_error("content is not a list")
    go_type = kind.codec(kind.versions[0]).go_type + ("List" if listing else "")
    raise _wrong_form(form, f"a list ({go_type})" if listing else f"not a list ({go_type})")


def check_scale_conversion(form: Output, kind: Kind) -> None:
    """Raise StatusError (406) if a client asks for the list form of the Scale of an object."""
    if form.target == PARTIAL_LIST:
        raise _wrong_form(form, f"not a list ({'*v1.Scale' if kind.custom is not None else '*autoscaling.Scale'})")


def check_unstored(form: Output, body: Obj) -> None:
    """Raise StatusError (406) if a client asks for the list form of an object that is not stored, such as a review."""
    if form.target == PARTIAL_LIST:
        raise _wrong_form(form, f"not a list (*{body['apiVersion'].split('.')[0]}.{body['kind']})")


def check_stream(form: Output) -> None:
    """Raise StatusError (406, 500) if a client asks for another form of what is no object, but a stream of bytes."""
    if form.target == PARTIAL_LIST:
        raise _wrong_form(form, "not a list (*rest.LocationStreamer)")
    if form.target:
        raise unknown_error("object does not implement the Object interfaces")


def _wrong_form(form: Output, what: str) -> StatusError:
    message = f"you requested {form.target}, but the requested object is {what}"
    return StatusError(406, "NotAcceptable", message)
