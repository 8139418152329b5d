"""The pages /openapi/v3 and /openapi/v2, which kubectl uses to explain, validate and merge objects.

Schemas are those of `schemas/RELEASE/openapi`, recorded from the real server without its descriptions; paths follow
from the kinds; descriptions are our own. A document is rendered when a client first asks for it. Its hash is one of its
sources, so that the index of all documents is cheap.

The behavior is that of k8s.io/kube-openapi: the index has no ETag and is served as text; a document requested with its
hash may be cached for ever, with another hash it redirects; v2 comes as JSON or as gnostic's protobuf. Clients may ask
for parts of them.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from functools import cached_property, partial
from hashlib import sha512
from time import time

import orjson

from understudy.apiserver.endpoints.negotiation import Clause, clauses
from understudy.apiserver.endpoints.openapi import custom_resources, descriptions
from understudy.apiserver.endpoints.openapi.descriptions import described
from understudy.apiserver.endpoints.openapi.merging.specs import NO_SPECS, AggregatedSpec, Specs, with_v2
from understudy.apiserver.endpoints.openapi.pages import PAGES, page_of_group
from understudy.apiserver.endpoints.openapi.v3_paths import custom_paths, paths
from understudy.apiserver.endpoints.request import Request, Response
from understudy.apiserver.endpoints.responsewriters.content import serve_content
from understudy.apiserver.extensions.kinds import Defined
from understudy.apiserver.extensions.serving import Serving
from understudy.machinery.golang.json_writer import encode, encode_unescaped
from understudy.machinery.golang.times import http_date
from understudy.machinery.releases.recorded import release_file
from understudy.machinery.typeinfo.go_types import Schemas, openapi_name
from understudy.machinery.types import GroupVersionKind, Obj
from understudy.machinery.util.caches import cache_short_texts

ROOT = "/openapi/v3"
JSON = "application/json"
_TEXT = "text/plain; charset=utf-8"
V2_PROTOBUF = "application/com.github.proto-openapi.spec.v2.v1.0+protobuf"
V2_MEDIA = {
    JSON: JSON,
    "application/com.github.proto-openapi.spec.v2@v1.0+protobuf": V2_PROTOBUF,
    V2_PROTOBUF: V2_PROTOBUF,
}
YEAR = 365 * 24 * 3600
VERSION = b"4"  # grows when the same schemas are rendered differently, for clients that keep documents by hash

SECURITY: Obj = {
    "BearerToken": {
        "type": "apiKey",
        "description": "Bearer Token authentication",
        "name": "authorization",
        "in": "header",
    }
}


class OpenAPI:
    """The documents of what is served at one moment, each rendered once.

    specs  the documents of aggregated servers, which may be replaced
    """

    def __init__(self, serving: Serving, specs: Specs = NO_SPECS) -> None:
        self.serving = serving
        self.specs = specs
        self.release = serving.release
        self._made = time()
        self._since = specs, self._made
        self._documents: dict[str, bytes] = {}
        self._merged: dict[str, tuple[Specs, bytes]] = {}  # the index and v2, by media type, and what they are made of

    def answer(self, request: Request) -> Response | None:
        """Return the page at the request's path, None for one outside /openapi."""
        if request.path == ROOT:
            specs = self.specs
            index = partial(self._rendered_once, _TEXT, specs, lambda: self._index(specs))
            response = serve_content(request, "", self._merged_since(specs), _TEXT, [], index)
            response.compressible = False
            return response
        if request.path.startswith(f"{ROOT}/"):
            return self._v3(request, request.path.removeprefix(f"{ROOT}/"))
        return self._swagger(request) if request.path == "/openapi/v2" else None

    def document(self, name: str) -> Obj:
        """Return the v3 document of a group-version (`apis/apps/v1`) or page (`version`). Raises KeyError."""
        if name not in self.hashes:
            raise KeyError(name)
        release = self.release.version
        group, version = ("", "") if name in PAGES else _split(name)
        if not version:
            page = PAGES.get(name) or page_of_group(group)
            return self._document(page.paths(name, release), page.schemas(release))
        served = self.release.group(group)
        if served is None or version not in served.versions:
            return self._custom_document(group, version, self._defined(group, version))
        kinds = served.versions[version]
        schemas = Schemas.of(release).document(group, version)
        return self._document(paths(kinds, group, version, self._type_name), schemas)

    def _document(self, paths: Obj, schemas: Obj) -> Obj:
        types = {"schemas": {key: described(key, schema) for key, schema in schemas.items()}} if schemas else {}
        return {
            "openapi": "3.0.0",
            "info": {"title": "Kubernetes", "version": self.release.version.number},
            "paths": paths,
            "components": {**types, "securitySchemes": SECURITY},
        }

    def _custom_document(self, group: str, version: str, defined: list[Defined]) -> Obj:
        """Return the document of a group-version that definitions serve."""
        kinds = tuple(kinds[version] for _, kinds, _ in defined)
        return {
            "openapi": "3.0.0",
            "info": custom_resources.INFO,
            "paths": custom_paths(kinds, group, version, self._type_name),
            "components": {
                "schemas": {
                    key: described(key, schema)
                    for key, schema in custom_resources.schemas(defined, version, self.release.version).items()
                }
            },
        }

    def _defined(self, group: str, version: str) -> list[Defined]:
        """Return the established definitions that serve a group-version."""
        return [
            defined
            for _, defined in sorted(self.serving.definitions.items())
            if defined.definition.group == group and defined.definition.is_established and version in defined.kinds
        ]

    @cached_property
    def hashes(self) -> dict[str, str]:
        """Return {name: hash} of every v3 document, sorted by name."""
        hashes = {name: _hash([name.encode()]) for name in PAGES}
        for group in self.release.groups:
            if group.name:
                hashes[f"apis/{group.name}"] = _hash([group.name.encode(), *(v.encode() for v in group.versions)])
            for version, kinds in group.versions.items():
                name = f"apis/{group.name}/{version}" if group.name else f"api/{version}"
                served = [f"{kind.resource} {kind.verbs}".encode() for kind in kinds]
                hashes[name] = _hash([self._source(name), descriptions.digest(), *served])
        for group in self.serving.groups:
            known = self.release.group(group.name)
            for version in group.versions.keys() - (known.versions.keys() if known else ()):
                source = custom_resources.source(self._defined(group.name, version), version)
                hashes[f"apis/{group.name}/{version}"] = _hash([source, descriptions.digest()])
        return dict(sorted(hashes.items()))

    def _index(self, specs: Specs) -> bytes:
        urls = {name: url for spec in specs.values() for name, url in spec.urls.items()}
        urls |= {spec.name: _url(spec.name, spec.v3_hash) for spec in specs.values() if spec.v3}
        urls |= {name: _url(name, etag) for name, etag in self.hashes.items()}
        return orjson.dumps({"paths": {name: {"serverRelativeURL": urls[name]} for name in sorted(urls)}})

    def _rendered_once(self, media_type: str, specs: Specs, render: Callable[[], bytes]) -> bytes:
        """Return a document that depends on those of aggregated servers."""
        known = self._merged.get(media_type)
        if known is None or known[0] is not specs:
            known = self._merged[media_type] = specs, render()
        return known[1]

    def _source(self, name: str) -> bytes:
        """Return the recorded document that a v3 document is made from."""
        return release_file(self.release.version, f"openapi/{name.replace('/', '__')}.json").read_bytes()

    def _v3(self, request: Request, name: str) -> Response:
        """Return a v3 document or a part of it, or 301, 304, 404, 406, 412 or 416."""
        vary = ("Vary", "Accept")
        specs = self.specs
        if name in self.hashes:
            etag, since, render = self.hashes[name], self._made, partial(self._rendered, name)
        elif converted := next((spec for spec in specs.values() if spec.v3 and spec.name == name), None):
            etag, since, render = converted.v3_hash, self._merged_since(specs), partial(bytes, converted.v3)
        else:
            return Response(404, content_type="")
        if _negotiated(request, [JSON]) is None:
            return Response(406, content_type="", headers=[vary])
        headers, tag = [vary], f'"{etag}"'
        asked = request.query.get("hash")
        if asked and asked != etag:
            moved = [("ETag", tag), vary, ("Location", _url(name, etag))]
            return Response(301, content_type=JSON, headers=moved)
        if asked:
            expires = http_date(int(time()) + YEAR).replace("GMT", "UTC")
            headers += [("Cache-Control", "public, immutable"), ("Expires", expires)]
        response = serve_content(request, tag, since, JSON, headers, render)
        response.compressible = False  # kube-apiserver does not compress these documents
        return response

    def _rendered(self, name: str) -> bytes:
        if name not in self._documents:
            self._documents[name] = encode(self.document(name))
        return self._documents[name]

    def _swagger(self, request: Request) -> Response:
        """Return the v2 document or a part of it, or 304, 406, 412 or 416."""
        headers = [("Vary", "Accept-Encoding"), ("Vary", "Accept")]
        accepted = _negotiated(request, V2_MEDIA)
        if accepted is None:
            return Response(406, content_type="", headers=headers)
        specs = self.specs
        aggregated = with_v2(specs)
        etag = _hash(etag.encode() for etag in (*self.hashes.values(), *(spec.etag for spec in aggregated)))
        media_type = V2_MEDIA[accepted]

        def body() -> bytes:
            return self._rendered_once(media_type, specs, lambda: self._v2(media_type, aggregated))

        return serve_content(request, f'"{etag}"', self._merged_since(specs), media_type, headers, body)

    def _merged_since(self, specs: Specs) -> float:
        """Return since when documents of aggregated servers are those that they are, in seconds since 1970."""
        if self._since[0] is not specs:
            self._since = specs, time()
        return self._since[1]

    def _v2(self, media_type: str, aggregated: Iterable[AggregatedSpec]) -> bytes:
        """Return the v2 document merged with those of aggregated servers."""
        from understudy.apiserver.endpoints.openapi import gnostic  # few clients ask for v2
        from understudy.apiserver.endpoints.openapi.merging.merge import merge

        if media_type == JSON and not aggregated:
            return self._own_v2
        swagger = orjson.loads(self._own_v2)
        for spec in aggregated:
            merge(swagger, orjson.loads(spec.v2), self.release.version)
        return encode_unescaped(swagger) if media_type == JSON else gnostic.encode(swagger)

    @cached_property
    def _own_v2(self) -> bytes:
        from understudy.apiserver.endpoints.openapi import v2
        from understudy.apiserver.endpoints.openapi.merging.merge import merge

        def made(names: Iterable[str]) -> Obj:
            return v2.swagger(self.release.version, map(self.document, names), open_types)

        open_types, clashing = custom_resources.open_types(self.serving), self._clashing
        whole = made(name for name in self.hashes if name not in clashing)
        for name in clashing:
            merge(whole, made([name]), self.release.version, is_own=True)
        return encode_unescaped(whole)

    @property
    def _clashing(self) -> list[str]:
        """Return the documents of definitions with types whose names types of the release have: these get others."""
        groups = [g for g in self.serving.groups if g.name.endswith(".k8s.io") and self.release.group(g.name) is None]
        if not groups:
            return []
        documents = Schemas.of(self.release.version)
        known = {
            name for g in self.release.groups for version in g.versions for name in documents.document(g.name, version)
        }
        return [
            f"apis/{group.name}/{version}"
            for group in groups
            for version in group.versions
            if any(
                custom_resources.type_name(kinds[version].gvk(version)) in known
                for _, kinds, _ in self._defined(group.name, version)
            )
        ]

    def _type_name(self, gvk: GroupVersionKind) -> str:
        """Return the OpenAPI name of a kind's type, "" if it has no recorded type."""
        schemas = Schemas.of(self.release.version)
        if schemas.has_kind(*gvk):
            return openapi_name(schemas.kind(*gvk).name)
        served = self.release.group(gvk.group)
        return custom_resources.type_name(gvk) if served is None or gvk.version not in served.versions else ""


def _split(name: str) -> tuple[str, str]:
    """Return the group and version of a document: ("", "v1") for api/v1, ("apps", "") for apis/apps."""
    prefix, *rest = name.split("/")
    if prefix == "api":
        return "", rest[0]
    return rest[0], rest[1] if len(rest) > 1 else ""


def _hash(parts: Iterable[bytes]) -> str:
    """Return the hash of texts, and of VERSION."""
    digest = sha512(VERSION)
    for part in parts:
        digest.update(part)
        digest.update(b"\0")
    return digest.hexdigest().upper()


def _url(name: str, etag: str) -> str:
    return f"{ROOT}/{name}?hash={etag}"


def _negotiated(request: Request, offers: Iterable[str]) -> str | None:
    """Return the first offer that the most preferred clause of Accept names; parameters are ignored."""
    for clause in _accepted(request.headers.get("Accept") or "*/*"):
        for offer in offers:
            if clause.matches(offer):
                return offer
    return None


@cache_short_texts(64)
def _accepted(accept: str) -> list[Clause]:
    return clauses(accept)
