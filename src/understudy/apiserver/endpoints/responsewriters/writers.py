"""Responses with objects and errors, in the form that the client negotiated."""

from __future__ import annotations

from collections.abc import Iterable
from functools import partial as partial_function

from understudy.apiserver.encoding.encoded import (
    encoded,
    encoded_cbor,
    encoded_protobuf,
    internal,
    versioned,
)
from understudy.apiserver.endpoints.negotiation import (
    CBOR,
    JSON,
    OBJECT,
    PROTOBUF,
    YAML,
    Endpoint,
    Output,
    RouteError,
    error_output,
    output,
    wants_pretty,
    with_cbor,
)
from understudy.apiserver.endpoints.request import Request, Response
from understudy.apiserver.endpoints.responsewriters.tables import (
    check_conversion,
    check_scale_conversion,
    check_unstored,
    endpoint,
    partial,
    scale_table,
    table,
)
from understudy.apiserver.endpoints.scope import RequestScope
from understudy.apiserver.storage.interface import Entry
from understudy.machinery.errors import StatusError, unknown_error
from understudy.machinery.golang.json_parts import LONG_TEXT, encode_in_parts
from understudy.machinery.golang.json_reader import to_bytes
from understudy.machinery.golang.json_scalars import loads
from understudy.machinery.golang.json_writer import indent
from understudy.machinery.releases.version import V1_37
from understudy.machinery.serializer import protobuf
from understudy.machinery.serializer.cbor import encode as cbor
from understudy.machinery.serializer.json import encode
from understudy.machinery.typeinfo.go_types import Schemas, Struct
from understudy.machinery.types import Obj, split_api_version
from understudy.machinery.util.deep_recursion import call_deeply
from understudy.machinery.util.pieces import PIECE
from understudy.machinery.util.regex import regex

META = "k8s.io/apimachinery/pkg/apis/meta"
WARNING = "Warning"
LARGE = 256 * 1024  # bytes of a packed object of which it may take long to make a form, some 50 ms for a megabyte,
LARGE_YAML = 16 * 1024  # and one in YAML, up to two seconds for a megabyte
_WARNINGS_LENGTH, _WARNING_LENGTH = 4096, 256  # characters: of all texts, and of each if those are too long
_NO_YAML = regex(rb"\\/|\\u[dD][89a-fA-F]")
_CONTROL = regex(r"[\x00-\x1f\x7f-\x9f]")


def negotiate_output(request: Request, offered: Endpoint = OBJECT) -> Output:
    """Return the form that a client accepts from an endpoint. Raises 406."""
    return output(request.headers.get("Accept", ""), with_cbor(offered) if request.serves_cbor else offered)


def form_of(request: Request, scope: RequestScope) -> Output:
    """Return the form that a client accepts for an object or a subresource. Raises 406."""
    offered = endpoint(scope.kind, scope.subresource)
    return output(request.headers.get("Accept", ""), with_cbor(offered) if request.serves_cbor else offered)


def takes_long(size: int, form: Output) -> bool:
    """Report whether it may take more than some milliseconds to make a form, other than JSON, of an object whose packed
    value has so many bytes."""
    return size > (LARGE_YAML if form.media_type == YAML else LARGE)


async def object_response(
    request: Request, scope: RequestScope, entry: Entry, status: int = 200, form: Output | None = None
) -> Response:
    """Return one stored object in the negotiated form, that of a large one made beside the event loop."""
    form = form or form_of(request, scope)
    if form.media_type == JSON and not form.target and not is_pretty(request, form):
        return Response(status, encoded(entry, scope.kind, scope.version) + b"\n", JSON)
    if takes_long(entry.packed_size, form):
        return await request.make(partial_function(_object_response, request, scope, entry, status, form))
    return _object_response(request, scope, entry, status, form)


def _object_response(request: Request, scope: RequestScope, entry: Entry, status: int, form: Output) -> Response:
    """Return one stored object in another form than JSON on a single line."""
    kind = scope.kind
    if form.media_type == PROTOBUF and not form.target:
        return Response(status, encoded_protobuf(entry, kind, scope.version), PROTOBUF)
    if form.media_type == CBOR and not form.target:
        return Response(status, cbor.PREFIX + cbor.shuffled(encoded_cbor(entry, kind, scope.version)), CBOR)
    if not form.target:
        return _reply(request, form, encoded(entry, kind, scope.version), status)
    check_conversion(form, kind, listing=False)
    obj = versioned(entry, kind, scope.version)
    if form.target == "Table":
        body = table(kind, scope.version, [internal(entry, kind)], versioned=[obj], request=request, form=form)
        return _reply(request, form, body, status)
    return _reply(request, form, partial(scope.codec.metadata(obj), form.target_version), status)


def value_response(request: Request, scope: RequestScope, body: Obj, status: int = 200) -> Response:
    """Return an object that is not stored, such as a Status or a review; of a Status there is one form only."""
    form = form_of(request, scope)
    if form.target and body["kind"] != "Status":
        check_unstored(form, body)
        body = partial(body["metadata"], form.target_version)
    return _reply(request, form, body, status)


def created_response(request: Request, scope: RequestScope) -> Response:
    """Return 201 with a Status "Success", as bindings and evictions do."""
    status = {"kind": "Status", "apiVersion": "v1", "metadata": {}, "status": "Success", "code": 201}
    return value_response(request, scope, status, 201)


def scale_response(request: Request, scope: RequestScope, scale: Obj) -> Response:
    """Return the Scale of an object."""
    form = form_of(request, scope)
    check_scale_conversion(form, scope.kind)
    if form.target == "Table":
        scale = scale_table(scope.kind, scope.version, scale, request=request, form=form)
    elif form.target:
        scale = partial(scale["metadata"], form.target_version)
    return _reply(request, form, scale)


def error_response(request: Request, error: StatusError) -> Response:
    """Return an error as a Status. Every error that is answered passes here."""
    request.refused_by = error.refused_by or ("validation" if error.reason == "Invalid" else "")
    request.refusal = error.message
    serves_cbor = request.serves_cbor and (request.release >= V1_37 or not isinstance(error, RouteError))
    form = error_output(request.headers.get("Accept", ""), serves_cbor)
    status, causes = error.status(), (error.details or {}).get("causes", ())
    if form.media_type == JSON and (len(causes) > PIECE or len(error.message) > LONG_TEXT):
        parts = [*encode_in_parts(status, pretty=is_pretty(request, form)), b"" if is_pretty(request, form) else b"\n"]
        response = Response(error.code, parts, JSON)
    else:
        response = _reply(request, form, status, error.code)
    if error.retry_after is not None:
        response.headers.append(("Retry-After", str(error.retry_after)))
    return response


def text_response(status: int, text: str) -> Response:
    """Return plain text, as kube-apiserver answers outside its API (Go's `http.Error`)."""
    return Response(status, to_bytes(text), "text/plain; charset=utf-8", [("X-Content-Type-Options", "nosniff")])


def is_pretty(request: Request, form: Output) -> bool:
    """Report whether JSON is to be indented."""
    return form.pretty or wants_pretty(request.query, request.headers.get("User-Agent", ""))


def _reply(request: Request, form: Output, body: Obj | bytes, status: int = 200) -> Response:
    """Return a body, an object or its JSON, in the negotiated media type. A body in JSON is not that of protobuf."""
    raw = body if isinstance(body, bytes) else b""
    if form.media_type == JSON:
        return Response(status, _json(raw or encode(body), is_pretty(request, form)), JSON)
    if form.media_type == PROTOBUF:
        assert isinstance(body, dict)
        return Response(status, protobuf.encode(body, struct_of(Schemas.of(request.release), body)), PROTOBUF)
    if form.media_type == CBOR:
        assert isinstance(body, dict)
        return Response(status, cbor.encode(body, cbor_struct_of(Schemas.of(request.release), body)), CBOR)
    return Response(status, yaml_of(raw or encode(body)), form.media_type)


def struct_of(schemas: Schemas, obj: Obj) -> Struct:
    """Return the Go type of an object, or of its metadata-only form.

    Only PartialObjectMetadataList differs between the versions of meta.k8s.io.
    """
    group, version = split_api_version(obj["apiVersion"])
    if group == "meta.k8s.io":
        of_version = version if obj["kind"] == "PartialObjectMetadataList" else "v1"
        return schemas.struct(f"{META}/{of_version}.{obj['kind']}")
    return schemas.kind(group, version, obj["kind"])


def cbor_struct_of(schemas: Schemas, obj: Obj) -> Struct | None:
    """Return the Go type of an object as `struct_of` does, None for a kind of which the release has none."""
    named = (*split_api_version(obj["apiVersion"]), obj["kind"])
    return struct_of(schemas, obj) if named[0] == "meta.k8s.io" or schemas.has_kind(*named) else None


def render_document(body: Obj, form: Output, schemas: Schemas) -> bytes:
    """Return the bytes of a discovery document in the negotiated form."""
    if form.media_type == YAML:
        return yaml_of(encode(body))
    if form.media_type == CBOR:
        return cbor.encode(body, None)
    if form.media_type == PROTOBUF:
        package = f"k8s.io/api/apidiscovery/{form.target_version}" if form.target else f"{META}/v1"
        return protobuf.encode(body, schemas.struct(f"{package}.{body['kind']}"))
    return _json(encode(body), form.pretty)


def yaml_of(raw: bytes) -> bytes:
    """Return the YAML of JSON, which is read as YAML for that. Raises 500 for escapes that YAML does not have.

    Raw parts of objects may be written with them.
    """
    from understudy.machinery.golang.yaml_writer import dump_yaml  # few read YAML

    if _NO_YAML.search(raw):
        from understudy.machinery.golang.yaml_reader import YAMLError, roots

        try:
            list(roots(raw))
        except YAMLError as error:
            raise unknown_error(str(error)) from None
    return call_deeply(dump_yaml, loads(raw)).encode()


def _json(raw: bytes, pretty: bool) -> bytes:
    return indent(raw) if pretty else raw + b"\n"


def warning_headers(warnings: list[str]) -> list[tuple[str, str]]:
    """Return Warning headers (RFC 7234) for those of the warnings that are shown, all cut if they are too long."""
    if not warnings:
        return []
    texts = shown_warnings(warnings)
    if sum(map(len, texts)) > _WARNINGS_LENGTH:
        texts = [text[:_WARNING_LENGTH] for text in texts]
    escaped = (text.replace("\\", "\\\\").replace('"', '\\"') for text in texts)
    return [(WARNING, f'299 - "{text}"') for text in escaped]


def shown_warnings(warnings: Iterable[str]) -> list[str]:
    """Return those of the warnings that an answer has room for: each text once, in the order of arrival.

    Texts with control characters are left out, as in Go. All up to the first one that exceeds the limit are shown; more
    are added while they fit if each is cut to `_WARNING_LENGTH`. There may be a hundred thousand.
    """
    shown: dict[str, None] = {}
    total = cut = 0
    for text in warnings:
        if not text or text in shown or _CONTROL.search(text):
            continue
        shown[text] = None
        total += len(text)
        cut += min(len(text), _WARNING_LENGTH)
        if total > _WARNINGS_LENGTH <= cut:
            break
    return list(shown)
