"""Custom resource definitions, without their schemas, and API services."""

from __future__ import annotations

import base64

from understudy.admission import dumped
from understudy.admission.core.formats import choice, each, port_number_texts
from understudy.admission.field import Errors, Path, invalid, required
from understudy.admission.meta import Metadata
from understudy.admission.names import dns_1035_label_texts, dns_subdomain_texts, path_segment_name, subdomain_name
from understudy.apiserver.gotext import go_quote
from understudy.apiserver.kind import Context
from understudy.apiserver.types import Obj

_SPEC = Path("spec")
_NAMES = _SPEC.child("names")
_VERSION = "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions.CustomResourceDefinitionVersion"
_MIXED = "may have mixed case, but should otherwise match: "


def definition_metadata(obj: Obj, ctx: Context) -> Errors:
    """A definition is named after the resource that it defines."""
    spec = obj["spec"]
    wanted = f"{(spec.get('names') or {}).get('plural', '')}.{spec.get('group', '')}"

    def name(given: str, prefix: bool) -> list[str]:
        wrong = ['must be spec.names.plural+"."+spec.group'] if given != wanted else []
        return subdomain_name(given, prefix) + wrong

    return Metadata(name, domains=False).created(obj, ctx)


def definition(obj: Obj, ctx: Context) -> Errors:
    spec = obj["spec"]
    names = spec.get("names") or {}
    errors = _group(spec.get("group", ""), _SPEC.child("group"))
    errors += choice(spec.get("scope", ""), ("Cluster", "Namespaced"), _SPEC.child("scope"), needed=True)
    versions, where = spec.get("versions") or [], _SPEC.child("versions")
    for i, version in enumerate(versions):
        if (version.get("schema") or {}).get("openAPIV3Schema") is None:
            errors.append(required(where.index(i).child("schema", "openAPIV3Schema"), "schemas are required"))
    for i, version in enumerate(versions):
        texts = dns_1035_label_texts(version.get("name", ""))
        errors += [invalid(where.index(i).child("name"), version.get("name", ""), ",".join(texts))] if texts else []
    errors += _versions(versions, where, ctx.release)
    return errors + _resource_names(names)


def _group(group: str, path: Path) -> Errors:
    if not group:
        return [required(path)]
    texts = dns_subdomain_texts(group)
    if texts:
        return [invalid(path, group, ",".join(texts))]
    return [] if "." in group else [invalid(path, group, "should be a domain with at least one dot")]


def _versions(versions: list[Obj], path: Path, release: str) -> Errors:
    names = [version.get("name", "") for version in versions]
    stored = sum(bool(version.get("storage")) for version in versions)
    checks = (
        (len(set(names)) < len(names), "must contain unique version names"),
        (stored != 1, "must have exactly one version marked as storage version"),
    )
    texts = [text for wrong, text in checks if wrong]
    return each(texts, dumped.struct(versions, f"[]{_VERSION}", release), path) if texts else []


def _resource_names(names: Obj) -> Errors:
    needed = ("plural", "singular", "kind", "listKind")
    errors = [required(_NAMES.child(name)) for name in needed if not names.get(name)]
    for name in needed:
        value, mixed = names.get(name, ""), name in ("kind", "listKind")
        texts = dns_1035_label_texts(value.lower() if mixed else value) if value else []
        if texts:
            errors.append(invalid(_NAMES.child(name), value, (_MIXED if mixed else "") + ",".join(texts)))
    kind = names.get("kind")
    if kind and kind == names.get("listKind"):
        errors.append(invalid(_NAMES.child("listKind"), kind, "kind and listKind may not be the same"))
    for name in ("shortNames", "categories"):
        for i, value in enumerate(names.get(name) or ()):
            texts = dns_1035_label_texts(value)
            errors += [invalid(_NAMES.child(name).index(i), value, ",".join(texts))] if texts else []
    return errors


def service_metadata(obj: Obj, ctx: Context) -> Errors:
    """An APIService is named after the version that it serves."""
    spec = obj["spec"]
    wanted = f"{spec.get('version', '')}.{spec.get('group', '')}"

    def name(given: str, prefix: bool) -> list[str]:
        other = [] if given == wanted else [f'must be `spec.version+"."+spec.group`: {go_quote(wanted)}']
        return path_segment_name(given, prefix=False) or other

    return Metadata(name, domains=False).created(obj, ctx)


def service(obj: Obj, ctx: Context) -> Errors:
    """An APIService."""
    spec = obj["spec"]
    group, version = spec.get("group", ""), spec.get("version", "")
    errors: Errors = []
    if not group and version != "v1":
        text = "only v1 may have an empty group and it better be legacy kube"
        errors.append(required(_SPEC.child("group"), text))
    errors += each(dns_subdomain_texts(group), group, _SPEC.child("group")) if group else []
    errors += each(dns_1035_label_texts(version), version, _SPEC.child("version"))
    for field, most in (("groupPriorityMinimum", 20000), ("versionPriority", 1000)):
        number = spec.get(field, 0)
        if not 0 < number <= most:
            errors.append(invalid(_SPEC.child(field), number, f"must be positive and less than {most}"))
    return errors + _backend(spec)


def _backend(spec: Obj) -> Errors:
    found, insecure, where = (
        spec.get("service"),
        spec.get("insecureSkipTLSVerify"),
        _SPEC.child("insecureSkipTLSVerify"),
    )
    if found is None:
        bundle, only = len(base64.b64decode(spec.get("caBundle") or "")), "local APIServices may not have"
        errors = [invalid(_SPEC.child("caBundle"), f"{bundle} bytes", f"{only} a caBundle")] if bundle else []
        return [*errors, invalid(where, True, f"{only} insecureSkipTLSVerify")] if insecure else errors
    path = _SPEC.child("service")
    errors = [required(path.child(name)) for name in ("namespace", "name") if not found.get(name)]
    texts = port_number_texts(found.get("port", 0))
    if texts:
        errors.append(invalid(path.child("port"), found.get("port", 0), f"port is not valid: {', '.join(texts)}"))
    if insecure and spec.get("caBundle"):
        errors.append(invalid(where, True, "may not be true if caBundle is present"))
    return errors


def service_status(obj: Obj, old: Obj, ctx: Context) -> Errors:
    errors: Errors = []
    for i, condition in enumerate((obj.get("status") or {}).get("conditions") or ()):
        where = Path("status", "conditions").index(i).child("status")
        errors += choice(condition.get("status", ""), ("True", "False", "Unknown"), where)
    return errors
