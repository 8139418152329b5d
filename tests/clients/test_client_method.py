"""Clients that `client` of a server makes of the libraries that are installed."""

from __future__ import annotations

import sys
from typing import Any

import pytest

from understudy import Server

kubernetes = pytest.importorskip("kubernetes", reason="the client `kubernetes` is not installed")
asynchronous = pytest.importorskip("kubernetes_asyncio", reason="the client `kubernetes_asyncio` is not installed")
kr8s = pytest.importorskip("kr8s", reason="the client `kr8s` is not installed")
lightkube = pytest.importorskip("lightkube", reason="the client `lightkube` is not installed")
core = pytest.importorskip("lightkube.resources.core_v1")
# kr8s forgets to close the files that it writes keys to, which Python tells of since 3.14.
pytestmark = pytest.mark.filterwarnings("ignore:Implicitly cleaning up <_TemporaryFileWrapper:ResourceWarning")

USER = pytest.mark.apiserver(emulated_version="1.35", authorization_mode="RBAC")  # kr8s 0.20 warns of any later one


def whoever(server: Server, whose: str) -> Any:
    """Return the server, or a user of it who may read namespaces."""
    if whose == "server":
        return server
    server.allow("ann", ["get", "list"], "namespaces")
    return server.user("ann")


@USER
@pytest.mark.parametrize("whose", ["server", "user"])
def test_blocking_clients(apiserver: Server, whose: str) -> None:
    """Libraries without coroutines, of the server and of a user."""
    access = whoever(apiserver, whose)
    with access.client() as api:
        assert kubernetes.client.CoreV1Api(api).read_namespace("default").metadata.name == "default"
    with access.client("lightkube") as lib:
        assert lib.get(core.Namespace, "default").metadata.name == "default"
    kr8s_api = access.client("kr8s")
    assert [namespace.name for namespace in kr8s_api.get("namespaces", "default")] == ["default"]
    pytest.importorskip("kr8s._async_utils").as_sync_func(kr8s_api._session.aclose)()
    if whose == "user":
        assert apiserver.requests.where(user="ann", status=200)


@USER
async def test_clients_with_coroutines(apiserver: Server) -> None:
    """Libraries with coroutines, in a running event loop."""
    async with await apiserver.client("kubernetes_asyncio") as api:
        assert (await asynchronous.client.CoreV1Api(api).read_namespace("default")).metadata.name == "default"
    async with apiserver.client("lightkube.AsyncClient") as lib:
        assert (await lib.get(core.Namespace, "default")).metadata.name == "default"
    kr8s_api: Any = await apiserver.client("kr8s.asyncio")
    assert [namespace.name async for namespace in kr8s_api.get("namespaces", "default")] == ["default"]
    await kr8s_api._session.aclose()


def test_unknown_and_missing_libraries(apiserver: Server, monkeypatch: pytest.MonkeyPatch) -> None:
    """A name that is misspelt, and a library that is not installed, are told in one line."""
    with pytest.raises(ValueError, match="not 'kubernets'; did you mean 'kubernetes'"):
        apiserver.client("kubernets")  # type: ignore[call-overload]
    monkeypatch.setitem(sys.modules, "lightkube", None)
    with pytest.raises(ModuleNotFoundError, match=r"^lightkube is not installed: pip install lightkube$"):
        apiserver.client("lightkube")
