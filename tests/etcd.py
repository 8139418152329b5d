"""A real etcd for tests: $ETCD, or the one on PATH. Tests skip without one, and fail in CI."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from scripts.common.etcd import Member, installed_etcd, new_members

Etcd = Member
_QUICK = ("--unsafe-no-fsync", "--heartbeat-interval=20", "--election-timeout=200")
REASON = "needs etcd 3.5.8 or later, on PATH or named by ETCD: scripts/build_etcd.sh builds one"


def program() -> str:
    """Return the path of etcd. Skips the test without one; fails it in CI."""
    path = installed_etcd()
    if path:
        return path
    if os.environ.get("CI"):
        pytest.fail(REASON)
    pytest.skip(REASON)


@contextmanager
def running(folder: Path, *flags: str, scheme: str = "http") -> Iterator[Etcd]:
    """Run an etcd of one member, which may be killed and started again, until the block ends."""
    (etcd,) = new_members(program(), folder, 1, *_QUICK, *flags, scheme=scheme)
    etcd.start()
    try:
        yield etcd
    finally:
        etcd.kill()
