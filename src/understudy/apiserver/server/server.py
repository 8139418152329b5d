"""A server: options in, an address out.

    with Server(emulated_version="1.32") as server:              # in its own thread
        requests.get(f"{server.url}/api/v1/nodes")

    async with Server() as server: ...                           # the same, for async code

This module has what users call. `lifecycle` starts and ends a server, `wiring` builds its parts from the options.
"""

from __future__ import annotations

import asyncio
import inspect
import os
from abc import abstractmethod
from collections.abc import Callable, Coroutine, Iterable, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, Concatenate, ParamSpec, Self, TypeVar

from understudy.apiserver.client.connection import Connection
from understudy.apiserver.client.external.access import ExternalClients
from understudy.apiserver.client.external.server_user import ServerUser
from understudy.apiserver.client.kind_names import RequestError
from understudy.apiserver.client.kubeconfig import KubeconfigPath, TemporaryKubeconfigs, write_kubeconfig
from understudy.apiserver.client.loopback import USER_AGENT, Client
from understudy.apiserver.client.manifests import LoadError
from understudy.apiserver.client.objects import ObjectAccess, Use
from understudy.apiserver.client.writing import Show
from understudy.apiserver.controllers import ControllerManager
from understudy.apiserver.endpoints.object_interfaces import RegistryObjects
from understudy.apiserver.endpoints.request import Request, Response
from understudy.apiserver.endpoints.server_state import ServerState
from understudy.apiserver.server.filters.faults.faults import Faults
from understudy.apiserver.server.filters.request_log.log import RequestLog
from understudy.apiserver.server.filters.request_log.requests import Requests
from understudy.apiserver.server.http.webhook_functions import WebhookFunction, WebhookOptions
from understudy.apiserver.server.lifecycle import Lifecycle, Snapshot
from understudy.apiserver.server.options.config import ServerConfig
from understudy.apiserver.server.worker.loop_thread import FORKED, LoopThread
from understudy.machinery.auth.users import ACCOUNT, User, account_groups
from understudy.machinery.errors import StatusError
from understudy.machinery.releases.version import Version
from understudy.machinery.types import Obj
from understudy.machinery.util.server_clock import ServerClock
from understudy.machinery.util.spelling import did_you_mean

if TYPE_CHECKING:
    from understudy.apiserver.permissions.report import PermissionReport, Permissions

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


class Server(ObjectAccess, ExternalClients):
    """A stand-in for kube-apiserver. Its options are those of `ServerConfig`.

    Raises ValueError for options that make no sense, OSError for a port that is taken, LoadError for a manifest.
    """

    @_configured_by(ServerConfig)
    def __init__(self, config: ServerConfig) -> None:
        self._config = config
        manager = self._new_controller_manager(config.controllers, config.release.version)
        self._lifecycle = Lifecycle(config, manager, self._answer_ui)
        self._thread: LoopThread | None = None
        self._kubeconfigs = TemporaryKubeconfigs()

    @abstractmethod
    def _new_controller_manager(self, names: Iterable[str], version: Version) -> ControllerManager:
        """Return the controllers with some names that are not the API server's own. Raises ValueError."""

    @abstractmethod
    async def _answer_ui(self, request: Request) -> Response | None:
        """Answer a request below /ui/, None for a path where nothing is."""

    def __repr__(self) -> str:
        where = f"at {self.url}" if self._lifecycle.is_listening else "that does not run"
        return f"<Server of Kubernetes {self._config.release.version} {where}>"

    @property
    def url(self) -> str:
        """Return the URL of the server, "" before it has been started."""
        return self._lifecycle.url

    @property
    def state(self) -> ServerState:
        """Return the state that handlers use: another one, with a new store, after each start."""
        return self._lifecycle.state

    @property
    def requests(self) -> Requests:
        """Return the requests that the server has answered since the start or `reset`; the last 10,000, if many.

            assert server.requests.patches("resourceclaims", subresource="status")[-1].user == "driver"

        Those of its own controllers are there only if they failed. A server that is used as a context manager keeps
        them, as that of the fixture does.
        """
        return Requests(self.request_log.requests(), self.state.serving)

    @property
    def clock(self) -> ServerClock:
        """Return the clock of the server, to stop it and to move it on.

        server.clock.freeze()
        server.clock.advance(hours=1)
        """
        return ServerClock(self._lifecycle.steering, self._run)

    @property
    def audit(self) -> list[Obj]:
        """Return the events of the audit log since the start or `reset`, as JSON values; the last 10,000, if many.

            [event] = [event for event in server.audit if event["verb"] == "delete"]
            assert event["annotations"]["authorization.k8s.io/decision"] == "forbid"

        The option `audit_policy` says what is logged: a level for every request ("Metadata"), a policy as an object or
        a file; `audit_policy_file` only a file. Raises RuntimeError without any.
        """
        if self._config.audit_rules is None:
            raise RuntimeError('nothing is logged: start with audit_policy="Metadata", or an audit_policy_file')
        return self._lifecycle.audit_events.events()

    @property
    def request_log(self) -> RequestLog:
        """Return the log of the last requests."""
        return self._lifecycle.request_log

    @property
    def faults(self) -> Faults:
        """Return the faults that requests to the server meet: none, until a test adds some.

        with server.faults.add(Fault.conflict(), verb="patch", resource="pods", times=1) as conflict:
            ...
        conflict.assert_fired()
        """
        if self._thread is not None and self._thread.is_forked:
            raise RuntimeError(FORKED)
        return self._lifecycle.faults

    async def start(self, show: Show = iter) -> None:
        """Load what the server begins with, and listen, in the running event loop.

        show  returns the objects that are loaded as it gets them, and so learns how far that has come

        A server that has been stopped can be started again; it has a new `state`, with a new store.
        """
        await self._lifecycle.start(show)

    async def start_inside(self) -> None:
        """Load what the server begins with, in the running event loop, and listen nowhere: for `Simulation`."""
        await self._lifecycle.start_inside()

    def connection_of(self, user: User) -> Connection:
        """Return the connection of a component that acts as a user."""
        return self._lifecycle.connection_of(user)

    async def drain(self) -> None:
        """Answer the requests that run, and no others, before `stop`: what a program does when it is told to end."""
        await self._lifecycle.drain()

    async def stop(self) -> None:
        """End watches and connections, stop listening and stop the controllers. A reset that runs comes to its end."""
        try:
            await self._lifecycle.stop()
        finally:
            self._kubeconfigs.delete()
        if self._config.permission_report is not None:
            self._permission_report().write(Path(self._config.permission_report))

    def __enter__(self) -> Self:
        if self._thread is not None:
            raise RuntimeError(f"the server is running already, at {self.url}")
        thread = LoopThread()
        self.request_log.on = self._lifecycle.audit_events.on = True
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
        """Start the server in its own thread, so that code that blocks the event loop can ask it."""
        return await asyncio.to_thread(self.__enter__)

    async def __aexit__(self, *_: object) -> None:
        await asyncio.to_thread(self.__exit__)

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
        return self._lifecycle.connection(self._lifecycle.door.token)

    def user(self, name: str, groups: Iterable[str] = ()) -> ServerUser:
        """Return a user, with a token and a kubeconfig, who may do what its roles allow; see `allow`.

            driver = server.user("driver", groups=["drivers"])
            driver.list("pods")                                # as that user
            subprocess.run(["driver", "--kubeconfig", driver.kubeconfig])

        From now on the server notes what its clients ask for; see `permissions`. A service account
        ("system:serviceaccount:NAMESPACE:NAME") is in its groups without saying so. kubectl and client-go send tokens
        over HTTPS only: the server speaks it with `authorization_mode` or `tls=True`.
        """
        door = self._lifecycle.door
        self.state.permissions.on = True
        user = User(name, [*groups, *_groups_of_account(name)])
        token = door.tokens.issue(user)
        client, kubeconfig = door.clients.external(token), self._kubeconfigs.path(self._lifecycle.connection(token))
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
        from understudy.apiserver.permissions.roles import role_with_binding  # most servers let everybody do all

        return self.apply(role_with_binding(user, texts(verbs), texts(resources), namespace))

    def permissions(self, user: str) -> Permissions:
        """Return the permissions that a user has used since the start or `reset`, and the smallest role with them.

            permissions = server.permissions("driver")
            assert permissions.refused == []
            server.apply(permissions.role())

        Raises RuntimeError if nothing was noted: neither `user` nor the option `permission_report` said so.
        """
        if not self.state.permissions.on:
            raise RuntimeError("nothing is noted: make a user with `user`, or start with `permission_report`")
        return self._permission_report().of(user)

    def _permission_report(self) -> PermissionReport:
        from understudy.apiserver.permissions.judge import Judge
        from understudy.apiserver.permissions.report import PermissionReport

        state = self.state
        judge = Judge(RegistryObjects(state.registry, state.schemas), state.release.version, state.gates)
        return PermissionReport(state.permissions, judge, allows_everything=not self._config.authorized)

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
            self.apply(self._run(self._lifecycle.functions.configuration(configuration, function, options)))
            return function

        return register

    def reset(self) -> None:
        """Make the server as it was at the start: objects, revisions and feature gates. Open watches end."""
        self._run(self._lifecycle.reset())

    def snapshot(self) -> Snapshot:
        """Take a snapshot of the server.

            before = server.snapshot()
            ...
            server.restore(before)

        It has the objects, the feature gates and the webhooks that are functions.
        """
        return self._run(self._lifecycle.snapshot())

    def restore(self, snapshot: Snapshot) -> None:
        """Make the server hold what a snapshot does, be it of another server of the same release.

        Objects have the resourceVersions that they had. Revisions go on, so that clients notice: open watches end, and
        watches and continue tokens from before are answered with 410. Raises ValueError for another release.
        """
        self._run(self._lifecycle.restore(snapshot))

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

    def _ask(self, use: Use[T]) -> T:
        __tracebackhide__ = True
        return self._ask_as(self._lifecycle.door.clients.client(USER_AGENT), use)

    def _ask_internally(self, user_agent: str, use: Use[T]) -> T:
        """Let a client of the server's own ask: its requests meet no faults, and are not among `requests`."""
        __tracebackhide__ = True
        return self._ask_as(self._lifecycle.door.clients.client(user_agent), use)

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


def texts(given: str | Iterable[str]) -> Sequence[str]:
    """Return texts of which one may be given alone."""
    return [given] if isinstance(given, str) else list(given)
