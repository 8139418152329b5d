"""The file of the audit log: what is in it when a server stops, and what becomes of files that are large."""

from __future__ import annotations

import gzip
import json
import re
import threading
from datetime import UTC, datetime, timedelta, tzinfo
from pathlib import Path
from typing import Any

import pytest

from understudy import Server
from understudy.apiserver.permissions.audit.event import Answer, NotedEvent
from understudy.apiserver.permissions.audit.metrics import AuditMetrics
from understudy.apiserver.permissions.audit.policy import Level, RequestAudit
from understudy.apiserver.server.filters.audit import log as audit_log
from understudy.apiserver.server.filters.audit.backends import backend_of
from understudy.apiserver.server.filters.audit.batching import BLOCKING, BackendOptions, Batching
from understudy.apiserver.server.filters.audit.log import MEGABYTE, LogPlugin, RotatedFile, Rotation

LONG = b"x" * (MEGABYTE * 3 // 5) + b"\n"  # two do not fit into a file


class _Hours(datetime):
    """A clock that goes on by an hour whenever it is read."""

    passed = 0

    @classmethod
    def now(cls, tz: tzinfo | None = None) -> Any:
        cls.passed += 1
        return datetime(2026, 1, 1, tzinfo=UTC) + timedelta(hours=cls.passed)


@pytest.fixture
def hours(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(_Hours, "passed", 0)
    monkeypatch.setattr(audit_log, "datetime", _Hours)


def test_what_waits_is_written_when_the_log_is_closed(tmp_path: Path) -> None:
    """Closing waits for events that are not written yet, however long each takes."""
    readable = threading.Event()

    def decode(answer: Answer) -> Any:
        assert readable.wait(30)

    plugin = LogPlugin(str(tmp_path / "audit.log"), "json", Rotation())
    written = backend_of(
        plugin, BackendOptions(BLOCKING, Batching(1, 1, 0, None, 0), None), AuditMetrics().report, at_once=False
    )
    audit = RequestAudit(Level.METADATA, frozenset(), False)
    for number in range(3):
        fields = {"auditID": str(number), "stage": "ResponseComplete"}
        written.put(NotedEvent(fields, audit, b"", Answer(200, "", ()), "", decode))
    threading.Timer(0.05, readable.set).start()
    written.close()
    lines = (tmp_path / "audit.log").read_text().splitlines()
    assert [json.loads(line)["auditID"] for line in lines] == ["0", "1", "2"]


@pytest.mark.parametrize(
    ("rotation", "backups"),
    [
        (Rotation(max_size=1), 3),
        (Rotation(max_size=1, max_backups=2), 2),
        (Rotation(max_size=1, max_backups=2, compress=True), 2),
        (Rotation(max_size=1, max_age=1), 3),
        (Rotation(max_size=2), 1),
        (Rotation(), 0),
    ],
)
@pytest.mark.usefixtures("hours")
def test_large_files_are_moved_away(tmp_path: Path, rotation: Rotation, backups: int) -> None:
    """A line that fits no longer begins a new file; of the old ones, named by their time, the newest are kept."""
    file = RotatedFile(tmp_path / "audit.log", rotation)
    file.write([b"%d%s" % (number, LONG) for number in range(4)])
    file.close()
    old = sorted(path for path in tmp_path.iterdir() if path.name != "audit.log")
    assert len(old) == backups
    suffix = r"\.log\.gz" if rotation.compress else r"\.log"
    assert all(re.fullmatch(rf"audit-2026-01-01T\d\d-00-00\.000{suffix}", path.name) for path in old)
    files = [gzip.decompress(path.read_bytes()) if rotation.compress else path.read_bytes() for path in old]
    lines = b"".join([*files, (tmp_path / "audit.log").read_bytes()]).splitlines()
    assert [line[:1] for line in lines] == [b"0", b"1", b"2", b"3"][-len(lines) :]
    assert len(lines) == (backups + 1 if rotation.max_size == 1 else 4)


@pytest.mark.usefixtures("hours")
def test_old_files_are_deleted(tmp_path: Path) -> None:
    """A file that was moved away longer ago than `maxage` goes when the next one is moved; other files stay."""
    for name in ("audit-2025-12-30T23-00-00.000.log", "audit-2025-12-31T12-00-00.000.log", "other-2020.log"):
        (tmp_path / name).touch()
    file = RotatedFile(tmp_path / "audit.log", Rotation(max_size=1, max_age=1))
    file.write([LONG, LONG])
    file.close()
    assert sorted(path.name for path in tmp_path.iterdir()) == [
        "audit-2025-12-31T12-00-00.000.log",
        "audit-2026-01-01T01-00-00.000.log",
        "audit.log",
        "other-2020.log",
    ]


def test_log_goes_on_where_it_ended(tmp_path: Path) -> None:
    """A log of an earlier server is added to, and its size counts."""
    for _ in range(2):
        file = RotatedFile(tmp_path / "audit.log", Rotation(max_size=1))
        file.write([b"short\n"])
        file.close()
    assert (tmp_path / "audit.log").read_bytes() == b"short\n" * 2
    file = RotatedFile(tmp_path / "audit.log", Rotation(max_size=1))
    file.write([b"x" * (MEGABYTE - 12)])
    file.write([b"y"])
    file.close()
    assert (tmp_path / "audit.log").read_bytes() == b"y"


def test_server_rotates_its_log(tmp_path: Path) -> None:
    """`audit_log_maxsize` and `audit_log_maxbackup` bound the files of a server."""
    policy, log = tmp_path / "policy.yaml", tmp_path / "logs" / "audit.log"
    policy.write_text(
        "apiVersion: audit.k8s.io/v1\nkind: Policy\nomitStages: [RequestReceived]\n"
        "rules: [{level: Request, verbs: [create]}]\n"
    )
    options: dict[str, Any] = {"audit_policy_file": policy, "audit_log_path": log}
    with Server(**options, audit_log_maxsize=1, audit_log_maxbackup=1) as server:
        for number in range(4):
            data = {"k": "x" * len(LONG)}
            server.create({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": f"c{number}"}, "data": data})
    old, new = sorted(log.parent.iterdir())
    assert new == log
    assert old.name.startswith("audit-20")
    events = [json.loads(line) for path in (old, new) for line in path.read_text().splitlines()]
    assert [event["objectRef"]["name"] for event in events] == ["c2", "c3"]
