"""Runs kubectl, which this machine has to have, against a server."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import tempfile
from pathlib import Path

from understudy.machinery.golang.json_writer import encode
from understudy.machinery.types import Obj


class KubectlError(subprocess.CalledProcessError):
    """A call of kubectl that has failed; str(error) ends with what it has printed to stderr.

    returncode      its exit code
    stdout, stderr  what it has printed, as text
    """

    def __str__(self) -> str:
        command = " ".join(["kubectl", *self.cmd[1:]])
        return f"{command}: {(self.stderr or self.stdout or '').strip() or f'exit code {self.returncode}'}"


def run_kubectl(
    arguments: tuple[str, ...], stdin: str | Obj | None, kubeconfig: str, *, check: bool, timeout: float
) -> subprocess.CompletedProcess[str]:
    """Call kubectl, $KUBECTL or the one on PATH, with a cache that is empty; see `ExternalClients.kubectl`."""
    __tracebackhide__ = True
    program = os.environ.get("KUBECTL") or "kubectl"
    path = shutil.which(program)
    if path is None:
        raise FileNotFoundError(
            f"there is no {program}: install kubectl (https://kubernetes.io/docs/tasks/tools/), or name it in $KUBECTL"
        )
    _check_token_is_sent(kubeconfig)
    command = [path, *map(str, arguments)]
    with tempfile.TemporaryDirectory(prefix="understudy-") as cache:  # else it knows the kinds of another server
        done = subprocess.run(
            command,
            input=encode(stdin).decode() if isinstance(stdin, dict) else stdin or "",
            capture_output=True,
            text=True,
            timeout=timeout,
            env={**os.environ, "KUBECONFIG": kubeconfig, "KUBECACHEDIR": cache},
        )
    if check and done.returncode:
        raise KubectlError(done.returncode, command, done.stdout, done.stderr)
    return done


def _check_token_is_sent(kubeconfig: str) -> None:
    """Refuse a kubeconfig with a token that kubectl would leave out, to ask as whoever has none."""
    __tracebackhide__ = True
    content = json.loads(Path(kubeconfig).read_bytes())
    if content["users"][0]["user"] and content["clusters"][0]["cluster"]["server"].startswith("http:"):
        raise RuntimeError("kubectl sends tokens over HTTPS only: start the server with tls=True")
