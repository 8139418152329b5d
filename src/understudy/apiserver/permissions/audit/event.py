"""Audit events: what is noted of a request while it is answered, and how that is written down.

https://kubernetes.io/docs/reference/config-api/apiserver-audit.v1/#audit-k8s-io-v1-Event (upstream: `AuditContext` of
k8s.io/apiserver/pkg/audit).

An event is kept as it stands at a stage; what has to be read for it, such as the body of the answer, is read where it
is written.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import Future
from datetime import UTC, datetime
from typing import Any, Protocol

import orjson

from understudy.apiserver.permissions.audit.latencies import Latencies
from understudy.apiserver.permissions.audit.policy import (
    PANIC,
    REQUEST_RECEIVED,
    RESPONSE_COMPLETE,
    RESPONSE_STARTED,
    Level,
    RequestAudit,
)
from understudy.machinery.auth.authorization import Attributes
from understudy.machinery.auth.users import User
from understudy.machinery.types import NamedTuple, Obj

LONGEST_AGENT = 1024  # characters
TRUNCATED = "...TRUNCATED"
COPIED = ("status", "message", "reason", "details")  # fields of a Status that an event has
REFERENCE = ("resource", "namespace", "name", "uid", "apiGroup", "apiVersion", "resourceVersion", "subresource")
ORDER = (
    "level",
    "auditID",
    "stage",
    "requestURI",
    "verb",
    "user",
    "impersonatedUser",
    "authenticationMetadata",
    "sourceIPs",
    "userAgent",
    "objectRef",
    "responseStatus",
    "requestObject",
    "responseObject",
    "requestReceivedTimestamp",
    "stageTimestamp",
    "annotations",
)


class Answer(NamedTuple):
    """An answer as it is sent.

    parts  its body; None for a watch, and for an error in a form that the client does not accept
    """

    code: int
    content_type: str
    parts: Sequence[bytes] | None


class NotedEvent(NamedTuple):
    """An event of a request at a stage. `request_object` is JSON, b"" for none."""

    fields: Obj
    audit: RequestAudit
    request_object: bytes
    answer: Answer | None
    failure: str  # why the request was not authenticated
    decode: Callable[[Answer], Any]

    def event(self) -> Obj:
        """Return the event as JSON values, with its fields in their order."""
        event = dict(self.fields)
        if self.request_object:
            event["requestObject"] = self._read(orjson.loads(self.request_object))
        if self.answer is not None:
            self._respond(event, self.answer)
        named = {"kind": "Event", "apiVersion": "audit.k8s.io/v1"}
        return named | {name: event[name] for name in ORDER if name in event}

    def _respond(self, event: Obj, answer: Answer) -> None:
        """Add the status and the object of the answer."""
        status: Obj = {"metadata": {}}
        obj = None if answer.parts is None else self.decode(answer)
        if isinstance(obj, dict) and obj.get("kind") == "Status" and obj.get("apiVersion") == "v1":
            status |= {name: obj[name] for name in COPIED if name in obj}
        elif self.failure:
            status["message"] = self.failure
        event["responseStatus"] = {**status, "code": answer.code}
        if obj is not None and self.audit.level >= Level.REQUEST_RESPONSE:
            event["responseObject"] = self._read(obj)

    def _read(self, obj: Any) -> Any:
        return _without_managed_fields(obj) if self.audit.omit_managed_fields else obj


def _without_managed_fields(obj: Any) -> Any:
    """Return an object, or a list or table of objects, without managed fields."""
    if not isinstance(obj, dict):
        return obj
    out = dict(obj)
    if isinstance(metadata := out.get("metadata"), dict) and "managedFields" in metadata:
        out["metadata"] = {name: value for name, value in metadata.items() if name != "managedFields"}
    if isinstance(items := out.get("items"), list):
        out["items"] = [*map(_without_managed_fields, items)]
    if out.get("kind") == "Table":
        rows = out.get("rows") or ()
        out["rows"] = [{**row, "object": _without_managed_fields(row.get("object"))} for row in rows]
    return out


class Sink(Protocol):
    """Takes events. Upstream: `audit.Sink`."""

    def put(self, event: NotedEvent) -> Sequence[Future[bool]]:
        """Keep an event, or write it down later; return what its request waits for. Called on every request."""


class Metadata(NamedTuple):
    """The parts of a request that its events begin with."""

    audit_id: str
    uri: str
    user: User | None
    action: Attributes
    source_ips: Sequence[str]
    user_agent: str
    latencies: Latencies


class RequestEvents:
    """The events of one request. Upstream: `AuditContext`.

    audit     what is logged
    decode    returns the object in an answer, None if there is none
    now       tells the time, in seconds since 1970
    failure   why it was not authenticated, "" if it was
    latencies where its time goes
    unwritten events that the answer waits for, with whether each was written
    """

    __slots__ = (
        "_annotations",
        "_decode",
        "_fields",
        "_now",
        "_received",
        "_request",
        "_sink",
        "audit",
        "failure",
        "latencies",
        "unwritten",
    )

    def __init__(
        self,
        audit: RequestAudit,
        request: Metadata,
        sink: Sink,
        decode: Callable[[Answer], Any],
        now: Callable[[], float],
        failure: str = "",
    ) -> None:
        self.audit = audit
        self._sink = sink
        self._decode = decode
        self._now = now
        self.failure = failure
        self.latencies = request.latencies
        self.unwritten: list[Future[bool]] = []
        self._received = _micro_time(now())
        self._annotations: dict[str, str] = {}
        self._request = b""
        action, agent = request.action, request.user_agent
        self._fields: Obj = {
            "level": str(audit.level),
            "auditID": request.audit_id,
            "requestURI": request.uri,
            "verb": action.verb,
            "user": {} if request.user is None else user_info(request.user),
            "sourceIPs": request.source_ips,
        }
        if agent:
            self._fields["userAgent"] = agent if len(agent) <= LONGEST_AGENT else agent[:LONGEST_AGENT] + TRUNCATED
        if action.is_resource:
            self._refer(
                resource=action.resource,
                namespace=action.namespace,
                name=action.name,
                apiGroup=action.group,
                apiVersion=action.version,
                subresource=action.subresource,
            )

    @property
    def audit_id(self) -> str:
        """Return the id that the answer has in its header `Audit-Id`."""
        return str(self._fields["auditID"])

    @property
    def wants_objects(self) -> bool:
        """Report whether the bodies of requests are logged."""
        return self.audit.level >= Level.REQUEST

    def annotate(self, key: str, value: str, *, detailed: bool = False) -> None:
        """Set an annotation; one that is set stays (`AddAuditAnnotation`).

        detailed  whether it is only set where the bodies of requests are logged
        """
        if self.wants_objects or not detailed:
            self._annotations.setdefault(key, value)

    def impersonate(self, user: User, constraint: str = "") -> None:
        """Note for whom the user asks (`LogImpersonatedUser`); constraint: the verb that allows it, since 1.35."""
        self._fields["impersonatedUser"] = user_info(user)
        if constraint:
            self._fields["authenticationMetadata"] = {"impersonationConstraint": constraint}

    def note_request(self, metadata: Mapping[str, Any], encode: Callable[[], bytes]) -> None:
        """Note the object of the request, with its metadata (`LogRequestObject`).

        encode  returns it as JSON; it is called at once, since the object may be changed later
        """
        known: Obj = self._fields.get("objectRef") or {}
        fields = {name: metadata.get(name) for name in ("namespace", "name", "uid", "resourceVersion")}
        self._refer(**{**{name: value for name, value in fields.items() if value}, **known})
        if self.wants_objects:
            self._request = encode()

    def note_patch(self, patch: bytes) -> None:
        """Note the patch of the request, as JSON (`LogRequestPatch`)."""
        if self.wants_objects:
            self._request = patch

    def receive(self) -> None:
        """Log that the request has come."""
        self._stage(REQUEST_RECEIVED, self._received, None)

    def start(self, answer: Answer) -> None:
        """Log that the answer to a request that lasts has begun."""
        self._stage(RESPONSE_STARTED, _micro_time(self._now()), answer)

    def complete(self, answer: Answer) -> None:
        """Log that the request is answered, and where its time went if that was long."""
        if self._fields["verb"] != "watch":
            for key, value in self.latencies.annotations().items():
                self.annotate(key, value)
        self._stage(RESPONSE_COMPLETE, _micro_time(self._now()), answer)

    def panic(self, why: str) -> None:
        """Log that the server met a bug of its own."""
        status = {"status": "Failure", "message": f"APIServer panic'd: {why}", "reason": "InternalError"}
        self._fields["responseStatus"] = {"metadata": {}, **status, "code": 500}
        self._stage(PANIC, _micro_time(self._now()), None)

    def _refer(self, **fields: Any) -> None:
        self._fields["objectRef"] = {name: fields[name] for name in REFERENCE if fields.get(name)}

    def _stage(self, stage: str, time: str, answer: Answer | None) -> None:
        if stage in self.audit.omit_stages:
            return
        fields = {**self._fields, "stage": stage, "requestReceivedTimestamp": self._received, "stageTimestamp": time}
        if self._annotations:
            fields["annotations"] = dict(sorted(self._annotations.items()))
        self.unwritten += self._sink.put(
            NotedEvent(fields, self.audit, self._request, answer, self.failure, self._decode)
        )


def user_info(user: User) -> Obj:
    """Return a user as events have it."""
    fields = {"username": user.name, "uid": user.uid, "groups": list(user.groups), "extra": dict(user.extra)}
    return {name: value for name, value in fields.items() if value}


def _micro_time(seconds: float) -> str:
    return datetime.fromtimestamp(seconds, UTC).strftime("%Y-%m-%dT%H:%M:%S.%fZ")
