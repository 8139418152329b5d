"""Configurations of admission webhooks. Their match conditions' CEL is not compiled."""

from __future__ import annotations

from collections.abc import Sequence
from urllib.parse import urlsplit

from understudy.admission import dumped
from understudy.admission.core import selectors
from understudy.admission.core.formats import choice, each, port_number_texts, qualified
from understudy.admission.field import Errors, Path, duplicate, invalid, required, too_many
from understudy.admission.names import dns_1035_label_texts, dns_subdomain_texts
from understudy.apiserver.kind import Context
from understudy.apiserver.types import Obj

REVIEWS = ("v1", "v1beta1")
MOST_CONDITIONS = 64

_CHOICES = {"failurePolicy": ("Fail", "Ignore"), "matchPolicy": ("Equivalent", "Exact")}
_EFFECTS, _REINVOCATIONS = ("None", "NoneOnDryRun"), ("IfNeeded", "Never")
_OPERATIONS = ("*", "CONNECT", "CREATE", "DELETE", "UPDATE")
_SCOPES = ("*", "Cluster", "Namespaced")
_FORM = "; desired format: https://host[/path]"
_OPERATION = "k8s.io/kubernetes/pkg/apis/admissionregistration.OperationType"


def configuration(obj: Obj, ctx: Context) -> Errors:
    errors: Errors = []
    names: set[str] = set()
    for i, hook in enumerate(obj.get("webhooks") or ()):
        path, name = Path("webhooks").index(i), hook.get("name", "")
        errors += _hook(hook, path, ctx.release)
        errors += _reviews(
            hook.get("admissionReviewVersions") or [], path.child("admissionReviewVersions"), ctx.release
        )
        if name in names:
            errors.append(duplicate(path.child("name"), name))
        if name:
            names.add(name)
    return errors


def _hook(hook: Obj, path: Path, release: str) -> Errors:
    errors = _domain(hook.get("name", ""), path.child("name"))
    for i, rule in enumerate(hook.get("rules") or ()):
        errors += _operations(rule, path.child("rules").index(i), release)
    for name, allowed in _CHOICES.items():
        if hook.get(name) is not None:
            errors += choice(hook[name], allowed, path.child(name))
    effects, where = hook.get("sideEffects"), path.child("sideEffects")
    if effects is None:
        errors.append(required(where, f"must specify one of {', '.join(_EFFECTS)}"))
    else:
        errors += choice(effects, _EFFECTS, where)
    seconds = hook.get("timeoutSeconds")
    if seconds is not None and not 1 <= seconds <= 30:
        text = "the timeout value must be between 1 and 30 seconds"
        errors.append(invalid(path.child("timeoutSeconds"), seconds, text))
    for name in ("namespaceSelector", "objectSelector"):
        errors += selectors.validate(hook.get(name), path.child(name))
    if hook.get("reinvocationPolicy") is not None:
        errors += choice(hook["reinvocationPolicy"], _REINVOCATIONS, path.child("reinvocationPolicy"))
    errors += client(hook.get("clientConfig") or {}, path.child("clientConfig"))
    return errors + _conditions(hook.get("matchConditions") or [], path.child("matchConditions"))


def _domain(name: str, path: Path) -> Errors:
    if not name:
        return [required(path)]
    texts = dns_subdomain_texts(name)
    if texts:
        return [invalid(path, name, ",".join(texts))]
    if name.count(".") < 2:
        return [invalid(path, name, "should be a domain with at least three segments separated by dots")]
    return []


def _operations(rule: Obj, path: Path, release: str) -> Errors:
    found, where = rule.get("operations") or [], path.child("operations")
    errors = [] if found else [required(where)]
    if len(found) > 1 and "*" in found:
        shown = dumped.struct(found, f"[]{_OPERATION}", release)
        errors.append(invalid(where, shown, "if '*' is present, must not specify other operations"))
    for i, operation in enumerate(found):
        errors += choice(operation, _OPERATIONS, where.index(i))
    for name, what in (("apiGroups", "API groups"), ("apiVersions", "API versions")):
        values, where = rule.get(name) or [], path.child(name)
        errors += [] if values else [required(where)]
        if len(values) > 1 and "*" in values:
            shown = dumped.struct(values, "[]string", release)
            errors.append(invalid(where, shown, f"if '*' is present, must not specify other {what}"))
    versions = enumerate(rule.get("apiVersions") or ())
    errors += [required(path.child("apiVersions").index(i)) for i, version in versions if not version]
    errors += _resources(rule.get("resources") or [], path.child("resources"), release)
    return errors + ([] if rule.get("scope") is None else choice(rule["scope"], _SCOPES, path.child("scope")))


def _resources(found: Sequence[str], path: Path, release: str) -> Errors:
    errors = [] if found else [required(path)]
    whole: set[str] = set()  # resources all of whose subresources are meant
    everywhere: set[str] = set()  # subresources of all resources
    plain = False
    for i, text in enumerate(found):
        resource, slash, sub = text.partition("/")
        if not text:
            errors.append(required(path.index(i)))
        elif not slash:
            plain = text != "*"
        if not slash:
            continue
        for present, hidden in ((f"{resource}/*", resource in whole), (f"*/{sub}", sub in everywhere)):
            if hidden:
                errors.append(invalid(path.index(i), text, f"if '{present}' is present, must not specify {text}"))
        whole |= {resource} if sub == "*" else set()
        everywhere |= {sub} if resource == "*" else set()
    shown = dumped.struct(found, "[]string", release)
    if len(found) > 1 and "*/*" in found:
        errors.append(invalid(path, shown, "if '*/*' is present, must not specify other resources"))
    if "*" in found and plain:
        text = "if '*' is present, must not specify other resources without subresources"
        errors.append(invalid(path, shown, text))
    return errors


def _reviews(versions: Sequence[str], path: Path, release: str) -> Errors:
    if not versions:
        return [required(path, f"must specify one of {', '.join(REVIEWS)}")]
    errors: Errors = []
    for i, version in enumerate(versions):
        if version in versions[:i]:
            errors.append(invalid(path.index(i), version, "duplicate version"))
        else:
            errors += each(dns_1035_label_texts(version), version, path.index(i))
    if not set(versions) & set(REVIEWS):
        shown = dumped.struct(versions, "[]string", release)
        errors.append(invalid(path, shown, f"must include at least one of {', '.join(REVIEWS)}"))
    return errors


def client(config: Obj, path: Path) -> Errors:
    """Where a webhook is: a URL or a service."""
    url, service = config.get("url"), config.get("service")
    if (url is None) == (service is None):
        return [required(path, "exactly one of url or service is required")]
    return _url(url, path.child("url")) if url is not None else _service(service or {}, path.child("service"))


def _url(text: str, path: Path) -> Errors:
    url = urlsplit(text)
    user = url.netloc.rpartition("@")[0]
    errors: Errors = []
    if url.scheme != "https":
        errors.append(invalid(path, url.scheme, f"'https' is the only allowed URL scheme{_FORM}"))
    if not url.netloc:
        errors.append(invalid(path, "", f"host must be specified{_FORM}"))
    parts = {"user information is": user, "fragments are": url.fragment, "query parameters are": url.query}
    return errors + [invalid(path, part, f"{what} not permitted in the URL") for what, part in parts.items() if part]


def _service(service: Obj, path: Path) -> Errors:
    """Upstream swaps name and namespace where it checks them: the error is about the other one."""
    errors: Errors = []
    for given, told in (("namespace", "name"), ("name", "namespace")):
        if not service.get(given):
            errors.append(required(path.child(told), f"service {told} is required"))
    texts = port_number_texts(service.get("port", 0))
    if texts:
        errors.append(invalid(path.child("port"), service.get("port", 0), f"port is not valid: {', '.join(texts)}"))
    return errors + _service_path(service.get("path") or "/", path.child("path"))


def _service_path(text: str, path: Path) -> Errors:
    if text == "/":
        return []
    if text == "//":
        return [invalid(path, text, "segment[0] may not be empty")]
    errors = [] if text.startswith("/") else [invalid(path, text, "must start with a '/'")]
    for i, part in enumerate(text[1:].removesuffix("/").split("/")):
        if not part:
            errors.append(invalid(path, text, f"segment[{i}] may not be empty"))
        else:
            errors += [invalid(path, text, f"segment[{i}]: {why}") for why in dns_subdomain_texts(part)]
    return errors


def _conditions(found: Sequence[Obj], path: Path) -> Errors:
    errors = [too_many(path, len(found), MOST_CONDITIONS)] if len(found) > MOST_CONDITIONS else []
    names: set[str] = set()
    for i, condition in enumerate(found):
        name, where = condition.get("name", ""), path.index(i).child("name")
        if not condition.get("expression", "").strip():
            errors.append(required(path.index(i).child("expression")))
        errors += qualified(name, where) if name else [required(where)]
        if name in names:
            errors.append(duplicate(where, name))
        if name:
            names.add(name)
    return errors
