"""The families of /metrics about the process, as Linux tells of it (Prometheus: `NewProcessCollector`).

They are missing on systems without `/proc`. The process is that in which the server runs: in a test that of pytest.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path

from understudy.apiserver.server.pages.exposition import COUNTER, GAUGE, Family, Sample
from understudy.machinery.releases.version import V1_33, Version

SELF = Path("/proc/self")
_UNLIMITED = float(2**64 - 1)


def families(version: Version) -> Iterator[Family]:
    """Yield the families of this process; nothing where the system does not tell."""
    try:
        fields = (SELF / "stat").read_text().rpartition(")")[2].split()  # from the third on: `man 5 proc_pid_stat`
        numbers, booted = {number: int(fields[number - 3]) for number in (14, 15, 22, 23, 24)}, _booted()
        files = len(os.listdir(SELF / "fd"))
    except OSError:
        return
    import resource  # where there is no /proc, it may be missing

    ticks = os.sysconf("SC_CLK_TCK")
    cpu, resident = (numbers[14] + numbers[15]) / ticks, numbers[24] * os.sysconf("SC_PAGE_SIZE")
    most_files, most_memory = (
        _UNLIMITED if (limit := resource.getrlimit(name)[0]) == resource.RLIM_INFINITY else limit
        for name in (resource.RLIMIT_NOFILE, resource.RLIMIT_AS)
    )
    yield _family("cpu_seconds_total", "Total user and system CPU time spent in seconds.", cpu, COUNTER)
    yield _family("max_fds", "Maximum number of open file descriptors.", most_files)
    if version >= V1_33:
        received, sent = _octets()
        about = "Number of bytes {} by the process over the network."
        yield _family("network_receive_bytes_total", about.format("received"), received, COUNTER)
        yield _family("network_transmit_bytes_total", about.format("sent"), sent, COUNTER)
    yield _family("open_fds", "Number of open file descriptors.", files)
    yield _family("resident_memory_bytes", "Resident memory size in bytes.", resident)
    started = booted + numbers[22] / ticks
    yield _family("start_time_seconds", "Start time of the process since unix epoch in seconds.", started)
    yield _family("virtual_memory_bytes", "Virtual memory size in bytes.", numbers[23])
    about = "Maximum amount of virtual memory available in bytes."
    yield _family("virtual_memory_max_bytes", about, most_memory)


def _family(name: str, about: str, value: float, kind: str = GAUGE) -> Family:
    return Family(f"process_{name}", kind, about, [Sample({}, value)])


def _booted() -> int:
    """Read the time at which the machine was started, in seconds since 1970."""
    lines = Path("/proc/stat").read_text().splitlines()
    return next(int(line.split()[1]) for line in lines if line.startswith("btime "))


def _octets() -> tuple[int, int]:
    """Return the bytes that the network of the process has received and sent."""
    lines = (line.split() for line in (SELF / "net/netstat").read_text().splitlines())
    names, values = (words for words in lines if words[0] == "IpExt:")
    counted = dict(zip(names, values, strict=True))
    return int(counted["InOctets"]), int(counted["OutOctets"])
