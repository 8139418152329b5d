"""AdmissionReviews: the questions that webhooks are asked, and their answers.

https://kubernetes.io/docs/reference/access-authn-authz/extensible-admission-controllers/ (upstream:
k8s.io/apiserver/pkg/admission/plugin/webhook/{request,errors}).
"""

from __future__ import annotations

import base64
import uuid
from urllib.parse import urlsplit

from understudy.admission.manifest.webhook_users import WebhookUsers
from understudy.admission.matching.resources import Match
from understudy.admission.objects import ObjectInterfaces, VersionedAttributes, admission_request
from understudy.admission.plugins.webhook.hooks import Hook, supports_dry_run
from understudy.admission.webhooks import Call, CallError, Reply, read_review, target_of
from understudy.kinds.context import Context
from understudy.machinery.errors import StatusError, bad_request, internal_error
from understudy.machinery.golang.text import go_quote
from understudy.machinery.golang.x509.deprecated import deprecated_by
from understudy.machinery.releases.version import V1_31, V1_34, ByRelease
from understudy.machinery.serializer.json import encode
from understudy.machinery.serializer.json_fast import as_sent
from understudy.machinery.typeinfo.go_types import Schemas
from understudy.machinery.types import GroupVersionKind, NamedTuple, Obj, named_kind
from understudy.machinery.validation.names import qualified_name_texts

_GROUP = "admission.k8s.io"
_VERSIONS = ("v1", "v1beta1")
_DEFAULT_TIMEOUT = 10  # seconds
_CODE_OF_FAILED_CALLS = ByRelease({V1_34: 503, V1_31: 400})  # as which those without an answer are counted


class CallingWebhookError(Exception):
    """A webhook could not be asked. Its failure policy decides what that means; the text is the real server's.

    code  as which it is counted
    """

    def __init__(self, hook: Hook, why: str, code: int = 503) -> None:
        super().__init__(f"failed calling webhook {go_quote(hook.name)}: {why}")
        self.code = code

    def status_error(self) -> StatusError:
        """Return the 500 for a request that is refused, since the failure policy is Fail."""
        return internal_error(str(self))


class WebhookRejectionError(StatusError):
    """A webhook refuses a request."""


class Question(NamedTuple):
    """A review that is sent to a webhook. `kind` is that of the answer that is expected."""

    hook: Hook
    uid: str
    kind: GroupVersionKind
    call: Call


class Verdict(NamedTuple):
    """The answer of a webhook that lets a request pass.

    patch  b"" if the object is to stay as it is
    code   status code of its Status, as if the webhook had refused the request
    """

    patch: bytes
    patch_type: str
    code: int


def question(
    hook: Hook,
    match: Match,
    versioned: VersionedAttributes,
    objects: ObjectInterfaces,
    users: WebhookUsers,
    ctx: Context,
    purpose: str,
) -> Question:
    """Return the review that asks a webhook about a request; `purpose` is "validating" or "mutating".

    Raises CallingWebhookError for a webhook that reads no known version of reviews, 400 for a dry run if it has side
    effects.
    """
    attributes = versioned.attributes
    if attributes.dry_run and not supports_dry_run(hook):
        raise bad_request(f"admission webhook {go_quote(hook.name)} does not support dry run")
    version = next((item for item in hook.fields["admissionReviewVersions"] if item in _VERSIONS), None)
    if version is None:
        why = "could not create admission objects: webhook does not accept known AdmissionReview versions (v1, v1beta1)"
        raise CallingWebhookError(hook, why, 400)
    uid = str(uuid.uuid4())
    kind = GroupVersionKind(_GROUP, version, "AdmissionReview")
    request = {
        **admission_request(attributes, match.resource, match.kind),
        "uid": uid,
        "object": _sent(versioned.object, versioned.kind, objects),
        "oldObject": _sent(versioned.old_object, versioned.kind, objects),
    }
    review = {"kind": kind.kind, "apiVersion": kind.api_version, "request": request}
    target, seconds = target_of(hook.fields["clientConfig"]), hook.fields.get("timeoutSeconds") or _DEFAULT_TIMEOUT
    try:
        caller = users.caller(target)
    except CallError as error:
        raise CallingWebhookError(hook, f"could not get REST client: {error}") from None
    about = purpose, hook.configuration, hook.name
    call = Call.within(target, encode(review) + b"\n", seconds, ctx.seconds_left(), caller, about)
    return Question(hook, uid, kind, call)


def _sent(obj: Obj | None, kind: GroupVersionKind, objects: ObjectInterfaces) -> Obj | None:
    """Return an object of a request as a review has it: with empty lists, and the fields in the real server's order."""
    return None if obj is None else as_sent(objects.in_order(obj, kind))


def verdict(asked: Question, answer: Reply | CallError, ctx: Context, *, mutating: bool) -> Verdict:
    """Return the verdict in the answer of a webhook; its warnings are added to those of the request.

    Raises CallingWebhookError for a call that failed or an answer that is no good, WebhookRejectionError if the webhook
    refuses the request.
    """
    hook = asked.hook
    try:
        if isinstance(answer, CallError):
            raise answer
        review = read_review(answer, asked.kind, Schemas.of(ctx.release))
    except CallError as error:
        if (way := deprecated_by(str(error))) is not None:
            ctx.annotate(*way.annotation(urlsplit(asked.call.target.url).hostname or ""))
        code = _CODE_OF_FAILED_CALLS[ctx.release] if error.code is None else error.code
        raise CallingWebhookError(hook, f"failed to call webhook: {error}", code) from None
    if problem := _problem(review, asked, mutating=mutating):
        raise CallingWebhookError(hook, f"received invalid webhook response: {problem}")
    response = review["response"]
    for key, value in (response.get("auditAnnotations") or {}).items():
        if "/" not in key and not qualified_name_texts(f"{hook.name}/{key}"):
            ctx.annotate(f"{hook.name}/{key}", value)
    for warning in response.get("warnings") or ():
        ctx.warn(warning)
    if not response.get("allowed"):
        raise refusal(hook.name, response.get("status") or {})
    # Reviews of v1beta1 need not name the type of a patch.
    patch_type = response.get("patchType") if asked.kind.version == "v1" else "JSONPatch"
    code = _refusal_code(response.get("status") or {})
    return Verdict(base64.b64decode(response.get("patch") or ""), patch_type or "", code)


def _problem(review: Obj, asked: Question, *, mutating: bool) -> str:
    """Return the error of an answer, "" for a good one (`VerifyAdmissionResponse`)."""
    response = review.get("response")
    if response is None:
        return "webhook response was absent"
    if asked.kind.version == "v1beta1":
        return ""
    if response.get("uid", "") != asked.uid:
        return f"expected response.uid={go_quote(asked.uid)}, got {go_quote(response.get('uid', ''))}"
    answered = named_kind(review)
    if answered != asked.kind:
        return f"expected webhook response of {asked.kind.text}, got {answered.text}"
    patch, patch_type = response.get("patch"), response.get("patchType")
    if not mutating:
        if patch:
            return "validating webhook may not return response.patch"
        return "" if patch_type is None else "validating webhook may not return response.patchType"
    if patch and patch_type is None:
        return "webhook returned response.patch but not response.patchType"
    if not patch and patch_type is not None:
        return "webhook returned response.patchType but not response.patch"
    return 'webhook returned invalid response.patchType of ""' if patch_type == "" else ""


def refusal(name: str, status: Obj) -> WebhookRejectionError:
    """Return the error of a webhook that refuses a request, with the Status that it gives (`ToStatusErr`)."""
    explanation = status.get("message") or status.get("reason") or ""
    text = f"admission webhook {go_quote(name)} denied the request"
    details = status.get("details")
    return WebhookRejectionError(
        _refusal_code(status),
        status.get("reason") or "",
        f"{text}: {explanation}" if explanation else f"{text} without explanation",
        details,
        retry_after=(details or {}).get("retryAfterSeconds") or None,
        metadata=status.get("metadata"),
    )


def _refusal_code(status: Obj) -> int:
    """Return the status code with which a webhook refuses a request, from the Status that it gives."""
    return max(status.get("code") or 0, 400)
