"""kubectl's annotation with the configuration that it last applied on the client's side, which server-side apply takes
over.

https://kubernetes.io/docs/reference/using-api/server-side-apply/#migration-between-client-side-and-server-side-apply
"""

from __future__ import annotations

import orjson

from understudy.machinery.golang.json_writer import encode
from understudy.machinery.patch.structured_merge_diff.field_set import Set, difference
from understudy.machinery.patch.structured_merge_diff.to_field_set import to_field_set
from understudy.machinery.patch.structured_merge_diff.typed import InvalidValue, MapType, compare
from understudy.machinery.patch.structured_merge_diff.typed_validation import validate
from understudy.machinery.types import Obj

ANNOTATION = "kubectl.kubernetes.io/last-applied-configuration"
MAX_ANNOTATIONS_BYTES = 256 * 1024


def allowed_conflicts(live: Obj, api_version: str, kind: MapType) -> Set | None:
    """Return the fields that the annotation sets to their live values, or None without a usable annotation.

    kubectl may take these over without a conflict (upstream: `allowedConflictsFromLastApplied`).
    """
    text = (live["metadata"].get("annotations") or {}).get(ANNOTATION)
    if not text:
        return None
    try:
        applied = orjson.loads(text)
        if not isinstance(applied, dict) or not applied.get("kind") or applied.get("apiVersion") != api_version:
            return None
        validate(kind, live)
        validate(kind, applied)
        changed, removed = compare(kind, applied, live)
        return difference(difference(to_field_set(kind, applied), changed), removed)
    except (ValueError, InvalidValue):
        return None


def with_updated_annotation(obj: Obj, patch: Obj) -> Obj:
    """Return `obj` with the annotation, if it has one, set to the patch; without the annotation if that makes it too
    long."""
    annotations = obj["metadata"].get("annotations") or {}
    if not annotations.get(ANNOTATION):
        return obj
    text = _text(patch)
    if annotations[ANNOTATION] == text:
        return obj
    annotations = {**annotations, ANNOTATION: text}
    if sum(len(key.encode()) + len(value.encode()) for key, value in annotations.items()) > MAX_ANNOTATIONS_BYTES:
        del annotations[ANNOTATION]
    return {**obj, "metadata": {**obj["metadata"], "annotations": annotations}}


def _text(patch: Obj) -> str:
    metadata = patch["metadata"]
    if ANNOTATION in (metadata.get("annotations") or {}):
        rest = {key: value for key, value in metadata["annotations"].items() if key != ANNOTATION}
        patch = {**patch, "metadata": {**metadata, "annotations": rest}}
    return encode(_sorted(patch)).decode() + "\n"


def _sorted(value: object) -> object:
    if isinstance(value, dict):
        return {key: _sorted(value[key]) for key in sorted(value)}
    return [_sorted(item) for item in value] if isinstance(value, list) else value
