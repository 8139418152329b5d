"""The names and attributes of spans, as kube-apiserver and the packages of OpenTelemetry that it uses have them."""

from __future__ import annotations

import json
from urllib.parse import quote

from understudy.apiserver.endpoints.negotiation import APPLY_PATCH
from understudy.apiserver.endpoints.request import Request
from understudy.apiserver.endpoints.requestinfo import RequestInfo
from understudy.apiserver.server.http.tracing.request_trace import Attributes, Call
from understudy.apiserver.server.http1.exchange import Exchange
from understudy.machinery.releases.version import V1_35, V1_36, Version

_PORTS = {"http": 80, "https": 443}
_CONNECTS = ("log", "exec", "attach", "portforward", "proxy")
# Names of attributes before 1.35, and since: `otelhttp` follows newer conventions.
_METHOD = ("http.method", "http.request.method")
_SCHEME = ("http.scheme", "url.scheme")
_HOST = ("net.host.name", "server.address")
_PORT = ("net.host.port", "server.port")
_PEER = ("net.sock.peer.addr", "network.peer.address")
_PEER_PORT = ("net.sock.peer.port", "network.peer.port")
_VERSION = ("net.protocol.version", "network.protocol.version")
_RECEIVED = ("http.request_content_length", "http.request.body.size")
_SENT = ("http.response_content_length", "http.response.body.size")
_STATUS = ("http.status_code", "http.response.status_code")


def span_name(method: str, info: RequestInfo | None) -> str:
    """Return the name of the span of a request (`getSpanNameFromRequestInfo`)."""
    if info is None or not info.is_resource:
        return method
    parts = [
        info.prefix,
        *([info.group] if info.group else []),
        info.version,
        *(["namespaces", "{:namespace}"] if info.namespace else []),
        info.resource,
        *(["{:name}"] if info.name else []),
        *([info.subresource] if info.subresource else []),
    ]
    return f"{method} /{'/'.join(parts)}"


def protocol_of(exchange: Exchange) -> str:
    """Return the protocol of a request as Go names it, such as `HTTP/1.1`."""
    return "HTTP/{}.{}".format(*exchange.version)


def request_attributes(exchange: Exchange, scheme: str, release: Version, audit_id: str) -> Attributes:
    """Return the attributes of the span of a request."""
    new = release >= V1_35
    host, port = _host_of(exchange.headers.get("Host", ""))
    peer = None if exchange.transport is None else exchange.transport.get_extra_info("peername")
    address = str(peer[0]) if peer else ""
    attributes: dict[str, str | int] = {
        _METHOD[new]: exchange.method,
        _SCHEME[new]: scheme,
        _HOST[new]: host,
        _VERSION[new]: "{}.{}".format(*exchange.version),
        "http.target": exchange.target,
    }
    if port and port != _PORTS[scheme]:
        attributes[_PORT[new]] = port
    if peer:
        attributes |= {_PEER[new]: address, _PEER_PORT[new]: int(peer[1])}
    if agent := exchange.headers.get("User-Agent"):
        attributes["user_agent.original"] = agent
    client = exchange.headers.get("X-Forwarded-For", "").partition(",")[0]
    if new:
        attributes |= {"client.address": client or address, "url.path": exchange.target.partition("?")[0]}
    elif client:
        attributes["http.client_ip"] = client
    return {**attributes, "audit-id": audit_id} if audit_id else attributes


def _host_of(text: str) -> tuple[str, int]:
    """Return the host and the port of a Host header, 0 for no port."""
    host, _, port = text.rpartition(":")
    if host and port.isdecimal():
        return host.strip("[]"), int(port)
    return text.strip("[]"), 0


def answer_attributes(release: Version, status: int, received: int, sent: int) -> Attributes:
    """Return the attributes that the span of a request gets with its answer; sizes of 0 bytes are left out."""
    new = release >= V1_35
    sizes = {_RECEIVED[new]: received, _SENT[new]: sent}
    return {**{name: size for name, size in sizes.items() if size}, _STATUS[new]: status}


def call_of_etcd(release: Version, method: str) -> Call:
    """Return a call of a method of etcd's keys and values, such as `Range`, as `otelgrpc` tells of it."""
    service = "etcdserverpb.KV"
    name = f"{service}/{method}"
    if release >= V1_36:
        return Call(name, {"rpc.method": name, "rpc.response.status_code": "OK", "rpc.system.name": "grpc"})
    names = {"rpc.service": service, "rpc.method": method, "rpc.system": "grpc"}
    return Call(name, {**names, "rpc.grpc.status_code": 0})


def handler_attributes(request: Request, exchange: Exchange, audit_id: str) -> Attributes:
    """Return the attributes of the span of a handler (`traceFields`)."""
    info = request.info
    return {
        "accept": request.headers.get("Accept", ""),
        "audit-id": audit_id,
        "client": request.source(),
        "api-group": info.group,
        "api-version": info.version,
        "name": info.name,
        "subresource": info.subresource,
        "namespace": info.namespace,
        "protocol": protocol_of(exchange),
        "resource": info.resource,
        "scope": _scope(info),
        "url": quote(request.path, safe="/:@!$&'()*+,;=~"),
        "user-agent": request.headers.get("User-Agent", ""),
        "verb": _verb(request),
    }


def _scope(info: RequestInfo) -> str:
    """Return the scope of a request: one object, those of a namespace, or all (`CleanScope`)."""
    if info.name or info.verb == "create":
        return "resource"
    return "namespace" if info.namespace else "cluster"


def _verb(request: Request) -> str:
    """Return the verb of a request (`NormalizedVerb`)."""
    if request.info.verb == "watch":
        return "WATCH"
    if request.info.subresource in _CONNECTS:
        return "CONNECT"
    if request.method == "PATCH" and request.headers.get("Content-Type") == APPLY_PATCH:
        return "APPLY"
    if request.method in ("GET", "HEAD"):
        return "GET" if _scope(request.info) == "resource" else "LIST"
    return request.method


def encoder_of(media_type: str, api_version: str, *, pretty: bool = False, streams: bool = False) -> str:
    """Return the name of the encoder of an answer or of the events of a watch (`runtime.Identifier`).

    `api_version` is "" for errors of routes.
    """
    if media_type.startswith("application/vnd.kubernetes.protobuf"):
        encoder = "raw-protobuf" if streams else "protobuf"
    elif media_type.startswith("application/cbor"):
        encoder = "cbor"
    else:
        yaml = str("yaml" in media_type).lower()
        name = "yaml" if yaml == "true" else "json"
        fields = {"name": name, "pretty": str(pretty).lower(), "strict": "false", "yaml": yaml}
        encoder = json.dumps(fields, separators=(",", ":"))
    fields = {**({"encodeGV": api_version} if api_version else {}), "encoder": encoder, "name": "versioning"}
    return json.dumps(fields, separators=(",", ":"))
