"""What is needed for the first time, and takes long to load or to make, keeps no event loop waiting."""

from __future__ import annotations

import threading
from collections.abc import Callable
from importlib import import_module
from typing import Any

import pytest

from tests.apiserver.server.http2.client import Client
from tests.http import send
from understudy import Server
from understudy.admission.webhooks import Call, Caller, CallError, Target
from understudy.apiserver.authentication import jose
from understudy.apiserver.server.webhooks import certificates
from understudy.apiserver.server.webhooks.client import HttpWebhookClient
from understudy.apiserver.server.webhooks.services import ServiceResolver
from understudy.apiserver.server.worker import loading
from understudy.apiserver.server.worker.executor import PLUGINS
from understudy.kinds.behaviors import module_of
from understudy.machinery.releases.version import V1_37

NAMESPACE = "/api/v1/namespaces/default"
LOOP = "understudy"  # the thread of the server's event loop


class Recorded:
    """Calls a function, and notes the name of the thread and what it was called with."""

    def __init__(self, function: Callable[..., Any]) -> None:
        self._function = function
        self.calls: list[tuple[object, ...]] = []
        self.threads: list[str] = []

    def __call__(self, *args: Any) -> Any:
        self.calls.append(args)
        self.threads.append(threading.current_thread().name)
        return self._function(*args)


def test_plugins_and_rules_are_imported_beside_the_loop(server: Server, monkeypatch: pytest.MonkeyPatch) -> None:
    """The first write waits for the plugins of admission and the rules of its kind; a thread imports them, once."""
    recorded = Recorded(import_module)
    monkeypatch.setattr(loading, "import_module", recorded)
    monkeypatch.setattr(loading, "_loaded", set())
    assert send(server, "GET", f"{NAMESPACE}/configmaps").status == 200
    assert recorded.calls == []
    for name in "ab":
        assert send(server, "POST", f"{NAMESPACE}/configmaps", {"metadata": {"name": name}}).status == 201
    assert recorded.calls == [(PLUGINS,), (module_of("", "ConfigMap"),)]
    assert LOOP not in recorded.threads


def test_http2_is_imported_beside_the_loop(monkeypatch: pytest.MonkeyPatch) -> None:
    """The first connection of HTTP/2 waits for its modules; a thread imports them, once."""
    recorded = Recorded(import_module)
    monkeypatch.setattr(loading, "import_module", recorded)
    monkeypatch.setattr(loading, "_loaded", set())
    with Server(tls=True) as server:
        for _ in range(2):
            with Client(server.url) as client:
                assert client.ask("GET", "/healthz").status == 200
    assert recorded.calls == [("understudy.apiserver.server.http2.connection",)]
    assert LOOP not in recorded.threads


@pytest.mark.parametrize("asked", ["/openid/v1/jwks", "/.well-known/openid-configuration", "token"])
def test_keys_of_tokens_are_made_beside_the_loop(server: Server, monkeypatch: pytest.MonkeyPatch, asked: str) -> None:
    """Whoever asks for keys or for a token first waits for a new key; a thread makes it, once."""
    recorded = Recorded(jose.new_private_key)
    monkeypatch.setattr(jose, "new_private_key", recorded)
    for _ in range(2):
        if asked == "token":
            path = f"{NAMESPACE}/serviceaccounts/a/token"
            send(server, "POST", f"{NAMESPACE}/serviceaccounts", {"metadata": {"name": "a"}})
            assert send(server, "POST", path, {"spec": {}}).status == 201
        else:
            assert send(server, "GET", asked).status == 200
    assert len(recorded.calls) == 1
    assert recorded.threads[0] != LOOP


async def test_http_client_is_imported_beside_the_loop(monkeypatch: pytest.MonkeyPatch) -> None:
    """The first call of a webhook waits for the HTTP client, which a thread imports."""
    recorded = Recorded(import_module)
    monkeypatch.setattr(loading, "import_module", recorded)
    monkeypatch.setattr(loading, "_loaded", set())
    client = HttpWebhookClient(ServiceResolver(lambda *_: None, lambda *_: (), {}), V1_37)
    target = Target("https://127.0.0.1:1/", "", None)
    for _ in range(2):
        assert isinstance((await client.call([Call(target, b"{}", 1, 1)]))[0].result, CallError)
    await client.close()
    assert len(recorded.calls) == 1
    assert recorded.threads[0] != threading.current_thread().name


async def test_contexts_are_made_beside_the_loop(monkeypatch: pytest.MonkeyPatch) -> None:
    """The first call of a webhook waits for the authorities of the system, which a thread reads, once."""
    recorded = Recorded(certificates._new_context)
    monkeypatch.setattr(certificates, "_new_context", recorded)
    monkeypatch.setattr(certificates, "_contexts", {})
    contexts = {await certificates.load_client_context("", f"{number % 2}", (), Caller()) for number in range(4)}
    assert len(contexts) == len(recorded.calls) == 2
    assert threading.current_thread().name not in recorded.threads
    used = certificates.client_context("", "0", (), Caller())
    monkeypatch.setattr(certificates, "_MOST_CONTEXTS", 2)
    new = certificates.client_context("", "2", (), Caller())
    assert [*certificates._contexts.values()] == [used, new]


def test_all_threads_have_one_key(server: Server, monkeypatch: pytest.MonkeyPatch) -> None:
    """A key that two threads need at once is made once: tokens of one would not be good for the other."""
    recorded, together = Recorded(jose.new_private_key), threading.Barrier(2)
    monkeypatch.setattr(jose, "new_private_key", recorded)
    accounts = server.state.tokens.accounts

    def make() -> None:
        together.wait()
        accounts.make_key()

    threads = [threading.Thread(target=make) for _ in range(2)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(recorded.calls) == 1
