"""Validation of custom resource definitions: names, group, scope, conversion, approval. `versions` checks versions.

What is the same in all versions is above them in the internal form, and errors show it there.
"""

from __future__ import annotations

import base64
import re
from typing import Any
from urllib.parse import urlsplit

from understudy.kinds.admissionregistration import webhooks
from understudy.kinds.apiextensions import schemas, structural_schemas
from understudy.kinds.apiextensions import versions as definition_versions
from understudy.kinds.apiextensions.schema_rules import KnownRules
from understudy.kinds.apiextensions.versions import schema_of
from understudy.kinds.common.compose import Update, all_of
from understudy.kinds.common.formats import choice, domain, indexed, invalid_texts, kind, label_1035
from understudy.kinds.common.objectmeta import IMMUTABLE, PLAIN, Metadata
from understudy.kinds.context import Context
from understudy.machinery.golang.text import aggregate, go_quote
from understudy.machinery.golang.urls import parse_error
from understudy.machinery.golang.x509 import x509
from understudy.machinery.releases.version import V1_31, V1_33, V1_34, ByRelease, Version
from understudy.machinery.types import Obj, condition_is_true
from understudy.machinery.validation.bad_values import Octets, TextByRelease, Typed
from understudy.machinery.validation.field import Errors, Path, forbidden, invalid, required
from understudy.machinery.validation.names import subdomain_name

CLEANUP = "customresourcecleanup.apiextensions.k8s.io"  # the finalizer of those that are deleted
APPROVAL = "api-approved.kubernetes.io"
NON_STRUCTURAL = "NonStructuralSchema"  # the condition of definitions that v1beta1 has left

_SPEC, _STORED = Path("spec"), Path("status", "storedVersions")
_GO = "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions"
_NO_SCHEMAS = TextByRelease(ByRelease({V1_34: "", V1_31: "schemas are required"}))
_NAMES = ("plural", "singular", "kind", "listKind")
# Fields that all versions share: {field of a version: field of the spec}.
_SHARED = {
    "schema": "validation",
    "subresources": "subresources",
    "additionalPrinterColumns": "additionalPrinterColumns",
    "selectableFields": "selectableFields",
}


def metadata(obj: Obj, ctx: Context) -> Errors:
    """Check that a definition is named after the resource that it defines."""
    spec = obj["spec"]
    expected = f"{(spec.get('names') or {}).get('plural', '')}.{spec.get('group', '')}"

    def name(text: str, prefix: bool) -> list[str]:
        errors = ['must be spec.names.plural+"."+spec.group'] if text != expected else []
        return subdomain_name(text, prefix) + errors

    return Metadata(name, domains=False).created(obj, ctx)


def create(obj: Obj, ctx: Context) -> Errors:
    """Check a new CustomResourceDefinition (upstream: `ValidateCustomResourceDefinition`)."""
    return _whole(obj, None, ctx)


def _update(obj: Obj, old: Obj, ctx: Context) -> Errors:
    return _whole(obj, old, ctx)


UPDATE: Update = all_of(PLAIN.updated, _update)


def status(obj: Obj, old: Obj, ctx: Context) -> Errors:
    """Check the status of a CustomResourceDefinition: the accepted names."""
    return PLAIN.updated(obj, old, ctx) + _accepted_names(obj)


def _accepted_names(obj: Obj) -> Errors:
    accepted = (obj.get("status") or {}).get("acceptedNames") or {}
    return _names(accepted, Path("status", "acceptedNames"))


def _whole(obj: Obj, old: Obj | None, ctx: Context) -> Errors:
    spec = internal(obj["spec"])
    errors = _spec(spec, old, _known_rules(obj, old, ctx))
    if old is not None:
        errors += _unchanged(spec, old)
    errors += _accepted_names(obj) + _stored(obj) + _approval(obj, old)
    if spec.get("preserveUnknownFields"):
        text = "cannot set to true, set x-kubernetes-preserve-unknown-fields to true in spec.versions[*].schema instead"
        errors.append(invalid(_SPEC.child("preserveUnknownFields"), True, text))
    return errors


def _known_rules(obj: Obj, old: Obj | None, ctx: Context) -> KnownRules:
    """Return the rules that a definition had before an update, none for a new one."""
    if old is None:
        return KnownRules(ctx.release, observe=ctx.observe)
    before, after = (
        {version.get("name", ""): schema_of(version, "schema") for version in each["spec"].get("versions") or ()}
        for each in (old, obj)
    )
    return KnownRules.of(ctx.release, before, after, ctx.observe)


def internal(spec: Obj) -> Obj:
    """Return the internal form of a spec: what all versions share is above them."""
    versions: list[Obj] = spec.get("versions") or []
    if not versions:
        return spec
    out: Obj = {**spec, "version": versions[0].get("name", "")}
    for name, above in _SHARED.items():
        values = [version.get(name) for version in versions]
        first, *others = (None if value == [] else value for value in values)  # an empty struct is not none
        if all(value == first for value in others):
            out[above] = first
            versions = [{k: v for k, v in version.items() if k != name} for version in versions]
    return {**out, "versions": versions}


def _spec(spec: Obj, old: Obj | None, known: KnownRules) -> Errors:
    errors = domain(spec.get("group", ""), _SPEC.child("group"), dots=1, requirement="one dot")
    errors += choice(spec.get("scope", ""), ("Cluster", "Namespaced"), _SPEC.child("scope"), needed=True)
    versions, where = spec.get("versions") or [], _SPEC.child("versions")
    if schema_of(spec, "validation") is None:
        without = [i for i, version in enumerate(versions) if schema_of(version, "schema") is None]
        errors += [required(where.index(i).child("schema", "openAPIV3Schema"), _NO_SCHEMAS) for i in without]
    preserve = bool(spec.get("preserveUnknownFields"))
    if preserve and any(schemas.has_defaults(schema) for schema in _schemas(spec)):
        text = "must be false in order to use defaults in the schema"
        errors.append(invalid(_SPEC.child("preserveUnknownFields"), True, text))
    for i, version in enumerate(versions):
        errors += definition_versions.validate(version, spec, where.index(i), known)
    errors += _versions(spec, where)
    if spec.get("version"):
        errors += label_1035(spec["version"], _SPEC.child("version"))
    names = spec.get("names") or {}
    errors += [required(_SPEC.child("names", name)) for name in _NAMES if not names.get(name)]
    errors += _names(names, _SPEC.child("names"))
    has_status = any(definition_versions.has_status(part) for part in (spec, *versions))
    errors += definition_versions.part(spec, "validation", has_status, _SPEC, known)
    return errors + _conversion(spec, old, _SPEC.child("conversion"))


def _schemas(spec: Obj) -> list[Obj]:
    schemas = [
        schema_of(spec, "validation"),
        *(schema_of(version, "schema") for version in spec.get("versions") or ()),
    ]
    return [schema for schema in schemas if schema is not None]


def _versions(spec: Obj, path: Path) -> Errors:
    versions = spec.get("versions") or []
    names = [version.get("name", "") for version in versions]
    stored = sum(bool(version.get("storage")) for version in versions)
    checks = (
        (len(set(names)) < len(names), "must contain unique version names"),
        (stored != 1, "must have exactly one version marked as storage version"),
    )
    texts = [text for wrong, text in checks if wrong]
    if not texts:
        return []
    return invalid_texts(texts, Typed.of_field(spec, "versions", f"[]{_GO}.CustomResourceDefinitionVersion"), path)


def _names(names: Obj, path: Path) -> Errors:
    errors: Errors = []
    for name in _NAMES:
        check = kind if name in ("kind", "listKind") else label_1035
        errors += check(names[name], path.child(name)) if names.get(name) else []
    errors += indexed(names.get("shortNames"), path.child("shortNames"), label_1035)
    single = names.get("kind")
    if single and single == names.get("listKind"):
        errors.append(invalid(path.child("listKind"), single, "kind and listKind may not be the same"))
    return errors + indexed(names.get("categories"), path.child("categories"), label_1035)


def _conversion(spec: Obj, old: Obj | None, path: Path) -> Errors:
    conversion = spec.get("conversion")
    if conversion is None:
        return []
    strategy, webhook = conversion.get("strategy", ""), conversion.get("webhook") or {}
    errors: Errors = []
    if strategy != "None" and spec.get("preserveUnknownFields"):
        text = "must be None if spec.preserveUnknownFields is true"
        errors.append(invalid(path.child("strategy"), strategy, text))
    errors += choice(strategy, ("None", "Webhook"), path.child("strategy"), needed=True)
    config, where = webhook.get("clientConfig"), path.child("webhookClientConfig")
    reviews = path.child("conversionReviewVersions")
    versions = webhook.get("conversionReviewVersions") or []
    if strategy == "Webhook":
        needed = [required(where, "required when strategy is set to Webhook")]
        errors += needed if config is None else webhooks.client(config, where) + _bundle(spec, old)
        return errors + (webhooks.reviews(versions, reviews) if versions else [required(reviews)])
    text = "should not be set when strategy is not set to Webhook"
    errors += [forbidden(where, text)] if config is not None else []
    return errors + ([forbidden(reviews, text)] if versions else [])


def _authorities(spec: Obj) -> bytes:
    conversion = spec.get("conversion") or {}
    config = (conversion.get("webhook") or {}).get("clientConfig") or {}
    return base64.b64decode(config.get("caBundle") or "") if conversion.get("strategy") == "Webhook" else b""


def _bundle(spec: Obj, old: Obj | None) -> Errors:
    """Check the conversion's certificates once the resource is served, unless they were bad before."""
    if old is None:
        return []
    bundle, before = _authorities(spec), _authorities(old["spec"])
    wrong = x509.ca_bundle_error(bundle) if bundle and condition_is_true(old, "Established") else ""
    if not wrong or (before and x509.ca_bundle_error(before)):
        return []
    path = _SPEC.child("conversion", "webhookClientConfig", "caBundle")
    return [invalid(path, Octets(bundle), f"unable to load root certificates: {wrong}")]


def _unchanged(spec: Obj, old: Obj) -> Errors:
    """Check the fields that cannot change, some of them only once the resource is served."""
    before = old["spec"]
    fixed: list[tuple[str, ...]] = [("group",), ("names", "plural")]
    if condition_is_true(old, "Established"):
        fixed = [("scope",), ("names", "kind"), *fixed]
    changes = ((names, _at(spec, names), _at(before, names)) for names in fixed)
    return [invalid(_SPEC.child(*names), new, IMMUTABLE) for names, new, known in changes if new != known]


def _at(obj: Any, names: tuple[str, ...]) -> Any:
    for name in names:
        obj = (obj or {}).get(name)
    return obj or ""


def _stored(obj: Obj) -> Errors:
    status = obj.get("status") or {}
    stored, bad_value = status.get("storedVersions") or [], Typed.of_field(status, "storedVersions", "[]string")
    if not stored:
        return [invalid(_STORED, bad_value, "must have at least one stored version")]
    left = {name: i for i, name in enumerate(stored)}
    errors: Errors = []
    for version in obj["spec"].get("versions") or ():
        name = version.get("name", "")
        if left.pop(name, None) is None and version.get("storage"):
            errors.append(invalid(_STORED, bad_value, f"must have the storage version {name}"))
    return errors + [invalid(_STORED.index(i), name, _removed(name)) for name, i in left.items()]


def _removed(version: str) -> TextByRelease:
    text = (
        f"missing from spec.versions; {version} was previously a storage version, and must remain in spec.versions "
        f"until a storage migration ensures no data remains persisted in {version} and removes {version} from "
        "status.storedVersions"
    )
    return TextByRelease(ByRelease({V1_33: text, V1_31: "must appear in spec.versions"}))


def _approval(obj: Obj, old: Obj | None) -> Errors:
    """Check that a group of Kubernetes itself has an approval."""
    condition = approval(obj)
    if condition is None or condition["reason"] in ("ApprovedAnnotation", "UnapprovedAnnotation"):
        return []
    if old is not None and _approval_condition(old)["reason"] == condition["reason"]:
        return []
    path = Path("metadata", "annotations").key(APPROVAL)
    if condition["reason"] == "MissingAnnotation":
        return [required(path, condition["message"])]
    return [invalid(path, obj["metadata"]["annotations"][APPROVAL], condition["message"])]


def approval(obj: Obj) -> Obj | None:
    """Return the condition about the approval of a definition in a group of Kubernetes; None for other groups."""
    if not re.fullmatch(r"(.*\.)?(k8s|kubernetes)\.io", obj["spec"].get("group", ""), re.DOTALL):
        return None
    return _approval_condition(obj)


def structure(obj: Obj, release: Version) -> Obj | None:
    """Return the condition about a definition that keeps unknown fields, whose schemas may not be structural; None for
    others, which are refused unless they are. Upstream: `nonstructuralschema.calculateCondition`."""
    spec = obj["spec"]
    if not spec.get("preserveUnknownFields"):
        return None
    path = Path("spec")
    errors = [invalid(path.child("preserveUnknownFields"), True, "must be false")]
    for index, version in enumerate(spec.get("versions") or ()):
        schema = schema_of(version, "schema")
        if schema is None:
            continue
        if unfit := structural_schemas.unfit(schema):
            message = f"failed to check validation schema for version {version['name']}: {unfit}"
            return {"type": NON_STRUCTURAL, "status": "Unknown", "reason": "StructuralError", "message": message}
        where = path.child("versions").index(index).child("schema", "openAPIV3Schema")
        errors += structural_schemas.validate(schema, where)
    message = aggregate(error.text(release) for error in errors)
    return {"type": NON_STRUCTURAL, "status": "True", "reason": "Violations", "message": message}


def _approval_condition(obj: Obj) -> Obj:
    text = (obj["metadata"].get("annotations") or {}).get(APPROVAL, "")
    needed = f'protected groups must have approval annotation "{APPROVAL}"'
    more = "see https://github.com/kubernetes/enhancements/pull/1111"
    if not text:
        status, reason, message = "False", "MissingAnnotation", f"{needed}, {more}"
    elif text.startswith("unapproved"):
        status, reason, message = "False", "UnapprovedAnnotation", f"not approved: {go_quote(text)}"
    elif not parse_error(text) and urlsplit(text).scheme and urlsplit(text).netloc:
        status, reason, message = "True", "ApprovedAnnotation", f"approved in {text}"
    else:
        either = 'with either a URL or a reason starting with "unapproved"'
        status, reason, message = "False", "InvalidAnnotation", f"{needed} {either}, {more}"
    return {"type": "KubernetesAPIApprovalPolicyConformant", "status": status, "reason": reason, "message": message}
