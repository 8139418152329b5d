"""The life of a server object: entered, left, entered again; and in processes that are forked meanwhile."""

from __future__ import annotations

import asyncio
import logging
import os
import subprocess
import sys
import traceback
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

import understudy
from tests.http import send
from understudy import Server
from understudy.machinery.types import Obj

CONFIG_MAP: Obj = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "a"}}
PATIENCE = 30  # seconds that a forked process may take


def test_entered_again_it_is_as_new() -> None:
    """A server that was left can be entered again. It starts with what a new one has."""
    server = Server(load=[CONFIG_MAP])
    for _ in range(3):
        with server:
            assert [obj["metadata"]["name"] for obj in server.list("cm", "default")] == ["a"]
            server.apply({**CONFIG_MAP, "metadata": {"name": "b"}})
            assert send(server, "GET", "/readyz").status == 200
            path = Path(server.kubeconfig)
            assert server.url in path.read_text()
        assert not path.exists()


def test_repr_says_where_it_is() -> None:
    """A server is shown with its release, and with its address while it runs."""
    server = Server(emulated_version="1.34")
    assert repr(server) == "<Server of Kubernetes 1.34 that does not run>"
    with server:
        assert repr(server) == f"<Server of Kubernetes 1.34 at {server.url}>"
    assert repr(server) == "<Server of Kubernetes 1.34 that does not run>"


def test_package_shows_its_public_names() -> None:
    """`dir` lists the names that the package has, which can all be imported, and nothing else."""
    assert dir(understudy) == sorted(understudy.__all__)
    assert all(getattr(understudy, name) for name in dir(understudy))


async def test_entered_again_in_async_code() -> None:
    """A server that was left can be entered again with `async with`, too."""
    server = Server()
    for _ in range(2):
        async with server:
            assert server.list("cm", "default") == []


def test_entered_twice_it_refuses() -> None:
    """A server that runs is not started once more."""
    with Server() as server:
        with pytest.raises(RuntimeError, match="running already, at http://"), server:
            pass
        assert send(server, "GET", "/readyz").status == 200


def test_left_it_refuses() -> None:
    """A server that was left says how to start it."""
    with Server() as server:
        pass
    with pytest.raises(RuntimeError, match="use it as a context manager"):
        server.list("pods")


def forked(work: Callable[[], object]) -> str:
    """Run work in a forked process and return what it raised, "" for nothing. It is ended after PATIENCE seconds."""
    reader, writer = os.pipe()
    child = os.fork()
    if child == 0:
        import signal

        signal.alarm(PATIENCE)
        try:
            work()
            result = ""
        except BaseException as error:
            result = "".join(traceback.format_exception_only(error))
        os.write(writer, result.encode())
        os._exit(0)
    os.close(writer)
    with os.fdopen(reader) as file:
        result = file.read()
    assert os.waitpid(child, 0)[1] == 0, "the forked process hung"
    return result


@pytest.mark.filterwarnings("ignore:This process .* is multi-threaded:DeprecationWarning")
def test_forked_process_is_told_to_use_http() -> None:
    """The thread of the server is not in a forked process: its methods raise there, HTTP works."""
    with Server() as server:
        for use in (lambda: server.get("namespaces", "default"), lambda: server.set_feature_gates({}), server.reset):
            assert "RuntimeError: the server runs in the process that this one was forked from" in forked(use)

        def ask() -> None:
            assert send(server, "GET", "/readyz").status == 200

        assert forked(ask) == ""
        assert forked(lambda: server.__exit__()) == ""
        assert send(server, "GET", "/readyz").status == 200


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({}, ""),
        ({"bind_address": "::1"}, ""),
        ({"bind_address": "0.0.0.0"}, "everybody who reaches 0.0.0.0 port"),
        ({"bind_address": "::"}, "everybody who reaches :: port"),
        ({"control": True}, "is an administrator and may change and reset it under /understudy/"),
        ({"bind_address": "0.0.0.0", "control": True, "token_auth_file": "tokens.csv", "tls": False}, ""),
    ],
)
def test_open_server_says_so(
    options: dict[str, Any],
    message: str,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    caplog: pytest.LogCaptureFixture,
) -> None:
    """A server without tokens warns if other machines reach it, or if it serves the control API."""
    monkeypatch.chdir(tmp_path)
    Path("tokens.csv").write_text("secret,ann,1\n")
    with caplog.at_level(logging.WARNING, "understudy"), Server(**options):
        pass
    assert len(caplog.messages) == bool(message)
    assert message in "".join(caplog.messages)


@pytest.mark.parametrize(
    ("content", "messages"),
    [
        ("secret,ann,1\n", []),
        ("", ["no token has been found in token file '{}': every request will be refused"]),
        (
            "\nsecret,ann,1\n,bob,2\n",
            ["empty token has been found in token file '{}', record number '2'"],
        ),
        ("secret,ann,1\nsecret,bob,2\n", ["duplicate token has been found in token file '{}', record number '2'"]),
    ],
)
def test_odd_token_file_is_told_of(
    content: str, messages: list[str], tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    """Empty and repeated tokens are told of as kube-apiserver does it, and so is a file without any."""
    tokens = tmp_path / "tokens.csv"
    tokens.write_text(content)
    with caplog.at_level(logging.WARNING, "understudy"):
        Server(token_auth_file=tokens, tls=False)
    assert caplog.messages == [message.format(tokens) for message in messages]


def test_empty_token_lets_nobody_in(tmp_path: Path) -> None:
    """A record with an empty token is left out; the kubeconfig has the first token that is none."""
    tokens = tmp_path / "tokens.csv"
    tokens.write_text(",bob,2\nsecret,ann,1\n")
    with Server(token_auth_file=tokens, tls=False) as server:
        assert send(server, "GET", "/readyz", headers={"Authorization": "Bearer "}).status == 401
        assert '"token": "secret"' in server.kubeconfig.read_text()
        assert '"insecure-skip-tls-verify": true' in server.kubeconfig.read_text()


def test_start_imports_nothing_that_takes_long() -> None:
    """A server starts without what few requests need: these libraries, CEL's compiler, and the rules of kinds."""
    heavy = {
        "aiohttp",
        "cryptography",
        "email.utils",
        "html",
        "importlib.resources",
        "jsonschema",
        "re2",
        "ruamel",
        "tempfile",
        "trustme",
        "understudy.admission.plugins.ordered",
        "understudy.apiserver.endpoints.openapi.v3",
        "understudy.cel.compiler",
        "understudy.kinds.apiextensions.schemas",
        "understudy.kinds.core.namespaces.strategy",
        "understudy.machinery.golang.x509.x509",
        "yarl",
        "yaml",
    }
    code = f"import sys\nfrom understudy import Server\nwith Server(): print({heavy!r} & set(sys.modules) or 'none')"
    assert subprocess.run([sys.executable, "-c", code], capture_output=True, text=True).stdout == "none\n"


def test_reset_amid_the_end_leaves_nothing_behind() -> None:
    """A server that is stopped while it is reset waits for that, and takes no other: no task is left."""

    async def scenario() -> None:
        server = Server(controllers=["garbage-collector", "namespace"])
        await server.start()
        resets = [asyncio.create_task(server._lifecycle.reset()) for _ in range(3)]
        await asyncio.sleep(0)
        await server.stop()
        outcomes = await asyncio.gather(*resets, return_exceptions=True)
        assert [type(outcome) for outcome in outcomes] == [type(None), RuntimeError, RuntimeError]
        assert asyncio.all_tasks() == {asyncio.current_task()}

    asyncio.run(scenario())


@pytest.mark.parametrize("use", [lambda server: server.kubeconfig, lambda server: server.user("ann")])
def test_server_that_has_not_been_started_cannot_be_reached(use: Callable[[Server], object]) -> None:
    """A server without an address has no kubeconfig, and no users: that is an error, not a file that leads nowhere."""
    with pytest.raises(RuntimeError, match="the server is not running"):
        use(Server())
