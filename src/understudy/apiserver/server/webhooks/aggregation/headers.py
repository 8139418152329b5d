"""The headers of requests and answers that pass through the aggregator."""

from __future__ import annotations

from multidict import CIMultiDict, CIMultiDictProxy

from understudy.apiserver.authentication.bearer_token import PROTOCOLS, spoken_protocols
from understudy.apiserver.endpoints.request import Request
from understudy.machinery.auth.users import User
from understudy.machinery.golang.urls import clean_path
from understudy.machinery.validation.generated_names import new_uid

AUDIT_ID = "Audit-Id"
USER, GROUP, UID, EXTRA = "X-Remote-User", "X-Remote-Group", "X-Remote-Uid", "X-Remote-Extra-"
# Headers about one connection, which a proxy does not pass on (upstream: `hopHeaders`).
_HOP_BY_HOP = (
    "connection",
    "proxy-connection",
    "keep-alive",
    "proxy-authenticate",
    "proxy-authorization",
    "te",
    "trailer",
    "transfer-encoding",
    "upgrade",
)
_NOT_PASSED_ON = ("host", "content-length", "expect")
_FORWARDED = "X-Forwarded-"
_TOKEN = frozenset(b"!#$&'*+-.^_`|~0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz")

Headers = CIMultiDict[str]


def user_headers(user: User, *, tells_uid: bool) -> list[tuple[str, str]]:
    """Return the headers by which a front proxy names a user (upstream: `SetAuthProxyHeaders`)."""
    headers = [(USER, user.name)]
    if tells_uid and user.uid:
        headers.append((UID, user.uid))
    headers += [(GROUP, group) for group in user.groups]
    return headers + [(EXTRA + _escaped(key), value) for key, values in user.extra.items() for value in values]


def _escaped(key: str) -> str:
    """Return a key as a part of the name of a header, as Go writes names (`headerKeyEscape`)."""
    text = "".join(chr(byte) if byte in _TOKEN else f"%{byte:02x}" for byte in key.encode("utf-8", "surrogateescape"))
    return canonical_name(text)


def canonical_name(name: str) -> str:
    """Return the name of a header as Go writes it (`CanonicalMIMEHeaderKey`)."""
    return "-".join(part[:1].upper() + part[1:].lower() for part in name.split("-"))


def upgrade_headers(request: Request, host: str, *, tells_uid: bool) -> Headers:
    """Return the headers of a request for another protocol, those of its connection included."""
    headers = _passed_on(request, host, tells_uid=tells_uid)
    headers.setdefault("User-Agent", "Go-http-client/1.1")
    return headers


def forwarded_headers(request: Request, path: str, host: str, *, tells_uid: bool) -> Headers:
    """Return the headers of a request whose escaped path is asked for at a host."""
    headers = _passed_on(request, host, tells_uid=tells_uid)
    end_hop(headers, path)
    headers[f"{_FORWARDED}Host"], headers[f"{_FORWARDED}Proto"] = host, "https"
    return headers


def end_hop(headers: Headers, path: str) -> None:
    """Drop headers about the connection of a client, and name the escaped path that it has asked for."""
    accepts_trailers = "trailers" in headers.get("Te", "").lower()
    _drop_hop_by_hop(headers)
    if accepts_trailers:
        headers["Te"] = "trailers"
    headers[f"{_FORWARDED}Uri"] = clean_path(path)


def _passed_on(request: Request, host: str, *, tells_uid: bool) -> Headers:
    """Return the headers of a request without its credentials, with its user instead and the hosts it came from."""
    headers = Headers()
    for name, value in request.headers_to_pass_on():
        if name.lower() not in _NOT_PASSED_ON:
            headers.add(name, value)
    headers["Host"] = host
    headers[AUDIT_ID] = audit_id_of(request)
    if PROTOCOLS in headers:
        headers[PROTOCOLS] = ", ".join(spoken_protocols(request.headers))
    add_source(headers, request)
    headers.extend(user_headers(request.user, tells_uid=tells_uid))
    return headers


def add_source(headers: Headers, request: Request) -> None:
    """Add the address of a client to the hosts that a request came through (upstream: `AppendForwardedForHeader`)."""
    headers[f"{_FORWARDED}For"] = ", ".join([*headers.getall(f"{_FORWARDED}For", ()), request.source()])


def own_headers(request: Request, audit_id: str) -> list[tuple[str, str]]:
    """Return the headers that every answer of the server has, without those that its audit log adds."""
    own = [("Cache-Control", "no-cache, private")]
    return own if request.audit is not None else [*own, (AUDIT_ID, audit_id)]


def audit_id_of(request: Request) -> str:
    """Return the audit id of a request, a new one if neither the client nor the audit log has one."""
    return request.audit.audit_id if request.audit else request.headers.get(AUDIT_ID) or new_uid()


def answered_headers(received: CIMultiDictProxy[str]) -> Headers:
    """Return the headers of an answer that are passed on."""
    headers = Headers(received)
    _drop_hop_by_hop(headers)
    for name in ("Credentials", "Headers", "Methods", "Origin"):  # which other sites may ask is said here
        headers.popall(f"Access-Control-Allow-{name}", None)
    return headers


def _drop_hop_by_hop(headers: Headers) -> None:
    named = ",".join(headers.getall("Connection", ())).split(",")
    for name in (*_HOP_BY_HOP, *filter(None, map(str.strip, named))):
        headers.popall(name, None)
