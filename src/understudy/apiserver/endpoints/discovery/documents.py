"""Discovery documents: the groups, versions and resources that are served.

    /  /version  /api  /api/v1  /apis  /apis/GROUP  /apis/GROUP/VERSION

/api and /apis also answer with everything at once (`apidiscovery.k8s.io`, v2 and v2beta1), with an ETag. Documents are
rendered on first use and kept for good, as a Discovery belongs to one Serving.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from hashlib import sha512

import orjson

from understudy.apiserver.endpoints import negotiation
from understudy.apiserver.endpoints.discovery.aggregations import Aggregations
from understudy.apiserver.endpoints.negotiation import Output
from understudy.apiserver.endpoints.request import Request, Response
from understudy.apiserver.endpoints.requestinfo import group_version_path
from understudy.apiserver.extensions.serving import Serving
from understudy.apiserver.serving.release import Group, storage_version_hash
from understudy.kinds.declarations.kind import Kind, Subresource
from understudy.machinery import errors
from understudy.machinery.releases import features
from understudy.machinery.releases.features import Gates
from understudy.machinery.typeinfo.go_types import Schemas
from understudy.machinery.types import Obj

OPENID_CONFIGURATION, OPENID_KEYS = "/.well-known/openid-configuration", "/openid/v1/jwks"
OTHER_PATHS = (
    OPENID_CONFIGURATION,
    "/api",
    "/apis",
    "/apis/",
    "/metrics",
    "/metrics/slis",
    "/openapi/v2",
    "/openapi/v3",
    "/openapi/v3/",
    OPENID_KEYS,
    "/version",
)
# The paths below which a router answers with a Status, besides those of the groups.
ROUTED = ("/api/", "/version/", f"{OPENID_CONFIGURATION}/", f"{OPENID_KEYS}/")

GROUP_LIST: Obj = {"kind": "APIGroupList", "apiVersion": "v1"}
GROUP: Obj = {"kind": "APIGroup", "apiVersion": "v1"}
RESOURCE_LIST: Obj = {"kind": "APIResourceList", "apiVersion": "v1"}

Render = Callable[[Obj, Output], bytes]


def to_json(document: Obj, output: Output) -> bytes:
    """Return a document as the real server writes it in JSON; YAML and protobuf need another renderer."""
    if output.pretty:
        return orjson.dumps(document, option=orjson.OPT_INDENT_2)
    return orjson.dumps(document, option=orjson.OPT_APPEND_NEWLINE)


class Discovery:
    """The discovery pages of what is served at one moment.

    gates    feature gates of the server
    address  address of the server, which /api publishes
    render   encodes a document in the negotiated form
    pages    paths of the server that are no resources
    counted  counts the documents that have everything
    """

    def __init__(
        self,
        serving: Serving,
        gates: Gates,
        address: str,
        render: Render = to_json,
        pages: Sequence[str] = (),
        counted: Aggregations | None = None,
    ) -> None:
        self.serving = serving
        self.gates = gates
        self.address = address
        self.render = render
        self.pages = pages
        self._counted = counted or Aggregations()
        self._bytes: dict[tuple[str, Output], bytes] = {}
        self._etags: dict[str, str] = {}

    def answer(self, request: Request) -> Response | None:
        """Return the page at the request's path, None if there is none. Raises StatusError (405, 406)."""
        path = request.path
        if path in ("/", "/index.html"):
            return Response(200, self._rendered("/", Output(pretty=True), self._root_paths))
        bare = path.rstrip("/")
        parts = bare.split("/")[1:]
        if bare == "/version":
            get_only(request)
            negotiation.route(request.headers.get("Accept") or "", (negotiation.JSON,))
            return Response(
                200, self._rendered(bare, Output(pretty=True), lambda serving: serving.release.version_info)
            )
        if parts[0] == "api" and len(parts) <= 2:
            return self._core(request, bare, parts)
        if parts[0] == "apis" and len(parts) <= 3:
            return self._named(request, bare, parts)
        return None

    def missing(self, path: str) -> Response:
        """Return 404 in plain text for a path that nothing serves; raise a 404 Status below a router's path."""
        parts = path.split("/")[1:]
        known = len(parts) > 2 and parts[0] == "apis" and parts[1] and self.serving.release.group(parts[1])
        if known or path.startswith(ROUTED):
            raise errors.no_such_resource()
        return not_found()

    def _core(self, request: Request, bare: str, parts: list[str]) -> Response | None:
        """Return /api or /api/v1, None if the core group or the version is not served."""
        group = self.serving.group("")
        if group is None or (len(parts) == 2 and parts[1] not in group.versions):
            return None
        get_only(request)
        if len(parts) == 2:
            return self._reply(request, bare, negotiation.PLAIN, lambda serving: resource_list(serving, "", parts[1]))
        endpoint = negotiation.API if self._beta_is_removed else negotiation.BETA_API
        return self._reply(request, bare, endpoint, lambda serving: api_versions(serving, self.address))

    def _named(self, request: Request, bare: str, parts: list[str]) -> Response | None:
        """Return /apis or a page below it, None if the group or the version is not served."""
        if len(parts) == 1:
            if request.path not in (bare, f"{bare}/"):
                return None
            # In kube-apiserver another handler serves the path with a slash at its end, without aggregation.
            aggregated = negotiation.APIS if self._beta_is_removed else negotiation.BETA_APIS
            endpoint = aggregated if request.path == bare else negotiation.UNROUTED
            return self._reply(request, bare, endpoint, group_list)
        versions = self.serving.registered.get(parts[1])
        if versions is None or not parts[1]:
            return None
        if len(parts) == 2:
            if request.path not in (bare, f"{bare}/"):
                get_only(request)  # another handler serves the path with more slashes, GET only
            group_document = {**GROUP, **api_group(parts[1], versions)}
            return self._reply(request, bare, negotiation.UNROUTED, lambda _: group_document)
        group = self.serving.group(parts[1])
        if group is None or parts[2] not in group.versions:
            return None
        endpoint = negotiation.PLAIN
        if self.serving.release.group(group.name) is None:  # definitions have a separate handler, without a router
            endpoint = negotiation.UNROUTED
            request.serves_cbor = False
        else:
            get_only(request)
        return self._reply(request, bare, endpoint, lambda serving: resource_list(serving, group.name, parts[2]))

    def _reply(
        self, request: Request, where: str, endpoint: negotiation.Endpoint, plain: Callable[[Serving], Obj]
    ) -> Response:
        if self._in_cbor(request, endpoint):
            endpoint = negotiation.with_cbor(endpoint)
        output = negotiation.output(request.headers.get("Accept") or "", endpoint)
        if negotiation.wants_pretty(request.query, request.headers.get("User-Agent") or ""):
            output = output.as_pretty()
        if output.target:
            return self._aggregated(request, where, output)
        return Response(200, self._rendered(where, output, plain), output.media_type)

    def _in_cbor(self, request: Request, endpoint: negotiation.Endpoint) -> bool:
        """Report whether a page can be had in CBOR: before 1.37 only the list of a version's resources."""
        return request.serves_cbor or (endpoint is negotiation.PLAIN and self.gates[features.CBOR_SERVING_AND_STORAGE])

    def _aggregated(self, request: Request, where: str, output: Output) -> Response:
        """Return aggregated discovery with an ETag, the same for every form, or 304 if the client has it."""
        if where not in self._etags:
            document = aggregated(self.serving, core=where == "/api", version="v2")
            self._etags[where] = f'"{sha512(orjson.dumps(document)).hexdigest().upper()}"'
            self._counted.note(where, self._etags[where])
        etag = self._etags[where]
        headers = [("ETag", etag), ("Vary", "Accept"), ("Cache-Control", "public")]
        if request.headers.get("If-None-Match") == etag:
            return Response(304, content_type="", headers=headers)
        body = self._rendered(
            where, output, lambda serving: aggregated(serving, core=where == "/api", version=output.target_version)
        )
        kind = f";g={negotiation.DISCOVERY_GROUP};v={output.target_version};as={output.target}"
        return Response(200, body, output.media_type + kind, headers)

    @property
    def _beta_is_removed(self) -> bool:
        return self.gates[features.AGGREGATED_DISCOVERY_REMOVE_BETA_TYPE]

    def _root_paths(self, serving: Serving) -> Obj:
        return root_paths(serving, self.pages)

    def _rendered(self, where: str, output: Output, document: Callable[[Serving], Obj]) -> bytes:
        """Return a document in the negotiated form, rendered at most once."""
        body = self._bytes.get((where, output))
        if body is None:
            body = self._bytes[where, output] = self.render(document(self.serving), output)
        return body


def not_found() -> Response:
    """Return 404 in plain text, as Go's `http.NotFound` does."""
    return Response(404, b"404 page not found\n", "text/plain; charset=utf-8", [("X-Content-Type-Options", "nosniff")])


def get_only(request: Request) -> None:
    """Raise StatusError (405) for other methods than GET: kube-apiserver routes some of its pages by method."""
    if request.method != "GET":
        raise errors.method_not_allowed()


def root_paths(serving: Serving, more: Sequence[str]) -> Obj:
    """Return the paths that are no resources; `more` are the pages of the server."""
    groups = [f"/apis/{group}" for group in serving.registered if group]
    versions = [group_version_path(group, version) for group, names in serving.registered.items() for version in names]
    return {"paths": sorted([*OTHER_PATHS, *groups, *versions, *more])}


def api_versions(serving: Serving, address: str) -> Obj:
    """Return the versions of the core group; `address` is for clients of every network."""
    group = serving.group("")
    return {
        "kind": "APIVersions",
        "versions": list(group.versions) if group else [],
        "serverAddressByClientCIDRs": [{"clientCIDR": "0.0.0.0/0", "serverAddress": address}],
    }


def group_list(serving: Serving) -> Obj:
    """Return an APIGroupList of all groups but the core group. Upstream: `SortedByGroupAndVersion`."""
    listed = sorted((_place(serving, *item), item) for item in serving.registered.items() if item[0])
    return {**GROUP_LIST, "groups": [api_group(group, versions) for _, (group, versions) in listed]}


def _place(serving: Serving, group: str, versions: Iterable[str]) -> tuple[int, str]:
    """Return the place of a group among others, which is that of its foremost API service."""
    return min((-serving.priorities(group, version).group, f"{version}.{group}") for version in versions)


def api_group(group: str, versions: Iterable[str]) -> Obj:
    """Return an APIGroup without its kind. The first version is the preferred one."""
    listed = [{"groupVersion": f"{group}/{version}", "version": version} for version in versions]
    return {"name": group, "versions": listed, "preferredVersion": listed[0]}


def resource_list(serving: Serving, group: str, version: str) -> Obj:
    """Return an APIResourceList of a group-version. That of the core group has no apiVersion, as in the real server."""
    served = serving.group(group)
    kinds = served.versions[version] if served else ()
    head = RESOURCE_LIST if group else {"kind": "APIResourceList"}
    name = f"{group}/{version}" if group else version
    return {**head, "groupVersion": name, "resources": [entry for kind in kinds for entry in _entries(kind)]}


def _entries(kind: Kind) -> Iterator[Obj]:
    """Yield an APIResource for a kind and for each of its subresources."""
    entry: Obj = {
        "name": kind.resource,
        "singularName": kind.singular,
        "namespaced": kind.namespaced,
        "kind": kind.name,
        "verbs": list(kind.verbs),
    }
    if kind.short_names:
        entry["shortNames"] = list(kind.short_names)
    if kind.categories:
        entry["categories"] = list(kind.categories)
    if not kind.virtual:
        entry["storageVersionHash"] = storage_version_hash(kind.stored)
    yield entry
    for sub in kind.subresources.values():
        yield {
            "name": f"{kind.resource}/{sub.name}",
            "singularName": "",
            "namespaced": kind.namespaced,
            **({"group": sub.kind.group, "version": sub.kind.version} if sub.foreign else {}),
            "kind": sub.kind.kind,
            "verbs": list(sub.verbs),
        }


def aggregated(serving: Serving, *, core: bool, version: str) -> Obj:
    """Return an APIGroupDiscoveryList of the core group (/api) or of all others (/apis)."""
    groups = {group.name: _versions(group) for group in serving.groups if (group.name == "") == core}
    for added in serving.aggregated.values():
        if added.discovered is not None and (added.group == "") == core:
            groups.setdefault(added.group, {})[added.version] = added.discovered
    uncreated = Schemas.of(serving.version).uncreated_metadata
    return {
        "kind": negotiation.DISCOVERY_KIND,
        "apiVersion": f"{negotiation.DISCOVERY_GROUP}/{version}",
        "metadata": {},
        "items": [_group(serving, name, groups[name], uncreated) for name in _by_priority(serving, groups)],
    }


def _by_priority(serving: Serving, groups: Mapping[str, Iterable[str]]) -> list[str]:
    """Return the names of groups in order; the highest priority of a version counts (`calculateAPIGroupsLocked`)."""

    def key(group: str) -> tuple[int, str]:
        return -max(serving.priorities(group, version).group for version in groups[group]), group

    return sorted(groups, key=key)


def _group(serving: Serving, name: str, versions: Mapping[str, Obj], uncreated: Obj) -> Obj:
    """Return an APIGroupDiscovery."""
    metadata = {"name": name, **uncreated} if name else uncreated
    return {"metadata": metadata, "versions": [versions[each] for each in serving.by_priority(name, versions)]}


def _versions(group: Group) -> dict[str, Obj]:
    """Return the versions of a group of this server, each with an APIVersionDiscovery."""
    return {
        version: {"version": version, "resources": [_resource(kind) for kind in kinds], "freshness": "Current"}
        for version, kinds in group.versions.items()
    }


def _resource(kind: Kind) -> Obj:
    """Return an APIResourceDiscovery."""
    resource: Obj = {
        "resource": kind.resource,
        "responseKind": _response_kind(kind),
        "scope": "Namespaced" if kind.namespaced else "Cluster",
        "singularResource": kind.singular,
        "verbs": list(kind.verbs),
    }
    if kind.short_names:
        resource["shortNames"] = list(kind.short_names)
    if kind.categories:
        resource["categories"] = list(kind.categories)
    if kind.subresources:
        resource["subresources"] = [_subresource(sub, kind) for sub in kind.subresources.values()]
    return resource


def _response_kind(kind: Kind) -> Obj:
    """Return the kind of a resource's objects, with group and version for custom resources only."""
    if kind.custom is not None:
        return kind.gvk(kind.versions[0])._asdict()
    return {"group": "", "version": "", "kind": kind.name}


def _subresource(sub: Subresource, kind: Kind) -> Obj:
    """Return an APISubresourceDiscovery. Its kind has group and version where they differ from the resource's, and for
    custom resources."""
    named = sub.foreign or kind.custom is not None
    return {
        "subresource": sub.name,
        "responseKind": sub.kind._asdict() if named else {"group": "", "version": "", "kind": sub.kind.kind},
        "verbs": list(sub.verbs),
    }
