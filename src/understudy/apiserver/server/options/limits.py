"""The options that limit how many requests a server answers at once, all in all and on a connection of HTTP/2."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import field

from understudy.apiserver.authentication.options import flag
from understudy.machinery.types import dataclass

READ_ONLY, MUTATING, STREAMS = 400, 200, 100  # the defaults of kube-apiserver

MOST_GOAWAYS = 0.02


@dataclass(frozen=True, kw_only=True, init=False, repr=False, eq=False)
class LimitOptions:
    """The options that limit how many requests are answered at once. Raises ValueError for those without sense.

    enable_priority_and_fairness
                            true: requests wait for seats of their priority level, or are refused; false: those beyond
                            the two limits below are refused, and answers name no flow schema. By default answers name
                            it, and nothing is limited
    max_requests_inflight   the most requests that read and are answered at once, 0 for any number; with priority and
                            fairness, levels share this many seats and as many as the next option says
    max_mutating_requests_inflight
                            the most requests that write and are answered at once, 0 for any number
    """

    enable_priority_and_fairness: bool | None = field(
        default=None,
        metadata=flag(
            "true: let requests wait for seats of their priority level; false: limit them by the two flags below "
            "(default: limit nothing)",
            "BOOL",
        ),
    )
    max_requests_inflight: int = field(
        default=READ_ONLY,
        metadata=flag("the most requests that read at once, 0 for any number (default: %(default)s)", "NUMBER"),
    )
    max_mutating_requests_inflight: int = field(
        default=MUTATING,
        metadata=flag("the most requests that write at once, 0 for any number (default: %(default)s)", "NUMBER"),
    )

    def check_limits(self) -> None:
        """Raise ValueError for options that make no sense, with the texts of kube-apiserver."""
        for option in ("max_requests_inflight", "max_mutating_requests_inflight"):
            if getattr(self, option) < 0:
                raise ValueError(f"--{option.replace('_', '-')} can not be negative value")
        if self.enable_priority_and_fairness and not self.concurrency:
            raise ValueError(
                "invalid configuration: MaxRequestsInFlight=0 and MaxMutatingRequestsInFlight=0; they must add up to "
                "something positive"
            )

    @property
    def classifies(self) -> bool:
        """Report whether answers name the flow schema of their request."""
        return self.enable_priority_and_fairness is not False

    @property
    def concurrency(self) -> int:
        """Return the seats of the whole server, which priority levels share (`serverConcurrencyLimit`)."""
        return self.max_requests_inflight + self.max_mutating_requests_inflight

    @property
    def in_flight(self) -> tuple[int, int] | None:
        """Return the most requests that read and that write at once, 0 for any number; None if neither is limited."""
        limits = self.max_requests_inflight, self.max_mutating_requests_inflight
        return None if self.classifies or not any(limits) else limits


@dataclass(frozen=True, kw_only=True, init=False, repr=False, eq=False)
class Http2Options:
    """The options of HTTP/2, which clients may agree to over TLS. Raises ValueError for those without sense.

    disable_http2_serving   speak HTTP/1.1 only
    http2_max_streams_per_connection
                            the most requests that a client may send at once on a connection, 0 for 100
    goaway_chance           the share of requests behind which a client is told to connect anew (GOAWAY), 0.02 at most
    """

    disable_http2_serving: bool = field(
        default=False, metadata=flag("speak HTTP/1.1 over TLS, and never HTTP/2 (default: %(default)s)", "BOOL")
    )
    http2_max_streams_per_connection: int = field(
        default=0, metadata=flag("the most requests at once on a connection of HTTP/2, 0 for 100", "NUMBER")
    )

    goaway_chance: float = field(
        default=0.0,
        metadata=flag(
            "the share of requests over HTTP/2 behind which the client is to connect anew, 0.02 at most "
            "(default: %(default)s)",
            "SHARE",
        ),
    )

    def check_http2(self) -> None:
        """Raise ValueError for a share that is too large, with the text of kube-apiserver."""
        if not 0 <= self.goaway_chance <= MOST_GOAWAYS:
            raise ValueError(f"--goaway-chance can not be less than 0 or greater than {MOST_GOAWAYS}")

    @property
    def most_streams(self) -> int:
        """Return the most requests that a client may send at once on a connection."""
        return self.http2_max_streams_per_connection if self.http2_max_streams_per_connection > 0 else STREAMS

    @property
    def protocols(self) -> Sequence[str]:
        """Return the protocols that clients may agree to over TLS (ALPN), the preferred one first."""
        return ("http/1.1",) if self.disable_http2_serving else ("h2", "http/1.1")
