"""Names of signers, such as `kubernetes.io/kube-apiserver-client`."""

from __future__ import annotations

from collections.abc import Callable

from understudy.machinery.golang.text import go_quote
from understudy.machinery.validation.field import Errors, Path, invalid, required, too_long
from understudy.machinery.validation.names import (
    LABEL_LENGTH,
    SUBDOMAIN_LENGTH,
    dns_label_texts,
    dns_subdomain_texts,
    size,
)

MOST_BYTES = SUBDOMAIN_LENGTH + 1 + LABEL_LENGTH + 1 + SUBDOMAIN_LENGTH


def is_of_kubernetes(name: str) -> bool:
    """Report whether a signer is one of Kubernetes itself (upstream: `IsKubernetesSignerName`)."""
    domain = name.partition("/")[0]
    return domain == "kubernetes.io" or domain.endswith(".kubernetes.io")


def signer_name(name: str, path: Path) -> Errors:
    """Check a signer's name, DOMAIN/PATH, where the path may be NAMESPACE.NAME (upstream: `ValidateSignerName`)."""
    if not name:
        return [required(path)]
    if name.count("/") != 1:
        text = "must be a fully qualified domain and path of the form 'example.com/signer-name'"
        return [invalid(path, name, text)]
    domain, _, rest = name.partition("/")
    errors = [too_long(path, SUBDOMAIN_LENGTH, in_bytes=True)] if size(domain) > SUBDOMAIN_LENGTH else []
    errors += _labels(domain, dns_label_texts, path)
    if "." not in domain:
        errors.append(invalid(path, domain, "should be a domain with at least two segments separated by dots"))
    errors += _labels(rest, dns_subdomain_texts, path)
    return errors + ([too_long(path, MOST_BYTES, in_bytes=True)] if size(name) > MOST_BYTES else [])


def _labels(segment: str, rule: Callable[[str], list[str]], path: Path) -> Errors:
    """Return what is wrong with the first wrong label of a name with dots."""
    for label in segment.split("."):
        if texts := rule(label):
            return [invalid(path, segment, f"validating label {go_quote(label)}: {text}") for text in texts]
    return []
