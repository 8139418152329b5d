"""Says of tokens of service accounts what their users, the audit log and /metrics are to know.

Upstream: k8s.io/kubernetes/pkg/serviceaccount/metrics.go, and the cache of all tokens, which repeats what was noted.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import field

from understudy.machinery.releases.version import V1_31, V1_37, ByRelease, Version
from understudy.machinery.types import dataclass
from understudy.machinery.util.clock import Clock
from understudy.machinery.util.expiring import ExpiringResults
from understudy.machinery.util.metrics import Counter

LEGACY, MANUAL, AUTOMATIC = "legacy_tokens_total", "legacy_manual_token_uses_total", "legacy_auto_token_uses_total"
INVALID, STALE, VALID = "invalid_legacy_auto_token_uses_total", "stale_tokens_total", "valid_tokens_total"
_ABOUT = {
    INVALID: "Cumulative invalid auto-generated legacy tokens used",
    AUTOMATIC: "Cumulative auto-generated legacy tokens used",
    MANUAL: "Cumulative manually created legacy tokens used",
    LEGACY: "Cumulative legacy service account tokens used",
    STALE: "Cumulative stale projected service account tokens used",
    VALID: "Cumulative valid projected service account tokens used",
}
_STABILITY = ByRelease({V1_37: "BETA", V1_31: "ALPHA"})
_ALPHA = (INVALID, AUTOMATIC, MANUAL)  # in all releases
_KEPT, _SECONDS = 4096, 10.0  # good tokens that are remembered, and how long: `TokenSuccessCacheTTL`

Key = tuple[str, tuple[str, ...]]  # a token, and the audiences that it is asked for


@dataclass(slots=True)
class TokenNotes:
    """Notes about one token.

    counted      the counters that it adds to
    annotations  of the audit log
    warnings     for its user
    """

    counted: list[str] = field(default_factory=list)
    annotations: dict[str, str] = field(default_factory=dict)
    warnings: list[str] = field(default_factory=list)


class TokenUses:
    """Counts uses of tokens. A good token that is used again within ten seconds is not counted again."""

    def __init__(self, clock: Clock, version: Version) -> None:
        self._counters = {
            name: Counter(f"serviceaccount_{name}", f"[{_stability(name, version)}] {about}", ())
            for name, about in _ABOUT.items()
        }
        for counter in self._counters.values():
            counter.series[()] = 0
        self._kept: ExpiringResults[Key, TokenNotes] = ExpiringResults(_KEPT, clock)

    @property
    def families(self) -> Sequence[Counter]:
        """Return the families of /metrics."""
        return tuple(self._counters.values())

    def kept(self, key: Key) -> TokenNotes | None:
        """Return the notes about a good token of the last ten seconds."""
        return self._kept.get(key)

    def refuse(self, notes: TokenNotes) -> None:
        """Count a token that is not good."""
        for name in notes.counted:
            self._counters[name].add()

    def accept(self, key: Key, notes: TokenNotes) -> TokenNotes:
        """Count a good token; return the notes that hold for it, which may be those of a few seconds ago."""
        if (kept := self._kept.get(key)) is not None:
            return kept
        self.refuse(notes)
        self._kept.add(key, notes, _SECONDS)
        return notes


def _stability(name: str, version: Version) -> str:
    return "ALPHA" if name in _ALPHA else _STABILITY[version]
