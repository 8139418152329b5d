"""The metrics of certificates. Upstream: pkg/registry/certificates/certificates/storage/metrics.go."""

from __future__ import annotations

from understudy.machinery.util.metrics import Counter

_PREFIX = "apiserver_certificates_registry_csr_"
HONORED, REQUESTED = f"{_PREFIX}honored_duration_total", f"{_PREFIX}requested_duration_total"


def families() -> tuple[Counter, ...]:
    """Return counters of certificates that were issued, by signer."""
    about = "[ALPHA] Total number of issued CSRs with a requested duration{}, sliced by signer (only kubernetes.io "
    about += "signer names are specifically identified)"
    names = (HONORED, " that was honored"), (REQUESTED, "")
    return tuple(Counter(name, about.format(which), ("signerName",)) for name, which in names)
