"""Conversion of custom resources between the versions of their definition, by its webhook if it has one.

A webhook gets objects in one version and returns them in another. Their metadata stay, but for labels and annotations.
https://kubernetes.io/docs/tasks/extend-kubernetes/custom-resources/custom-resource-definition-versioning/ (upstream:
k8s.io/apiextensions-apiserver/pkg/apiserver/conversion).
"""

from __future__ import annotations

import uuid
from collections.abc import Callable, Mapping, Sequence
from time import perf_counter
from typing import Any, Protocol

from understudy.admission.webhooks import Call, CallError, WebhookClient, read_review, target_of
from understudy.apiserver.extensions.definition import Definition
from understudy.apiserver.extensions.metrics import ConversionMetrics
from understudy.kinds.apiextensions.structural_schema.json_values import json_type, with_go_numbers
from understudy.kinds.common.objectmeta import annotation_errors, label_errors
from understudy.machinery.errors import ConversionError
from understudy.machinery.golang.fmt import type_name
from understudy.machinery.golang.json_reader import DecodeError
from understudy.machinery.golang.json_writer import go_interface
from understudy.machinery.golang.text import aggregate, go_quote
from understudy.machinery.releases.version import V1_31, V1_34, ByRelease, Version
from understudy.machinery.serializer.json import encode
from understudy.machinery.typeinfo import go_types
from understudy.machinery.types import GroupVersionKind, NamedTuple, Obj, named_kind, split_api_version
from understudy.machinery.validation.field import Errors, Path

_GROUP = "apiextensions.k8s.io"
_VERSIONS = ("v1", "v1beta1")
_TIMEOUT = 30  # seconds
# What may be wrong with a call of a webhook, as metrics call it (`ConversionWebhookErrorType`).
_CALL, _MALFORMED, _PARTIAL, _INVALID = (
    f"conversion_webhook_{what}_failure"
    for what in ("call", "malformed_response", "partial_response", "invalid_converted_object")
)


# Whether certificates that are nothing but space count as none when the webhook is called.
_IGNORES_BLANK_BUNDLE = ByRelease({V1_34: True, V1_31: False})


class Converter(Protocol):
    """Converts objects of a definition between its versions."""

    calls_webhook: bool

    def convert(self, obj: Obj, api_version: str) -> Obj:
        """Return an object in another version. Raises ConversionError, and LoopWouldWaitError on the event loop."""


def new_converter(
    definition: Definition, webhooks: WebhookClient, version: Version, metrics: ConversionMetrics
) -> Converter:
    """Return the converter for objects of a definition."""
    webhook = definition.conversion_webhook
    if webhook is None:
        return _NopConverter()
    if _has_blank_bundle(definition, version):
        webhook = {**webhook, "clientConfig": {**webhook["clientConfig"], "caBundle": ""}}
    return _WebhookConverter(definition.name, webhook, webhooks, version, metrics)


def cannot_convert(definition: Definition, version: Version) -> bool:
    """Report whether nothing can be served of a definition, as the certificates of its webhook cannot be read."""
    return definition.has_invalid_ca_bundle and not _has_blank_bundle(definition, version)


def _has_blank_bundle(definition: Definition, version: Version) -> bool:
    return _IGNORES_BLANK_BUNDLE[version] and not definition.ca_bundle.strip()


class _NopConverter:
    """Changes nothing but the apiVersion."""

    calls_webhook = False

    def convert(self, obj: Obj, api_version: str) -> Obj:
        """Return an object with another apiVersion."""
        return {**obj, "apiVersion": api_version}


class _Review(NamedTuple):
    """A review that is sent to a webhook. `kind` is that of the answer that is expected."""

    uid: str
    kind: GroupVersionKind
    call: Call


class _InvalidObjectError(Exception):
    """An object that a webhook must not return."""


class _WebhookConverter:
    """Asks the webhook of a definition. `metrics` count that."""

    calls_webhook = True

    def __init__(
        self, name: str, webhook: Obj, webhooks: WebhookClient, version: Version, metrics: ConversionMetrics
    ) -> None:
        self._name = name
        self._metrics = metrics
        self._target = target_of(webhook["clientConfig"])
        self._review_versions: Sequence[str] = webhook["conversionReviewVersions"]
        self._webhooks = webhooks
        self._version = version

    def convert(self, obj: Obj, api_version: str) -> Obj:
        """Return an object in another version. One of which nothing is set only gets another apiVersion.

        Raises ConversionError, and LoopWouldWaitError on the event loop.
        """
        if _is_empty(obj):
            return {**obj, "apiVersion": api_version}
        versions = named_kind(obj).version, split_api_version(api_version)[1]
        begun = perf_counter()
        try:
            converted = self._ask(obj, api_version)
        except ConversionError:
            self._metrics.observe(self._name, versions, perf_counter() - begun, succeeded=False)
            raise
        self._metrics.observe(self._name, versions, perf_counter() - begun, succeeded=True)
        return converted

    def _ask(self, obj: Obj, api_version: str) -> Obj:
        """Return an object as the webhook converts it. Raises ConversionError."""
        webhook = f"conversion webhook for {named_kind(obj).text}"
        review = self._review(obj, api_version)
        begun = perf_counter()
        reply = self._webhooks.call_and_wait(review.call)
        failure = _CALL
        try:
            if isinstance(reply, CallError):
                raise reply
            answer = read_review(reply, review.kind, go_types.Schemas.of(self._version))
            failure = _MALFORMED
            converted = _converted(answer, review)
            failure = _PARTIAL
            if len(converted) != 1:
                raise ConversionError(f"{webhook} returned {len(converted)} objects, expected 1")
            failure = _INVALID
            checked = self._checked(obj, _unstructured(converted[0]), api_version)
            failure = ""
        except CallError as error:
            raise ConversionError(f"{webhook} failed: {error}") from None
        except DecodeError as error:
            raise ConversionError(str(error)) from None
        except _InvalidObjectError as error:
            raise ConversionError(f"{webhook} returned invalid {error}") from None
        finally:
            self._metrics.observe_call(failure, perf_counter() - begun)
        return checked

    def _review(self, obj: Obj, api_version: str) -> _Review:
        """Return the review that asks for an object in a version. Raises ConversionError if the webhook reads no known
        version of reviews."""
        version = next((version for version in self._review_versions if version in _VERSIONS), None)
        if version is None:
            raise ConversionError("no supported conversion review versions")
        kind = GroupVersionKind(_GROUP, version, "ConversionReview")
        uid = str(uuid.uuid4())
        review = {
            "kind": kind.kind,
            "apiVersion": kind.api_version,
            "request": {"uid": uid, "desiredAPIVersion": api_version, "objects": [go_interface(obj)]},
            "response": {"uid": "", "convertedObjects": None, "result": {"metadata": {}}},
        }
        return _Review(uid, kind, Call(self._target, encode(review) + b"\n", _TIMEOUT, _TIMEOUT))

    def _checked(self, obj: Obj, out: Obj, api_version: str) -> Obj:
        """Return a converted object with the metadata that it had. Raises _InvalidObjectError."""
        before, after = named_kind(obj), named_kind(out)
        expected = GroupVersionKind(*split_api_version(api_version), before.kind)
        if after[:2] != expected[:2]:
            text = f"expected {expected.api_version}, received {after.api_version}"
            raise _InvalidObjectError(f"object at index 0: invalid groupVersion ({text})")
        if after.kind != before.kind:
            text = f"expected {before.kind}, received {after.kind}"
            raise _InvalidObjectError(f"object at index 0: invalid kind ({text})")
        for name, title in (("name", "name"), ("namespace", "namespace"), ("uid", "UID")):
            old, new = _metadata_text(obj, name), _metadata_text(out, name)
            if old != new:
                raise _InvalidObjectError(f"object: must have the same {title}: {old} != {new}")
        try:
            return {**out, "metadata": self._metadata(obj["metadata"], out)}
        except _InvalidObjectError as error:
            raise _InvalidObjectError(f"metadata: {error}") from None

    def _metadata(self, before: Obj, out: Obj) -> Obj:
        """Return the metadata of an object with the labels and annotations of the converted one (upstream:
        `restoreObjectMeta`). Raises _InvalidObjectError."""
        if "metadata" not in out:
            raise _InvalidObjectError("missing metadata in converted object")
        if not isinstance(out["metadata"], dict):
            raise _InvalidObjectError(f"invalid metadata of type {type_name(out['metadata'])} in converted object")
        metadata = {name: value for name, value in before.items() if name not in _CHANGEABLE}
        for name, (check, path) in _CHANGEABLE.items():
            values = out["metadata"].get(name)
            if values is None:
                continue
            if not isinstance(values, dict):
                text = f"invalid metadata.{name} of type {type_name(values)} in converted object"
                raise _InvalidObjectError(text)
            for key, value in values.items():
                if not isinstance(value, str):
                    text = f"metadata.{name}[{key}] must be a string, but is {type_name(value)} in converted object"
                    raise _InvalidObjectError(text)
            if values != (before.get(name) or {}) and (errors := check(values, path)):
                raise _InvalidObjectError(aggregate([error.text(self._version) for error in errors]))
            metadata[name] = values
        return metadata


_CHANGEABLE: Mapping[str, tuple[Callable[[Obj, Path], Errors], Path]] = {
    "labels": (label_errors, Path("metadata", "labels")),
    "annotations": (annotation_errors, Path("metadata", "annotation")),
}


def _converted(answer: Obj, review: _Review) -> list[Any]:
    """Return the objects of an answer. Raises CallError (`getConvertedObjectsFromResponse`)."""
    response = answer.get("response")
    if review.kind.version == "v1" and (kind := named_kind(answer)) != review.kind:
        raise CallError(f"expected webhook response of {review.kind.text}, got {kind.text}")
    if response is None:
        raise CallError("no response provided")
    if review.kind.version == "v1" and (uid := response.get("uid", "")) != review.uid:
        raise CallError(f"expected response.uid={go_quote(review.uid)}, got {go_quote(uid)}")
    result = response.get("result") or {}
    if result.get("status") != "Success":
        status = result.get("status", "")
        raise CallError(result.get("message") or f"response.result.status was '{status}', not 'Success'")
    return response.get("convertedObjects") or []


def _unstructured(value: Any) -> Obj:
    """Return an object of an answer as plain JSON. Raises DecodeError for one without a kind."""
    if value is not None and not isinstance(value, dict):
        go_type = _GO_JSON_TYPES[json_type(value)]
        raise DecodeError(f"json: cannot unmarshal {go_type} into Go value of type map[string]interface {{}}")
    if not value or not isinstance(value.get("kind"), str) or not value["kind"]:
        raise DecodeError(f"Object 'Kind' is missing in '{encode(value).decode('utf-8', 'replace')}'")
    obj: Obj = with_go_numbers(dict(value))
    return obj


_GO_JSON_TYPES = {"string": "string", "array": "array", "boolean": "bool", "integer": "number", "number": "number"}


def _is_empty(obj: Obj) -> bool:
    """Report whether nothing is set of an object (`isEmptyUnstructuredObject`)."""
    return not obj.keys() - {"apiVersion", "kind", "metadata"} and not obj.get("metadata")


def _metadata_text(obj: Obj, name: str) -> str:
    """Return a text of the metadata, "" for none."""
    metadata = obj.get("metadata")
    value = metadata.get(name) if isinstance(metadata, dict) else None
    return value if isinstance(value, str) else ""
