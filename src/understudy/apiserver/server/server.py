"""A server: options in, an address out.

    with Server(emulated_version="1.32") as server:              # in a thread of its own
        requests.get(f"{server.url}/api/v1/nodes")

    async with Server() as server: ...                           # the same, for async code

Serving is in `http`, answering in `dispatch`; this module owns the lifecycle: listening, loading, resetting, ending.
"""

from __future__ import annotations

import asyncio
import os
import socket
import tempfile
import threading
from collections.abc import Coroutine, Iterable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, Self, TypeVar

import orjson

from understudy.apiserver.authentication.authenticator import Authenticator, read_tokens
from understudy.apiserver.client.loopback import Client
from understudy.apiserver.controllers import Controllers
from understudy.apiserver.endpoints.scope import ServerState
from understudy.apiserver.kinds.release import DEFAULT, Release
from understudy.apiserver.registry.store import Registry
from understudy.apiserver.server.bootstrap import fill
from understudy.apiserver.server.director import Dispatcher
from understudy.apiserver.server.pages.control import Control
from understudy.apiserver.server.tls import Certificates
from understudy.apiserver.storage.memory import MemoryStore
from understudy.machinery.clock import Clock, SystemClock
from understudy.machinery.releases.features import Gates
from understudy.machinery.types import Obj

if TYPE_CHECKING:
    from understudy.apiserver.server.listener import Listening

T = TypeVar("T")


class Server:
    """A stand-in for kube-apiserver.

    emulated_version  the release that it answers like: "1.31", "1.32"
    feature_gates     {gate: on}; AllAlpha and AllBeta too. Others have their release's defaults
    runtime_config    {"resource.k8s.io/v1alpha3": False, …} switches group-versions off (all are on)
    load              manifests to begin with: paths of files or folders, texts, objects
    bind_address, port  where to listen; port 0 takes a free one
    tls               True for a self-signed certificate; or give `tls_cert_file` and `tls_private_key_file`
    token_auth_file   a file of tokens; without it everybody may do everything
    control           whether /understudy/ is served
    controllers       which run behind the server, as kube-controller-manager's: "namespace", "garbage-collector"
    clock             what tells the time (`machinery.clock.Clock`); the machine's by default

    Raises ValueError for options that make no sense, OSError for a port that is taken, LoadError for a manifest.
    """

    def __init__(
        self,
        *,
        emulated_version: str = DEFAULT,
        feature_gates: Mapping[str, bool] | None = None,
        runtime_config: Mapping[str, bool] | None = None,
        load: Sequence[str | os.PathLike[str] | Obj] = (),
        bind_address: str = "127.0.0.1",
        port: int = 0,
        tls: bool = False,
        tls_cert_file: str | os.PathLike[str] | None = None,
        tls_private_key_file: str | os.PathLike[str] | None = None,
        token_auth_file: str | os.PathLike[str] | None = None,
        control: bool = False,
        controllers: Sequence[str] = (),
        clock: Clock | None = None,
    ) -> None:
        release = Release.named(emulated_version).served(runtime_config or {})
        tokens = read_tokens(Path(token_auth_file)) if token_auth_file else None
        self._gates_at_start = dict(feature_gates or {})
        self._load = list(load)
        self._address = (bind_address, port)
        self._tls = Certificates(tls, tls_cert_file, tls_private_key_file)
        gates = Gates.of(release.version, self._gates_at_start)
        self.state = ServerState(
            release, gates, Registry(MemoryStore(), release), tokens=tokens or {}, clock=clock or SystemClock()
        )
        self._authenticator = Authenticator(tokens, self.state.user_of, anonymous=not self._tls)
        self._control = control
        self._controllers = Controllers(self.state, controllers)
        self._thread: _Thread | None = None
        self._kubeconfig: Path | None = None
        self.url = ""
        self._port = port
        self._listening: Listening | None = None
        self._dispatcher: Dispatcher | None = None

    # --- lifecycle --------------------------------------------------------------------------------------------

    async def start(self) -> None:
        """Listens, in the running event loop, once everything is loaded."""
        from understudy.apiserver.server.listener import Listening  # aiohttp, which only a server that listens needs

        sock = _bound(*self._address)
        try:
            host, port = sock.getsockname()[:2]
            shown = f"[{host}]" if ":" in host else host
            control = Control(self.state, self._emptied) if self._control else None
            url = f"{'https' if self._tls else 'http'}://{shown}:{port}"
            self._dispatcher = Dispatcher(self.state, self._authenticator, url, control)
            self._port = port
            await self._fill()
            self._listening = Listening(self._dispatcher, sock, self._tls.context())
            await self._listening.start()
            self._controllers.start()
        except BaseException:
            sock.close()
            raise
        self.url = url

    async def stop(self) -> None:
        """Ends watches and connections, and stops listening."""
        if self._listening is not None:
            await self._listening.stop()
            self._listening = None
        if self._kubeconfig is not None:
            self._kubeconfig.unlink(missing_ok=True)
            self._kubeconfig = None
        await self._controllers.stop()

    def __enter__(self) -> Self:
        self._thread = _Thread()
        try:
            self._thread.run(self.start())
        except BaseException:
            self._thread.end()
            raise
        return self

    def __exit__(self, *_: object) -> None:
        assert self._thread is not None
        self._thread.run(self.stop())
        self._thread.end()
        self._thread = None

    async def __aenter__(self) -> Self:
        """The server runs in a thread of its own here too, so that code that blocks the event loop can ask it."""
        return await asyncio.to_thread(self.__enter__)

    async def __aexit__(self, *_: object) -> None:
        await asyncio.to_thread(self.__exit__)

    async def _fill(self) -> None:
        await fill.fill(self.state, self._port)
        assert self._dispatcher is not None
        client = self._client()
        for source in self._load:
            await client.load(source)

    async def _emptied(self) -> None:
        if self._listening is not None:
            self._listening.end_watches()
        await self._controllers.stop()
        self.state.registry.store = MemoryStore()
        self.state.gates.reset(self._gates_at_start)
        await self._fill()
        self._controllers.start()

    # --- use --------------------------------------------------------------------------------------------------

    @property
    def kubeconfig(self) -> Path:
        """A file (mode 0600) that points here; it goes with the server."""
        if self._kubeconfig is None:
            handle, name = tempfile.mkstemp(prefix="understudy-", suffix=".kubeconfig")
            os.close(handle)
            self._kubeconfig = Path(name)
            self.write_kubeconfig(self._kubeconfig)
        return self._kubeconfig

    def write_kubeconfig(self, path: str | os.PathLike[str]) -> None:
        """Writes one, mode 0600, that points here."""
        cluster: Obj = {"server": self.url}
        if self._tls.authority:
            cluster["certificate-authority-data"] = self._tls.authority
        token = self._authenticator.any_token
        content = {
            "apiVersion": "v1",
            "kind": "Config",
            "clusters": [{"name": "understudy", "cluster": cluster}],
            "users": [{"name": "understudy", "user": {"token": token} if token else {}}],
            "contexts": [{"name": "understudy", "context": {"cluster": "understudy", "user": "understudy"}}],
            "current-context": "understudy",
        }
        descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600)
        with os.fdopen(descriptor, "wb") as file:
            os.fchmod(file.fileno(), 0o600)
            file.write(orjson.dumps(content, option=orjson.OPT_INDENT_2) + b"\n")

    def apply(self, *manifests: str | os.PathLike[str] | Obj | Iterable[Obj]) -> list[Obj]:
        """Creates or updates objects from paths, YAML or JSON texts, and dicts; answers them as stored, in order."""
        found: list[Obj] = self._do(lambda client: client.apply(*manifests))
        return found

    def get(self, kind: str, name: str, namespace: str = "default") -> Obj:
        """An object by its kind or resource ("ResourceClaim", "pods", "deploy"). Raises StatusError (404)."""
        found: Obj = self._do(lambda client: client.get(kind, name, namespace))
        return found

    def list(self, kind: str, namespace: str = "", *, labels: str = "", fields: str = "") -> list[Obj]:
        """Objects of a kind, of one namespace or of all."""
        found: list[Obj] = self._do(lambda client: client.list(kind, namespace, labels, fields))
        return found

    def delete(self, kind: str, name: str, namespace: str = "default") -> None:
        """Deletes an object. Raises StatusError (404)."""
        self._do(lambda client: client.delete(kind, name, namespace))

    def reset(self) -> None:
        """As new: what was loaded at the start, and nothing else; gates as at the start; open watches end."""
        self._run(self._emptied())

    def compact(self) -> None:
        """Forgets history up to now: watches and continue tokens from before it expire."""
        store = self.state.registry.store
        self._run(store.compact(store.revision))

    def set_feature_gates(self, changes: Mapping[str, bool]) -> dict[str, bool]:
        """Turns gates on and off, and answers all that are in force. Raises UnknownGateError."""
        self.state.gates.set(changes)
        return self.state.gates.in_force()

    def _client(self) -> Client:
        assert self._dispatcher is not None
        return Client(self._dispatcher, self.state.release, self._dispatcher.token)

    def _do(self, what: Any) -> Any:
        if self._dispatcher is None:
            raise RuntimeError("the server is not running")
        return self._run(what(self._client()))

    def _run(self, coroutine: Coroutine[Any, Any, T]) -> T:
        if self._thread is None:
            coroutine.close()
            raise RuntimeError("the server does not run in a thread: use it as a context manager")
        return self._thread.run(coroutine)


class _Thread:
    """An event loop in a thread."""

    def __init__(self) -> None:
        self._loop = new_loop()
        self._thread = threading.Thread(target=self._loop.run_forever, name="understudy", daemon=True)
        self._thread.start()

    def run(self, coroutine: Coroutine[Any, Any, T]) -> T:
        return asyncio.run_coroutine_threadsafe(coroutine, self._loop).result()

    def end(self) -> None:
        self.run(self._loop.shutdown_asyncgens())
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join()
        self._loop.close()


def new_loop() -> asyncio.AbstractEventLoop:
    try:
        import uvloop
    except ImportError:  # Windows
        return asyncio.new_event_loop()
    return uvloop.new_event_loop()


def _bound(address: str, port: int) -> socket.socket:
    """A listening socket. Raises OSError with the address in it."""
    family = socket.AF_INET6 if ":" in address else socket.AF_INET
    sock = socket.socket(family, socket.SOCK_STREAM)
    try:
        sock.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        sock.bind((address, port))
        sock.listen(1024)
    except OSError as why:
        sock.close()
        raise OSError(f"cannot listen on {address}:{port}: {why.strerror}") from None
    sock.setblocking(False)
    return sock
