"""What subject access reviews may ask: of a resource or of a path, and for whom."""

from __future__ import annotations

from collections.abc import Callable

from understudy.admission import dumped
from understudy.admission.core import selectors
from understudy.admission.field import Errors, Path, invalid, required
from understudy.apiserver.types import Obj

SELF, LOCAL = "SelfSubjectAccessReview", "LocalSubjectAccessReview"
SPEC = Path("spec")
RESOURCE, PATH = "resourceAttributes", "nonResourceAttributes"


def validate(review: Obj, kind: str, release: str) -> Errors:
    """A review of any of the kinds; its metadata holds nothing of the server's but managed fields."""
    spec = review.get("spec") or {}
    errors = _attributes(spec, release)
    if kind != SELF and not spec.get("user") and not spec.get("groups"):
        errors.append(invalid(SPEC.child("user"), "", "at least one of user or group must be specified"))
    errors += _selectors(spec.get(RESOURCE) or {})
    errors += _metadata(review["metadata"], local=kind == LOCAL, release=release)
    return errors + (_local(review["metadata"], spec, release) if kind == LOCAL else [])


def _attributes(spec: Obj, release: str) -> Errors:
    resource, path = spec.get(RESOURCE), spec.get(PATH)
    if resource is not None and path is not None:
        text = f"cannot be specified in combination with {RESOURCE}"
        return [invalid(SPEC.child(PATH), _shown(path, release), text)]
    if resource is None and path is None:
        return [invalid(SPEC.child(RESOURCE), None, f"exactly one of {PATH} or {RESOURCE} must be specified")]
    return []


def _shown(path: Obj, release: str) -> object:
    return dumped.struct(path, "k8s.io/kubernetes/pkg/apis/authorization.NonResourceAttributes", release)


def _metadata(found: Obj, *, local: bool, release: str) -> Errors:
    given = {name for name, value in found.items() if value} - {"managedFields", *(("namespace",) if local else ())}
    text = "must be empty except for namespace" if local else "must be empty"
    shown = dumped.struct(found, "k8s.io/apimachinery/pkg/apis/meta/v1.ObjectMeta", release) if given else None
    return [invalid(Path("metadata"), shown, text)] if given else []


def _local(found: Obj, spec: Obj, release: str) -> Errors:
    errors: Errors = []
    namespace = (spec.get(RESOURCE) or {}).get("namespace", "")
    if spec.get(RESOURCE) is not None and namespace != found.get("namespace", ""):
        errors.append(invalid(SPEC.child(RESOURCE, "namespace"), namespace, "must match metadata.namespace"))
    if spec.get(PATH) is not None:
        errors.append(invalid(SPEC.child(PATH), _shown(spec[PATH], release), "disallowed on this kind of request"))
    return errors


def _selectors(resource: Obj) -> Errors:
    """Operators that this server does not know may stand in a review: other authorizers may know them."""
    path = SPEC.child(RESOURCE)
    errors = _selector(resource.get("fieldSelector"), path.child("fieldSelector"), _field_requirement)
    return errors + _selector(resource.get("labelSelector"), path.child("labelSelector"), _label_requirement)


def _selector(selector: Obj | None, path: Path, validate_one: Callable[[Obj, Path], Errors]) -> Errors:
    if selector is None:
        return []
    where, given = path.child("requirements"), selector.get("requirements") or []
    return _form(selector, path) + [e for i, item in enumerate(given) for e in validate_one(item, where.index(i))]


def _form(selector: Obj, path: Path) -> Errors:
    raw, given = selector.get("rawSelector", ""), selector.get("requirements")
    if raw and given:
        return [invalid(path.child("rawSelector"), raw, "may not specified at the same time as requirements")]
    text = f"when {path} is specified, requirements or rawSelector is required"
    return [] if raw or given else [required(path.child("requirements"), text)]


def _field_requirement(item: Obj, path: Path) -> Errors:
    errors = [] if item.get("key") else [required(path.child("key"), "must be specified")]
    return errors + selectors.operands(item, path, any_operator=True)


def _label_requirement(item: Obj, path: Path) -> Errors:
    return selectors.requirement(item, path, any_operator=True)
