"""MutatingAdmissionWebhook: let webhooks change the objects of requests (upstream: plugin/webhook/mutating)."""

from __future__ import annotations

from typing import Any

from understudy.admission.chain import Attributes
from understudy.admission.matching.resources import Match
from understudy.admission.objects import ObjectInterfaces, OtherKindError, VersionedAttributes, loses_times
from understudy.admission.plugins.webhook.hooks import ADMIT, Hook
from understudy.admission.plugins.webhook.metrics import observe
from understudy.admission.plugins.webhook.plugin import WebhookPlugin
from understudy.admission.plugins.webhook.review import CallingWebhookError, Verdict, question, verdict
from understudy.kinds.context import Context
from understudy.machinery.errors import StatusError, internal_error, unknown_error
from understudy.machinery.golang.json_scalars import loads
from understudy.machinery.golang.json_writer import encode
from understudy.machinery.golang.text import go_quote
from understudy.machinery.patch import json_patch
from understudy.machinery.releases.version import V1_31, V1_34, ByRelease, Version
from understudy.machinery.serializer.json import DecodeError
from understudy.machinery.serializer.json_fast import as_sent
from understudy.machinery.types import GroupVersionKind, Obj, deep_copy, named_kind

# Whether the failure policy of a webhook covers patches that cannot be read; before, they always were an error.
_BAD_PATCH_IS_CALL_FAILURE = ByRelease({V1_34: True, V1_31: False})


AUDIT = "webhook.admission.k8s.io"  # in keys of annotations in the audit log


class MutatingAdmissionWebhook(WebhookPlugin):
    """Asks the webhooks of MutatingWebhookConfigurations, one after the other."""

    name = "MutatingAdmissionWebhook"
    configurations = "mutatingwebhookconfigurations"
    admission_type = ADMIT

    async def admit(self, attributes: Attributes, ctx: Context) -> None:
        """Change the object of a request. Raises the error of the first webhook that refuses it or cannot be asked."""
        state = attributes.reinvocation.of(self.name, attributes.object)
        versions = _Versions(attributes, self._objects)
        for index, hook in enumerate(self.source.hooks(attributes.point)):
            match = await self.source.match(hook, attributes, ctx, versions.of)
            if match is None or (attributes.reinvocation.begun and hook.key not in state.again):
                continue
            place = f"round_{int(attributes.reinvocation.begun)}_index_{index}"
            changed = await self._ask(hook, match, versions, attributes, ctx, place)
            if changed:
                state.require()
                attributes.reinvocation.needed = True
            if hook.fields.get("reinvocationPolicy") == "IfNeeded":
                state.invoked.add(hook.key)
        versions.check()
        state.output = deep_copy(attributes.object)

    async def _ask(
        self, hook: Hook, match: Match, versions: _Versions, attributes: Attributes, ctx: Context, place: str
    ) -> bool:
        """Ask a webhook and apply its patch; report whether that changed the object. Raises StatusError.

        place  names the call in the audit log
        """
        versioned, seconds, changed = versions.of(match.kind), 0.0, False
        outcome: CallingWebhookError | StatusError | None = None
        try:
            asked = question(hook, match, versioned, self._objects, self._users, ctx, "mutating")
            (answer,) = await self._client.call([asked.call])
            seconds = answer.seconds
            ctx.track("mutating-webhook", seconds)
            given = verdict(asked, answer.result, ctx, mutating=True)
            changed = self._apply(hook, match, versions, given, ctx)
            if json_patch.parse(given.patch or b"[]", validate=False).operations:
                _annotate(ctx, f"patch.{AUDIT}/{place}", hook, patch=loads(given.patch), patchType="JSONPatch")
        except (CallingWebhookError, StatusError) as error:
            outcome = error
        _annotate(ctx, f"mutation.{AUDIT}/{place}", hook, mutated=changed)
        observe(self._metrics, hook, attributes, ADMIT, seconds, outcome)
        if isinstance(outcome, StatusError):
            raise outcome.by(hook.title)
        if outcome is not None and not hook.ignores_failures:
            raise outcome.status_error().by(hook.title)
        if outcome is not None:
            ctx.annotate(f"failed-open.mutation.{AUDIT}/{place}", hook.name)
        return changed

    def _apply(self, hook: Hook, match: Match, versions: _Versions, given: Verdict, ctx: Context) -> bool:
        """Apply the patch of a webhook; report whether that changed the object.

        Raises CallingWebhookError, StatusError.
        """
        operations = _operations(hook, given.patch, ctx.release)
        if not operations.operations:
            return False
        before = versions.of(match.kind).object
        if before is None:
            name = go_quote(hook.name)
            text = f"admission webhook {name} attempted to modify the object, which is not supported for this operation"
            raise internal_error(text)
        ctx.payload += len(given.patch)
        if given.patch_type != "JSONPatch":
            raise CallingWebhookError(hook, f"unsupported patch type {go_quote(given.patch_type)}", given.code)
        try:
            patched = self._objects.decode(json_patch.apply(operations, as_sent(before)), match.kind, strict=False)
        except json_patch.DoesNotApplyError as error:
            raise internal_error(error.why) from None
        except DecodeError as error:
            raise internal_error(str(error)) from None
        changed = bool(patched != before) or loses_times(versions.of(match.kind).attributes, self._objects, ctx.now)
        self._objects.set_defaults(
            patched, match.kind if self._objects.is_custom(match.kind) else named_kind(patched), ctx
        )
        versions.replace(patched, match.kind)
        return changed


def _annotate(ctx: Context, key: str, hook: Hook, **fields: Any) -> None:
    """Note in the audit log what a webhook has done; its patch only where the bodies of requests are logged."""
    if ctx.is_audited:
        named = {"configuration": hook.configuration, "webhook": hook.name}
        ctx.annotate(key, encode({**named, **fields}).decode(), detailed="patch" in fields)


def _operations(hook: Hook, patch: bytes, version: Version) -> json_patch.Patch:
    """Return the operations of a patch, none for b"".

    Raises CallingWebhookError for one that cannot be read; before 1.34 a 500, whatever the failure policy.
    """
    try:
        return json_patch.parse(patch or b"[]", validate=False)
    except StatusError as error:
        if _BAD_PATCH_IS_CALL_FAILURE[version]:
            raise CallingWebhookError(
                hook, f"received undecodable patch in webhook response: {error.message}"
            ) from None
        raise internal_error(error.message) from None


class _Versions:
    """The objects of a request in the version in which a webhook was asked last. A patch changes them in all."""

    def __init__(self, attributes: Attributes, objects: ObjectInterfaces) -> None:
        self._attributes = attributes
        self._objects = objects
        self._last: VersionedAttributes | None = None
        self._converted: Obj | None = None  # the object of the request that was converted to that version
        self._problem: OtherKindError | None = None  # that the patched object is of another kind

    def of(self, kind: GroupVersionKind) -> VersionedAttributes:
        """Return the objects of the request in the version of a kind. Raises 500 if they cannot be converted."""
        if self._last is None or self._last.kind != kind:
            try:
                self.check()
                self._last = VersionedAttributes(self._attributes, kind, self._objects)
                self._converted = self._attributes.object
            except StatusError as error:  # a conversion webhook has failed; the real server says it twice
                raise internal_error(internal_error(error.message).message) from None
        return self._last

    def replace(self, obj: Obj, kind: GroupVersionKind) -> None:
        """Put an object in the place of the new object of the request, which keeps what the version does not have.

        One of another kind stays as it is: webhooks of the same version see it, and may mend it.
        """
        self.of(kind).object = obj
        assert self._converted is not None
        try:
            request_kind = self._attributes.kind
            self._attributes.object = self._objects.into_internal(obj, kind, request_kind, self._converted)
            self._problem = None
        except OtherKindError as error:
            self._attributes.object, self._problem = obj, error

    def check(self) -> None:
        """Raise 500 if a patch has left an object of another kind."""
        if self._problem is not None:
            raise unknown_error(str(self._problem))
