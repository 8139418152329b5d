"""Validation of ingresses and their classes."""

from __future__ import annotations

from understudy.admission.context import Context
from understudy.admission.validation.formats import (
    choice,
    domain_path,
    indexed,
    invalid_texts,
    ip,
    label,
    parse_ip,
    port_name_texts,
    port_number_texts,
    subdomain,
    wildcard_subdomain_texts,
)
from understudy.admission.validation.objectmeta import IMMUTABLE
from understudy.machinery.types import Obj
from understudy.machinery.validation.bad_values import Typed
from understudy.machinery.validation.field import Errors, Path, forbidden, invalid, not_supported, required, too_long
from understudy.machinery.validation.names import dns_1035_label_texts, path_segment_name

CLASS_ANNOTATION = "kubernetes.io/ingress.class"
CONTROLLER_LENGTH = 250

_SPEC = Path("spec")
_NOT_IN_PATHS, _NOT_AT_END = ("//", "/./", "/../", "%2f", "%2F"), ("/..", "/.")
_PATH_TYPES, _SCOPES = ("Exact", "ImplementationSpecific", "Prefix"), ("Cluster", "Namespace")
_NO_ADDRESS = "must be a DNS name, not an IP address"


def create(obj: Obj, ctx: Context) -> Errors:
    """Check a new Ingress (upstream: `ValidateIngressCreate`)."""
    errors = validate(obj, ctx)
    annotation, field = (
        (obj["metadata"].get("annotations") or {}).get(CLASS_ANNOTATION),
        obj["spec"].get("ingressClassName"),
    )
    if annotation is not None and field is not None and annotation != field:
        text = "must match `ingressClassName` when both are specified"
        errors.append(invalid(Path("annotations", CLASS_ANNOTATION), annotation, text))
    return errors


def validate(obj: Obj, ctx: Context) -> Errors:
    """Check a new or changed ingress (upstream: `validateIngress`)."""
    spec = obj["spec"]
    rules, backend = spec.get("rules") or [], spec.get("defaultBackend")
    errors: Errors = []
    if not rules and backend is None:
        bad_value = Typed(rules or None, "[]k8s.io/kubernetes/pkg/apis/networking.IngressRule")
        errors.append(invalid(_SPEC, bad_value, "either `defaultBackend` or `rules` must be specified"))
    if backend is not None:
        errors += _backend(backend, _SPEC.child("defaultBackend"))
    errors += indexed(rules, _SPEC.child("rules"), _rule)
    errors += indexed(spec.get("tls"), _SPEC.child("tls"), _tls)
    name = spec.get("ingressClassName")
    return errors + ([] if name is None else subdomain(name, _SPEC.child("ingressClassName")))


def _host(host: str, path: Path) -> Errors:
    return invalid_texts(wildcard_subdomain_texts(host), host, path) if "*" in host else subdomain(host, path)


def _tls(tls: Obj, path: Path) -> Errors:
    errors = indexed(tls.get("hosts"), path.child("hosts"), _host)
    secret = tls.get("secretName")
    return errors + (subdomain(secret, path.child("secretName")) if secret else [])


def _rule(rule: Obj, path: Path) -> Errors:
    host, http = rule.get("host", ""), rule.get("http")
    errors = [invalid(path.child("host"), host, _NO_ADDRESS)] if parse_ip(host) is not None else []
    errors += _host(host, path.child("host")) if host else []
    if http is None:
        return errors
    paths, where = http.get("paths") or [], path.child("http", "paths")
    return errors + (indexed(paths, where, _path) if paths else [required(where)])


def _path(http_path: Obj, path: Path) -> Errors:
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
    return errors + _backend(http_path.get("backend") or {}, path.child("backend"))


def _backend(backend: Obj, path: Path) -> Errors:
    resource, service = backend.get("resource"), backend.get("service")
    if resource is not None and service is not None:
        return [invalid(path, "", "cannot set both resource and service backends")]
    if resource is not None:
        return _reference(resource, path.child("resource"))
    if service is None:
        return [invalid(path, "", "resource or service backend is required")]
    name, where = service.get("name", ""), path.child("service", "name")
    errors = invalid_texts(dns_1035_label_texts(name), name, where) if name else [required(where)]
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
            errors.append(required(path.child(name), f"{name} is required"))
    return errors


def status_update(obj: Obj, old: Obj, ctx: Context) -> Errors:
    """Check a changed status of an Ingress (upstream: `ValidateIngressStatusUpdate`)."""
    balancer = (obj.get("status") or {}).get("loadBalancer") or {}
    return indexed(balancer.get("ingress"), Path("status", "loadBalancer", "ingress"), _entry)


def _entry(entry: Obj, path: Path) -> Errors:
    errors = ip(entry["ip"], path.child("ip")) if entry.get("ip") else []
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
