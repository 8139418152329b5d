"""The `paths` of an OpenAPI v3 document, made from the kinds of a group-version.

They hold the parts that clients look for: the operations of each resource with their kind, action, parameters, bodies
and answers. kubectl finds kinds in them (explain), and whether PATCH takes fieldValidation and dryRun (apply).
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping
from operator import itemgetter
from typing import NamedTuple

from understudy.apiserver.endpoints.negotiation import CUSTOM_PATCHES, JSON, MEDIA, PATCHES, STREAMS, YAML
from understudy.apiserver.endpoints.requestinfo import group_version_path, resource_path
from understudy.apiserver.registry.kind import Kind, Subresource
from understudy.machinery.releases.version import V1_32, V1_36
from understudy.machinery.types import GroupVersionKind, Obj

META = "io.k8s.apimachinery.pkg.apis.meta.v1"
DELETE_OPTIONS, STATUS = f"{META}.DeleteOptions", f"{META}.Status"
UNDESCRIBED = ("attach", "exec", "log", "portforward", "proxy")  # streams and text

LIST_PARAMETERS = {
    "allowWatchBookmarks": "boolean",
    "continue": "string",
    "fieldSelector": "string",
    "labelSelector": "string",
    "limit": "integer",
    "resourceVersion": "string",
    "resourceVersionMatch": "string",
    "sendInitialEvents": "boolean",
    "shardSelector": "string",
    "timeoutSeconds": "integer",
    "watch": "boolean",
}
WRITE_PARAMETERS = {"dryRun": "string", "fieldManager": "string", "fieldValidation": "string"}
DELETE_PARAMETERS = {
    "dryRun": "string",
    "gracePeriodSeconds": "integer",
    "ignoreStoreReadErrorWithClusterBreakingPotential": "boolean",
    "orphanDependents": "boolean",
    "propagationPolicy": "string",
}
COLLECTION_PARAMETERS = {
    **{name: kind for name, kind in LIST_PARAMETERS.items() if name not in ("allowWatchBookmarks", "watch")},
    **DELETE_PARAMETERS,
}
# The releases that brought parameters.
SINCE = {"shardSelector": V1_36, "ignoreStoreReadErrorWithClusterBreakingPotential": V1_32}


class Verb(NamedTuple):
    """The description of a verb. `body`: "" for none, "object", or the name of a type; `answers` likewise."""

    method: str
    action: str
    begins: str  # start of the operation's id; group and version replace {}, or follow at the end
    parameters: dict[str, str]
    body: str
    answers: str
    codes: tuple[str, ...] = ("200",)


VERBS = {
    "list": Verb("get", "list", "list", LIST_PARAMETERS, "", "list"),
    "create": Verb("post", "post", "create", WRITE_PARAMETERS, "object", "object", ("200", "201", "202")),
    "deletecollection": Verb(
        "delete",
        "deletecollection",
        "delete{}Collection",
        COLLECTION_PARAMETERS,
        DELETE_OPTIONS,
        STATUS,
    ),
    "get": Verb("get", "get", "read", {}, "", "object"),
    "update": Verb("put", "put", "replace", WRITE_PARAMETERS, "object", "object", ("200", "201")),
    "delete": Verb("delete", "delete", "delete", DELETE_PARAMETERS, DELETE_OPTIONS, "deleted", ("200", "202")),
    "patch": Verb(
        "patch", "patch", "patch", {**WRITE_PARAMETERS, "force": "boolean"}, f"{META}.Patch", "object", ("200", "201")
    ),
}
# The verbs of custom resources, as far as they are described differently.
CUSTOM_VERBS = {
    **VERBS,
    "deletecollection": VERBS["deletecollection"]._replace(parameters=LIST_PARAMETERS, body=""),
    "get": VERBS["get"]._replace(parameters={"resourceVersion": "string"}),
    "patch": VERBS["patch"]._replace(codes=("200",)),
}
ON_COLLECTION = ("list", "create", "deletecollection")
DESCRIPTIONS = {"200": "OK", "201": "Created", "202": "Accepted"}
UNAUTHORIZED: Obj = {"401": {"description": "Unauthorized"}}


def paths(kinds: tuple[Kind, ...], group: str, version: str, type_name: Callable[[GroupVersionKind], str]) -> Obj:
    """Return {path: path item}, sorted. `type_name` returns the OpenAPI name of a kind's type, "" if it has none."""
    tag = _tag(group, version)
    resources = _described("get available resources", f"{META}.APIResourceList")
    operation = {"tags": [tag], "operationId": f"get{_in_capitals(tag)}APIResources", **resources}
    items: Obj = {f"{group_version_path(group, version)}/": {"get": operation}}
    for kind in kinds:
        items.update(_Resource(kind, version, type_name).items())
    return dict(sorted(items.items()))


def custom_paths(
    kinds: tuple[Kind, ...], group: str, version: str, type_name: Callable[[GroupVersionKind], str]
) -> Obj:
    """Return {path: path item} of custom resources, sorted. `type_name` returns the OpenAPI name of a kind's type."""
    items = {path: item for kind in kinds for path, item in _CustomResource(kind, version, type_name).items()}
    return dict(sorted(items.items()))


def plain_path(path: str, about: str) -> Obj:
    """Return {path: path item} of a page that is no resource."""
    return {path: {"get": _described(about, "")}}


def _described(about: str, answers: str) -> Obj:
    """Return an operation that answers with a type, or with any text for ""."""
    return {"description": about, "responses": {"200": {"description": "OK", **_content(answers)}, **UNAUTHORIZED}}


def _tag(group: str, version: str) -> str:
    """Return the tag of the operations of a group-version: `core_v1`, `rbacAuthorization_v1`."""
    first, *words = re.split(r"[^a-zA-Z0-9]", group.removesuffix(".k8s.io") or "core")
    return "".join((first, *(word[:1].upper() + word[1:] for word in words))) + f"_{version}"


def _in_capitals(tag: str) -> str:
    """Return a tag as the names of operations have it: `AppsV1`."""
    return "".join(part[:1].upper() + part[1:] for part in tag.split("_"))


def _content(type_name: str, media: tuple[str, ...] = MEDIA) -> Obj:
    if not type_name:
        return {}
    reference = {"$ref": f"#/components/schemas/{type_name}"}
    return {"content": {media_type: {"schema": reference} for media_type in sorted(media)}}


class _Resource:
    """The path items of one kind."""

    verbs: Mapping[str, Verb] = VERBS
    media: tuple[str, ...] = MEDIA
    list_media: tuple[str, ...] = (*MEDIA, *STREAMS)
    body_media: tuple[str, ...] = ("*/*",)
    patches: tuple[str, ...] = PATCHES

    def __init__(self, kind: Kind, version: str, type_name: Callable[[GroupVersionKind], str]) -> None:
        self.kind = kind
        self.version = version
        self.type_name = type_name
        self.everywhere = resource_path(kind.group, version, kind.resource)
        self.collection = resource_path(kind.group, version, kind.resource, "{namespace}" if kind.namespaced else "")
        self.tag = _tag(kind.group, version)
        self.scope = "Namespaced" if kind.namespaced else ""

    def items(self) -> Iterator[tuple[str, Obj]]:
        """Yield (path, path item) of collections, objects and subresources."""
        kind, gvk = self.kind, self.kind.gvk(self.version)
        on_collection = [verb for verb in VERBS if verb in kind.verbs and verb in ON_COLLECTION]
        on_object = [verb for verb in VERBS if verb in kind.verbs and verb not in ON_COLLECTION]
        if on_collection:
            yield self.collection, self._item(on_collection, gvk, self.scope + kind.name)
        if on_object:
            yield f"{self.collection}/{{name}}", self._item(on_object, gvk, self.scope + kind.name, named=True)
        if kind.namespaced and "list" in kind.verbs:
            yield self.everywhere, self._item(["list"], gvk, f"{kind.name}ForAllNamespaces", everywhere=True)
        for sub in kind.subresources.values():
            if sub.name not in UNDESCRIBED:
                yield f"{self.collection}/{{name}}/{sub.name}", self._subresource(sub)

    def _subresource(self, sub: Subresource) -> Obj:
        name = f"{self.scope}{self.kind.name}{sub.name.capitalize()}"
        gvk = self.kind.subresource_kind(sub, self.version)
        return self._item([verb for verb in VERBS if verb in sub.verbs], gvk, name, named=True)

    def _item(
        self, verbs: list[str], gvk: GroupVersionKind, name: str, *, named: bool = False, everywhere: bool = False
    ) -> Obj:
        item: Obj = {self.verbs[verb].method: self._operation(self.verbs[verb], gvk, name) for verb in verbs}
        in_path = [part for part, there in (("name", named), ("namespace", self.kind.namespaced)) if there]
        parameters = [_parameter(part, "string", where="path") for part in in_path if not everywhere]
        parameters.append(_parameter("pretty", "string"))
        if len(verbs) == 1:  # what all operations have stands beside them
            parameters += item[self.verbs[verbs[0]].method].pop("parameters", [])
        item["parameters"] = sorted(parameters, key=itemgetter("name"))
        return item

    def _operation(self, verb: Verb, gvk: GroupVersionKind, name: str) -> Obj:
        own = self.type_name(gvk)
        answers = {
            "object": own,
            "list": own and f"{own}List",
            "deleted": own if self.kind.behavior.delete_returns_object else STATUS,
        }.get(verb.answers, verb.answers)
        media = self.list_media if verb.action == "list" else self.media
        group = _in_capitals(self.tag)
        begins = verb.begins.format(group) if "{}" in verb.begins else verb.begins + group
        operation: Obj = {
            "tags": [self.tag],
            "description": f"{verb.action} {gvk.kind}",
            "operationId": begins + name,
        }
        if verb.parameters:  # kube-openapi leaves out values that are empty or false
            release = self.kind.release
            known = {name: kind for name, kind in verb.parameters.items() if SINCE.get(name, release) <= release}
            operation["parameters"] = [_parameter(*parameter) for parameter in sorted(known.items())]
        body = own if verb.body == "object" else verb.body
        if body:
            patches = self.patches if verb.method == "patch" else self.body_media
            required = {} if verb.method == "delete" else {"required": True}
            operation["requestBody"] = {**_content(body, patches), **required}
        operation["responses"] = {
            code: {"description": DESCRIPTIONS[code], **_content(answers, media)} for code in verb.codes
        } | UNAUTHORIZED
        operation["x-kubernetes-action"] = verb.action
        operation["x-kubernetes-group-version-kind"] = self._kind_of(gvk)._asdict()
        return operation

    def _kind_of(self, body: GroupVersionKind) -> GroupVersionKind:
        """Return the kind that operations with a body are said to be about."""
        return body


class _CustomResource(_Resource):
    """The path items of one custom resource."""

    verbs = CUSTOM_VERBS
    media = list_media = body_media = (JSON, YAML)
    patches = CUSTOM_PATCHES

    def _kind_of(self, body: GroupVersionKind) -> GroupVersionKind:
        return self.kind.gvk(self.version)


def _parameter(name: str, kind: str, *, where: str = "query") -> Obj:
    required = {"required": True} if where == "path" else {}
    return {"name": name, "in": where, **required, "schema": {"type": kind, "uniqueItems": True}}
