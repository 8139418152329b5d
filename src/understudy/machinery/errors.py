"""Errors that are answered as a metav1.Status, one constructor per reason, with the real server's texts.

`StatusError` is raised anywhere below the HTTP edge; `dispatch` renders it in one place.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from understudy.machinery.golang.text import aggregate, go_quote
from understudy.machinery.releases.version import Version

if TYPE_CHECKING:
    from understudy.machinery.types import Obj
    from understudy.machinery.validation.field import FieldError


class StatusError(Exception):
    """code: HTTP status; reason, message, details as in metav1.Status ("" and None are left out);
    `retry_after` in seconds becomes the header; `continue_token` goes into the Status' metadata."""

    def __init__(
        self,
        code: int,
        reason: str,
        message: str,
        details: Obj | None = None,
        *,
        retry_after: int | None = None,
        continue_token: str = "",
    ) -> None:
        super().__init__(message)
        self.code = code
        self.reason = reason
        self.message = message
        self.details = details
        self.retry_after = retry_after
        self.continue_token = continue_token

    def status(self) -> Obj:
        """The metav1.Status."""
        body: Obj = {"kind": "Status", "apiVersion": "v1", "metadata": {}, "status": "Failure", "message": self.message}
        if self.continue_token:
            body["metadata"] = {"continue": self.continue_token}
        if self.reason:
            body["reason"] = self.reason
        if self.details is not None:
            body["details"] = self.details
        body["code"] = self.code
        return body


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
    """resourceclaims.resource.k8s.io; pods for the core group."""
    return f"{resource}.{group}" if group else resource


def not_found(group: str, resource: str, name: str) -> StatusError:
    message = f"{group_resource_text(group, resource)} {go_quote(name)} not found"
    return StatusError(404, "NotFound", message, _details(group, resource, name))


def already_exists(group: str, resource: str, name: str) -> StatusError:
    message = f"{group_resource_text(group, resource)} {go_quote(name)} already exists"
    return StatusError(409, "AlreadyExists", message, _details(group, resource, name))


def generate_name_conflict(group: str, resource: str, name: str, retries: int = 1) -> StatusError:
    message = (
        f"{group_resource_text(group, resource)} {go_quote(name)} already exists, "
        "the server was not able to generate a unique name for the object"
    )
    return StatusError(
        409, "AlreadyExists", message, _details(group, resource, name, retryAfterSeconds=retries), retry_after=retries
    )


def uid_precondition_text(wanted: str, have: str) -> str:
    """What a conflict says of an object that is not the one that was meant."""
    return f"Precondition failed: UID in precondition: {wanted}, UID in object meta: {have}"


def conflict(group: str, resource: str, name: str, why: str) -> StatusError:
    message = f"Operation cannot be fulfilled on {group_resource_text(group, resource)} {go_quote(name)}: {why}"
    return StatusError(409, "Conflict", message, _details(group, resource, name))


OPTIMISTIC_LOCK_ERROR = "the object has been modified; please apply your changes to the latest version and try again"


def optimistic_lock_conflict(group: str, resource: str, name: str) -> StatusError:
    """The optimistic lock failed."""
    return conflict(group, resource, name, OPTIMISTIC_LOCK_ERROR)


def apply_conflict(message: str, causes: list[Obj]) -> StatusError:
    return StatusError(409, "Conflict", message, {"causes": causes})


def forbidden(group: str, resource: str, name: str, why: str) -> StatusError:
    what = (
        f"{group_resource_text(group, resource)} {go_quote(name)} is"
        if name
        else f"{group_resource_text(group, resource)} is"
    )
    if not resource:
        what = "is"
    message = f"{what} forbidden: {why}".removeprefix("is ")
    return StatusError(403, "Forbidden", message, _details(group, resource, name))


def admission_forbidden(group: str, resource: str, metadata: Obj, why: str) -> StatusError:
    """403 by admission. What has no name yet is called by what its name is to begin with."""
    return forbidden(group, resource, str(metadata.get("name") or metadata.get("generateName") or "Unknown"), why)


def invalid(group: str, kind: str, name: str, errors: Sequence[FieldError], release: Version) -> StatusError:
    """Return 422 with one cause per error, in the words of a release. Equal texts are said once in the message."""
    texts = list(dict.fromkeys(error.text(release) for error in errors))
    causes = [{"reason": e.type.reason, "message": e.body(release), "field": e.field} for e in errors]
    message = f"{group_resource_text(group, kind)} {go_quote(name)} is invalid"
    if texts:
        message += f": {aggregate(texts)}"
    details = _details(group, kind, name)
    if causes:
        details["causes"] = causes
    return StatusError(422, "Invalid", message, details)


def bad_request(message: str) -> StatusError:
    return StatusError(400, "BadRequest", message)


def unauthorized() -> StatusError:
    return StatusError(401, "Unauthorized", "Unauthorized")


def method_not_allowed() -> StatusError:
    """The router's answer, which has no details."""
    return StatusError(405, "MethodNotAllowed", "the server does not allow this method on the requested resource", {})


def watch_not_supported(resource: str) -> StatusError:
    message = f"watch is not supported on resources of kind {go_quote(resource)}"
    return StatusError(405, "MethodNotAllowed", message, {"kind": resource})


def unsupported_media_type(accepted: Sequence[str]) -> StatusError:
    message = f"the body of the request was in an unknown format - accepted media types include: {', '.join(accepted)}"
    return StatusError(415, "UnsupportedMediaType", message)


def not_acceptable(accepted: Sequence[str]) -> StatusError:
    message = f"only the following media types are accepted: {', '.join(accepted)}"
    return StatusError(406, "NotAcceptable", message)


def no_such_resource() -> StatusError:
    """A resource, version or path below a known group that is not served."""
    return StatusError(404, "NotFound", "the server could not find the requested resource", {})


def unprocessable() -> StatusError:
    """A JSON patch that does not apply."""
    return StatusError(422, "Invalid", "the server rejected our request due to an error in our request", {})


def expired(message: str, continue_token: str = "") -> StatusError:
    return StatusError(410, "Expired", message, continue_token=continue_token)


def timeout(message: str, retry_after: int, **details: Any) -> StatusError:
    if retry_after:
        details["retryAfterSeconds"] = retry_after
    return StatusError(504, "Timeout", message, details, retry_after=retry_after or None)


def too_many_requests(message: str, retry_after: int, causes: list[Obj] | None = None) -> StatusError:
    details: Obj = {"causes": causes} if causes else {}
    if retry_after:
        details["retryAfterSeconds"] = retry_after
    return StatusError(429, "TooManyRequests", message, details, retry_after=retry_after or None)


def request_too_large(message: str) -> StatusError:
    return StatusError(413, "RequestEntityTooLarge", message)


def unknown_error(message: str, code: int = 500) -> StatusError:
    """A Go error that carries no status: 500 without reason and details."""
    return StatusError(code, "", message)


def internal_error(message: str) -> StatusError:
    details = {"causes": [{"message": message}]}
    return StatusError(500, "InternalError", f"Internal error occurred: {message}", details)
