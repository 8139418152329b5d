"""The OpenAPI schemas of custom resources, made of those of their definitions (upstream:
`apiextensions-apiserver/pkg/controller/openapi/builder`)."""

from __future__ import annotations

from collections.abc import Iterable

from understudy.apiserver.endpoints.openapi import meta_kinds
from understudy.apiserver.endpoints.openapi.merging.values import references
from understudy.apiserver.extensions.definition import Definition
from understudy.apiserver.extensions.kinds import Defined
from understudy.apiserver.extensions.serving import Serving
from understudy.kinds.apiextensions import structural_schemas
from understudy.kinds.declarations.kind import Kind
from understudy.machinery.golang.json_writer import encode_sorted
from understudy.machinery.releases.version import V1_31, V1_33, ByRelease, Version
from understudy.machinery.typeinfo.go_types import Schemas
from understudy.machinery.types import GroupVersionKind, Obj

INFO: Obj = {"title": "Kubernetes CRD Swagger", "version": "v0.1.0"}
META = "io.k8s.apimachinery.pkg.apis.meta.v1"
_REFERENCE = "#/components/schemas/"
_CONVENTIONS = "https://git.k8s.io/community/contributors/devel/sig-architecture/api-conventions.md"
_CHILDREN = ("properties", "items", "additionalProperties", "allOf", "anyOf", "oneOf", "not")
_DROPPED = frozenset(("example", "externalDocs", "id", "$schema", *_CHILDREN))
_GVK = "x-kubernetes-group-version-kind"
# The order in which Go writes the fields of a schema; vendor extensions follow, sorted.
_FIELDS = (
    *("$ref", "description", "type", "nullable", "format", "title", "default", "maximum", "exclusiveMaximum"),
    *("minimum", "exclusiveMinimum", "maxLength", "minLength", "pattern", "maxItems", "minItems", "uniqueItems"),
    *("multipleOf", "enum", "maxProperties", "minProperties", "required", "items", "allOf", "oneOf", "anyOf", "not"),
    *("properties", "additionalProperties"),
)
_PLACES = {name: place for place, name in enumerate(_FIELDS)}
_INT_OR_STRING = [{"type": "integer"}, {"type": "string"}]
# Whether versions without selectable fields have an empty list of them.
_LISTS_NO_FIELDS = ByRelease({V1_33: False, V1_31: True})


def type_name(gvk: GroupVersionKind) -> str:
    """Return the OpenAPI name of a custom kind: `com.example.v1.Widget`."""
    return ".".join((*reversed(gvk.group.split(".")), gvk.version, gvk.kind))


def open_types(serving: Serving) -> set[str]:
    """Return the names of the kinds of definitions that keep any field: v2 says nothing of their fields."""
    return {
        type_name(kind.gvk(version))
        for definition, kinds, _ in serving.definitions.values()
        if definition.preserves_unknown_fields
        for version, kind in kinds.items()
    }


def source(defined: Iterable[Defined], version: str) -> bytes:
    """Return the parts of definitions that the document of one of their versions is made from."""
    definitions = [d.definition for d in defined]
    parts = [
        (d.obj["status"].get("acceptedNames"), d.versions[version], d.preserves_unknown_fields) for d in definitions
    ]
    return encode_sorted(parts)


def schemas(defined: Iterable[Defined], version: str, emulated_version: Version) -> Obj:
    """Return the schemas of a group-version of definitions, with all that they refer to, sorted by name."""
    out: Obj = {}
    for definition, kinds, _ in defined:
        kind = kinds[version]
        selectable = _selectable_fields(definition, version, emulated_version)
        out[type_name(kind.gvk(version))] = _in_order(_object_schema(definition, kind, version) | selectable)
        list_name = type_name(kind.gvk(version)._replace(kind=definition.list_kind))
        out[list_name] = _in_order(_list_schema(definition, kind, version) | selectable)
    core = Schemas.of(emulated_version).document("", "v1")
    names = [f"{META}.{name}" for name in ("ObjectMeta", "ListMeta", "DeleteOptions", "Status", "Patch")]
    if any("scale" in kinds[version].subresources for _, kinds, _ in defined):
        names.append("io.k8s.api.autoscaling.v1.Scale")
    _add(out, core, names)
    options = f"{META}.DeleteOptions"
    out[options] = {**out[options], _GVK: meta_kinds.known_to_clients("DeleteOptions", emulated_version)}
    return dict(sorted(out.items()))


def _add(out: Obj, document: Obj, names: Iterable[str]) -> None:
    """Add schemas of a document, and those that they refer to."""
    todo = list(names)
    while todo:
        name = todo.pop()
        if name not in out:
            out[name] = document[name]
            todo += [reference.removeprefix(_REFERENCE) for reference in references(document[name])]


def _in_order(schema: Obj) -> Obj:
    """Return a schema with its fields in the order in which Go writes them, its properties sorted."""
    out = {key: schema[key] for key in sorted(schema, key=lambda key: (_PLACES.get(key, len(_PLACES)), key))}
    if "properties" in out:
        out["properties"] = dict(sorted(out["properties"].items()))
    return out


def _object_schema(definition: Definition, kind: Kind, version: str) -> Obj:
    """Return the schema of the objects (`buildKubeNative`)."""
    declared = definition.schema(version)
    if definition.preserves_unknown_fields and not structural_schemas.is_structural(declared):
        declared = {}
    schema = published(declared) or {"type": "object"}
    if declared:
        schema = {**schema, "properties": {**schema.get("properties", {}), **_meta_properties("ObjectMeta")}}
    return {**schema, _GVK: [_named(kind.gvk(version))]}


def _list_schema(definition: Definition, kind: Kind, version: str) -> Obj:
    """Return the schema of the lists (`buildListSchema`)."""
    reference = {"$ref": f"{_REFERENCE}{type_name(kind.gvk(version))}"}
    items = {
        "description": f"List of {definition.plural}. More info: {_CONVENTIONS}",
        "type": "array",
        "items": reference,
    }
    return {
        "description": f"{definition.list_kind} is a list of {definition.kind}",
        "type": "object",
        "required": ["items"],
        "properties": {"items": items, **_meta_properties("ListMeta")},
        _GVK: [_named(kind.gvk(version)._replace(kind=definition.list_kind))],
    }


def _named(gvk: GroupVersionKind) -> Obj:
    """Return a kind as schemas name it."""
    return dict(sorted(gvk._asdict().items()))


def _meta_properties(metadata: str) -> Obj:
    """Return the properties that all objects, or all lists, have."""
    string = {"type": "string"}
    return {"apiVersion": string, "kind": string, "metadata": {"allOf": [{"$ref": f"{_REFERENCE}{META}.{metadata}"}]}}


def _selectable_fields(definition: Definition, version: str, emulated_version: Version) -> Obj:
    fields = definition.versions[version].get("selectableFields") or ()
    if not fields and not _LISTS_NO_FIELDS[emulated_version]:
        return {}
    paths = [{"fieldPath": field["jsonPath"].removeprefix(".")} for field in fields]
    return {"x-kubernetes-selectable-fields": paths}


def _int_or_string(schema: Obj) -> Obj:
    """Return the fields by which a schema allows an integer or a string: `anyOf`, or one more condition in front of
    `allOf` if it has an `anyOf` already; {} if it says so itself."""
    any_of, all_of = schema.get("anyOf"), schema.get("allOf") or []
    if any_of == _INT_OR_STRING or all_of[:1] == [{"anyOf": _INT_OR_STRING}]:
        return {}
    return {"allOf": [{"anyOf": _INT_OR_STRING}, *all_of]} if any_of else {"anyOf": _INT_OR_STRING}


def published(schema: Obj) -> Obj:
    """Return the schema of a definition as OpenAPI v3 has it (`Structural.ToKubeOpenAPI`)."""
    out = {key: value for key, value in schema.items() if key not in _DROPPED}
    for key in _CHILDREN:
        value = schema.get(key)
        if key == "properties" and value:
            out[key] = {name: published(part) for name, part in value.items()}
        elif isinstance(value, dict) and key != "properties":
            out[key] = published(value)
        elif isinstance(value, list) and value:
            out[key] = [published(item) for item in value]
        elif isinstance(value, bool):
            out[key] = value
    if schema.get("x-kubernetes-int-or-string"):
        out |= _int_or_string(out)
    if schema.get("x-kubernetes-embedded-resource"):
        out["properties"] = {**out.get("properties", {}), **_meta_properties("ObjectMeta")}
        required = out.get("required", [])
        out["required"] = [*required, *(name for name in ("kind", "apiVersion") if name not in required)]
    return _in_order(out)
