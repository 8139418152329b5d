"""Validation of subject access reviews, about a resource or a path."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

from understudy.kinds.common import label_selectors
from understudy.machinery.releases.version import V1_37, Version
from understudy.machinery.selectors.fields import parse_fields
from understudy.machinery.selectors.labels import SelectorError, parse_labels
from understudy.machinery.types import Obj
from understudy.machinery.validation.bad_values import Typed
from understudy.machinery.validation.field import Errors, Path, invalid, required

SELF, LOCAL = "SelfSubjectAccessReview", "LocalSubjectAccessReview"
SPEC = Path("spec")
RESOURCE, PATH = "resourceAttributes", "nonResourceAttributes"


def validate(review: Obj, kind: str) -> Errors:
    """Check a review of any of the kinds. Its metadata holds nothing that the server sets but managed fields."""
    spec = review.get("spec") or {}
    errors = _attributes(spec)
    if kind != SELF and not spec.get("user") and not spec.get("groups"):
        errors.append(invalid(SPEC.child("user"), "", "at least one of user or group must be specified"))
    errors += _selectors(spec.get(RESOURCE) or {})
    errors += _metadata(review["metadata"], local=kind == LOCAL)
    return errors + (_local(review["metadata"], spec) if kind == LOCAL else [])


def drop_selectors(review: Obj) -> None:
    """Remove the selectors of a review, as a server does where the gate AuthorizeWithSelectors is off."""
    spec = review.get("spec") or {}
    if attributes := spec.get(RESOURCE):
        kept = {name: value for name, value in attributes.items() if name not in _SELECTORS}
        review["spec"] = {**spec, RESOURCE: kept}


def evaluation_error(review: Obj, version: Version) -> str:
    """Return the message about selectors of a valid review that are ignored, "" if none is."""
    resource = (review.get("spec") or {}).get(RESOURCE) or {}
    return "; ".join(filter(None, (_ignored(resource.get(name) or {}, name, version) for name in _SELECTORS)))


def _ignored(selector: Obj, name: str, version: Version) -> str:
    parse, is_read = _SELECTORS[name]
    if requirements := selector.get("requirements"):
        read = [is_read(item) for item in requirements]
        extent = "" if all(read) else "partially ignored" if any(read) else "ignored"
    else:
        extent = "" if _parses(parse, selector.get("rawSelector", ""), version) else "ignored"
    return extent and f"{SPEC.child(RESOURCE, name)} {extent} due to parse error"


def _parses(parse: Callable[[str, Version], object], text: str, version: Version) -> bool:
    try:
        parse(text, version)
    except SelectorError:
        return False
    return True


def is_one_value(item: Obj) -> bool:
    """Report whether a field selector can be made of a requirement."""
    return item.get("operator") in ("In", "NotIn") and len(item.get("values") or ()) == 1


def _is_operator(item: Obj) -> bool:
    return item.get("operator") in ("In", "NotIn", "Exists", "DoesNotExist")


# {selector: (parser of its raw text, predicate of requirements that are understood)}
_SELECTORS: dict[str, tuple[Callable[[str, Version], object], Callable[[Obj], bool]]] = {
    "fieldSelector": (lambda text, release: parse_fields(text), is_one_value),
    "labelSelector": (parse_labels, _is_operator),
}


def _attributes(spec: Obj) -> Errors:
    resource, path = spec.get(RESOURCE), spec.get(PATH)
    if (resource is None) != (path is None):
        return []
    text = f"exactly one of {PATH} or {RESOURCE} must be specified"
    if path is None:
        older, bad_value = invalid(SPEC.child(RESOURCE), None, text), None
    else:
        bad_value = _bad_path(path)
        older = invalid(SPEC.child(PATH), bad_value, f"cannot be specified in combination with {RESOURCE}")
    return [replace(older, newer=(V1_37, invalid(SPEC, bad_value, text)))]


def _bad_path(path: Obj) -> object:
    return Typed(path, "k8s.io/kubernetes/pkg/apis/authorization.NonResourceAttributes")


def _metadata(metadata: Obj, *, local: bool) -> Errors:
    fields = {name for name, value in metadata.items() if value} - {"managedFields", *(("namespace",) if local else ())}
    text = "must be empty except for namespace" if local else "must be empty"
    bad_value = Typed(metadata, "k8s.io/apimachinery/pkg/apis/meta/v1.ObjectMeta") if fields else None
    return [invalid(Path("metadata"), bad_value, text)] if fields else []


def _local(metadata: Obj, spec: Obj) -> Errors:
    errors: Errors = []
    namespace = (spec.get(RESOURCE) or {}).get("namespace", "")
    if spec.get(RESOURCE) is not None and namespace != metadata.get("namespace", ""):
        errors.append(invalid(SPEC.child(RESOURCE, "namespace"), namespace, "must match metadata.namespace"))
    if spec.get(PATH) is not None:
        errors.append(invalid(SPEC.child(PATH), _bad_path(spec[PATH]), "disallowed on this kind of request"))
    return errors


def _selectors(resource: Obj) -> Errors:
    """Check selectors. Unknown operators are allowed in a review: other authorizers may know them."""
    path = SPEC.child(RESOURCE)
    errors = _selector(resource.get("fieldSelector"), path.child("fieldSelector"), _field_requirement)
    return errors + _selector(resource.get("labelSelector"), path.child("labelSelector"), _label_requirement)


def _selector(selector: Obj | None, path: Path, validate_one: Callable[[Obj, Path], Errors]) -> Errors:
    if selector is None:
        return []
    where, requirements = path.child("requirements"), selector.get("requirements") or []
    return _form(selector, path) + [
        e for i, item in enumerate(requirements) for e in validate_one(item, where.index(i))
    ]


def _form(selector: Obj, path: Path) -> Errors:
    raw, requirements = selector.get("rawSelector", ""), selector.get("requirements")
    if raw and requirements:
        return [invalid(path.child("rawSelector"), raw, "may not specified at the same time as requirements")]
    text = f"when {path} is specified, requirements or rawSelector is required"
    return [] if raw or requirements else [required(path.child("requirements"), text)]


def _field_requirement(item: Obj, path: Path) -> Errors:
    errors = [] if item.get("key") else [required(path.child("key"), "must be specified")]
    return errors + label_selectors.operands(item, path, any_operator=True)


def _label_requirement(item: Obj, path: Path) -> Errors:
    return label_selectors.requirement(item, path, any_operator=True)
