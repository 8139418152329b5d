"""The Go types of a release, with their OpenAPI schemas: the base of decoding, pruning, merging and printing objects.

`schemas/RELEASE` describes each type twice: `types.json` as Go declares it (order of fields, pointers, omitempty,
protobuf numbers), the OpenAPI documents as clients see it (list types, merge keys, defaults). `Schemas.of(version)`
joins the two, type by type, when a type is first asked for.

    schemas = Schemas.of(V1_32)
    claim = schemas.kind("resource.k8s.io", "v1beta1", "ResourceClaim")     # a Struct
    claim.fields["spec"].type.fields["devices"]                             # a Field

A shape is a Struct, List, Map, Scalar or Custom. Types refer to each other in circles (JSONSchemaProps), so fields are
resolved lazily.
"""

from __future__ import annotations

from dataclasses import replace
from functools import cached_property, lru_cache
from typing import Any, TypeAlias

from understudy.machinery.releases.recorded import read_release_file, release_file
from understudy.machinery.releases.version import Version
from understudy.machinery.types import dataclass

INTERNAL = "__internal"


@dataclass(frozen=True, slots=True)
class Scalar:
    """A scalar type. `kind` is string, bool, int32, int64, float64, bytes ([]uint8) or interface (any JSON value); `go`
    is the name that error texts use."""

    kind: str
    go: str


@dataclass(frozen=True, slots=True)
class Custom:
    """A type with a special JSON form: Time, MicroTime, Quantity, IntOrString, RawExtension, FieldsV1, JSON,
    JSONSchemaPropsOr….

    `schema` is the type of the schemas that a JSONSchemaPropsOr… may hold, None for the others.
    """

    name: str
    go: str
    schema: Struct | None = None


@dataclass(frozen=True, slots=True)
class List:
    """A slice type."""

    element: Shape
    pointer: bool  # the elements are pointers, and null stays null
    named: str = ""  # the name of a named slice type

    @property
    def go(self) -> str:
        """Return the Go type as error texts name it: `[]v1.Container`."""
        return self.named or f"[]{'*' if self.pointer else ''}{self.element.go}"


@dataclass(frozen=True, slots=True)
class Map:
    """A map type."""

    key: Scalar
    value: Shape
    named: str = ""  # the name of a named map type

    @property
    def go(self) -> str:
        """Return the Go type as error texts name it: `map[string]string`."""
        return self.named or f"map[{self.key.go}]{self.value.go}"


class Struct:
    """A Go struct type. `name` has the full package path, `go` is short (`v1.Pod`)."""

    def __init__(self, schemas: Schemas, name: str) -> None:
        self.schemas = schemas
        self.name = name
        self.go = short_name(name)

    @property
    def type_name(self) -> str:
        """Return the name without its package: `Pod`."""
        return self.name.rpartition(".")[2]

    @cached_property
    def fields(self) -> dict[str, Field]:
        """Return the fields by JSON name, in Go's order; the fields of inlined structs are among them."""
        return {field.json: field for field in self.schemas._fields(self.name)}

    @cached_property
    def declared(self) -> list[Field]:
        """Return the fields as Go declares them: an inlined struct is one field, without a JSON name."""
        return self.schemas._fields(self.name, flat=False)

    @cached_property
    def embedding(self) -> dict[str, tuple[str, ...]]:
        """Return {JSON name: Go names of the inlined structs around the field, outermost first} for fields of these."""
        return {
            name: (inlined.go_name, *inlined.type.embedding.get(name, ()))
            for inlined in self.declared
            if not inlined.json and isinstance(inlined.type, Struct)
            for name in inlined.type.fields
        }

    @cached_property
    def openapi(self) -> dict[str, Any]:
        """Return the OpenAPI schema of the type; {} for internal types, which have none."""
        return self.schemas.openapi_of(self.name)

    @cached_property
    def raw_fields(self) -> dict[str, Shape]:
        """Return the shapes of fields with a RawExtension anywhere below, whose bytes are kept as they were sent."""
        return {name: field.type for name, field in self.fields.items() if _holds_raw_extension(field.type)}

    def __repr__(self) -> str:
        return f"Struct({self.name})"


Shape: TypeAlias = Scalar | Custom | List | Map | Struct


def _holds_raw_extension(top: Shape) -> bool:
    """Report whether a shape is a RawExtension or has one anywhere below."""
    seen: set[str] = set()
    todo = [top]
    while todo:
        shape = todo.pop()
        if isinstance(shape, Struct) and shape.name not in seen:
            seen.add(shape.name)
            todo += [field.type for field in shape.fields.values()]
        elif isinstance(shape, List | Map):
            todo.append(shape.element if isinstance(shape, List) else shape.value)
        elif isinstance(shape, Custom) and shape.name == "RawExtension":
            return True
    return False


@dataclass(frozen=True, slots=True)
class Field:
    """One field of a struct.

    `omitzero`: whether Go leaves out a zero struct or time, too. `number` is its protobuf field number (0: none).
    `openapi` is the schema of its property: `x-kubernetes-list-type`, `-list-map-keys`, `-map-type`,
    `-patch-merge-key`, `-patch-strategy`, `default`, …
    """

    go_name: str
    json: str
    type: Shape
    omitempty: bool
    omitzero: bool
    pointer: bool
    number: int
    openapi: dict[str, Any]

    @property
    def list_type(self) -> str:
        """Return atomic, set or map; atomic if the schema does not say."""
        return str(self.openapi.get("x-kubernetes-list-type", "atomic"))

    @property
    def map_keys(self) -> list[str]:
        """Return the keys that identify an element of a list of type map."""
        return list(self.openapi.get("x-kubernetes-list-map-keys", ()))

    @property
    def merge_key(self) -> str:
        """Return the `patchMergeKey` of strategic merge patches, "" if there is none."""
        return str(self.openapi.get("x-kubernetes-patch-merge-key", ""))

    @property
    def patch_strategies(self) -> list[str]:
        """Return the `patchStrategy` of strategic merge patches: merge, replace, retainKeys, or several of them."""
        text = self.openapi.get("x-kubernetes-patch-strategy", "")
        return text.split(",") if text else []


def short_name(name: str) -> str:
    """Return `v1.Pod` for `k8s.io/api/core/v1.Pod`; names without a package stay as they are."""
    return name.rpartition("/")[2]


def openapi_name(name: str) -> str:
    """Return `io.k8s.api.core.v1.Pod` for `k8s.io/api/core/v1.Pod`."""
    host, _, rest = name.partition("/")
    return ".".join(reversed(host.split("."))) + "." + rest.replace("/", ".")


class Schemas:
    """Every Go type of one release."""

    @staticmethod
    @lru_cache
    def of(version: Version) -> Schemas:
        """Return the types of a release, which are loaded once, when the first of them is asked for."""
        return Schemas(version)

    def __init__(self, version: Version) -> None:
        self.version = version
        self._structs: dict[str, Struct] = {}
        self._openapi: dict[str, dict[str, Any]] = {}
        self._read_documents: set[str] = set()

    @cached_property
    def _types(self) -> dict[str, Any]:
        """Return the description of the types, as in `types.json`."""
        types: dict[str, Any] = read_release_file(self.version, "types.json")
        return types

    @cached_property
    def _custom(self) -> frozenset[str]:
        """Return the names of the types that encode themselves."""
        return frozenset(self._types["custom"])

    def kind(self, group: str, version: str, kind: str) -> Struct:
        """Return the type of a kind; `version` may be `__internal`. Raises KeyError if the release does not know it."""
        return self.struct(self._types["kinds"][f"{group}/{version}/{kind}"])

    def has_kind(self, group: str, version: str, kind: str) -> bool:
        """Report whether the release knows a kind."""
        return f"{group}/{version}/{kind}" in self._types["kinds"]

    def versions(self, group: str, kind: str) -> list[str]:
        """Return the versions of a kind that the release knows, without `__internal`."""
        names = (name.split("/") for name in self._types["kinds"])
        return [version for of, version, name in names if (of, name) == (group, kind) and version != "__internal"]

    def struct(self, name: str) -> Struct:
        """Return a struct by its full Go name. Raises KeyError."""
        struct = self._structs.get(name)
        if struct is None:
            if name not in self._types["structs"]:
                raise KeyError(name)
            struct = self._structs[name] = Struct(self, name)
        return struct

    @cached_property
    def object_meta(self) -> Struct:
        """Return the type of metadata."""
        return self.struct("k8s.io/apimachinery/pkg/apis/meta/v1.ObjectMeta")

    @cached_property
    def uncreated_metadata(self) -> dict[str, Any]:
        """Return the metadata of an object that is not created yet: before 1.34 its creationTimestamp is null."""
        created = self.object_meta.fields["creationTimestamp"]
        return {} if created.omitzero else {created.json: None}

    def structs(self, prefix: str, type_name: str) -> list[str]:
        """Return the full names of the structs called `type_name` in the packages whose path begins with `prefix`."""
        return [name for name in self._types["structs"] if name.startswith(prefix) and name.endswith(f".{type_name}")]

    def document(self, group: str, version: str) -> dict[str, Any]:
        """Return the schemas of a group-version's OpenAPI document, by OpenAPI name."""
        path = f"apis__{group}__{version}" if group else f"api__{version}"
        schemas: dict[str, Any] = read_release_file(self.version, f"openapi/{path}.json")["components"]["schemas"]
        return schemas

    def openapi_of(self, name: str) -> dict[str, Any]:
        """Return the OpenAPI schema of a Go type, {} if none is published."""
        schema_name = openapi_name(name)
        if schema_name not in self._openapi:
            for group, version in self._documents_for(name):
                key = f"{group}/{version}"
                if key not in self._read_documents:
                    self._read_documents.add(key)
                    self._openapi.update(self.document(group, version))
        return self._openapi.get(schema_name, {})

    def _documents_for(self, name: str) -> list[tuple[str, str]]:
        """Return the group-versions whose OpenAPI documents may hold a type: those of its own package, or core/v1 for
        shared types."""
        package = name.rpartition(".")[0]
        documents = self._packages.get(package)
        if documents is None:
            return [] if package.startswith("k8s.io/kubernetes/") else [("", "v1")]
        return documents

    @cached_property
    def _packages(self) -> dict[str, list[tuple[str, str]]]:
        """Return {Go package: group-versions that have an OpenAPI document}."""
        published: dict[str, bool] = {}
        packages: dict[str, list[tuple[str, str]]] = {}
        for key, name in self._types["kinds"].items():
            group, version, _ = key.split("/")
            path = f"apis__{group}__{version}" if group else f"api__{version}"
            package = name.rpartition(".")[0]
            if path not in published:
                published[path] = release_file(self.version, f"openapi/{path}.json").is_file()
            if published[path] and not package.startswith("k8s.io/apimachinery/"):
                gv = (group, version)
                if gv not in packages.setdefault(package, []):
                    packages[package].append(gv)
        return packages

    def _fields(self, name: str, *, flat: bool = True) -> list[Field]:
        """Return the fields of a struct. `flat`: whether those of inlined structs are among them."""
        properties = self.openapi_of(name).get("properties", {})
        out: list[Field] = []
        for go_name, json, flags, type_name, number in self._types["structs"][name]:
            if "u" in flags or json == "-":
                continue
            if "i" in flags and flat:
                inlined = self.struct(type_name.removeprefix("*")).fields.values()
                out += [replace(field, openapi=properties.get(field.json, field.openapi)) for field in inlined]
                continue
            pointer = type_name.startswith("*")
            shape = self.shape(type_name.removeprefix("*"))
            omitempty, omitzero = "o" in flags, "z" in flags
            out.append(Field(go_name, json, shape, omitempty, omitzero, pointer, number, properties.get(json, {})))
        return out

    def shape(self, type_name: str) -> Shape:
        """Return the shape of a Go type that is not a pointer."""
        if type_name == "[]uint8":
            return Scalar("bytes", "[]uint8")
        if type_name.startswith("[]"):
            element = type_name[2:]
            return List(self.shape(element.removeprefix("*")), element.startswith("*"))
        if type_name.startswith("map["):
            key, _, value = type_name[4:].partition("]")
            key_shape = self.shape(key)
            if not isinstance(key_shape, Scalar):
                raise TypeError(f"a map with keys of {key}")
            return Map(key_shape, self.shape(value.removeprefix("*")))
        if type_name in self._custom:
            package, _, short = type_name.rpartition(".")
            schema = self.struct(f"{package}.JSONSchemaProps") if short.startswith("JSONSchemaProps") else None
            return Custom(short, short_name(type_name), schema)
        if type_name in self._types["structs"]:
            return self.struct(type_name)
        named = self._types["scalars"].get(type_name)
        if named is None:
            return Scalar("interface" if type_name.startswith("interface") else type_name, type_name)
        shape = self.shape(named)
        if isinstance(shape, Scalar):
            return Scalar(shape.kind, short_name(type_name))
        if isinstance(shape, (List, Map)):
            return replace(shape, named=short_name(type_name))
        return shape
