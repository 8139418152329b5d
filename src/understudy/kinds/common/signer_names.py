"""Validation of the names of signers of certificates."""

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
    subdomain_name,
)

_SIGNER_LENGTH = SUBDOMAIN_LENGTH + 1 + LABEL_LENGTH + 1 + SUBDOMAIN_LENGTH  # DOMAIN/NAMESPACE.NAME


def signer_name(name: str, where: Path) -> Errors:
    """Check a signer's name, DOMAIN/PATH, where the path may be NAMESPACE.NAME (upstream: `ValidateSignerName`)."""
    if not name:
        return [required(where)]
    if name.count("/") != 1:
        text = "must be a fully qualified domain and path of the form 'example.com/signer-name'"
        return [invalid(where, name, text)]
    domain, _, path = name.partition("/")
    errors = [too_long(where, SUBDOMAIN_LENGTH, in_bytes=True)] if size(domain) > SUBDOMAIN_LENGTH else []
    errors += _labels(domain, dns_label_texts, where)
    if "." not in domain:
        errors.append(invalid(where, domain, "should be a domain with at least two segments separated by dots"))
    errors += _labels(path, dns_subdomain_texts, where)
    return errors + ([too_long(where, _SIGNER_LENGTH, in_bytes=True)] if size(name) > _SIGNER_LENGTH else [])


def _labels(segment: str, rule: Callable[[str], list[str]], where: Path) -> Errors:
    """Return the errors of the first wrong label of a name with dots."""
    for label in segment.split("."):
        if texts := rule(label):
            return [invalid(where, segment, f"validating label {go_quote(label)}: {text}") for text in texts]
    return []


def is_of_kubernetes(name: str) -> bool:
    """Report whether a signer belongs to Kubernetes (upstream: `IsKubernetesSignerName`)."""
    domain = name.partition("/")[0]
    return domain == "kubernetes.io" or domain.endswith(".kubernetes.io")


def bundle_name_texts(name: str) -> list[str]:
    """Check the name of a trust bundle: SIGNER-DOMAIN:SIGNER-PATH:NAME, or NAME without a signer.

    Upstream: `ValidateClusterTrustBundleName`.
    """
    parts = name.split(":", 2)
    if len(parts) == 2:
        return ['ClusterTrustBundle without signer name must not have ":" in its name']
    return subdomain_name(parts[-1], False)
