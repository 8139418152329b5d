"""JSON merge patches (RFC 7386) as kube-apiserver applies them, with evanphx/json-patch v4.

Where that departs from the RFC: a list takes the place of an object as it stands, with the nulls in its objects, while
a list that takes the place of anything else loses them. Objects that the patch has walked through are sorted by key, as
the text in the real server's errors is; all others keep their order.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from understudy.machinery.errors import bad_request
from understudy.machinery.patch import patch_body as bodies
from understudy.machinery.types import Obj

INVALID = "Invalid JSON Patch"


@dataclass(frozen=True, slots=True)
class Patch:
    """`content` is an object, or without validation a list, which replaces the whole document. `strict_errors` are what
    strict field validation refuses and the default warns of: `duplicate field "metadata.labels.a"`."""

    content: Any
    strict_errors: list[str]


def parse(body: bytes, validate: bool = True) -> Patch:
    """`validate` is false for fieldValidation=Ignore. Raises StatusError 400."""
    try:
        value, duplicates = bodies.loads(body, bodies.keep_finite_spelling if validate else bodies.keep_spelling)
    except bodies.DecodeError as why:
        raise bad_request(f"error decoding patch: {why}" if validate else INVALID) from None
    if validate and value is not None and not isinstance(value, dict):
        kind = bodies.kind_of(value)
        raise bad_request(
            f"error decoding patch: json: cannot unmarshal {kind} into Go value of type map[string]interface {{}}"
        )
    if not isinstance(value, dict | list):
        raise bad_request(INVALID)
    return Patch(value, [f'duplicate field "{path}"' for path in duplicates] if validate else [])


def as_written(body: bytes) -> Patch:
    """A patch that was parsed already, with the spelling of its strings: for the texts of errors."""
    return Patch(bodies.loads_as_written(body), [])


def apply(patch: Patch, current: Obj) -> Any:
    """The patched object, of its own where it differs from `current`, which stays as it is."""
    if isinstance(patch.content, list):
        return _without_nulls(patch.content)
    return _merged(current, patch.content)


def _merged(current: Obj, patch: Obj) -> Obj:
    out = dict(current)
    for key, value in patch.items():
        if value is None:
            out.pop(key, None)
        else:
            out[key] = _merged_value(out.get(key), value)
    return {key: out[key] for key in sorted(out)}


def _merged_value(current: Any, value: Any) -> Any:
    if not isinstance(current, dict):
        return _without_nulls(value)
    if not isinstance(value, dict):
        return value
    return _merged(current, value)


def _without_nulls(value: Any) -> Any:
    if isinstance(value, dict):
        return {key: _without_nulls(value[key]) for key in sorted(value) if value[key] is not None}
    if isinstance(value, list):
        return [_without_nulls(item) for item in value]
    return value
