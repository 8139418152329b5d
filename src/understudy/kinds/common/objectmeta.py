"""Validation of metadata (upstream: `apimachinery/pkg/api/validation/objectmeta.go`).

    errors = validate(obj["metadata"], namespaced=True, name=subdomain_name)
    errors += validate_update(obj["metadata"], old["metadata"])

The registry asks that of every update. A kind asks again, as its `Metadata` says (`CORE` for most), and what it finds
is reported again: clients count the causes of a Status.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from understudy.machinery.golang.text import go_quote
from understudy.machinery.patch.apply.manager_names import validate_field_manager
from understudy.machinery.releases.version import V1_31, V1_34, V1_35, V1_37, ByRelease, Version
from understudy.machinery.serializer.json_fast import was_sent_empty
from understudy.machinery.types import NamedTuple, Obj, split_api_version
from understudy.machinery.validation.bad_values import OWNER_REFERENCE, Stringer, TextByRelease, Typed, strings
from understudy.machinery.validation.field import (
    Errors,
    Path,
    distinct,
    forbidden,
    invalid,
    not_supported,
    required,
    too_long,
)
from understudy.machinery.validation.names import (
    go_lower,
    is_label,
    label_name,
    label_value_texts,
    long_name,
    qualified_name_texts,
    size,
    subdomain_name,
)

if TYPE_CHECKING:
    from understudy.kinds.context import Context

METADATA = Path("metadata")
IMMUTABLE = "field is immutable"

ANNOTATIONS_SIZE = 256 * 1024  # bytes of all keys and values
SUBRESOURCE_LENGTH = 256

_ORPHAN, _FOREGROUND = "orphan", "foregroundDeletion"
_STANDARD_FINALIZERS = frozenset(("kubernetes", _ORPHAN, _FOREGROUND))

NameRule = Callable[[str, bool], list[str]]


def validate(meta: Obj, *, namespaced: bool, name: NameRule = subdomain_name, path: Path = METADATA) -> Errors:
    """Check the metadata of an object that has a name, by the rule `name` (upstream: `ValidateObjectMeta`)."""
    return _names(meta, namespaced, name, path) + _generation(meta, path) + _check_fields(meta, _RULES, path)


def validate_update(meta: Obj, old: Obj, *, path: Path = METADATA, validated: bool = False) -> Errors:
    """Check the metadata of an object that replaces another one (upstream: `ValidateObjectMetaUpdate`).

    validated  whether `validate` has found nothing: then its fields are not checked again
    """
    errors: Errors = []
    if old.get("deletionTimestamp"):
        errors += _no_new_finalizers(meta, old, path.child("finalizers"))
    if not meta.get("resourceVersion"):
        errors.append(invalid(path.child("resourceVersion"), "", "must be specified for an update"))
    if _number(meta, "generation") < _number(old, "generation"):
        errors.append(invalid(path.child("generation"), meta.get("generation", 0), "must not be decremented"))
    for name, printed in _IMMUTABLE.items():
        value = meta.get(name)
        if value != old.get(name) and {value, old.get(name)} != {"", None}:
            errors.append(invalid(path.child(name), printed(value), IMMUTABLE))
    return errors if validated else errors + _check_fields(meta, _UPDATE_RULES, path)


def finalizer_names(meta: Obj, path: Path = METADATA) -> Errors:
    """Check that finalizers without a domain are standard ones (upstream: `ValidateFinalizerName`)."""
    text = "name is neither a standard finalizer name nor is it fully qualified"
    return [
        invalid(path.child("finalizers").index(i), name, text)
        for i, name in enumerate(meta.get("finalizers") or ())
        if "/" not in name and name not in _STANDARD_FINALIZERS
    ]


def finalizer_warnings(meta: Obj, old: Obj, path: Path = METADATA) -> list[str]:
    """Return the warnings about new finalizers of a custom resource (upstream: `validateKubeFinalizerName`)."""
    warnings: list[str] = []
    if not meta.get("finalizers"):
        return warnings
    for name in sorted(set(meta["finalizers"]) - set(old.get("finalizers") or ())):
        texts = qualified_name_texts(name)
        if "/" not in name and name not in _STANDARD_FINALIZERS:
            with_path = " including a path (/)" if "." in name else ""
            texts.append(
                f"prefer a domain-qualified finalizer name{with_path} to avoid accidental conflicts with other"
                " finalizer writers"
            )
        warnings += [f"{path.child('finalizers')}: {go_quote(name)}: {text}" for text in texts]
    return warnings


def beside_declared_rules(errors: Errors, release: Version) -> Errors:
    """Return the errors of the metadata of a custom resource or one within, equal ones once from 1.37 on (upstream:
    `ValidateObjectMetaDeclaratively`)."""
    return distinct(errors, release) if release >= V1_37 else errors


class Metadata(NamedTuple):
    """The metadata rules of a kind, as part of its own rules.

    name     its rule for names
    domains  whether finalizers without a domain must be standard ones
    """

    name: NameRule = subdomain_name
    domains: bool = True

    def created(self, obj: Obj, ctx: Context) -> Errors:
        """Check the metadata of an object as if it was new. The registry has set its namespace."""
        fields, namespaced = obj["metadata"], "namespace" in obj["metadata"]
        if ctx.metadata_validated:
            errors = _names(fields, namespaced, self.name, METADATA)
        else:
            errors = validate(fields, namespaced=namespaced, name=self.name)
        return errors + finalizer_names(fields) if self.domains else errors

    def updated(self, obj: Obj, old: Obj, ctx: Context) -> Errors:
        """Check the metadata of an object that replaces another one."""
        fields = obj["metadata"]
        errors = [] if ctx.metadata_validated else validate_update(fields, old["metadata"])
        return errors + finalizer_names(fields) if self.domains else errors


CORE = Metadata()
# Metadata rules of kinds that upstream keeps outside `pkg/apis/core`: webhooks, leases, runtime classes, definitions.
PLAIN = Metadata(domains=False)
_DECLARED = ByRelease({V1_35: Metadata(name=long_name), V1_31: CORE})


def created_with_declared_name(obj: Obj, ctx: Context) -> Errors:
    """Check the metadata of a new object of a kind whose name has a declarative rule in newer releases, which do not
    check its generateName (upstream: `ValidateObjectMetaWithOpts`)."""
    return _DECLARED[ctx.release].created(obj, ctx)


# Fields that the metadata of a template (of a pod, a claim) cannot have: {JSON name: name in errors}.
_NOT_IN_TEMPLATES = {
    "name": "name",
    "generateName": "generateName",
    "namespace": "namespace",
    "selfLink": "selfLink",
    "uid": "uID",
    "resourceVersion": "resourceVersion",
    "generation": "generation",
    "creationTimestamp": "creationTimestamp",
    "deletionTimestamp": "deletionTimestamp",
    "deletionGracePeriodSeconds": "deletionGracePeriodSeconds",
    "ownerReferences": "ownerReferences",
    "finalizers": "finalizers",
    "managedFields": "managedFields",
}


def validate_template(meta: Obj, path: Path) -> Errors:
    """Check the metadata of a template: labels and annotations, nothing else."""
    errors = annotation_errors(meta.get("annotations"), path.child("annotations"))
    errors += label_errors(meta.get("labels"), path.child("labels"))
    for name, text in _NOT_IN_TEMPLATES.items():
        # A pointer counts when it points to zero, a list when it is sent empty.
        is_zero_pointer = name == "deletionGracePeriodSeconds" and meta.get(name) is not None
        if meta.get(name) or is_zero_pointer or was_sent_empty(meta, name):
            errors.append(forbidden(path.child(text), "cannot be set"))
    return errors


def label_errors(values: Obj | None, path: Path) -> Errors:
    """Check labels."""
    errors: Errors = []
    for key, value in (values or {}).items():
        if is_label(f"{key}={value}"):
            continue
        errors += [invalid(path, key, text) for text in qualified_name_texts(key)]
        errors += [invalid(path, value, text) for text in label_value_texts(value)]
    return errors


def annotation_errors(values: Obj | None, path: Path) -> Errors:
    """Check annotations: their keys, and the size of all together (upstream: `ValidateAnnotations`)."""
    values = values or {}
    errors = [invalid(path, key, text) for key in values for text in qualified_name_texts(go_lower(key))]
    if sum(size(key) + size(value) for key, value in values.items()) > ANNOTATIONS_SIZE:
        errors.append(too_long(path, ANNOTATIONS_SIZE, in_bytes=True))
    return errors


def _number(meta: Obj, name: str) -> int:
    return int(meta.get(name) or 0)


def _names(meta: Obj, namespaced: bool, rule: NameRule, path: Path) -> Errors:
    errors: Errors = []
    if prefix := meta.get("generateName"):
        errors += [invalid(path.child("generateName"), prefix, text) for text in rule(prefix, True)]
    if name := meta.get("name"):
        errors += [invalid(path.child("name"), name, text) for text in rule(name, False)]
    else:
        errors.append(required(path.child("name"), "name or generateName is required"))
    namespace = meta.get("namespace")
    if not namespaced:
        return [*errors, forbidden(path.child("namespace"), "not allowed on this type")] if namespace else errors
    if not namespace:
        return [*errors, required(path.child("namespace"))]
    return errors + [invalid(path.child("namespace"), namespace, text) for text in label_name(namespace, False)]


def _generation(meta: Obj, path: Path) -> Errors:
    generation = _number(meta, "generation")
    if generation >= 0:
        return []
    return [invalid(path.child("generation"), generation, "must be greater than or equal to 0")]


def _check_fields(meta: Obj, rules: Mapping[str, Callable[[Any, Path], Errors]], path: Path) -> Errors:
    """Check the fields of metadata that are not empty, each by its rule."""
    errors: Errors = []
    for name, rule in rules.items():
        if value := meta.get(name):
            errors += rule(value, path.child(name))
    return errors


_EMPTY = "must not be empty"
_OWNER_FIELDS = {
    name: TextByRelease(ByRelease({V1_34: _EMPTY, V1_31: f"{name} must not be empty"}))
    for name in ("kind", "name", "uid")
}


def _owner(owner: Obj, path: Path, index: int) -> Errors:
    """Check an owner reference. Before 1.37 errors do not say which of the references is meant."""
    errors: Errors = []
    here = path.index(index)
    api_version = owner.get("apiVersion", "")
    group, version = split_api_version(api_version) if api_version.count("/") < 2 else ("", "")
    if not version:
        older = invalid(path.child("apiVersion"), api_version, "version must not be empty")
        newer = invalid(here.child("apiVersion"), api_version, "must be <group>/<version> or <version>")
        newer = newer if api_version else required(here.child("apiVersion"), _EMPTY)
        errors.append(replace(older, newer=(V1_37, newer)))
    errors += [
        replace(invalid(path.child(name), "", text), newer=(V1_37, required(here.child(name), _EMPTY)))
        for name, text in _OWNER_FIELDS.items()
        if not owner.get(name)
    ]
    if (group, version, owner.get("kind")) == ("", "v1", "Event"):
        bad_value, text = Typed(owner, OWNER_REFERENCE), "/v1, Kind=Event is disallowed from being an owner"
        errors.append(replace(invalid(path, bad_value, text), newer=(V1_37, invalid(here, bad_value, text))))
    return errors


def _owners(owners: Sequence[Obj], path: Path) -> Errors:
    errors: Errors = []
    first, bad_value = "", Typed(owners, f"[]{OWNER_REFERENCE}")
    for i, owner in enumerate(owners):
        errors += _owner(owner, path, i)
        if owner.get("controller"):
            controller = f"{owner.get('kind', '')}/{owner.get('name', '')}"
            if first:
                text = 'Only one reference can have Controller set to true. Found "true" in references for'
                errors.append(invalid(path, bad_value, f"{text} {first} and {controller}"))
            else:
                first = controller
    return errors


def _finalizers(finalizers: Sequence[str], path: Path) -> Errors:
    errors = [invalid(path, name, text) for name in finalizers for text in qualified_name_texts(name)]
    if _ORPHAN in finalizers and _FOREGROUND in finalizers:
        bad_value = Typed(finalizers, "[]string")
        errors.append(invalid(path, bad_value, f"finalizer {_ORPHAN} and {_FOREGROUND} cannot be both set"))
    return errors


def _no_new_finalizers(meta: Obj, old: Obj, path: Path) -> Errors:
    extra = sorted(set(meta.get("finalizers") or ()) - set(old.get("finalizers") or ()))
    text = "no new finalizers can be added if the object is being deleted, found new finalizers"
    return [forbidden(path, f"{text} {strings(extra)}")] if extra else []


def _managed_fields(entries: Sequence[Obj], path: Path) -> Errors:
    errors: Errors = []
    for i, entry in enumerate(entries):
        here = path.index(i)
        operation, fields = entry.get("operation", ""), entry.get("fieldsType", "")
        if operation not in ("Apply", "Update"):
            older = invalid(here.child("operation"), operation, "must be `Apply` or `Update`")
            newer = not_supported(here.child("operation"), operation, ("Apply", "Update"))
            newer = newer if operation else required(here.child("operation"), _EMPTY)
            errors.append(replace(older, newer=(V1_37, newer)))
        if fields not in ("", "FieldsV1"):
            errors.append(invalid(here.child("fieldsType"), fields, "must be `FieldsV1`"))
        errors += validate_field_manager(entry.get("manager", ""), here.child("manager"))
        if size(entry.get("subresource", "")) > SUBRESOURCE_LENGTH:
            errors.append(too_long(here.child("subresource"), SUBRESOURCE_LENGTH, in_bytes=True))
    return errors


_UPDATE_RULES: Mapping[str, Callable[[Any, Path], Errors]] = {
    "labels": label_errors,
    "annotations": annotation_errors,
    "ownerReferences": _owners,
    "managedFields": _managed_fields,
}
_RULES: Mapping[str, Callable[[Any, Path], Errors]] = {
    "labels": label_errors,
    "annotations": annotation_errors,
    "ownerReferences": _owners,
    "finalizers": _finalizers,
    "managedFields": _managed_fields,
}


def _text(value: Any) -> Any:
    return value or ""


def _time(value: Any) -> Any:
    """Return a time as a bad value."""
    return Stringer(f"{value[:10]} {value[11:19]} +0000 UTC", value) if value else None


_IMMUTABLE: dict[str, Callable[[Any], Any]] = {
    "name": _text,
    "namespace": _text,
    "uid": _text,
    "creationTimestamp": _time,
    "deletionTimestamp": _time,
    "deletionGracePeriodSeconds": lambda value: value,
}
