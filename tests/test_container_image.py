"""The container image, as far as it shows without a builder: `.ci/image` builds and runs it where there is one."""

from __future__ import annotations

import json
import re
import subprocess
import sys
from collections import defaultdict
from collections.abc import Mapping, Sequence
from http.client import HTTPConnection
from pathlib import Path

import pytest

from tests.ports import free_port
from tests.program import PROGRAM
from tests.waiting import PATIENCE

ROOT = Path(__file__).parent.parent


@pytest.fixture(scope="module")
def dockerfile() -> Mapping[str, Sequence[str]]:
    """Return the arguments of each instruction of the Dockerfile, in their order."""
    instructions = defaultdict[str, list[str]](list)
    text = re.sub(r"\\\n\s*", " ", (ROOT / "Dockerfile").read_text())
    for line in text.splitlines():
        if line and not line.startswith("#"):
            name, _, arguments = line.partition(" ")
            instructions[name].append(arguments.strip())
    return instructions


def test_sources_are_there(dockerfile: Mapping[str, Sequence[str]]) -> None:
    """Sources of the image exist, are not ignored, and are all that a wheel is built from."""
    copied = {name for each in dockerfile["COPY"] if not each.startswith("--from") for name in each.split()[:-1]}
    assert all((ROOT / name).exists() for name in copied)
    ignored = (ROOT / ".dockerignore").read_text().splitlines()
    assert {line.removeprefix("!") for line in ignored if line.startswith("!")} == copied
    assert copied == {"pyproject.toml", "README.md", "LICENSE", "src"}


def test_image_is_not_of_root(dockerfile: Mapping[str, Sequence[str]]) -> None:
    """The last stage runs as a user that is not root, by its number, as Kubernetes wants to see it."""
    assert dockerfile["USER"] == ["65532:65532"]
    assert all(re.fullmatch(r"python:3\.\d+-slim( AS build)?", each) for each in dockerfile["FROM"])


def test_command_serves_and_is_healthy(dockerfile: Mapping[str, Sequence[str]]) -> None:
    """The command of the image serves under the names that compose gives it, and its health check finds it."""
    port = str(free_port())
    assert json.loads(dockerfile["ENTRYPOINT"][0]) == ["understudy"]
    arguments = [
        each.replace("8001", port).replace("0.0.0.0", "127.0.0.1") for each in json.loads(dockerfile["CMD"][0])
    ]
    _, _, check = dockerfile["HEALTHCHECK"][0].partition(" CMD ")
    python, *rest = json.loads(check.replace("8001", port))
    assert python == "python"
    with subprocess.Popen([*PROGRAM, *arguments], stdout=subprocess.PIPE) as server:
        try:
            assert server.stdout is not None
            assert b" API at " in server.stdout.readline()
            subprocess.run([sys.executable, *rest], check=True, timeout=PATIENCE)
            for host, status in {"understudy": 200, "host.docker.internal": 200, "evil.example.com": 403}.items():
                assert answer(port, host) == status
        finally:
            server.kill()
    assert subprocess.run([sys.executable, *rest], stderr=subprocess.DEVNULL).returncode != 0


def answer(port: str, host: str) -> int:
    """Return the status of a request to a server that is reached by a name."""
    connection = HTTPConnection("127.0.0.1", int(port), timeout=PATIENCE)
    connection.request("GET", "/api/v1/namespaces", headers={"Host": host})
    status = connection.getresponse().status
    connection.close()
    return status
