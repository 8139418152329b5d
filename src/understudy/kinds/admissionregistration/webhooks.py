"""Validation of configurations of admission webhooks."""

from __future__ import annotations

from collections.abc import Sequence
from urllib.parse import urlsplit

from understudy.kinds.admissionregistration import matching
from understudy.kinds.admissionregistration.expressions import Expressions
from understudy.kinds.common import label_selectors
from understudy.kinds.common.formats import choice, domain, invalid_texts, service_port
from understudy.kinds.context import Context
from understudy.machinery.golang.text import go_quote
from understudy.machinery.golang.urls import parse_error
from understudy.machinery.releases.version import V1_31, V1_34, ByRelease, Version
from understudy.machinery.types import Obj
from understudy.machinery.validation.bad_values import TextByRelease, Typed
from understudy.machinery.validation.field import Errors, Path, duplicate, invalid, required
from understudy.machinery.validation.names import dns_1035_label_texts, dns_subdomain_texts

REVIEWS = ("v1", "v1beta1")

_EFFECTS = ("None", "NoneOnDryRun")
_FORM = "; desired format: https://host[/path]"


def configuration(obj: Obj, ctx: Context) -> Errors:
    """Check a MutatingWebhookConfiguration or ValidatingWebhookConfiguration."""
    errors: Errors = []
    names: set[str] = set()
    for i, hook in enumerate(obj.get("webhooks") or ()):
        path, name = Path("webhooks").index(i), hook.get("name", "")
        errors += _hook(hook, path, ctx.release)
        errors += reviews(hook.get("admissionReviewVersions") or [], path.child("admissionReviewVersions"))
        if name in names:
            errors.append(duplicate(path.child("name"), name))
        if name:
            names.add(name)
    return errors


def _hook(hook: Obj, path: Path, version: Version) -> Errors:
    errors = domain(hook.get("name", ""), path.child("name"), dots=2, requirement="three segments separated by dots")
    for i, rule in enumerate(hook.get("rules") or ()):
        errors += matching.rule(rule, path.child("rules").index(i))
    for name, allowed in matching.POLICIES.items():
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
        errors += label_selectors.validate(hook.get(name), path.child(name))
    if hook.get("reinvocationPolicy") is not None:
        errors += choice(hook["reinvocationPolicy"], matching.REINVOCATIONS, path.child("reinvocationPolicy"))
    errors += client(hook.get("clientConfig") or {}, path.child("clientConfig"))
    where = path.child("matchConditions")
    return errors + matching.conditions(hook.get("matchConditions") or [], where, Expressions(version))


def reviews(versions: Sequence[str], path: Path) -> Errors:
    """Check the versions of reviews that a webhook reads."""
    if not versions:
        return [required(path, f"must specify one of {', '.join(REVIEWS)}")]
    errors: Errors = []
    for i, version in enumerate(versions):
        if version in versions[:i]:
            errors.append(invalid(path.index(i), version, "duplicate version"))
        else:
            errors += invalid_texts(dns_1035_label_texts(version), version, path.index(i))
    if not set(versions) & set(REVIEWS):
        bad_value = Typed(versions, "[]string")
        errors.append(invalid(path, bad_value, f"must include at least one of {', '.join(REVIEWS)}"))
    return errors


def client(config: Obj, path: Path) -> Errors:
    """Check the address of a webhook: a URL or a service."""
    url, service = config.get("url"), config.get("service")
    if (url is None) == (service is None):
        return [required(path, "exactly one of url or service is required")]
    return _url(url, path.child("url")) if url is not None else _service(service or {}, path.child("service"))


def _url(text: str, path: Path) -> Errors:
    if wrong := parse_error(text, relative=True):
        return [required(path, f"url must be a valid URL: parse {go_quote(text)}: {wrong}{_FORM}")]
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
    """Check a service. Upstream swaps name and namespace in the check: the error is about the other one."""
    errors: Errors = []
    for name, requirement in (("namespace", "name"), ("name", "namespace")):
        if not service.get(name):
            text = TextByRelease(ByRelease({V1_34: "", V1_31: f"service {requirement} is required"}))
            errors.append(required(path.child(requirement), text))
    errors += service_port(service, path)
    return errors + _service_path(service.get("path") or "/", path.child("path"))


def _service_path(text: str, path: Path) -> Errors:
    if text == "/":
        return []
    if text == "//":
        return [invalid(path, text, "segment[0] may not be empty")]
    errors = [] if text.startswith("/") else [invalid(path, text, "must start with a '/'")]
    rest = text.encode()[1:].decode(errors="replace")  # Go leaves out the first byte, be it a part of a letter
    for i, part in enumerate(rest.removesuffix("/").split("/")):
        if not part:
            errors.append(invalid(path, text, f"segment[{i}] may not be empty"))
        else:
            errors += [invalid(path, text, f"segment[{i}]: {why}") for why in dns_subdomain_texts(part)]
    return errors
