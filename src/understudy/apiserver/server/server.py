"""A server: options in, an address out.

    with Server(emulated_version="1.32") as server:              # in a thread of its own
        requests.get(f"{server.url}/api/v1/nodes")

    async with Server() as server: ...                           # the same, for async code

Serving is in `http`, answering in `director`; this module owns the life cycle: listening, loading, resetting, ending.
"""

from __future__ import annotations

import asyncio
import base64
import inspect
import logging
import os
from abc import abstractmethod
from collections.abc import Callable, Coroutine, Iterable, Mapping, Sequence
from contextlib import suppress
from functools import partial
from ipaddress import ip_address
from pathlib import Path
from typing import Any, Concatenate, ParamSpec, Self, TypeVar

from understudy.apiserver.authentication.errors import ProviderError
from understudy.apiserver.authentication.loopback import LoopbackTokens
from understudy.apiserver.client import writing
from understudy.apiserver.client.connection import Connection
from understudy.apiserver.client.frames import Frames
from understudy.apiserver.client.kind_names import RequestError
from understudy.apiserver.client.kubeconfig import KubeconfigPath, TemporaryKubeconfigs, write_kubeconfig
from understudy.apiserver.client.loopback import USER_AGENT, Client, ClientBuilder, Stop
from understudy.apiserver.client.manifests import LoadError
from understudy.apiserver.client.objects import ObjectAccess, Use
from understudy.apiserver.client.server_user import ServerUser
from understudy.apiserver.controllers import ControllerManager, Controllers
from understudy.apiserver.controllers.controller import APISERVER_AGENT, ControllerContext
from understudy.apiserver.endpoints.object_interfaces import RegistryObjects
from understudy.apiserver.endpoints.request import WatchSource
from understudy.apiserver.endpoints.server_state import ServerState
from understudy.apiserver.permissions.judge import Judge
from understudy.apiserver.permissions.report import PermissionReport, Permissions
from understudy.apiserver.permissions.roles import role_with_binding
from understudy.apiserver.server.bootstrap import fill, flow_control, policy
from understudy.apiserver.server.director import Director
from understudy.apiserver.server.filters.hints import Hints
from understudy.apiserver.server.filters.request_log import RequestLog
from understudy.apiserver.server.http.listener import Listener, listening_socket
from understudy.apiserver.server.options.config import ServerConfig
from understudy.apiserver.server.pages.control import Control
from understudy.apiserver.server.pages.loop_pauses import LoopPauses
from understudy.apiserver.server.webhooks.functions import FunctionWebhooks, WebhookFunction, WebhookOptions
from understudy.apiserver.server.wiring import new_authenticator, new_parts
from understudy.apiserver.server.worker.loop_thread import FORKED, LoopThread
from understudy.apiserver.storage.compaction import compact_periodically
from understudy.machinery.auth.users import ACCOUNT, MASTERS, User, account_groups
from understudy.machinery.errors import StatusError
from understudy.machinery.releases.version import Version
from understudy.machinery.types import Obj
from understudy.machinery.util.spelling import did_you_mean

log = logging.getLogger("understudy")
KEYS_INTERVAL = 10.0  # seconds after which an issuer whose keys are not known is asked again
ADMIN = User("system:admin", [MASTERS])
T = TypeVar("T")
P = ParamSpec("P")
F = TypeVar("F", bound=WebhookFunction)


def _configured_by(
    config: Callable[P, ServerConfig],
) -> Callable[[Callable[[Server, ServerConfig], None]], Callable[Concatenate[Server, P], None]]:
    """Let `Server(…)` take the options of a configuration as its own keyword arguments."""

    def decorate(init: Callable[[Server, ServerConfig], None]) -> Callable[Concatenate[Server, P], None]:
        def init_from_options(self: Server, /, *args: P.args, **options: P.kwargs) -> None:
            for name in options.keys() - signature.parameters.keys():
                raise TypeError(f"Server has no option {name!r}{did_you_mean(name, signature.parameters)}")
            init(self, config(*args, **options))

        signature = inspect.signature(config)
        own = inspect.Parameter("self", inspect.Parameter.POSITIONAL_ONLY)
        parameters = [own, *signature.parameters.values()]
        init_from_options.__signature__ = signature.replace(parameters=parameters)  # type: ignore[attr-defined]
        return init_from_options

    return decorate


class Server(ObjectAccess):
    """A stand-in for kube-apiserver. Its options are those of `ServerConfig`.

    Raises ValueError for options that make no sense, OSError for a port that is taken, LoadError for a manifest.
    """

    @_configured_by(ServerConfig)
    def __init__(self, config: ServerConfig) -> None:
        self._config = config
        self._certificates = config.certificates
        self._controller_manager = self._new_controller_manager(config.controllers, config.release.version)
        self.state = self._new_state()
        self._started = self._is_stopping = False
        self._changing = asyncio.Lock()  # held by a reset and by the end of the server
        self._thread: LoopThread | None = None
        self._kubeconfigs = TemporaryKubeconfigs()
        self._tokens = LoopbackTokens()
        self.request_log = RequestLog()
        self._pauses = LoopPauses()
        self._clients: ClientBuilder | None = None
        self.url = ""
        self._port = config.port
        self._listener: Listener | None = None
        self._controllers: Controllers | None = None
        self._hints: Hints | None = None
        self._periodic: list[asyncio.Task[None]] = []
        self._client: Client | None = None
        self._apiserver: Client | None = None
        self._admin_token = ""

    def __repr__(self) -> str:
        where = f"at {self.url}" if self._listener is not None else "that does not run"
        return f"<Server of Kubernetes {self._config.release.version} {where}>"

    def _new_state(self) -> ServerState:
        """Return the state of a server that has not started yet."""
        self._functions = FunctionWebhooks()
        state, self._webhooks, self._definitions = new_parts(self._config)
        return state

    # --- lifecycle --------------------------------------------------------------------------------------------

    async def start(self) -> None:
        """Load what the server begins with, and listen, in the running event loop.

        A server that has been stopped can be started again; it has a new `state`, with a new store.
        """
        if self._started:
            self.state = self._new_state()
        self._started = True
        self._is_stopping, self._changing = False, asyncio.Lock()
        config = self._config
        sock = listening_socket(config.bind_address, config.port)
        try:
            host, self._port = sock.getsockname()[:2]
            self._warn_of_openness(host)
            address = f"[{host}]:{self._port}" if ":" in host else f"{host}:{self._port}"
            url = f"{'https' if self._certificates else 'http'}://{address}"
            context, asks = self._certificates.context(), bool(config.client_ca_file)
            director, self._controllers = self._connect(url)
            self._webhooks.open()
            if self.state.tokens.jwt_authenticators:
                await self._discover_issuers()
            await self._fill()
            self._listener = Listener(director, sock, context, asks_for_certificates=asks)
            await self._listener.start()
            self.url = url
            self._controllers.start_components()
        except BaseException:
            sock.close()
            await self._stop_background_tasks()
            raise

    def _warn_of_openness(self, host: str) -> None:
        """Log who may do everything, if others than the programs of this machine may, or may even use /understudy/."""
        config = self._config
        if config.authenticated or (ip_address(host).is_loopback and not config.control):
            return
        address = f"{host} port {self._port}"
        control = " and may change and reset it under /understudy/" if config.control else ""
        log.warning("without --token-auth-file everybody who reaches %s is an administrator%s", address, control)

    def _connect(self, url: str) -> tuple[Director, Controllers]:
        """Build the front door, and the clients that go through it from the inside."""
        tokens = self._tokens = LoopbackTokens()
        config = self._config
        authenticator = new_authenticator(config, self.state, tokens)
        control = Control(self.state, self._reset) if config.control else None
        flags = config.flags()
        hints = self._hints = Hints(self.state, self._controller_manager.names)
        director = Director(
            self.state, authenticator, url, control, config.accepted_hosts, flags, hints, self.request_log, self._pauses
        )
        clients = self._clients = ClientBuilder(director, self.state, tokens, self._send_watch)
        self._client, self._apiserver = clients.client(USER_AGENT), clients.client(APISERVER_AGENT)
        self._admin_token = tokens.issue(ADMIN) if config.authenticated and config.tokens is None else ""
        authority = (self._authority() or b"").decode()
        context = ControllerContext(self.state, clients, self._component_connection, authority)
        return director, Controllers(context, self._controller_manager)

    @abstractmethod
    def _new_controller_manager(self, names: Iterable[str], version: Version) -> ControllerManager:
        """Return the controllers with some names that are not the API server's own. Raises ValueError."""

    def _component_connection(self, user: User) -> Connection:
        self.request_log.components.add(user.name)
        return self._connection(self._tokens.issue(user))

    async def _discover_issuers(self) -> None:
        """Ask other issuers where their keys are; those that do not answer are asked again later."""
        for authenticator in self.state.tokens.jwt_authenticators:
            if not authenticator.key_set.is_initialized:
                try:
                    await asyncio.to_thread(authenticator.key_set.discover)
                except ProviderError as error:
                    log.error("oidc authenticator: initializing plugin: %s", error)

    async def _discover_issuers_periodically(self) -> None:
        while not all(authenticator.key_set.is_initialized for authenticator in self.state.tokens.jwt_authenticators):
            await asyncio.sleep(KEYS_INTERVAL)
            await self._discover_issuers()

    async def stop(self) -> None:
        """End watches and connections, stop listening and stop the controllers. A reset that runs comes to its end."""
        self._is_stopping = True
        async with self._changing:
            await self._stop()

    async def _stop(self) -> None:
        try:
            if self._controllers is not None:
                await self._controllers.stop_components()  # which are clients, and would complain
        finally:
            listener, self._listener = self._listener, None
            if listener is not None:
                await listener.stop()
            await self._webhooks.close()  # threads that wait for one would not end before it answers
            if listener is not None:
                await listener.finish()
        self._kubeconfigs.delete()
        await self._stop_background_tasks()
        await self._functions.stop()
        if self._config.permission_report is not None:
            self._permission_report().write(Path(self._config.permission_report))

    def _start_background_tasks(self) -> None:
        """Start the controllers, the upkeep of flow control and the compaction of history."""
        assert self._controllers is not None
        assert self._apiserver is not None
        self._controllers.start()
        periodic = [flow_control.ensure_periodically(self._apiserver, self.state, asyncio.sleep)]
        if interval := self._config.compaction_seconds:
            periodic.append(compact_periodically(self.state.registry.store, interval, asyncio.sleep))
        periodic.append(self._pauses.measure())
        if self.state.tokens.jwt_authenticators:
            periodic.append(self._discover_issuers_periodically())
        self._periodic = [asyncio.create_task(coroutine) for coroutine in periodic]

    async def _stop_background_tasks(self) -> None:
        """Stop what runs beside requests. Raises the error that has ended one of the tasks before."""
        if self._hints is not None:
            self._hints.forget()
        periodic, self._periodic = self._periodic, []
        for task in periodic:
            task.cancel()
            with suppress(asyncio.CancelledError):
                await task
        if self._controllers is not None:
            await self._controllers.stop()

    def __enter__(self) -> Self:
        if self._thread is not None:
            raise RuntimeError(f"the server is running already, at {self.url}")
        thread = LoopThread()
        try:
            thread.run(self.start())
        except BaseException:
            thread.end()
            raise
        self._thread = thread
        return self

    def __exit__(self, *_: object) -> None:
        assert self._thread is not None
        thread, self._thread = self._thread, None
        if not thread.is_forked:  # else the server goes on, in the process that started it
            thread.run(self.stop())
            thread.end()

    async def __aenter__(self) -> Self:
        """Start the server in a thread of its own, so that code that blocks the event loop can ask it."""
        return await asyncio.to_thread(self.__enter__)

    async def __aexit__(self, *_: object) -> None:
        await asyncio.to_thread(self.__exit__)

    async def _fill(self) -> None:
        """Store what the server begins with. The controllers run already when manifests are loaded."""
        assert self._client is not None
        await fill.fill(self.state, self._port)
        if self._config.has_bootstrap_policy:
            assert self._apiserver is not None
            await policy.ensure_policy(self._apiserver, self.state.release, self.state.gates)
        self._start_background_tasks()
        for manifest in self._config.load:
            await writing.load(self._client, asyncio.sleep, manifest)

    async def _reset(self) -> None:
        """Make the server as it was at the start. Raises RuntimeError for one that is stopping."""
        self._refuse_if_stopping()  # it waits for the requests that wait for this
        async with self._changing:
            self._refuse_if_stopping()
            await self._begin_anew()

    def _refuse_if_stopping(self) -> None:
        if self._is_stopping:
            raise RuntimeError("the server is stopping")

    async def _begin_anew(self) -> None:
        if self._controllers is not None:
            await self._controllers.stop_components()
        if self._listener is not None:
            self._listener.end_watches()
        await self._stop_background_tasks()
        await self.state.registry.store.clear()
        self._functions.forget()
        self.state.gates.reset(self._config.feature_gates or {})
        if self._config.permission_report is None:  # else the report is of all that the server was asked
            self.state.permissions.clear()
        await self._fill()
        if self._controllers is not None:
            self._controllers.start_components()

    # --- use --------------------------------------------------------------------------------------------------

    @property
    def kubeconfig(self) -> KubeconfigPath:
        """Return the path of a file (mode 0600) that points here: a `str` with the methods of `pathlib.Path`.

        The file is deleted with the server.
        """
        return self._kubeconfigs.path(self._first_connection())

    def write_kubeconfig(self, path: str | os.PathLike[str]) -> None:
        """Write a kubeconfig (mode 0600) that points here, with the first token of the token file.

        Without such a file it is that of an administrator, if requests are authorized.
        """
        write_kubeconfig(path, self._first_connection())

    def _first_connection(self) -> Connection:
        return self._connection(next(iter(self.state.tokens.users), self._admin_token))

    def _connection(self, token: str) -> Connection:
        return Connection(url=self.url, certificate_authority=self._authority(), token=token)

    def _authority(self) -> bytes | None:
        """Return the certificates (PEM) that clients have to trust, None for plain HTTP."""
        authority = self._certificates.authority
        return base64.b64decode(authority) if authority else None

    def user(self, name: str, groups: Iterable[str] = ()) -> ServerUser:
        """Return a user, with a token and a kubeconfig, who may do what its roles allow; see `allow`.

            driver = server.user("driver", groups=["drivers"])
            driver.list("pods")                                # as that user
            subprocess.run(["driver", "--kubeconfig", driver.kubeconfig])

        From now on the server notes what its clients ask for; see `permissions`. A service account
        ("system:serviceaccount:NAMESPACE:NAME") is in its groups without saying so. kubectl and client-go send tokens
        over HTTPS only: the server speaks it with `authorization_mode` or `tls=True`.
        """
        assert self._clients is not None, "the server is not running"
        self.state.permissions.on = True
        user = User(name, [*groups, *_groups_of_account(name)])
        token = self._tokens.issue(user)
        client, kubeconfig = self._clients.external(token), self._kubeconfigs.path(self._connection(token))
        server_user = ServerUser(name, user.groups, token, kubeconfig, partial(self._ask_as, client))
        server_user.manifest_folder = self.manifest_folder
        return server_user

    def allow(
        self, user: str, verbs: str | Iterable[str], resources: str | Iterable[str], *, namespace: str = ""
    ) -> list[Obj]:
        """Let a user do something, in one namespace or ("") everywhere; return the role and its binding as stored.

            server.allow("driver", ["get", "list", "watch"], ["pods", "resourceclaims.resource.k8s.io"])
            server.allow("driver", "update", "resourceclaims.resource.k8s.io/status", namespace="default")

        resources  "pods", "pods/status", "deployments.apps", "*", or paths such as "/metrics"
        """
        __tracebackhide__ = True
        return self.apply(role_with_binding(user, _texts(verbs), _texts(resources), namespace))

    def permissions(self, user: str) -> Permissions:
        """Return what a user has asked for, since the start or since `reset`, and the smallest role for it.

            permissions = server.permissions("driver")
            assert permissions.refused == []
            server.apply(permissions.role())

        Raises RuntimeError if nothing was noted: neither `user` nor the option `permission_report` said so.
        """
        if not self.state.permissions.on:
            raise RuntimeError("nothing is noted: make a user with `user`, or start with `permission_report`")
        return self._permission_report().of(user)

    def _permission_report(self) -> PermissionReport:
        return PermissionReport(self.state.permissions, self._judge(), allows_everything=not self._config.authorized)

    def _judge(self) -> Judge:
        state = self.state
        objects = RegistryObjects(state.registry, state.schemas)
        return Judge(objects, state.release.version, state.gates)

    def webhook(
        self,
        *resources: str,
        operations: Sequence[str] = ("CREATE", "UPDATE"),
        mutating: bool = False,
        name: str = "",
        failure_policy: str = "Fail",
        timeout_seconds: int = 10,
        **fields: Any,
    ) -> Callable[[F], F]:
        """Let the server ask a Python function about requests, as an admission webhook. It is a decorator.

            @server.webhook("pods", operations=["CREATE"])
            def only_signed(request):
                if "signed" not in request["object"]["metadata"].get("labels", {}):
                    return "sign it first"

        The function gets the AdmissionRequest. It may block, ask this server, and be a coroutine function. It returns
        None or True to let the request pass, False or a text to refuse it, a JSON patch (a list) if it is mutating,
        or fields of an AdmissionResponse. An error in it counts as a failed call, for which `failure_policy` stands.

        resources  "pods", "pods/status", "deployments.apps", "*.example.com"; at least one
        name       of the configuration; the function's own by default, with dashes
        fields     further fields of the webhook, such as `namespaceSelector={…}`

        It is in force until `reset`, or until its configuration is deleted. Raises ValueError for a name that is taken.
        """
        options = WebhookOptions(
            resources=resources,
            operations=operations,
            mutating=mutating,
            failure_policy=failure_policy,
            timeout_seconds=timeout_seconds,
            fields=fields,
        )

        def register(function: F) -> F:
            configuration = name or getattr(function, "__name__", "webhook").replace("_", "-")
            self.apply(self._run(self._functions.configuration(configuration, function, options)))
            return function

        return register

    def reset(self) -> None:
        """Make the server as it was at the start: objects, revisions and feature gates. Open watches end."""
        self._run(self._reset())

    def compact(self) -> None:
        """Forget history up to now: watches and continue tokens from before it expire."""
        store = self.state.registry.store
        self._run(store.compact(store.revision))

    def set_feature_gates(self, changes: Mapping[str, bool]) -> dict[str, bool]:
        """Turn gates on and off; return all that are in force. Raises UnknownGateError."""
        if self._thread is not None and self._thread.is_forked:
            raise RuntimeError(FORKED)
        self.state.gates.set(changes)
        return self.state.gates.in_force()

    def _send_watch(self, source: WatchSource, frames: Frames) -> Stop:
        """Begin to send a watch to a thread of this process; return what ends it, from any thread."""
        assert self._listener is not None, "the server is not running"
        return self._listener.send_watch(source, frames)

    def _ask(self, use: Use[T]) -> T:
        __tracebackhide__ = True
        if self._client is None:
            raise RuntimeError("the server is not running")
        return self._ask_as(self._client, use)

    def _ask_as(self, client: Client, use: Use[T]) -> T:
        """Let a client ask. Errors of the server leave without the frames that they went through."""
        __tracebackhide__ = True
        try:
            return self._run(use(client, asyncio.sleep))
        except (StatusError, LoadError, RequestError) as error:
            raise error.with_traceback(None) from None

    def _run(self, coroutine: Coroutine[Any, Any, T]) -> T:
        if self._thread is None:
            coroutine.close()
            raise RuntimeError("the server does not run in a thread: use it as a context manager")
        return self._thread.run(coroutine)


def _groups_of_account(user: str) -> Sequence[str]:
    """Return the groups of a service account, none for other users."""
    namespace, colon, _ = user.removeprefix(ACCOUNT).partition(":")
    return account_groups(namespace) if user.startswith(ACCOUNT) and colon else ()


def _texts(texts: str | Iterable[str]) -> Sequence[str]:
    return [texts] if isinstance(texts, str) else list(texts)
