"""The `paths` of an OpenAPI v3 document, made from the kinds of a group-version."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping

from understudy.apiserver.endpoints.negotiation import CUSTOM_PATCHES, JSON, MEDIA, PATCHES, STREAMS, YAML
from understudy.apiserver.endpoints.openapi.operations import (
    CUSTOM_VERBS,
    META,
    METHODS,
    STATUS,
    TEXT,
    VERBS,
    WATCH,
    WATCH_LIST,
    WATCHABLE_VERBS,
    Named,
    Verb,
    connect,
    content,
    in_capitals,
    parameters_of,
    plain,
    responses,
    tag,
)
from understudy.apiserver.endpoints.openapi.parameters import in_path
from understudy.apiserver.endpoints.requestinfo import group_version_path, resource_path
from understudy.kinds.declarations.kind import Kind, Subresource
from understudy.machinery.types import GroupVersionKind, NamedTuple, Obj

# The methods of subresources that hand requests on.
CONNECTED = {"attach": ("get", "post"), "exec": ("get", "post"), "portforward": ("get", "post"), "proxy": METHODS}
LOG = VERBS["get"]._replace(options=("PodLogOptions",), answers=TEXT)
EVERYWHERE = "ForAllNamespaces"  # the end of ids
# Kinds whose DELETE may answer the object, which the document does not say.
DELETE_ANSWERS_STATUS = {("", "Namespace")}
NAMESPACE = in_path("namespace", "object name and auth scope, such as for teams and projects")
PATH = in_path("path", "path to the resource")


def paths(kinds: tuple[Kind, ...], group: str, version: str, type_name: Callable[[GroupVersionKind], str]) -> Obj:
    """Return {path: path item}, sorted. `type_name` returns the OpenAPI name of a kind's type, "" if it has none."""
    of = tag(group, version)
    listed = plain(f"get{in_capitals(of)}APIResources", of, "get available resources", f"{META}.APIResourceList")
    items: Obj = {f"{group_version_path(group, version)}/": {"get": listed}}
    for kind in kinds:
        items.update(_BuiltInResource(kind, version, type_name).items())
    return dict(sorted(items.items()))


def custom_paths(
    kinds: tuple[Kind, ...], group: str, version: str, type_name: Callable[[GroupVersionKind], str]
) -> Obj:
    """Return {path: path item} of custom resources, sorted. `type_name` returns the OpenAPI name of a kind's type."""
    items = {path: item for kind in kinds for path, item in _CustomResource(kind, version, type_name).items()}
    return dict(sorted(items.items()))


class _Route(NamedTuple):
    """An operation to describe. `gvk` is the kind of its body, `sub` the name of the subresource."""

    verb: Verb
    path: str
    gvk: GroupVersionKind
    sub: str = ""
    suffix: str = ""


class _Resource:
    """The path items of one kind."""

    verbs: Mapping[str, Verb] = VERBS
    media: tuple[str, ...]
    body_media: tuple[str, ...]
    patches: tuple[str, ...]

    def __init__(self, kind: Kind, version: str, type_name: Callable[[GroupVersionKind], str]) -> None:
        self.kind = kind
        self.version = version
        self.type_name = type_name
        self.gvk = kind.gvk(version)
        self.root = f"{group_version_path(kind.group, version)}/"
        self.everywhere = resource_path(kind.group, version, kind.resource)
        self.collection = resource_path(kind.group, version, kind.resource, "{namespace}" if kind.namespaced else "")
        self.one = f"{self.collection}/{{name}}"

    def items(self) -> Iterator[tuple[str, Obj]]:
        """Yield (path, path item) of collections, objects, subresources and watches."""
        by_path: dict[str, list[_Route]] = {}
        for route in self._routes():
            by_path.setdefault(route.path, []).append(route)
        for path, routes in by_path.items():
            yield path, self._item(routes)

    def _routes(self) -> Iterator[_Route]:
        for name, verb in self.verbs.items():
            if name in self.kind.verbs:
                on_collection = name in ("list", "create", "deletecollection")
                yield _Route(verb, self.collection if on_collection else self.one, self.gvk)
        if self.kind.namespaced and "list" in self.kind.verbs:
            yield _Route(self.verbs["list"], self.everywhere, self.gvk, suffix=EVERYWHERE)
        for sub in self.kind.subresources.values():
            yield from self._subresource(sub, f"{self.one}/{sub.name}", self.kind.subresource_kind(sub, self.version))

    def _subresource(self, sub: Subresource, path: str, gvk: GroupVersionKind) -> Iterator[_Route]:
        return (_Route(verb, path, gvk, sub.name) for name, verb in self.verbs.items() if name in sub.verbs)

    def _item(self, routes: list[_Route]) -> Obj:
        """Return a path item: the parameters that all operations have are next to them (`findCommonParameters`)."""
        parameters = [self._parameters(route) for route in routes]
        common = set.intersection(*(set(of_one) for of_one in parameters))
        operations = {
            route.verb.method: self._operation(route, [own[key] for key in sorted(own.keys() - common)])
            for route, own in zip(routes, parameters, strict=True)
        }
        item = {method: operations[method] for method in METHODS if method in operations}
        return item | {"parameters": [parameters[-1][key] for key in sorted(common)]}

    def _parameters(self, route: _Route) -> dict[tuple[str, str], Obj]:
        """Return the parameters of an operation by name and place."""
        own = [*parameters_of(self.kind.release, route.verb)]
        if "{name}" in route.path:
            own.append(in_path("name", f"name of the {self._kind_of(route.gvk).kind}"))
        own += [NAMESPACE] * ("{namespace}" in route.path) + [PATH] * ("{path}" in route.path)
        return {(parameter["name"], parameter["in"]): parameter for parameter in own}

    def _operation(self, route: _Route, parameters: list[Obj]) -> Obj:
        verb, gvk = route.verb, route.gvk
        own = self.type_name(gvk)
        scope = "Namespaced" if self.kind.namespaced and not route.suffix.endswith(EVERYWHERE) else ""
        named = Named(self.kind.group, self.version, self.kind.name, route.sub, scope, route.suffix)
        operation: Obj = {
            "tags": [named.tag],
            "description": named.description(verb),
            "operationId": named.operation_id(verb),
        }
        if parameters:  # kube-openapi leaves out values that are empty or false
            operation["parameters"] = parameters
        if body := own if verb.body == "object" else verb.body:
            media = self.patches if verb.method == "patch" else self.body_media
            required = {} if verb.method == "delete" else {"required": True}
            operation["requestBody"] = {**content(body, media), **required}
        operation["responses"] = responses(verb.codes, self._answers(verb, own), self._media(verb))
        operation["x-kubernetes-action"] = verb.action
        operation["x-kubernetes-group-version-kind"] = self._kind_of(gvk)._asdict()
        return operation

    def _answers(self, verb: Verb, own: str) -> str:
        """Return the type that a verb answers with."""
        if verb.answers == "deleted":
            returned = self.kind.behavior.returns_deleted_object(self.version)
            return own if returned and (self.kind.group, self.kind.name) not in DELETE_ANSWERS_STATUS else STATUS
        return {"object": own, "list": own and f"{own}List"}.get(verb.answers, verb.answers)

    def _media(self, verb: Verb) -> tuple[str, ...]:
        """Return the media types in which a verb answers."""
        return self.media

    def _kind_of(self, body: GroupVersionKind) -> GroupVersionKind:
        """Return the kind that operations with a body are said to be about."""
        return body


class _BuiltInResource(_Resource):
    """The path items of one built-in kind."""

    media = MEDIA
    body_media = ("*/*",)
    patches = PATCHES

    def __init__(self, kind: Kind, version: str, type_name: Callable[[GroupVersionKind], str]) -> None:
        super().__init__(kind, version, type_name)
        if "watch" in kind.verbs:
            self.verbs = WATCHABLE_VERBS

    def _routes(self) -> Iterator[_Route]:
        yield from super()._routes()
        if "watch" in self.kind.verbs:
            yield _Route(WATCH, self._watched(self.one), self.gvk)
            yield _Route(WATCH_LIST, self._watched(self.collection), self.gvk, suffix="List")
            if self.kind.namespaced:
                yield _Route(WATCH_LIST, self._watched(self.everywhere), self.gvk, suffix=f"List{EVERYWHERE}")

    def _watched(self, path: str) -> str:
        return f"{self.root}watch/{path.removeprefix(self.root)}"

    def _subresource(self, sub: Subresource, path: str, gvk: GroupVersionKind) -> Iterator[_Route]:
        if sub.name == "log":
            return iter([_Route(LOG, path, gvk, sub.name)])
        if sub.name not in CONNECTED:
            return super()._subresource(sub, path, gvk)
        places = [(path, ""), (f"{path}/{{path}}", "WithPath")][: 2 if sub.name == "proxy" else 1]
        return (
            _Route(connect(method, gvk.kind), place, gvk, sub.name, suffix)
            for place, suffix in places
            for method in CONNECTED[sub.name]
        )

    def _media(self, verb: Verb) -> tuple[str, ...]:
        if verb.action == "connect":
            return ("*/*",)
        if verb is LOG:
            return ("text/plain", *MEDIA)
        return (*MEDIA, *STREAMS) if verb.action in ("list", "watch", "watchlist") else MEDIA


class _CustomResource(_Resource):
    """The path items of one custom resource."""

    verbs = CUSTOM_VERBS
    media = body_media = (JSON, YAML)
    patches = CUSTOM_PATCHES

    def _kind_of(self, body: GroupVersionKind) -> GroupVersionKind:
        return self.gvk
