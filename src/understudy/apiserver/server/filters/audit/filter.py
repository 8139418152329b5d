"""Logs requests as the audit policy says. Upstream: `WithAudit` and `WithFailedAuthenticationAudit`."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import Future
from functools import partial
from typing import Any
from urllib.parse import quote

import orjson

from understudy.apiserver.endpoints.negotiation import CBOR, JSON, PROTOBUF, YAML, accepts_errors
from understudy.apiserver.endpoints.request import Request, Response, WatchResponse
from understudy.apiserver.permissions.audit import event
from understudy.apiserver.permissions.audit.event import Metadata, NotedEvent, RequestEvents
from understudy.apiserver.permissions.audit.latencies import Latencies
from understudy.apiserver.permissions.audit.metrics import AuditMetrics
from understudy.apiserver.permissions.audit.policy import Policy
from understudy.apiserver.server.filters.audit.backends import Backend
from understudy.apiserver.server.filters.audit.kept import KeptEvents
from understudy.machinery.auth.users import ACCOUNT, User
from understudy.machinery.golang.yaml_reader import load_yaml
from understudy.machinery.releases.version import V1_37, Version
from understudy.machinery.serializer.cbor.decode import decode_unstructured
from understudy.machinery.serializer.cbor.items import parse as parse_cbor
from understudy.machinery.serializer.ordering import in_field_order
from understudy.machinery.serializer.protobuf import decode as decode_protobuf
from understudy.machinery.serializer.protobuf import read_protobuf_type_meta
from understudy.machinery.typeinfo.go_types import Schemas
from understudy.machinery.types import split_api_version
from understudy.machinery.util.clock import Clock
from understudy.machinery.validation.generated_names import new_uid

AUDIT_ID = "Audit-Id"
PATH_CHARACTERS = "/:@!$&'()*+,;=~"


class Auditor:
    """Logs the requests of one server.

    kept      has the last events
    backends  write or send them
    annotations_of
              returns the annotations about a token of a service account that is good
    metrics   count the events
    waits     whether answers wait for backends that want it
    """

    def __init__(
        self,
        policy: Policy,
        kept: KeptEvents,
        backends: Sequence[Backend],
        clock: Clock,
        version: Version,
        annotations_of: Callable[[str], Mapping[str, str]],
        metrics: AuditMetrics,
    ) -> None:
        self._metrics = metrics
        self._annotations_of = annotations_of
        self.waits = True
        self._policy = policy
        self._kept = kept
        self._backends = backends
        self._clock = clock
        self._decode = partial(_decoded, version)

    def put(self, noted: NotedEvent) -> list[Future[bool]]:
        """Give an event to all backends; return what its request waits for."""
        self._metrics.observe_event()
        self._kept.put(noted)
        given = [backend.put(noted) for backend in self._backends]
        return [future for future in given if future is not None and self.waits]

    def close(self) -> None:
        """Write what waits to be written; not on the event loop, which sends events."""
        for backend in self._backends:
            backend.close()

    def receive(self, request: Request) -> None:
        """Begin the events of a request, if the policy says that it is logged: the filter behind authentication."""
        request.audit = None  # a request may be answered anew
        if (events := self._begin(request, request.user)) is not None:
            if request.user.name.startswith(ACCOUNT):
                self._annotate_token(request, events)
            events.receive()

    def _annotate_token(self, request: Request, events: RequestEvents) -> None:
        """Note what is to be said of the token of a service account; others may have its name."""
        scheme, _, token = request.headers.get("Authorization", "").strip().partition(" ")
        if scheme.lower() == "bearer" and token.count(".") == 2:
            for key, value in self._annotations_of(token.strip()).items():
                events.annotate(key, value)

    def refuse(self, request: Request) -> None:
        """Begin the events of a request that was not authenticated."""
        self._begin(request, None, _attempted(request))

    async def written(self, request: Request) -> bool:
        """Wait until the events of a request so far are written; report whether they are, if they must be."""
        events = request.audit
        if events is None or not events.unwritten:
            return True
        waiting, events.unwritten = events.unwritten, []
        return all(await asyncio.gather(*map(asyncio.wrap_future, waiting)))

    def answer(self, request: Request, answer: Response | WatchResponse) -> None:
        """Log the answer to a request. A watch is complete when it ends."""
        events = request.audit
        if events is None:
            return
        answer.headers.append((AUDIT_ID, events.audit_id))
        if isinstance(answer, WatchResponse):
            noted = event.Answer(200, answer.content_type, None)
            events.start(noted)
            answer.when_ended(partial(events.complete, noted))
            return
        is_negotiated = answer.status < 400 or accepts_errors(request.headers.get("Accept", ""), request.serves_cbor)
        noted = event.Answer(answer.status, answer.content_type, answer.parts if is_negotiated else None)
        if events.failure or request.info.long_running:
            events.start(noted)
        if not events.failure:
            events.complete(noted)

    def _begin(self, request: Request, user: User | None, failure: str = "") -> RequestEvents | None:
        audit = self._policy.evaluate(user, request.info)
        self._metrics.observe_level(audit and audit.level)
        if audit is None:
            return None
        headers, query = request.headers, request.query.text
        path = quote(request.path, safe=PATH_CHARACTERS, errors="surrogateescape")
        metadata = Metadata(
            headers.get(AUDIT_ID) or new_uid(),
            f"{path}?{query}" if query else path,
            user,
            request.info,
            _source_ips(request),
            headers.get("User-Agent", ""),
            request.latencies or Latencies(request.release),
        )
        request.audit = RequestEvents(audit, metadata, self, self._decode, self._clock.now, failure)
        return request.audit


def _source_ips(request: Request) -> Sequence[str]:
    """Return the addresses that the proxies before the server tell, and that of the client (`utilnet.SourceIPs`)."""
    forwarded = [text.strip() for text in request.headers.get("X-Forwarded-For", "").split(",") if text.strip()]
    real, source = request.headers.get("X-Real-Ip", "").strip(), request.source()
    if real and real not in forwarded:
        forwarded.append(real)
    return forwarded if forwarded[-1:] == [source] else [*forwarded, source]


def _attempted(request: Request) -> str:
    """Return the message about a request with wrong credentials, or none (`getAuthMethods`)."""
    scheme, _, rest = request.headers.get("Authorization", "").strip().partition(" ")
    attempted = [scheme.lower()] if rest and scheme.lower() in ("basic", "bearer") else []
    if request.query.get("access_token").strip():
        attempted.append("access_token")
    if request.certificates:
        attempted.append("x509")
    if attempted:
        return f"Authentication failed, attempted: {', '.join(attempted)}"
    return "Authentication failed, no credentials provided"


def _decoded(version: Version, answer: event.Answer) -> Any:
    """Return the object of an answer, None if it is none, such as a text or the OpenAPI documents."""
    body = b"".join(answer.parts or ())
    if not body:
        return None
    obj: Any = None
    if answer.content_type.startswith(JSON):
        obj = orjson.loads(body)
    elif answer.content_type.startswith(PROTOBUF):
        api_version, kind = read_protobuf_type_meta(body)
        schemas, named = Schemas.of(version), (*split_api_version(api_version), kind)
        obj = decode_protobuf(body, schemas.kind(*named)) if schemas.has_kind(*named) else None
        if isinstance(obj, dict) and "items" in obj:
            obj["items"] = obj["items"] or []
    elif answer.content_type.startswith(CBOR):
        obj = _in_order(decode_unstructured(parse_cbor(body, V1_37)), Schemas.of(version))
    elif answer.content_type.startswith(YAML):
        obj = _in_order(load_yaml(body.decode())[0].value, Schemas.of(version))
    return obj if isinstance(obj, dict) and "kind" in obj else None


def _in_order(obj: Any, schemas: Schemas) -> Any:
    """Return an object with its fields in the order in which they are encoded as JSON."""
    named = (*split_api_version(obj.get("apiVersion", "")), obj.get("kind", ""))
    return in_field_order(obj, schemas.kind(*named)) if schemas.has_kind(*named) else obj
