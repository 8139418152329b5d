"""API errors: exceptions that become a metav1.Status, one constructor per reason, with the real server's texts.

Upstream: `k8s.io/apimachinery/pkg/api/errors`. A `StatusError` is raised anywhere below the HTTP edge and rendered in
one place.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, TypeVar

from understudy.machinery.golang.text import ADDRESS, go_quote, listed
from understudy.machinery.releases.version import Version
from understudy.machinery.util.pieces import release

if TYPE_CHECKING:
    from understudy.machinery.types import Obj
    from understudy.machinery.validation.field import FieldError

E = TypeVar("E", bound=BaseException)


class RequestAbortedError(Exception):
    """The end of a request without an answer: its connection is closed (Go: `http.ErrAbortHandler`)."""


class StatusError(Exception):
    """An error that is answered as a metav1.Status (upstream: `apierrors.StatusError`).

    `code` is the HTTP status; `reason`, `message` and `details` are those of metav1.Status ("" and None are left out);
    `retry_after`, in seconds, becomes the `Retry-After` header; `metadata` is a ListMeta. `refused_by` names for people
    what has refused the request, such as "webhook NAME"; "" if that is the kind itself. It is not answered.
    """

    refused_by = ""

    def __init__(
        self,
        code: int,
        reason: str,
        message: str,
        details: Obj | None = None,
        *,
        retry_after: int | None = None,
        metadata: Obj | None = None,
    ) -> None:
        super().__init__(message)
        self.code = code
        self.reason = reason
        self.message = message
        self.details = details
        self.retry_after = retry_after
        self.metadata = metadata or {}

    def by(self, refused_by: str) -> StatusError:
        """Return the error itself, with the name of what refuses the request by it, if it had none."""
        self.refused_by = self.refused_by or refused_by
        return self

    def status(self) -> Obj:
        """Return the metav1.Status."""
        body: Obj = {"kind": "Status", "apiVersion": "v1", "metadata": self.metadata, "status": "Failure"}
        body["message"] = self.message
        if self.reason:
            body["reason"] = self.reason
        if self.details is not None:
            body["details"] = self.details
        body["code"] = self.code
        return body


def without_frames(error: E) -> E:
    """Return an error that refers to no frames any more.

    Those that it came through often refer to it, and what they hold would be kept until Python looks for such cycles.
    """
    error.__traceback__ = error.__context__ = error.__cause__ = None
    return error


@contextmanager
def ignore_not_found() -> Iterator[None]:
    """Go on after a StatusError 404: what was to be changed is gone. Upstream: `client.IgnoreNotFound`."""
    try:
        yield
    except StatusError as why:
        if why.code != 404:
            raise


def status_error(code: int, status: Obj) -> StatusError:
    """Return the error that a metav1.Status stands for; `code` is that of its answer (upstream: `FromObject`)."""
    code, reason, message = status.get("code", code), status.get("reason", ""), status.get("message", "")
    return StatusError(code, reason, message, status.get("details"), metadata=status.get("metadata"))


def _details(group: str, kind: str, name: str = "", **more: Any) -> Obj:
    details: Obj = {}
    if name:
        details["name"] = name
    if group:
        details["group"] = group
    if kind:
        details["kind"] = kind
    details.update(more)
    return details


def group_resource_text(group: str, resource: str) -> str:
    """Return `resourceclaims.resource.k8s.io`, or `pods` for the core group (upstream: `GroupResource.String`)."""
    return f"{resource}.{group}" if group else resource


def not_found(group: str, resource: str, name: str) -> StatusError:
    """Return a 404 for an object that does not exist (upstream: `NewNotFound`)."""
    message = f"{group_resource_text(group, resource)} {go_quote(name)} not found"
    return StatusError(404, "NotFound", message, _details(group, resource, name))


def already_exists(group: str, resource: str, name: str) -> StatusError:
    """Return a 409 for a name that is taken (upstream: `NewAlreadyExists`)."""
    message = f"{group_resource_text(group, resource)} {go_quote(name)} already exists"
    return StatusError(409, "AlreadyExists", message, _details(group, resource, name))


def generate_name_conflict(group: str, resource: str, name: str, retries: int = 1) -> StatusError:
    """Return a 409 for a generated name that is taken (upstream: `NewGenerateNameConflict`). `retries` is in
    seconds."""
    message = (
        f"{group_resource_text(group, resource)} {go_quote(name)} already exists, "
        "the server was not able to generate a unique name for the object"
    )
    return StatusError(
        409, "AlreadyExists", message, _details(group, resource, name, retryAfterSeconds=retries), retry_after=retries
    )


def uid_precondition_text(expected: str, actual: str) -> str:
    """Return the text of a conflict for an object whose uid is not the one in the request's precondition."""
    return f"Precondition failed: UID in precondition: {expected}, UID in object meta: {actual}"


def conflict(group: str, resource: str, name: str, detail: str) -> StatusError:
    """Return a 409 for an object that another request has changed (upstream: `NewConflict`). `message` says how."""
    message = f"Operation cannot be fulfilled on {group_resource_text(group, resource)} {go_quote(name)}: {detail}"
    return StatusError(409, "Conflict", message, _details(group, resource, name))


OPTIMISTIC_LOCK_ERROR = "the object has been modified; please apply your changes to the latest version and try again"


def optimistic_lock_conflict(group: str, resource: str, name: str) -> StatusError:
    """Return a 409 for a write with an old resourceVersion (upstream: `OptimisticLockErrorMsg`)."""
    return conflict(group, resource, name, OPTIMISTIC_LOCK_ERROR)


def apply_conflict(message: str, causes: list[Obj]) -> StatusError:
    """Return a 409 for fields that other field managers own (upstream: `NewApplyConflict`). `causes` are StatusCauses,
    one per field."""
    return StatusError(409, "Conflict", message, {"causes": causes})


def forbidden(group: str, resource: str, name: str, detail: str) -> StatusError:
    """Return a 403 (upstream: `NewForbidden`). `name` and `resource` may be empty; then the message leaves them out."""
    subject = (
        f"{group_resource_text(group, resource)} {go_quote(name)} is"
        if name
        else f"{group_resource_text(group, resource)} is"
    )
    if not resource:
        subject = "is"
    message = f"{subject} forbidden: {detail}".removeprefix("is ")
    return StatusError(403, "Forbidden", message, _details(group, resource, name))


def admission_forbidden(group: str, resource: str, metadata: Obj, message: str) -> StatusError:
    """Return a 403 of an admission plugin (upstream: `admission.NewForbidden`).

    An object without a name is called by its `generateName`, and `Unknown` if it has neither.
    """
    return forbidden(group, resource, str(metadata.get("name") or metadata.get("generateName") or "Unknown"), message)


def invalid(
    group: str, kind: str, name: str, errors: Sequence[FieldError], version: Version, *, pointers_differ: bool = False
) -> StatusError:
    """Return a 422 with one cause per field error (upstream: `NewInvalid`), in the words of a release.

    The message has equal texts only once. `pointers_differ`: texts with addresses are equal only if they are about one
    value, since each check decodes the metadata of a custom resource anew (releases before 1.34 print addresses).
    """
    errors = [error.of(version) for error in errors]
    bodies = {key: error.body(version) for key, error in {id(error): error for error in errors}.items()}
    causes = [{"reason": e.type.reason, "message": bodies[id(e)], "field": e.field} for e in errors]
    texts = list(_distinct(errors, bodies, pointers_differ))
    message = f"{group_resource_text(group, kind)} {go_quote(name)} is invalid"
    if texts:
        message = listed(texts, f"{message}: ")
    release(texts)
    details = _details(group, kind, name)
    if causes:
        details["causes"] = causes
    return StatusError(422, "Invalid", message, details)


def _distinct(errors: Sequence[FieldError], bodies: Mapping[int, str], pointers_differ: bool) -> Iterator[str]:
    """Yield the texts of errors, equal ones once. `bodies`: by the `id` of an error."""
    seen = set[object]()
    for error in {id(error): error for error in errors}.values():
        text = f"{error.field}: {bodies[id(error)]}"
        key = (text, id(error.bad_value)) if pointers_differ and ADDRESS in text else text
        if key not in seen:
            seen.add(key)
            yield text


def bad_request(message: str) -> StatusError:
    """Return a 400 (upstream: `NewBadRequest`)."""
    return StatusError(400, "BadRequest", message)


def unauthorized() -> StatusError:
    """Return a 401 (upstream: `NewUnauthorized`)."""
    return StatusError(401, "Unauthorized", "Unauthorized").by("authentication")


def method_not_allowed() -> StatusError:
    """Return the router's 405, which has no details."""
    return StatusError(405, "MethodNotAllowed", "the server does not allow this method on the requested resource", {})


def method_not_supported(group: str, resource: str, verb: str, message: str = "") -> StatusError:
    """Return a 405 for a verb that a resource does not have. Upstream: `NewMethodNotSupported`."""
    kind = group_resource_text(group, resource)
    message = message or f"{verb} is not supported on resources of kind {go_quote(kind)}"
    return StatusError(405, "MethodNotAllowed", message, {"group": group, "kind": resource})


def watch_not_supported(resource: str) -> StatusError:
    """Return a 405 for a watch of a resource that cannot be watched. Its details hold the resource as `kind`."""
    message = f"watch is not supported on resources of kind {go_quote(resource)}"
    return StatusError(405, "MethodNotAllowed", message, {"kind": resource})


def unsupported_media_type(accepted: Sequence[str]) -> StatusError:
    """Return a 415 that lists the accepted media types of request bodies."""
    message = f"the body of the request was in an unknown format - accepted media types include: {', '.join(accepted)}"
    return StatusError(415, "UnsupportedMediaType", message)


def not_acceptable(accepted: Sequence[str]) -> StatusError:
    """Return a 406 that lists the media types that can be answered."""
    message = f"only the following media types are accepted: {', '.join(accepted)}"
    return StatusError(406, "NotAcceptable", message)


def no_such_resource() -> StatusError:
    """Return a 404 for a resource, version or path of a known API group that is not served."""
    return StatusError(404, "NotFound", "the server could not find the requested resource", {})


def unprocessable() -> StatusError:
    """Return a 422 without a cause, as for a JSON patch that does not apply."""
    return StatusError(422, "Invalid", "the server rejected our request due to an error in our request", {})


def expired(message: str, continue_token: str = "") -> StatusError:
    """Return a 410 for a resourceVersion or continue token that is too old (upstream: `NewResourceExpired`)."""
    metadata = {"continue": continue_token} if continue_token else None
    return StatusError(410, "Expired", message, metadata=metadata)


def timeout(message: str, retry_after: int, **details: Any) -> StatusError:
    """Return a 504 (upstream: `NewTimeoutError`). `retry_after` is in seconds, 0 for no hint; `details` are added to
    the Status."""
    if retry_after:
        details["retryAfterSeconds"] = retry_after
    return StatusError(504, "Timeout", message, details, retry_after=retry_after or None)


def too_many_requests(message: str, retry_after: int, causes: list[Obj] | None = None) -> StatusError:
    """Return a 429 (upstream: `NewTooManyRequests`). `retry_after` is in seconds, 0 for no hint."""
    details: Obj = {"causes": causes} if causes else {}
    if retry_after:
        details["retryAfterSeconds"] = retry_after
    return StatusError(429, "TooManyRequests", message, details, retry_after=retry_after or None)


def request_too_large(message: str) -> StatusError:
    """Return a 413 (upstream: `NewRequestEntityTooLargeError`)."""
    return StatusError(413, "RequestEntityTooLarge", message)


class ConversionError(StatusError):
    """A 500 for an object that a webhook does not convert to another version."""

    def __init__(self, message: str) -> None:
        super().__init__(500, "", message)


def unknown_error(message: str, code: int = 500) -> StatusError:
    """Return a 500 without reason and details, as for a Go error that carries no Status."""
    return StatusError(code, "", message)


def internal_error(message: str) -> StatusError:
    """Return a 500 with reason InternalError (upstream: `NewInternalError`). The message is repeated as a cause."""
    details = {"causes": [{"message": message}]}
    return StatusError(500, "InternalError", f"Internal error occurred: {message}", details)
