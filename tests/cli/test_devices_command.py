"""`understudy devices`, and the same table in `understudy dev` when Ctrl-T is typed."""

from __future__ import annotations

import json
import os
import pty
import select
import subprocess
import time
from pathlib import Path

import pytest

from tests.program import PROGRAM
from tests.releases import every_release
from tests.waiting import PATIENCE, wait_until
from understudy import Server
from understudy.cli.main import main
from understudy.machinery.releases.version import Version

CTRL_C, CTRL_T = b"\x03", b"\x14"


@every_release
def test_devices_of_a_server(release: Version, capsys: pytest.CaptureFixture[str]) -> None:
    """The command counts the devices of a server of every release; nothing is held at first."""
    with Server(emulated_version=str(release), load=["gpu-cluster"]) as server:
        assert main(["devices", "--server", server.url]) == 0
        assert capsys.readouterr().out == "0 of 8 devices are held\n"


def test_devices_that_are_held(capsys: pytest.CaptureFixture[str]) -> None:
    """A device that the scheduler has given to a pod is a row, in JSON as well."""
    with Server(load=["gpu-cluster", "claim"], controllers=["scheduler"]) as server:
        spec = {
            "containers": [{"name": "c", "image": "i"}],
            "tolerations": [{"operator": "Exists"}],
            "resourceClaims": [{"name": "gpu", "resourceClaimName": "gpu"}],
        }
        server.apply({"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "p"}, "spec": spec})
        wait_until(lambda: server.get("resourceclaim", "gpu").get("status", {}).get("reservedFor"))
        assert main(["devices", "--server", server.url, "-o", "json"]) == 0
        [row] = [row for row in json.loads(capsys.readouterr().out) if row["claim"] == "default/gpu"]
        assert (row["pod"], row["prepared"]) == ("default/p", "no")
        assert row["since"] != "-"


def test_server_that_does_not_answer(capsys: pytest.CaptureFixture[str]) -> None:
    """A server that is not there is one line, and exit code 2."""
    assert main(["devices", "--server", "http://127.0.0.1:1"]) == 2
    assert capsys.readouterr().err.startswith("understudy: http://127.0.0.1:1: ")


def test_key_in_dev(tmp_path: Path) -> None:
    """Ctrl-T on the terminal of `understudy dev` prints the table; Ctrl-C ends it and gives the terminal back.

    With --report it leaves a page then.
    """
    parent, terminal = pty.openpty()
    argv = [*PROGRAM, "dev", "--port", "0", "--load", "gpu-cluster", "--root", str(tmp_path / "r")]
    argv += ["--report", str(tmp_path / "report.html")]
    # A session of its own, whose terminal this is: `setsid -c` is not on every machine.
    start = "import fcntl, os, sys, termios; fcntl.ioctl(0, termios.TIOCSCTTY, 0); os.execv(sys.argv[1], sys.argv[1:])"
    with subprocess.Popen(
        [argv[0], "-c", start, *argv], stdin=terminal, stdout=terminal, stderr=terminal, start_new_session=True
    ) as process:
        os.close(terminal)
        seen, end = "", time.monotonic() + PATIENCE
        try:
            while " of 8 devices " not in seen:
                assert time.monotonic() < end, seen
                if select.select([parent], [], [], 0.5)[0]:
                    seen += os.read(parent, 65536).decode(errors="replace")
                elif "kubelet looks for drivers" in seen:
                    os.write(parent, CTRL_T)
            os.write(parent, CTRL_C)
            while select.select([parent], [], [], PATIENCE)[0]:
                try:
                    if not os.read(parent, 65536):
                        break
                except OSError:  # Linux says so at the end
                    break
            assert process.wait(PATIENCE) == 0
            assert '<script type="application/octet-stream" id="report">' in (tmp_path / "report.html").read_text()
        finally:
            process.kill()
            os.close(parent)
