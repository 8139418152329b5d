"""The options of a server that is one of several on the same store, which are kube-apiserver's."""

from __future__ import annotations

import socket
from dataclasses import field
from functools import cached_property
from ipaddress import ip_address
from itertools import pairwise
from typing import TYPE_CHECKING

from understudy.apiserver.authentication.options import flag
from understudy.machinery.golang.times import parse_duration
from understudy.machinery.types import dataclass

if TYPE_CHECKING:
    from understudy.apiserver.controllers.framework.leader_election import Election

LEASE, MASTER_COUNT, NONE = "lease", "master-count", "none"
COORDINATED = "coordinated-leadership"
_TIMES = "lease-duration", "renew-deadline", "retry-period"
_ELSEWHERE = "198.51.100.1", 9  # an address behind the default route, to which nothing is sent


@dataclass(frozen=True, kw_only=True, repr=False, eq=False)
class ReplicaOptions:
    """The options of a server that is one of several on the same etcd. Raises ValueError for those that make no sense.

    advertise_address         the address of this server for clients in the cluster; by default `bind_address`, or that
                              of the machine where this is a loopback address or stands for all
    endpoint_reconciler_type  "lease": the Service `kubernetes` has the address among its endpoints while the server
                              lives; "master-count", which is deprecated: it has those of `apiserver_count` servers;
                              "none": nobody writes them
    apiserver_count           how many servers there are, for "master-count"; deprecated as well
    leader_elect              whether `controllers` run at one of the servers only, which holds the Leases
                              `kube-controller-manager` and `kube-scheduler`; another takes them over when it ends
    leader_elect_lease_duration
                              how long a Lease is left to a server that does not renew it, as Go writes it ("15s")
    leader_elect_renew_deadline
                              after which a server that cannot renew it stops its controllers
    leader_elect_retry_period how often it is renewed, and looked at by others
    coordinated_leadership_lease_duration
                              how long the Lease `leader-election-controller` is left to a server that does not renew
                              it: its holder elects leaders among LeaseCandidates
    coordinated_leadership_renew_deadline
                              after which a server that cannot renew it elects no more
    coordinated_leadership_retry_period
                              how often it is renewed, and looked at by others
    """

    advertise_address: str = field(
        default="", metadata=flag("address of this server for clients in the cluster (default: the machine's)", "IP")
    )
    endpoint_reconciler_type: str = field(
        default=LEASE,
        metadata=flag("lease, master-count or none: who is an endpoint of `kubernetes` (default: %(default)s)", "TYPE"),
    )
    apiserver_count: int = field(
        default=1, metadata=flag("servers on an etcd, for master-count (default: %(default)s)", "N")
    )

    leader_elect: bool = field(
        default=True, metadata=flag("run controllers at one of the servers on an etcd (default: true)", "BOOL")
    )
    leader_elect_lease_duration: str = field(
        default="15s", metadata=flag("time after which another takes over (default: %(default)s)", "DURATION")
    )
    leader_elect_renew_deadline: str = field(
        default="10s", metadata=flag("time after which a leader gives up (default: %(default)s)", "DURATION")
    )
    leader_elect_retry_period: str = field(
        default="2s", metadata=flag("time between two tries to lead (default: %(default)s)", "DURATION")
    )

    coordinated_leadership_lease_duration: str = field(
        default="15s", metadata=flag("the same for who elects among LeaseCandidates (default: %(default)s)", "DURATION")
    )
    coordinated_leadership_renew_deadline: str = field(
        default="10s", metadata=flag("time after which it elects no more (default: %(default)s)", "DURATION")
    )
    coordinated_leadership_retry_period: str = field(
        default="2s", metadata=flag("time between two tries to be the one (default: %(default)s)", "DURATION")
    )

    @cached_property
    def leader_election(self) -> Election:
        """Return the times of an election. Raises ValueError for those that make no sense."""
        from understudy.apiserver.controllers.framework.leader_election import JITTER

        election = self._election("leader-elect")
        if election.lease_duration <= election.renew_deadline:
            raise ValueError("leaseDuration must be greater than renewDeadline")
        if election.renew_deadline <= JITTER * election.retry_period:
            raise ValueError("renewDeadline must be greater than retryPeriod*JitterFactor")
        return election

    @cached_property
    def coordinated_election(self) -> Election:
        """Return the times of the election of the server that elects among LeaseCandidates. Raises ValueError for those
        that make no sense (`validateCoordinatedLeadershipFlags`)."""
        election = self._election(COORDINATED)
        for (longer, more), (shorter, less) in pairwise(zip(_TIMES, election, strict=True)):
            if more <= less:
                raise ValueError(f"--{COORDINATED}-{longer} must be greater than --{COORDINATED}-{shorter}")
        return election

    def _election(self, flags: str) -> Election:
        """Return the times of the flags that begin alike. Raises ValueError for what is no time."""
        from understudy.apiserver.controllers.framework.leader_election import Election

        times = []
        for name in _TIMES:
            nanoseconds = parse_duration(getattr(self, f"{flags}-{name}".replace("-", "_")))
            if nanoseconds is None or nanoseconds <= 0:
                raise ValueError(f"--{flags}-{name}: want a time such as 15s")
            times.append(nanoseconds / 1e9)
        return Election(*times)

    def check_replicas(self) -> None:
        """Raise ValueError for options that make no sense."""
        if (kept := self.endpoint_reconciler_type) not in (LEASE, MASTER_COUNT, NONE):
            raise ValueError(f"Reconciler not implemented: {kept} (--endpoint-reconciler-type)")
        if (count := self.apiserver_count) <= 0:
            raise ValueError(f"--apiserver-count should be a positive number, but value '{count}' provided")
        _ = self.leader_election, self.coordinated_election
        if self.advertise_address and (problem := _problem(self.advertise_address)):
            raise ValueError(f"--advertise-address: {self.advertise_address} {problem}")

    def advertised_address(self, bind_address: str) -> str:
        """Return the address of this server for clients in the cluster, "" if the machine has no such address."""
        if self.advertise_address:
            return self.advertise_address
        bound = ip_address(bind_address)
        if not (bound.is_loopback or bound.is_unspecified):
            return bind_address
        with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as sock:
            try:
                sock.connect(_ELSEWHERE)
            except OSError:
                return ""  # there is no default route
            address: str = sock.getsockname()[0]
        return "" if _problem(address) else address


def _problem(address: str) -> str:
    """Return the reason for which an address cannot be that of an endpoint, "" if it can."""
    from understudy.kinds.core.endpoints.validation import special  # takes a while, and few servers need it
    from understudy.machinery.validation.field import Path

    errors = special(address, Path("address"))
    return str(errors[0].detail) if errors else ""
