"""Run `understudy serve` as a program of its own."""

from __future__ import annotations

import re
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager

PATIENCE = 30  # seconds that an answer or the end may take; an end that waits for watches takes 60
PROGRAM = [sys.executable, "-c", "import sys; from understudy.cli.main import main; sys.exit(main())"]


def limited(limit: str) -> list[str]:
    """Return a command that runs the program with a limit of `ulimit`, for example "-n 64"."""
    return ["sh", "-c", f'ulimit {limit}; exec "$@"', "sh", *PROGRAM]


@contextmanager
def serving(
    *argv: str, program: list[str] = PROGRAM, stderr: int | None = None
) -> Iterator[tuple[subprocess.Popen[str], str]]:
    """Run the program until the block ends; yield the process and the URL that it prints."""
    process = subprocess.Popen(
        [*program, "serve", "--port", "0", *argv], stdout=subprocess.PIPE, stderr=stderr, text=True
    )
    try:
        assert process.stdout is not None
        line = process.stdout.readline()
        result = re.fullmatch(r"understudy: Kubernetes 1\.\d+ API at (https?://\S+)\n", line)
        assert result, line
        yield process, result[1]
    finally:
        process.kill()
        process.communicate()
