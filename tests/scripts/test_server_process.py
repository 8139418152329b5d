"""Scripts that are ended leave no server behind."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).parents[2]
PROGRAM = """
from scripts.common.server_process import ServerProcess
with ServerProcess() as server:
    print(server.process.pid, flush=True)
    server.process.wait()
"""


def test_sigterm_ends_the_server() -> None:
    """A script that is ended by SIGTERM ends the server that it has started."""
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join([str(ROOT), *sys.path])}
    with subprocess.Popen([sys.executable, "-c", PROGRAM], stdout=subprocess.PIPE, env=environment) as script:
        assert script.stdout is not None
        server = int(script.stdout.readline())
        script.send_signal(signal.SIGTERM)
        assert script.wait(60) == 128 + signal.SIGTERM
    assert not Path(f"/proc/{server}").exists()
