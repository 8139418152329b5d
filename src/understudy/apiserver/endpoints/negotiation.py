"""Content negotiation: the form that the client accepts (Accept) and the form of its body (Content-Type).

kube-apiserver checks both twice, with different error messages. The router (go-restful) compares bare media types, and
`application/*` matches none; then the handler (k8s.io/apiserver/pkg/endpoints/handlers/negotiation) reads clauses with
their parameters, and `application/*` matches. Both refuse with 406. Headers repeat, so every result is cached.

    form = output(accept, OBJECT)               Output("application/json", target="Table", target_version="v1", …)
    form = error_output(accept)                 never fails: JSON if the client accepts no other form
    media_type = body_type(content_type)        application/json, application/yaml, application/vnd.kubernetes.protobuf
    media_type = patch_type(headers)            application/apply-patch+yaml, …
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from functools import cache, lru_cache
from typing import TYPE_CHECKING

from understudy.machinery.errors import StatusError, not_acceptable, unsupported_media_type
from understudy.machinery.golang.text import parse_bool
from understudy.machinery.types import NamedTuple, dataclass
from understudy.machinery.util.caches import cache_short_texts
from understudy.machinery.util.regex import regex

if TYPE_CHECKING:
    from understudy.machinery.options import Query


class RouteError(StatusError):
    """The error of a request that the router sends to no handler, which cannot warn of anything then."""


JSON = "application/json"
YAML = "application/yaml"
PROTOBUF = "application/vnd.kubernetes.protobuf"
CBOR, CBOR_SEQUENCE = "application/cbor", "application/cbor-seq"
MEDIA = (JSON, YAML, PROTOBUF)
STREAMS = (f"{JSON};stream=watch", f"{PROTOBUF};stream=watch")

JSON_PATCH = "application/json-patch+json"
MERGE_PATCH = "application/merge-patch+json"
STRATEGIC_PATCH = "application/strategic-merge-patch+json"
APPLY_PATCH = "application/apply-patch+yaml"
APPLY_CBOR_PATCH = "application/apply-patch+cbor"
PATCHES = (JSON_PATCH, MERGE_PATCH, STRATEGIC_PATCH, APPLY_PATCH)
CUSTOM_PATCHES = (JSON_PATCH, MERGE_PATCH, APPLY_PATCH)
APPLY_PATCHES = (APPLY_PATCH, APPLY_CBOR_PATCH)

META_VERSIONS = ("v1", "v1beta1")
CONVERSIONS = ("Table", "PartialObjectMetadata", "PartialObjectMetadataList")
DISCOVERY_GROUP, DISCOVERY_KIND = "apidiscovery.k8s.io", "APIGroupDiscoveryList"

_INSERTED = 12  # clauses that Go sorts by insertion; it sorts more of them by a method that no client can rely on

PRETTY_AGENTS = ("curl", "Wget", "Mozilla/5.0")


@dataclass(frozen=True, slots=True, eq=False)  # hashed on every request: by identity
class Endpoint:
    """The forms in which a route can answer.

    produces     media types that its router names; empty if it has no router
    media        media types that its handler can write
    plain        those of them in which it can write the object itself, and not only another form of it
    conversions  whether it can answer with tables and with metadata only
    tables       False if it answers with metadata only, but not with tables
    aggregates   versions in which it can answer with aggregated discovery
    """

    produces: tuple[str, ...] = MEDIA
    media: tuple[str, ...] = MEDIA
    plain: tuple[str, ...] = MEDIA
    conversions: bool = False
    tables: bool = True
    aggregates: tuple[str, ...] = ()


OBJECT = Endpoint(conversions=True)
LIST = Endpoint(produces=(*MEDIA, *STREAMS), conversions=True)
# Custom resources have no router and no protobuf; but their tables and metadata have.
CUSTOM = Endpoint(produces=(), plain=(JSON, YAML), conversions=True)
UNTABLED = Endpoint(conversions=True, tables=False)
LOG = Endpoint(produces=("text/plain", *MEDIA), conversions=True, tables=False)
PLAIN = Endpoint()
API = Endpoint(aggregates=("v2",))  # /api
APIS = Endpoint(produces=(), aggregates=("v2",))  # /apis
# The same while `AggregatedDiscoveryRemoveBetaType` is off, as it always was before 1.33.
BETA_API, BETA_APIS = replace(API, aggregates=("v2", "v2beta1")), replace(APIS, aggregates=("v2", "v2beta1"))
UNROUTED = Endpoint(produces=())  # /apis/ and /apis/GROUP


@cache
def with_cbor(endpoint: Endpoint) -> Endpoint:
    """Return an endpoint that answers in CBOR, too."""
    media, plain = (*endpoint.media, CBOR), (*endpoint.plain, CBOR)
    return replace(endpoint, media=media, plain=plain, produces=_routed_cbor(endpoint.produces))


def _routed_cbor(produces: tuple[str, ...]) -> tuple[str, ...]:
    """Return the media types that a router names, with those of CBOR."""
    if not produces:
        return produces
    plain = [media for media in produces if media not in STREAMS]
    streams = (*STREAMS, CBOR_SEQUENCE) if len(plain) < len(produces) else ()
    return (*plain, CBOR, *streams)


@lru_cache
def without_tables(endpoint: Endpoint) -> Endpoint:
    """Return an endpoint that answers with metadata only, but not with tables."""
    return replace(endpoint, tables=False)


class Output(NamedTuple):
    """The form of an answer.

    media_type      one of MEDIA, or that of CBOR
    target          "" for the object itself, one of CONVERSIONS, or APIGroupDiscoveryList
    target_version  version of the target's group (meta.k8s.io, apidiscovery.k8s.io)
    pretty          JSON indented by two spaces; JSON that is not indented ends with a newline
    """

    media_type: str = JSON
    target: str = ""
    target_version: str = ""
    pretty: bool = False

    @property
    def watch_type(self) -> str:
        """Return the Content-Type of a watch in this form."""
        if self.media_type == CBOR:
            return CBOR_SEQUENCE
        return self.media_type if self.media_type == JSON else f"{self.media_type};stream=watch"

    def as_pretty(self) -> Output:
        """Return the form with JSON indented; other media types stay the same."""
        return self._replace(pretty=True) if self.media_type == JSON else self


@dataclass(slots=True)
class Clause:
    """One part of an Accept header: application/json;q=0.5;as=Table."""

    type: str
    subtype: str
    quality: float
    parameters: dict[str, str]

    def matches(self, media_type: str) -> bool:
        """Report whether the clause accepts a media type, by its name or by a wildcard."""
        of_type, _, subtype = media_type.partition("/")
        return (self.type, self.subtype) in ((of_type, subtype), (of_type, "*"), ("*", "*"))

    def before(self, other: Clause) -> bool:
        """Report whether the clause is preferred to another one, as the Go library goautoneg sorts them.

        This is no strict weak order, so `clauses` inserts a few clauses one by one, as Go does.
        """
        return (
            self.quality > other.quality
            or (self.type != "*" and other.type == "*")
            or (self.subtype != "*" and other.subtype == "*")
        )


def clauses(accept: str) -> list[Clause]:
    """Return the clauses of an Accept header, the most preferred first; malformed ones are left out."""
    named = [clause for part in accept.split(",") if (clause := _clause(part.strip(" "))) is not None]
    if len(named) > _INSERTED:
        return sorted(named, key=lambda clause: (-clause.quality, clause.type == "*", clause.subtype == "*"))
    out: list[Clause] = []
    for clause in named:
        at = len(out)
        while at and clause.before(out[at - 1]):
            at -= 1
        out.insert(at, clause)
    return out


def _clause(part: str) -> Clause | None:
    """Return one clause of an Accept header, None if it is malformed."""
    media, *rest = part.split(";")
    of_type, _, subtype = media.partition("/")
    if not subtype:
        if of_type.strip(" ") != "*":
            return None
        subtype = "*"
    elif "/" in subtype and subtype.partition("/")[2]:
        return None
    quality, parameters = 1.0, {}
    for item in rest:
        key, _, value = item.partition("=")
        if not value or value.partition("=")[2]:
            continue
        if key.strip(" ") == "q":
            quality = _float(value)
        else:
            parameters[key.strip(" ")] = value.strip(" ")
    return Clause(of_type.strip(" "), subtype.partition("/")[0].strip(" "), quality, parameters)


def _float(text: str) -> float:
    try:
        return float(text)
    except ValueError:
        return 0.0


@cache_short_texts(1024)
def output(accept: str, endpoint: Endpoint = OBJECT) -> Output:
    """Return the form to answer in (`NegotiateOutputMediaType`). Raises StatusError (406)."""
    if not accept:
        return Output(endpoint.media[0])
    if endpoint.produces:
        route(accept, endpoint.produces)
    return (endpoint.aggregates and _aggregated(accept, endpoint)) or _negotiated(accept, endpoint)


@cache_short_texts(1024)
def route(accept: str, produces: tuple[str, ...]) -> None:
    """Check Accept as the router does. Raises StatusError (406) unless it names one of the media types or `*/*`."""
    asked = [part.partition(";")[0].strip(" ") for part in (accept or "*/*").split(",")]
    if not any(media == "*/*" or media in produces for media in asked):
        message = f"406: Not Acceptable\n\nAvailable representations: {', '.join(produces)}"
        raise RouteError(406, "NotAcceptable", message, {})


def _negotiated(accept: str, endpoint: Endpoint) -> Output:
    """Return the form of the most preferred clause that the endpoint can answer. Raises StatusError (406)."""
    for clause in clauses(accept):
        for media_type in endpoint.media:
            if clause.matches(media_type):
                form = _offered(media_type, clause.parameters, endpoint)
                if form:
                    return form
    raise not_acceptable(endpoint.media)


def _offered(media_type: str, parameters: Mapping[str, str], endpoint: Endpoint) -> Output | None:
    """Return the form that a clause asks for in a media type, None if the endpoint does not offer it."""
    if parameters.get("stream", "watch") != "watch" or ("stream" in parameters and media_type == YAML):
        return None
    if "sv" in parameters and not (endpoint.conversions and parameters["sv"] == "v1"):
        return None
    pretty = parameters.get("pretty") == "1" and media_type == JSON
    if not {"as", "g", "v"} & set(parameters):
        return Output(media_type, pretty=pretty) if media_type in endpoint.plain else None
    kind, group, version = (parameters.get(key, "") for key in ("as", "g", "v"))
    if not _converts(media_type, kind, group, version, endpoint):
        return None
    return Output(media_type, kind, version, pretty)


def _converts(media_type: str, kind: str, group: str, version: str, endpoint: Endpoint) -> bool:
    """Report whether an endpoint can convert objects to a kind of meta.k8s.io in a media type."""
    if not endpoint.conversions or group != "meta.k8s.io" or version not in META_VERSIONS:
        return False
    return kind in CONVERSIONS and not (kind == "Table" and (media_type in (PROTOBUF, CBOR) or not endpoint.tables))


def _aggregated(accept: str, endpoint: Endpoint) -> Output | None:
    """Return the form of aggregated discovery if any clause asks for it, None if none does."""
    for clause in clauses(accept):
        kind, group, version = (clause.parameters.get(key, "") for key in ("as", "g", "v"))
        if (group, kind) != (DISCOVERY_GROUP, DISCOVERY_KIND) or version not in endpoint.aggregates:
            continue
        media_type = next((media for media in endpoint.media if clause.matches(media)), "")
        if media_type:
            return Output(media_type, kind, version, clause.parameters.get("pretty") == "1")
    return None


@cache_short_texts(1024)
def watch_output(accept: str, endpoint: Endpoint = LIST) -> Output:
    """Return the form of a watch: that of a list, if it can be streamed. Raises StatusError (406)."""
    form = output(accept, endpoint)
    if form.media_type == YAML:
        raise not_acceptable((*STREAMS, CBOR_SEQUENCE) if CBOR in endpoint.media else STREAMS)
    return form


@cache_short_texts(1024)
def error_output(accept: str, serves_cbor: bool = False) -> Output:
    """Return the form of an error: never a table, and indented JSON for clients that accept none of MEDIA."""
    if not accepts_errors(accept, serves_cbor):
        return Output(pretty=True)
    return _negotiated(accept, _errors(serves_cbor)) if accept else Output()


@cache_short_texts(1024)
def accepts_errors(accept: str, serves_cbor: bool = False) -> bool:
    """Report whether a client accepts a form of errors; others get JSON that is not negotiated."""
    try:
        return not accept or bool(_negotiated(accept, _errors(serves_cbor)))
    except StatusError:
        return False


def _errors(serves_cbor: bool) -> Endpoint:
    return with_cbor(PLAIN) if serves_cbor else PLAIN


def wants_pretty(query: Query, user_agent: str) -> bool:
    """Report whether to indent JSON: `?pretty=` decides, else the user agent (curl and browsers get indented JSON)."""
    pretty = query.get("pretty")
    if pretty:
        return bool(parse_bool(pretty))
    return user_agent.startswith(PRETTY_AGENTS)


_PARAMETER = regex(r""";\s*[!#$%&'*+.^_`|~\w-]+\s*=\s*(?:[!#$%&'*+.^_`|~\w-]+|"(?:[^"\\]|\\.)*")\s*""")


@cache_short_texts(256)
def body_type(content_type: str, serves_cbor: bool = False) -> str:
    """Return the media type of a body; without a Content-Type it is JSON. Raises StatusError (415).

    Parameters that cannot be parsed are an error, as in Go's `mime.ParseMediaType`.
    """
    if not content_type:
        return JSON
    media = content_type.partition(";")[0]
    rest = content_type[len(media) :].strip()
    media = media.strip().lower()
    media_types = (*MEDIA, CBOR) if serves_cbor else MEDIA
    if media in media_types and not _PARAMETER.sub("", rest).strip(" ;"):
        return media
    raise unsupported_media_type(media_types)


def patch_type(headers: Mapping[str, str], patches: tuple[str, ...] = PATCHES) -> str:
    """Return the media type of a patch, one of `patches`. Raises StatusError (415, or 406 from the router).

    Custom resources have no router and no strategic merge patches.
    """
    if STRATEGIC_PATCH not in patches:
        media_type = headers.get("Content-Type", "").partition(";")[0]
        if media_type not in patches:
            raise unsupported_media_type(patches)
        return media_type
    media_type = _patch_type(headers.get("Content-Type", ""), patches)
    if not media_type:
        raise _no_patch(headers.get("Content-Length", ""))
    return media_type


@cache_short_texts(256)
def _patch_type(content_type: str, patches: tuple[str, ...]) -> str:
    """Return the media type of a patch, "" if the router knows none of the types. Raises 415 if the handler does not.

    The router accepts a list of types, the handler only a single one.
    """
    if not any(part.partition(";")[0].strip(" ") in patches for part in content_type.split(",")):
        return ""
    media = content_type.partition(";")[0]
    if media not in patches:
        raise unsupported_media_type(patches)
    return media


def _no_patch(content_length: str) -> StatusError:
    """Return the router's error for a patch of an unknown type.

    Without a body the router goes on to look for a type that it could answer with, and finds none: another message.
    """
    if content_length.strip("0"):
        return RouteError(415, "UnsupportedMediaType", "415: Unsupported Media Type", {})
    code, reason, text = 415, "UnsupportedMediaType", "Unsupported Media Type"
    if content_length:
        code, reason, text = 406, "NotAcceptable", "Not Acceptable"
    return RouteError(code, reason, f"{code}: {text}\n\nAvailable representations: ", {})
