"""Validation of API services."""

from __future__ import annotations

import base64

from understudy.kinds.common.formats import choice, invalid_texts, service_port
from understudy.kinds.common.objectmeta import Metadata
from understudy.kinds.context import Context
from understudy.machinery.golang.text import go_quote
from understudy.machinery.types import Obj
from understudy.machinery.validation.field import Errors, Path, invalid, required
from understudy.machinery.validation.names import dns_1035_label_texts, dns_subdomain_texts, path_segment_name

_SPEC = Path("spec")


def metadata(obj: Obj, ctx: Context) -> Errors:
    """Check that an APIService is named after the version that it serves."""
    spec = obj["spec"]
    expected = f"{spec.get('version', '')}.{spec.get('group', '')}"

    def name(text: str, prefix: bool) -> list[str]:
        other = [] if text == expected else [f'must be `spec.version+"."+spec.group`: {go_quote(expected)}']
        return path_segment_name(text, prefix=False) or other

    return Metadata(name, domains=False).created(obj, ctx)


def create(obj: Obj, ctx: Context) -> Errors:
    """Check an APIService (upstream: `ValidateAPIService`)."""
    spec = obj["spec"]
    group, version = spec.get("group", ""), spec.get("version", "")
    errors: Errors = []
    if not group and version != "v1":
        text = "only v1 may have an empty group and it better be legacy kube"
        errors.append(required(_SPEC.child("group"), text))
    errors += invalid_texts(dns_subdomain_texts(group), group, _SPEC.child("group")) if group else []
    errors += invalid_texts(dns_1035_label_texts(version), version, _SPEC.child("version"))
    for field, most in (("groupPriorityMinimum", 20000), ("versionPriority", 1000)):
        number = spec.get(field, 0)
        if not 0 < number <= most:
            errors.append(invalid(_SPEC.child(field), number, f"must be positive and less than {most}"))
    return errors + _backend(spec)


def _backend(spec: Obj) -> Errors:
    service, insecure, where = (
        spec.get("service"),
        spec.get("insecureSkipTLSVerify"),
        _SPEC.child("insecureSkipTLSVerify"),
    )
    if service is None:
        bundle, only = len(base64.b64decode(spec.get("caBundle") or "")), "local APIServices may not have"
        errors = [invalid(_SPEC.child("caBundle"), f"{bundle} bytes", f"{only} a caBundle")] if bundle else []
        return [*errors, invalid(where, True, f"{only} insecureSkipTLSVerify")] if insecure else errors
    path = _SPEC.child("service")
    errors = [required(path.child(name)) for name in ("namespace", "name") if not service.get(name)]
    errors += service_port(service, path)
    if insecure and spec.get("caBundle"):
        errors.append(invalid(where, True, "may not be true if caBundle is present"))
    return errors


def status(obj: Obj, old: Obj, ctx: Context) -> Errors:
    """Check the conditions of an APIService (upstream: `ValidateAPIServiceStatusUpdate`)."""
    errors: Errors = []
    for i, condition in enumerate((obj.get("status") or {}).get("conditions") or ()):
        where = Path("status", "conditions").index(i).child("status")
        errors += choice(condition.get("status", ""), ("True", "False", "Unknown"), where)
    return errors
