"""Calls of webhooks: whom to ask, and how an answer is read. What sends them is the server's (`WebhookClient`).

Admission webhooks and conversion webhooks are called alike. The texts of errors are those of client-go, whose REST
client kube-apiserver uses for its webhooks (k8s.io/apiserver/pkg/util/webhook, k8s.io/client-go/rest).
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from math import ceil
from typing import TYPE_CHECKING, Protocol

from understudy.machinery.golang.json_reader import DecodeError
from understudy.machinery.golang.text import go_quote
from understudy.machinery.serializer.json import decode_parsed, parse_json, read_type_meta, yaml_to_json
from understudy.machinery.typeinfo.go_types import Schemas, Struct
from understudy.machinery.typeinfo.scheme import (
    gvk_with_defaults,
    known_to_clients,
    not_registered,
    scheme_name,
    unknown_conversion,
)
from understudy.machinery.types import GroupVersionKind, NamedTuple, Obj

if TYPE_CHECKING:
    from understudy.machinery.auth.exec_plugin import ExecPlugin
    from understudy.machinery.auth.impersonation import Headers

_LONGEST_TEXT = 2048  # bytes of an answer that an error quotes
_DEFAULT_PORT = 443
_LATER = 1.0  # seconds that a call outlives its request, which has ended by itself then


class Service(NamedTuple):
    """The Service behind which a webhook listens."""

    namespace: str
    name: str
    port: int

    @property
    def host(self) -> str:
        """Return the name of the Service, which the webhook's certificate has to be valid for."""
        return f"{self.name}.{self.namespace}.svc"


class Target(NamedTuple):
    """The address of a webhook, with the CA bundle that its certificate is verified with.

    url        such as `https://127.0.0.1:8443/validate`; for a Service, `https://NAME.NAMESPACE.svc:PORT/PATH`
    ca_bundle  certificates in PEM, base64; "" for those that the system trusts
    """

    url: str
    ca_bundle: str
    service: Service | None


def target_of(client_config: Obj) -> Target:
    """Return the target of a WebhookClientConfig, of admission registration or of a definition's conversion."""
    ca_bundle = client_config.get("caBundle") or ""
    fields = client_config.get("service")
    if fields is None:
        return Target(client_config["url"], ca_bundle, None)
    service = Service(fields["namespace"], fields["name"], fields.get("port") or _DEFAULT_PORT)
    path = fields.get("path") or "/"
    return Target(f"https://{service.host}:{service.port}/{path.removeprefix('/')}", ca_bundle, service)


class Caller(NamedTuple):
    """Names the caller of a webhook, with its credentials.

    agent     the user agent, "" for that of Go
    token     a bearer token, or ""
    insecure  whether any certificate is trusted
    certificate, key
              those of the client (PEM), or None
    password  a name and a password as in "name:password", or ""
    impersonation
              headers that name whom the caller acts as
    plugin    the command that prints a token or a certificate, or None
    """

    agent: str = "kube-apiserver-admission"
    token: str = ""
    insecure: bool = False
    certificate: bytes | None = None
    key: bytes | None = None
    password: str = ""
    impersonation: Headers = ()
    plugin: ExecPlugin | None = None


_ADMISSION = Caller()


class Call(NamedTuple):
    """One call of a webhook.

    body       a review in JSON
    timeout    seconds until an answer is given up
    announced  seconds that the webhook is told to have
    caller     who calls: by default admission, which has no credentials
    headers    that are sent besides
    about      for traces: "validating" or "mutating", the configuration, and the webhook; nothing of other calls
    """

    target: Target
    body: bytes
    timeout: float
    announced: float
    caller: Caller = _ADMISSION
    headers: Headers = ()
    about: tuple[str, str, str] | None = None

    @staticmethod
    def within(
        target: Target, body: bytes, seconds: int, left: float, caller: Caller, about: tuple[str, str, str]
    ) -> Call:
        """Return a call that may take some seconds, or what is left of the time of its request if that is less."""
        if left >= seconds:
            return Call(target, body, seconds, seconds, caller, about=about)
        return Call(target, body, max(left, 0) + _LATER, max(ceil(left), 1), caller, about=about)


class Reply(NamedTuple):
    """The answer of a webhook. `content_type` is "" if it has none."""

    status: int
    content_type: str
    body: bytes


class TimedReply(NamedTuple):
    """The result of a call, with the seconds that it took."""

    result: Reply | CallError
    seconds: float


class CallError(Exception):
    """A webhook could not be asked, or its answer could not be read; the text is the real server's.

    code    status code of an answer that is an error, None for other errors
    reason, details, metadata
            those of its Status, or of the one that client-go makes of it
    """

    def __init__(
        self,
        message: str,
        code: int | None = None,
        reason: str = "",
        details: Obj | None = None,
        metadata: Obj | None = None,
    ) -> None:
        super().__init__(message)
        self.code = code
        self.reason = reason
        self.details = details
        self.metadata = metadata


class LoopWouldWaitError(Exception):
    """A call that would have to be waited for on the event loop, which may not be blocked. A thread can make it."""


class WebhookClient(Protocol):
    """Sends reviews to webhooks."""

    async def call(self, calls: Sequence[Call]) -> list[TimedReply]:
        """Call webhooks, all at once, and return their answers in the same order."""

    async def pause(self, seconds: float) -> None:
        """Wait before a webhook is called again."""

    def call_and_wait(self, call: Call) -> Reply | CallError:
        """Call a webhook from a thread, and return its answer. Raises LoopWouldWaitError on the event loop."""


class NoWebhooks:
    """Calls no webhook, for a server without a network."""

    async def call(self, calls: Sequence[Call]) -> list[TimedReply]:
        """Return an error for each call."""
        return [TimedReply(self.call_and_wait(call), 0.0) for call in calls]

    async def pause(self, seconds: float) -> None:
        """Return at once: nothing is called again."""

    def call_and_wait(self, call: Call) -> CallError:
        """Return an error."""
        return CallError("this server calls no webhooks")


STATUS = GroupVersionKind("", "v1", "Status")
Registered = Callable[[Schemas, GroupVersionKind, GroupVersionKind], Struct]  # raises DecodeError


def _of_review(schemas: Schemas, gvk: GroupVersionKind, expected: GroupVersionKind) -> Struct:
    """Return the type of a kind in the scheme of admission's client, which has reviews only. Raises DecodeError."""
    if gvk.kind != expected.kind or not schemas.has_kind(*gvk):
        raise not_registered(gvk, scheme_name(schemas.version, "webhook"))
    return schemas.kind(*gvk)


def of_any_kind(schemas: Schemas, gvk: GroupVersionKind, expected: GroupVersionKind) -> Struct:
    """Return the type of a kind in the scheme of a client that knows all kinds. Raises DecodeError."""
    return known_to_clients(schemas, gvk)


def read_review(reply: Reply, expected: GroupVersionKind, schemas: Schemas, registered: Registered = _of_review) -> Obj:
    """Return the review of an answer: JSON or YAML, whatever its content type says. Raises CallError.

    The result has kind and apiVersion only if the answer has them. `registered` is the scheme of the client.
    """
    if not 200 <= reply.status <= 206:
        raise error_of(reply, schemas)
    if not reply.body:
        content_type = reply.content_type or "application/json"
        raise CallError(f"0-length response with status code: {reply.status} and content type: {content_type}")
    try:
        return _decode(reply.body, expected, schemas, registered)
    except DecodeError as error:
        raise CallError(str(error)) from None


def _decode(body: bytes, expected: GroupVersionKind, schemas: Schemas, registered: Registered) -> Obj:
    """Decode a body of an expected kind, which it need not name. Raises DecodeError for a body of another kind."""
    is_json = body.lstrip()[:1] == b"{"
    parsed = parse_json(body if is_json else yaml_to_json(body)[0])
    gvk = gvk_with_defaults(*read_type_meta(parsed), expected)
    if not gvk.version:
        raise DecodeError(f"Object 'apiVersion' is missing in '{body.decode('utf-8', 'replace')}'")
    struct = schemas.kind(*gvk) if gvk == STATUS else registered(schemas, gvk, expected)
    obj, _ = decode_parsed(parsed, struct)
    if gvk != expected and expected != STATUS:
        raise unknown_conversion(struct, registered(schemas, expected, expected))
    return obj


def error_of(reply: Reply, schemas: Schemas) -> CallError:
    """Return the error of an answer that is one: that of the Status which it holds, or one for its code."""
    try:
        status = _decode(reply.body, STATUS, schemas, _of_review) if reply.body else {}
    except DecodeError:
        status = {}
    if status.get("status") == "Failure":
        parts = status.get("reason", ""), status.get("details"), status.get("metadata")
        return CallError(str(status.get("message", "")), status.get("code") or 0, *parts)
    is_text = not reply.content_type or reply.content_type.lower().startswith("text/")
    text = reply.body[:_LONGEST_TEXT].decode("utf-8", "replace").strip() if is_text else "unknown"
    details = {"causes": [{"reason": "UnexpectedServerResponse", "message": text}]}
    return CallError(text_of_code(reply.status, text), reply.status, _REASONS.get(reply.status, ""), details)


_REASONS = {403: "Forbidden"}  # of the others nothing is made
_TEXTS = {
    400: "the server rejected our request for an unknown reason",
    401: "the server has asked for the client to provide credentials",
    404: "the server could not find the requested resource",
    405: "the server does not allow this method on the requested resource",
    409: "the server reported a conflict",
    422: "the server rejected our request due to an error in our request",
    429: "the server has received too many requests and has asked us to try again later",
    503: "the server is currently unable to handle the request",
    504: "the server was unable to return a response in the time allotted, but may still be processing the request",
}


def text_of_code(code: int, text: str) -> str:
    """Return the message for the status code of an answer that holds no Status (`NewGenericServerResponse`)."""
    if code in (403, 415):
        return text
    if code == 406:
        known = text if text != "unknown" else ""
        return known or "the server was unable to respond with a content type that the client supports"
    if code in _TEXTS:
        return _TEXTS[code]
    if code >= 500:
        return f"an error on the server ({go_quote(text)}) has prevented the request from succeeding"
    return f"the server responded with the status code {code} but did not return more information"
