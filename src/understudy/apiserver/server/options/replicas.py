"""The options of a server that is one of several on the same store, which are kube-apiserver's."""

from __future__ import annotations

import socket
from dataclasses import dataclass, field
from ipaddress import ip_address

from understudy.apiserver.authentication.options import flag

LEASE, NONE = "lease", "none"
_ELSEWHERE = "198.51.100.1", 9  # an address behind the default route, to which nothing is sent


@dataclass(frozen=True, kw_only=True, eq=False)
class ReplicaOptions:
    """The options of a server that is one of several on the same etcd. Raises ValueError for those that make no sense.

    advertise_address         the address of this server for clients in the cluster; by default `bind_address`, or that
                              of the machine where this is a loopback address or stands for all
    endpoint_reconciler_type  "lease": the Service `kubernetes` has the address among its endpoints while the server
                              lives; "none": nobody writes them
    """

    advertise_address: str = field(
        default="", metadata=flag("address of this server for clients in the cluster (default: the machine's)", "IP")
    )
    endpoint_reconciler_type: str = field(
        default=LEASE,
        metadata=flag("lease or none: whether endpoints of `kubernetes` are kept, on etcd (default: lease)", "TYPE"),
    )

    def check_replicas(self) -> None:
        """Raise ValueError for options that make no sense."""
        if self.endpoint_reconciler_type not in (LEASE, NONE):
            raise ValueError(f"--endpoint-reconciler-type: want lease or none, not {self.endpoint_reconciler_type!r}")
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
