"""Where the time of a slow request went, as annotations of its last event. Upstream: `LatencyTrackers`.

Not measured are what kube-apiserver calls `etcd`, `transform-response-object`, `serialize-response-object`,
`response-write` and `decode-response-object`: objects are stored here as they are sent.
"""

from __future__ import annotations

from collections.abc import Mapping
from time import monotonic

from understudy.machinery.golang.times import duration_text
from understudy.machinery.releases.version import V1_33, V1_36, Version

PREFIX = "apiserver.latency.k8s.io/"
SLOW = 0.5  # seconds; the annotations of faster requests are left out
AUTHENTICATION, AUTHORIZATION, IMPERSONATION = "authentication", "authorization", "impersonation"
_SINCE = {AUTHENTICATION: V1_33, AUTHORIZATION: V1_33, IMPERSONATION: V1_36}  # the others always
_AT_ONCE = (AUTHORIZATION, "validating-webhook")  # of which the longest counts; of others the sum


class Latencies:
    """The seconds that the layers of the server have taken for one request, which begins now."""

    __slots__ = ("_begun", "_release", "_seconds")

    def __init__(self, release: Version) -> None:
        self._begun = monotonic()
        self._release = release
        self._seconds: dict[str, float] = {}

    def track(self, layer: str, seconds: float) -> None:
        """Add the seconds that a layer took."""
        if layer in _SINCE and self._release < _SINCE[layer]:
            return
        before = self._seconds.get(layer, 0.0)
        self._seconds[layer] = max(before, seconds) if layer in _AT_ONCE else before + seconds

    def since(self, layer: str, begun: float) -> None:
        """Add the seconds of a layer since a time, in seconds of `time.monotonic`."""
        self.track(layer, monotonic() - begun)

    def annotations(self) -> Mapping[str, str]:
        """Return the annotations of a request that is over now, none if it was fast."""
        total = monotonic() - self._begun
        if total <= SLOW:
            return {}
        return {f"{PREFIX}{name}": _text(seconds) for name, seconds in {**self._seconds, "total": total}.items()}


def _text(seconds: float) -> str:
    return duration_text(int(seconds * 1e9))
