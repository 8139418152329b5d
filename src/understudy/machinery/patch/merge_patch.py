"""JSON merge patches (RFC 7386) as kube-apiserver applies them, with evanphx/json-patch v4.

It departs from the RFC: a list that replaces an object keeps the nulls in its objects, while a list that replaces
anything else loses them. Objects that the patch has changed are sorted by key, like the text in the real server's
errors; all others keep their order.
"""

from __future__ import annotations

from typing import Any

from understudy.machinery.errors import bad_request
from understudy.machinery.patch import patch_body as bodies
from understudy.machinery.types import NamedTuple, Obj

INVALID = "Invalid JSON Patch"


class Patch(NamedTuple):
    """A parsed merge patch.

    `content` is an object, or without validation a list, which replaces the whole document. Each of the `strict_errors`
    (`duplicate field "metadata.labels.a"`) is an error with strict field validation and a warning by default.
    """

    content: Any
    strict_errors: list[str]
    tests: bool = False


def parse(body: bytes, validate: bool = True) -> Patch:
    """Parse a merge patch. `validate` is false for fieldValidation=Ignore. Raises StatusError 400."""
    try:
        value, duplicates = bodies.loads(body, bodies.keep_finite_spelling if validate else bodies.keep_spelling)
    except bodies.DecodeError as error:
        raise bad_request(f"error decoding patch: {error}" if validate else INVALID) from None
    if validate and value is not None and not isinstance(value, dict):
        kind = bodies.kind_of(value)
        raise bad_request(
            f"error decoding patch: json: cannot unmarshal {kind} into Go value of type map[string]interface {{}}"
        )
    if not isinstance(value, dict | list):
        raise bad_request(INVALID)
    return Patch(value, [f'duplicate field "{path}"' for path in duplicates] if validate else [])


def parse_as_written(body: bytes) -> Patch:
    """Parse a valid patch again, with the spelling of its strings: for the texts of errors."""
    return Patch(bodies.loads_as_written(body), [])


def apply(patch: Patch, current: Obj) -> Any:
    """Return the patched object. `current` stays as it is; the result may share parts with it."""
    if isinstance(patch.content, list):
        return _prune_nils(patch.content)
    return _merge_docs(current, patch.content)


def _merge_docs(current: Obj, patch: Obj) -> Obj:
    """Merge an object of the patch into one of the document (upstream: `mergeDocs`)."""
    out = dict(current)
    for key, value in patch.items():
        if value is None:
            out.pop(key, None)
        else:
            out[key] = _merge_values(out.get(key), value)
    return {key: out[key] for key in sorted(out)}


def _merge_values(current: Any, value: Any) -> Any:
    """Merge any value of the patch into one of the document (upstream: `merge`)."""
    if not isinstance(current, dict):
        return _prune_nils(value)
    if not isinstance(value, dict):
        return value
    return _merge_docs(current, value)


def _prune_nils(value: Any) -> Any:
    """Return a value of the patch without nulls, its objects sorted by key (upstream: `pruneNils`)."""
    if isinstance(value, dict):
        return {key: _prune_nils(value[key]) for key in sorted(value) if value[key] is not None}
    if isinstance(value, list):
        return [_prune_nils(item) for item in value]
    return value
