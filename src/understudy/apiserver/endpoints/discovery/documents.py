"""Discovery: which groups, versions and resources there are, as documents that derive from a Release.

    /  /version  /api  /api/v1  /apis  /apis/GROUP  /apis/GROUP/VERSION

/api and /apis also answer with everything at once (`apidiscovery.k8s.io`, v2 and v2beta1), with an ETag. Documents are
rendered on first use and kept; a Discovery belongs to one Release and forgets nothing.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from hashlib import sha512

import orjson

from understudy.apiserver.endpoints import negotiation
from understudy.apiserver.endpoints.negotiation import Output
from understudy.apiserver.endpoints.request import Request, Response
from understudy.apiserver.endpoints.requestinfo import group_version_path
from understudy.apiserver.kinds.release import Group, Release, storage_version_hash
from understudy.apiserver.registry.kind import Kind, Subresource
from understudy.machinery import errors
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
# Those that have a router of their own, besides the groups.
ROUTED = ("/api/", "/version/", f"{OPENID_CONFIGURATION}/", f"{OPENID_KEYS}/")

GROUP_LIST: Obj = {"kind": "APIGroupList", "apiVersion": "v1"}
GROUP: Obj = {"kind": "APIGroup", "apiVersion": "v1"}
RESOURCE_LIST: Obj = {"kind": "APIResourceList", "apiVersion": "v1"}

Render = Callable[[Obj, Output], bytes]


def to_json(document: Obj, output: Output) -> bytes:
    """JSON as the real server writes it; YAML and protobuf need a renderer that knows them."""
    if output.pretty:
        return orjson.dumps(document, option=orjson.OPT_INDENT_2)
    return orjson.dumps(document, option=orjson.OPT_APPEND_NEWLINE)


class Discovery:
    """The discovery pages of one release. `address` is the server's own, which /api tells; `render` writes a document
    in the negotiated form; `pages` are the paths of the server that are no resources."""

    def __init__(self, release: Release, address: str, render: Render = to_json, pages: Sequence[str] = ()) -> None:
        self.release = release
        self.address = address
        self.render = render
        self.pages = pages
        self._bytes: dict[tuple[str, Output], bytes] = {}
        self._etags: dict[str, str] = {}

    def answer(self, request: Request) -> Response | None:
        """The page at the call's path, None if there is none. Raises StatusError (405, 406)."""
        path = request.path
        if path in ("/", "/index.html"):
            return Response(200, self._rendered("/", Output(pretty=True), self._root_paths))
        bare = path.rstrip("/")
        parts = bare.split("/")[1:]
        if bare == "/version":
            get_only(request)
            negotiation.route(request.headers.get("Accept") or "", (negotiation.JSON,))
            return Response(200, self._rendered(bare, Output(pretty=True), lambda release: release.version_info))
        if parts[0] == "api" and len(parts) <= 2:
            return self._core(request, bare, parts)
        if parts[0] == "apis" and len(parts) <= 3:
            return self._named(request, bare, parts)
        return None

    def missing(self, path: str) -> Response:
        """The answer to a path that nothing serves: a Status below those that have a router, else text."""
        parts = path.split("/")[1:]
        known = len(parts) > 2 and parts[0] == "apis" and parts[1] and self.release.group(parts[1])
        if known or path.startswith(ROUTED):
            raise errors.no_such_resource()
        return not_found()

    def _core(self, request: Request, bare: str, parts: list[str]) -> Response | None:
        group = self.release.group("")
        if group is None or (len(parts) == 2 and parts[1] not in group.versions):
            return None
        get_only(request)
        if len(parts) == 2:
            return self._reply(request, bare, negotiation.PLAIN, lambda release: resource_list(release, "", parts[1]))
        return self._reply(request, bare, negotiation.API, lambda release: api_versions(release, self.address))

    def _named(self, request: Request, bare: str, parts: list[str]) -> Response | None:
        if len(parts) == 1:
            if request.path not in (bare, f"{bare}/"):
                return None
            # With a slash at its end another handler answers, which does not aggregate.
            endpoint = negotiation.APIS if request.path == bare else negotiation.UNROUTED
            return self._reply(request, bare, endpoint, group_list)
        group = self.release.group(parts[1])
        if group is None or not parts[1]:
            return None
        if len(parts) == 2:
            if request.path not in (bare, f"{bare}/"):
                get_only(request)  # with more slashes, another handler's
            return self._reply(request, bare, negotiation.UNROUTED, lambda _: {**GROUP, **api_group(group)})
        if parts[2] not in group.versions:
            return None
        get_only(request)
        return self._reply(
            request, bare, negotiation.PLAIN, lambda release: resource_list(release, group.name, parts[2])
        )

    def _reply(
        self, request: Request, where: str, endpoint: negotiation.Endpoint, plain: Callable[[Release], Obj]
    ) -> Response:
        output = negotiation.output(request.headers.get("Accept") or "", endpoint)
        if negotiation.wants_pretty(request.query, request.headers.get("User-Agent") or ""):
            output = output.as_pretty()
        if output.target:
            return self._aggregated(request, where, output)
        return Response(200, self._rendered(where, output, plain), output.media_type)

    def _aggregated(self, request: Request, where: str, output: Output) -> Response:
        """With an ETag, which is the same for every form; a client that has it gets 304."""
        if where not in self._etags:
            document = aggregated(self.release, core=where == "/api", version="v2")
            self._etags[where] = f'"{sha512(orjson.dumps(document)).hexdigest().upper()}"'
        etag = self._etags[where]
        headers = [("ETag", etag), ("Vary", "Accept"), ("Cache-Control", "public")]
        if request.headers.get("If-None-Match") == etag:
            return Response(304, content_type="", headers=headers)
        body = self._rendered(
            where, output, lambda r: aggregated(r, core=where == "/api", version=output.target_version)
        )
        kind = f";g={negotiation.DISCOVERY_GROUP};v={output.target_version};as={output.target}"
        return Response(200, body, output.media_type + kind, headers)

    def _root_paths(self, release: Release) -> Obj:
        return root_paths(release, self.pages)

    def _rendered(self, where: str, output: Output, document: Callable[[Release], Obj]) -> bytes:
        found = self._bytes.get((where, output))
        if found is None:
            found = self._bytes[where, output] = self.render(document(self.release), output)
        return found


def not_found() -> Response:
    """What Go's mux says where nothing is."""
    return Response(404, b"404 page not found\n", "text/plain; charset=utf-8", [("X-Content-Type-Options", "nosniff")])


def get_only(request: Request) -> None:
    """Raises StatusError (405): these pages are routed by method, the others are not."""
    if request.method != "GET":
        raise errors.method_not_allowed()


def root_paths(release: Release, more: Sequence[str]) -> Obj:
    """List every path that can be asked for but those of resources; `more` are the pages of the server."""
    groups = [f"/apis/{group.name}" for group in release.groups if group.name]
    versions = [group_version_path(group.name, version) for group in release.groups for version in group.versions]
    return {"paths": sorted([*OTHER_PATHS, *groups, *versions, *more])}


def api_versions(release: Release, address: str) -> Obj:
    """The versions of the core group; `address` serves every client."""
    group = release.group("")
    return {
        "kind": "APIVersions",
        "versions": list(group.versions) if group else [],
        "serverAddressByClientCIDRs": [{"clientCIDR": "0.0.0.0/0", "serverAddress": address}],
    }


def group_list(release: Release) -> Obj:
    return {**GROUP_LIST, "groups": [api_group(group) for group in release.groups if group.name]}


def api_group(group: Group) -> Obj:
    """An APIGroup without its kind."""
    versions = [{"groupVersion": f"{group.name}/{version}", "version": version} for version in group.versions]
    return {"name": group.name, "versions": versions, "preferredVersion": versions[0]}


def resource_list(release: Release, group: str, version: str) -> Obj:
    """The resources of a group-version. The core group's list has never said its apiVersion."""
    found = release.group(group)
    kinds = found.versions[version] if found else ()
    head = RESOURCE_LIST if group else {"kind": "APIResourceList"}
    name = f"{group}/{version}" if group else version
    return {**head, "groupVersion": name, "resources": [entry for kind in kinds for entry in _entries(kind)]}


def _entries(kind: Kind) -> Iterator[Obj]:
    """An APIResource of a kind and each of its subresources."""
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


def aggregated(release: Release, *, core: bool, version: str) -> Obj:
    """An APIGroupDiscoveryList of the core group (/api) or of all others (/apis)."""
    groups = [group for group in release.groups if (group.name == "") == core]
    return {
        "kind": negotiation.DISCOVERY_KIND,
        "apiVersion": f"{negotiation.DISCOVERY_GROUP}/{version}",
        "metadata": {},
        "items": [_group(group) for group in groups],
    }


def _group(group: Group) -> Obj:
    metadata = {"name": group.name, "creationTimestamp": None} if group.name else {"creationTimestamp": None}
    versions = [
        {"version": version, "resources": [_resource(kind) for kind in kinds], "freshness": "Current"}
        for version, kinds in group.versions.items()
    ]
    return {"metadata": metadata, "versions": versions}


def _resource(kind: Kind) -> Obj:
    resource: Obj = {
        "resource": kind.resource,
        "responseKind": {"group": "", "version": "", "kind": kind.name},
        "scope": "Namespaced" if kind.namespaced else "Cluster",
        "singularResource": kind.singular,
        "verbs": list(kind.verbs),
    }
    if kind.short_names:
        resource["shortNames"] = list(kind.short_names)
    if kind.categories:
        resource["categories"] = list(kind.categories)
    if kind.subresources:
        resource["subresources"] = [_subresource(sub) for sub in kind.subresources.values()]
    return resource


def _subresource(sub: Subresource) -> Obj:
    """Its kind says group and version only where they are not those of the resource."""
    group, version = (sub.kind.group, sub.kind.version) if sub.foreign else ("", "")
    return {
        "subresource": sub.name,
        "responseKind": {"group": group, "version": version, "kind": sub.kind.kind},
        "verbs": list(sub.verbs),
    }
