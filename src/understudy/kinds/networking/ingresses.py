"""Validation of ingresses and their classes."""

from __future__ import annotations

from collections.abc import Callable, Iterator

from understudy.kinds.common.address_warnings import warn_of_ip
from understudy.kinds.common.formats import (
    choice,
    domain_path,
    indexed,
    invalid_texts,
    ip,
    label,
    port_name_texts,
    port_number_texts,
    subdomain,
    wildcard_subdomain_texts,
)
from understudy.kinds.common.objectmeta import IMMUTABLE
from understudy.kinds.context import Context
from understudy.machinery.golang.netip import parse_ip
from understudy.machinery.releases import features
from understudy.machinery.releases.version import V1_31, V1_33, V1_34, ByRelease
from understudy.machinery.types import Obj, nested_field
from understudy.machinery.validation.bad_values import TextByRelease, Typed
from understudy.machinery.validation.field import Errors, Path, forbidden, invalid, not_supported, required, too_long
from understudy.machinery.validation.names import dns_1035_label_texts, dns_label_texts, path_segment_name

CLASS_ANNOTATION = "kubernetes.io/ingress.class"
CONTROLLER_LENGTH = 250

NameTexts = Callable[[str], list[str]]

_SPEC, _ENTRIES = Path("spec"), Path("status", "loadBalancer", "ingress")
_IS_REQUIRED = {name: TextByRelease(ByRelease({V1_34: "", V1_31: f"{name} is required"})) for name in ("kind", "name")}
_NOT_IN_PATHS, _NOT_AT_END = ("//", "/./", "/../", "%2f", "%2F"), ("/..", "/.")
_PATH_TYPES, _SCOPES = ("Exact", "ImplementationSpecific", "Prefix"), ("Cluster", "Namespace")
_NO_ADDRESS = "must be a DNS name, not an IP address"


def create(obj: Obj, ctx: Context) -> Errors:
    """Check a new Ingress (upstream: `ValidateIngressCreate`)."""
    errors = update(obj, {"spec": {}}, ctx)
    annotation, field = (
        (obj["metadata"].get("annotations") or {}).get(CLASS_ANNOTATION),
        obj["spec"].get("ingressClassName"),
    )
    if annotation is not None and field is not None and annotation != field:
        text = "must match `ingressClassName` when both are specified"
        errors.append(invalid(Path("annotations", CLASS_ANNOTATION), annotation, text))
    return errors


def update(obj: Obj, old: Obj, ctx: Context) -> Errors:
    """Check an ingress apart from its metadata (upstream: `validateIngress`)."""
    spec = obj["spec"]
    relaxed = ctx.gates[features.RELAXED_SERVICE_NAME_VALIDATION] or any(map(_is_relaxed, _services(old["spec"])))
    name_rule = dns_label_texts if relaxed else dns_1035_label_texts
    rules, backend = spec.get("rules") or [], spec.get("defaultBackend")
    errors: Errors = []
    if not rules and backend is None:
        bad_value = Typed.of_field(spec, "rules", "[]k8s.io/kubernetes/pkg/apis/networking.IngressRule")
        errors.append(invalid(_SPEC, bad_value, "either `defaultBackend` or `rules` must be specified"))
    if backend is not None:
        errors += _backend(backend, _SPEC.child("defaultBackend"), name_rule)
    errors += indexed(rules, _SPEC.child("rules"), lambda rule, path: _rule(rule, path, name_rule))
    errors += indexed(spec.get("tls"), _SPEC.child("tls"), _tls)
    name = spec.get("ingressClassName")
    return errors + ([] if name is None else subdomain(name, _SPEC.child("ingressClassName")))


def _services(spec: Obj) -> Iterator[str]:
    """Yield the names of the services of an ingress."""
    paths = (path for rule in spec.get("rules") or () for path in (rule.get("http") or {}).get("paths") or ())
    for backend in (spec.get("defaultBackend"), *(path.get("backend") for path in paths)):
        if service := (backend or {}).get("service"):
            yield service.get("name", "")


def _is_relaxed(name: str) -> bool:
    """Report whether a name fits the newer rule for names of services only."""
    return bool(dns_1035_label_texts(name)) and not dns_label_texts(name)


def _host(host: str, path: Path) -> Errors:
    return invalid_texts(wildcard_subdomain_texts(host), host, path) if "*" in host else subdomain(host, path)


def _tls(tls: Obj, path: Path) -> Errors:
    errors = indexed(tls.get("hosts"), path.child("hosts"), _host)
    secret = tls.get("secretName")
    return errors + (subdomain(secret, path.child("secretName")) if secret else [])


def _rule(rule: Obj, path: Path, name_rule: NameTexts) -> Errors:
    host, http = rule.get("host", ""), rule.get("http")
    errors = [invalid(path.child("host"), host, _NO_ADDRESS)] if parse_ip(host) is not None else []
    errors += _host(host, path.child("host")) if host else []
    if http is None:
        return errors
    paths, where = http.get("paths") or [], path.child("http", "paths")
    if not paths:
        return [*errors, required(where)]
    return errors + indexed(paths, where, lambda http_path, here: _path(http_path, here, name_rule))


def _path(http_path: Obj, path: Path, name_rule: NameTexts) -> Errors:
    kind, value, where = http_path.get("pathType"), http_path.get("path", ""), path.child("path")
    if kind is None:
        return [required(path.child("pathType"), "pathType must be specified")]
    errors: Errors = []
    if kind not in _PATH_TYPES:
        errors.append(not_supported(path.child("pathType"), kind, _PATH_TYPES))
    elif not value.startswith("/") and (value or kind != "ImplementationSpecific"):
        errors.append(invalid(where, value, "must be an absolute path"))
    if kind in ("Exact", "Prefix"):
        errors += [invalid(where, value, f"must not contain '{part}'") for part in _NOT_IN_PATHS if part in value]
        errors += [invalid(where, value, f"cannot end with '{end}'") for end in _NOT_AT_END if value.endswith(end)]
    return errors + _backend(http_path.get("backend") or {}, path.child("backend"), name_rule)


def _backend(backend: Obj, path: Path, name_rule: NameTexts) -> Errors:
    resource, service = backend.get("resource"), backend.get("service")
    if resource is not None and service is not None:
        return [invalid(path, "", "cannot set both resource and service backends")]
    if resource is not None:
        return _reference(resource, path.child("resource"))
    if service is None:
        return [invalid(path, "", "resource or service backend is required")]
    name, where = service.get("name", ""), path.child("service", "name")
    errors = invalid_texts(name_rule(name), name, where) if name else [required(where)]
    port = service.get("port") or {}
    named, number, where = port.get("name", ""), port.get("number", 0), path.child("service", "port")
    if named and number:
        return [*errors, invalid(path, "", "cannot set both port name & port number")]
    if named:
        return errors + invalid_texts(port_name_texts(named), named, where.child("name"))
    if number:
        return errors + invalid_texts(port_number_texts(number), number, where.child("number"))
    return [*errors, required(path, "port name or number is required")]


def _reference(ref: Obj, path: Path) -> Errors:
    group = ref.get("apiGroup")
    errors = subdomain(group, path.child("apiGroup")) if group is not None else []
    for name in ("kind", "name"):
        value = ref.get(name, "")
        if value:
            errors += invalid_texts(path_segment_name(value, False), value, path.child(name))
        else:
            errors.append(required(path.child(name), _IS_REQUIRED[name]))
    return errors


def status_update(obj: Obj, old: Obj, ctx: Context) -> Errors:
    """Check a changed status of an Ingress (upstream: `ValidateIngressStatusUpdate`)."""
    stored = [entry.get("ip", "") for entry in _entries(old)] if ctx.release >= V1_33 else []
    strict = ctx.gates[features.STRICT_IP_CIDR_VALIDATION]
    return indexed(_entries(obj), _ENTRIES, lambda entry, path: _entry(entry, path, strict, stored))


def _entries(obj: Obj) -> list[Obj]:
    """Return the addresses in an ingress's status."""
    entries: list[Obj] = nested_field(obj, "status", "loadBalancer", "ingress", default=[])
    return entries


def warn_of_status(obj: Obj, old: Obj, ctx: Context) -> None:
    """Warn of addresses in the status that are not in canonical form."""
    for i, entry in enumerate(_entries(obj)):
        if entry.get("ip"):
            warn_of_ip(entry["ip"], _ENTRIES.index(i), ctx)


def _entry(entry: Obj, path: Path, strict: bool, stored: list[str]) -> Errors:
    errors = ip(entry["ip"], path.child("ip"), strict=strict, stored=stored) if entry.get("ip") else []
    host = entry.get("hostname", "")
    errors += subdomain(host, path.child("hostname")) if host else []
    return errors + ([invalid(path.child("hostname"), host, _NO_ADDRESS)] if parse_ip(host) is not None else [])


def warn(obj: Obj, ctx: Context) -> None:
    """Warn of the deprecated annotation that names the class of an Ingress."""
    annotated = CLASS_ANNOTATION in (obj["metadata"].get("annotations") or {})
    if annotated and obj["spec"].get("ingressClassName") is None:
        ctx.warn(f"annotation \"{CLASS_ANNOTATION}\" is deprecated, please use 'spec.ingressClassName' instead")


def ingress_class(obj: Obj, ctx: Context) -> Errors:
    """Check a new IngressClass (upstream: `ValidateIngressClass`)."""
    spec = obj["spec"]
    controller, where = spec.get("controller", ""), _SPEC.child("controller")
    errors: Errors = []
    if len(controller) > CONTROLLER_LENGTH:
        errors.append(too_long(where, CONTROLLER_LENGTH, in_bytes=True))
    errors += domain_path(controller, where)
    parameters, where = spec.get("parameters"), _SPEC.child("parameters")
    return errors + (_parameters(parameters, where) if parameters is not None else [])


def _parameters(parameters: Obj, path: Path) -> Errors:
    errors = _reference(parameters, path)
    scope, namespace, where = parameters.get("scope"), parameters.get("namespace"), path.child("namespace")
    if scope is None:
        return [*errors, required(path.child("scope"))]
    errors += choice(scope, _SCOPES, path.child("scope"))
    if scope == "Namespace" and namespace is None:
        errors.append(required(where, "`parameters.scope` is set to 'Namespace'"))
    elif scope == "Namespace":
        errors += label(str(namespace), where)
    elif scope == "Cluster" and namespace is not None:
        errors.append(forbidden(where, "`parameters.scope` is set to 'Cluster'"))
    return errors


def same_controller(obj: Obj, old: Obj, ctx: Context) -> Errors:
    """Check that an update of an IngressClass keeps the controller."""
    controller = obj["spec"].get("controller", "")
    if controller == old["spec"].get("controller", ""):
        return []
    return [invalid(_SPEC.child("controller"), controller, IMMUTABLE)]
