"""The processes and ports of this machine that stand in for those of pods."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path

from understudy.apiserver.server.options.values import host_and_port
from understudy.machinery.types import NamedTuple

Address = tuple[str, int]


class Host(NamedTuple):
    """Names the processes and ports of this machine that stand in for those of containers.

    command    is run for each command of a client, which follows as arguments
    addresses  host and port that stand in for a port of a pod, "NAMESPACE/NAME:PORT"; the same port of the loopback
               interface does for others
    """

    command: Sequence[str]
    addresses: Mapping[str, Address]

    def address(self, namespace: str, name: str, port: int) -> Address:
        """Return host and port that stand in for a port of a pod."""
        return self.addresses.get(f"{namespace}/{name}:{port}", ("127.0.0.1", port))


def host_of(command: Sequence[str], pod_addresses: Mapping[str, str], client_ca_file: Path | str | None) -> Host:
    """Return the host of the options of a kubelet. Raises ValueError for those without sense."""
    if client_ca_file is None:
        raise ValueError("commands in pods need a client CA file: else everybody on this machine could run them")
    if isinstance(command, str):
        raise ValueError(f"want a sequence of arguments for the command, not {command!r}")
    addresses = {}
    for port, text in pod_addresses.items():
        address = host_and_port(text)
        pod, _, number = port.rpartition(":")
        if address is None or pod.count("/") != 1 or not number.isdecimal():
            raise ValueError(f"want NAMESPACE/NAME:PORT=HOST:PORT for a port of a pod, not {port}={text}")
        addresses[port] = address
    return Host(tuple(command), addresses)
