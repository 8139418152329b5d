"""The program `etcd`: it keeps what is stored, in memory and in `--data-dir` between two runs, and runs the server.

It answers `/health` and `/version` at `--listen-client-urls`, and `kube-apiserver`; it does not speak etcd's own API.
Exit code 0: stopped by SIGINT or SIGTERM, or printed what was asked for; 1: cannot listen or read; 2: wrong flags.
"""

from __future__ import annotations

import sys
from pathlib import Path
from urllib.parse import urlsplit

from understudy.cli.envtest.command_line import FlagError, Flags, last, parse_go_flags, recorded_flags
from understudy.cli.garbage import little_garbage_collection
from understudy.cli.output import print_error

VERSION = "3.5.21"  # the release of etcd whose flags are accepted
USAGE = "Usage:\n\n  etcd [flags]\n    Start understudy in place of an etcd server.\n"


def main(argv: list[str] | None = None) -> int:
    """Run until a signal comes; return the exit code."""
    types = {**recorded_flags("etcd"), "help": "bool", "h": "bool", "version": "bool"}
    try:
        flags = parse_go_flags(sys.argv[1:] if argv is None else argv, types)
    except FlagError as why:
        print(f"{why}\n{USAGE}", file=sys.stderr)
        return 2
    if "help" in flags or "h" in flags:
        print("\n".join([USAGE, *(f"  --{name}" for name in sorted(types) if name != "h")]))
        return 0
    if last(flags, "version", "false") != "false":
        print(f"etcd Version: {VERSION}")
        return 0
    from understudy.cli.envtest.keeper import keep  # asyncio, for which `etcd --help` need not wait

    try:
        addresses = [_address(url) for url in last(flags, "listen-client-urls", "http://localhost:2379").split(",")]
        with little_garbage_collection():
            keep(addresses, _data_folder(flags))
    except (OSError, ValueError) as why:
        print_error(why)
        return 1
    return 0


def _address(url: str) -> tuple[str, int]:
    """Return host and port of a client URL. Raises ValueError."""
    parts = urlsplit(url)
    if parts.scheme != "http" or not parts.hostname or not parts.port:
        raise ValueError(f"--listen-client-urls: want http://HOST:PORT, not {url}")
    return parts.hostname, parts.port


def _data_folder(flags: Flags) -> Path:
    """Make the folder of the data, which only its owner may read. Raises OSError."""
    folder = Path(last(flags, "data-dir", f"{last(flags, 'name', 'default')}.etcd")) / "member"
    folder.mkdir(parents=True, exist_ok=True, mode=0o700)
    return folder


if __name__ == "__main__":
    sys.exit(main())
