"""The metrics of certificates. Upstream: pkg/registry/certificates/certificates/storage/metrics.go."""

from __future__ import annotations

from understudy.machinery.util.metrics import Counter

HONORED, REQUESTED = "csr_honored_duration_total", "csr_requested_duration_total"


class CertificateMetrics:
    """Counts certificates that were issued, by signer."""

    def __init__(self) -> None:
        about = "[ALPHA] Total number of issued CSRs with a requested duration{}, sliced by signer (only kubernetes.io "
        about += "signer names are specifically identified)"
        self._counters = {
            name: Counter(f"apiserver_certificates_registry_{name}", about.format(which), ("signerName",))
            for name, which in ((HONORED, " that was honored"), (REQUESTED, ""))
        }

    @property
    def families(self) -> tuple[Counter, ...]:
        """Return all families, in the order of their names."""
        return tuple(self._counters.values())

    def count(self, name: str, signer: str) -> None:
        """Add one to a counter for a signer."""
        self._counters[name].add(signer)
