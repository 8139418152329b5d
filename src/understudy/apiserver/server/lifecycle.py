"""The life of a server: it listens, loads what it begins with, is reset, and ends.

Its parts are built in `wiring`; `server` has what users call.
"""

from __future__ import annotations

import asyncio
import base64
import logging
from collections.abc import AsyncIterator, Awaitable, Coroutine, Mapping
from contextlib import asynccontextmanager, suppress
from dataclasses import field
from functools import partial
from ipaddress import ip_address
from typing import TYPE_CHECKING, Any
from urllib.parse import urlencode

from understudy.apiserver.client import writing
from understudy.apiserver.client.connection import Connection
from understudy.apiserver.client.loopback import USER_AGENT
from understudy.apiserver.client.watching import Frames, Stop
from understudy.apiserver.controllers import ControllerManager, Controllers, NewController
from understudy.apiserver.controllers.controller import APISERVER_AGENT, ControllerContext
from understudy.apiserver.endpoints.request import Request, Response, WatchResponse, WatchSource
from understudy.apiserver.endpoints.server_state import ServerState
from understudy.apiserver.server.bootstrap import fill, flow_control, issuers, policy, ranges
from understudy.apiserver.server.bootstrap.cluster_authentication_trust import ClusterAuthenticationTrust, Trusted
from understudy.apiserver.server.filters.audit.kept import KeptEvents
from understudy.apiserver.server.filters.faults.faults import Faults
from understudy.apiserver.server.filters.faults.page import FaultsPage
from understudy.apiserver.server.filters.request_deadline import LONGEST
from understudy.apiserver.server.filters.request_log.log import RequestLog
from understudy.apiserver.server.http.listener import Listener
from understudy.apiserver.server.http.tls_listener import listening_socket
from understudy.apiserver.server.http.webhook_functions import FunctionWebhooks, WebhookFunction
from understudy.apiserver.server.http1.served import Handler
from understudy.apiserver.server.options.config import ServerConfig
from understudy.apiserver.server.pages.control import Control
from understudy.apiserver.server.pages.loop_pauses import LoopPauses
from understudy.apiserver.server.pages.mux import Page
from understudy.apiserver.server.webhooks.aggregation.controller import AggregationController
from understudy.apiserver.server.webhooks.client import HttpWebhookClient
from understudy.apiserver.server.webhooks.services import ServiceResolver
from understudy.apiserver.server.wiring import FrontDoor, new_auditor, new_front_door, new_parts
from understudy.apiserver.storage.compaction import compact_periodically
from understudy.apiserver.storage.interface import NOTHING_STORED, StorageError, StoreSnapshot
from understudy.machinery.auth.users import User
from understudy.machinery.errors import StatusError
from understudy.machinery.options import parse_query
from understudy.machinery.releases.features import Gate
from understudy.machinery.releases.version import Version
from understudy.machinery.types import dataclass
from understudy.machinery.util.server_clock import Steering
from understudy.machinery.util.timers import SteeredClock, sleep

if TYPE_CHECKING:
    from understudy.apiserver.controllers.replicas.replica import Replica
    from understudy.apiserver.server.filters.audit.filter import Auditor

log = logging.getLogger("understudy")
NO_SERVICES = ServiceResolver(lambda *_: None, lambda *_: (), {})
PORT_INSIDE = 6443  # of a server without a socket


@dataclass(frozen=True, slots=True)
class Snapshot:
    """The objects, feature gates and webhook functions of a server; its length is the number of objects."""

    version: Version
    store: StoreSnapshot = field(repr=False)
    gates: Mapping[Gate, bool] = field(repr=False)
    functions: Mapping[str, WebhookFunction] = field(repr=False)

    def __len__(self) -> int:
        return len(self.store.entries)


class Lifecycle:
    """Starts, resets and ends one server, in an event loop.

    manager      has the controllers that are not the server's own
    functions    webhooks that are functions of a test
    request_log  has the last requests
    audit_events has the last events of the audit log
    faults       are what requests meet
    url          where the server is reached, "" before it has been started

    `ui` answers below /ui/, if the options say so.
    """

    def __init__(self, config: ServerConfig, manager: ControllerManager, ui: Page) -> None:
        self._config = config
        self._certificates = config.certificates
        self._manager = manager
        self._ui = ui if config.ui else None
        self._build()
        self._started = self._is_stopping = self._is_inside = False
        self._changing = asyncio.Lock()  # held by a reset and by the end of the server
        self.request_log = RequestLog()
        self.faults = Faults(lambda: self.state.serving, self.request_log.components, config.new_fault_rules)
        self.audit_events = KeptEvents()
        self._auditor: Auditor | None = None
        self._pauses = LoopPauses()
        self.url = ""
        self._port = config.port
        self._listener: Listener | None = None
        self._controllers: Controllers | None = None
        self._periodic: list[asyncio.Task[None]] = []
        self._replica: Replica | None = None
        self.steering = Steering(config.clock, self._is_busy, self._activity)

    def _build(self) -> None:
        """Build the parts of a server that has not started yet."""
        self.functions = FunctionWebhooks()
        self._parts = new_parts(self._config)
        certificates, version = self._parts.webhooks.certificates, self._config.release.version
        self._audit_client = HttpWebhookClient(NO_SERVICES, version, self._parts.egress, certificates)
        self._door: FrontDoor | None = None
        self._initial = NOTHING_STORED

    @property
    def state(self) -> ServerState:
        """Return the state that handlers use, with a new store after each start."""
        return self._parts.state

    @property
    def door(self) -> FrontDoor:
        """Return the front door. Raises RuntimeError for a server that has not been started."""
        if self._door is None:
            raise RuntimeError("the server is not running")
        return self._door

    @property
    def handle(self) -> Handler:
        """Return the handler of requests, on whatever connection they come. Raises RuntimeError for a server that does
        not run."""
        if self._listener is None:
            raise RuntimeError("the server is not running")
        return self._listener.handle

    @property
    def watches(self) -> list[WatchSource]:
        """Return the watches that are open over connections, none of a server without a network."""
        return [] if self._listener is None else self._listener.watches

    @property
    def is_listening(self) -> bool:
        """Report whether clients can reach the server."""
        return self._listener is not None

    async def start(self, show: writing.Show = iter) -> None:
        """Load the objects that the server begins with, which pass `show`, and listen, in the running event loop.

        Raises OSError, LoadError.
        """
        if self._started:
            self._build()
        self._started = True
        self._is_stopping, self._changing = False, asyncio.Lock()
        self.steering.reset()
        config = self._config
        sock = listening_socket(config.bind_address, config.port)
        try:
            host, self._port = sock.getsockname()[:2]
            self._warn_of_openness(host)
            self._warn_of_preview()
            address = f"[{host}]:{self._port}" if ":" in host else f"{host}:{self._port}"
            self.url = url = f"{'https' if self._certificates else 'http'}://{address}"
            contexts, asks = self._certificates.contexts(config.protocols), config.asks_for_certificates
            door = self._open(url)
            self._parts.webhooks.open()
            if self._parts.egress is not None:
                self._parts.egress.open()
            if self._parts.tracing is not None:
                self._parts.tracing.open(url.partition(":")[0])
            await issuers.discover(self.state.tokens.jwt_authenticators)
            await self._fill(door, show)
            self.faults.reset()
            self._listener = Listener(
                door.director,
                sock,
                contexts,
                asks_for_certificates=asks,
                most_streams=config.most_streams,
                goaway_chance=config.goaway_chance,
                headers_of_all=config.headers_of_all,
                tracing=self._parts.tracing,
            )
            await self._listener.start()
            self._manager.start_components()
        except BaseException:
            sock.close()
            await self._stop_background_tasks()
            await self._close()
            raise

    async def start_inside(self) -> None:
        """Load what the server begins with, in the running event loop, whose clients need no socket, nor any thread.

        All of them meet faults: there are no other programs. Raises ValueError for options that need a network.
        """
        if self._config.audit_webhook is not None:
            raise ValueError("a server without a network sends no events: leave out --audit-webhook-config-file")
        if self.state.asks_outside:
            raise ValueError("a server without a network asks nobody: leave out webhooks that know users or rights")
        self._started = self._is_inside = True
        self._port = PORT_INSIDE
        self.url = f"http://127.0.0.1:{self._port}"
        self.faults.meet_components()
        door = self._open(self.url)
        door.director.work_inline()
        await self._fill(door)
        self.faults.reset()
        self._manager.start_components()

    def _warn_of_openness(self, host: str) -> None:
        """Warn if others than the programs of this machine may do everything, or may even use /understudy/."""
        config = self._config
        if config.authenticated or (ip_address(host).is_loopback and not config.control):
            return
        address = f"{host} port {self._port}"
        control = " and may change and reset it under /understudy/" if config.control else ""
        log.warning("without --token-auth-file everybody who reaches %s is an administrator%s", address, control)

    def _warn_of_preview(self) -> None:
        """Warn if the release is not there yet."""
        release = self._config.release
        if release.version.is_preview:
            recorded, before = release.version_info["gitVersion"], release.version.previous
            text = "%s is a preview: it serves what %s does, by the rules of %s, and changes without notice"
            log.warning(text, release.version, recorded, before)

    def _open(self, url: str) -> FrontDoor:
        """Build the front door, and the controllers that ask there."""
        config, state = self._config, self.state
        faults = FaultsPage(self.faults).answer
        control = Control(state, self.reset, self.steering, faults) if config.control else None
        self._auditor = self._new_auditor()
        door = self._door = new_front_door(
            config,
            state,
            url,
            self._parts.aggregator,
            control,
            self._manager.names,
            self.request_log,
            self.faults,
            self._pauses,
            self._send_watch,
            self._auditor,
            self._ui,
            self._parts,
        )
        authority = (self._authority() or b"").decode()
        elections = config.election, config.coordinated_election
        context = ControllerContext(state, door.clients, self.connection_of, authority, *elections)
        trusted = Trusted(config.client_authorities, config.front_proxies)
        own: list[NewController] = [partial(ClusterAuthenticationTrust, trusted=trusted)]
        if not self._is_inside:
            own.append(partial(AggregationController, aggregator=self._parts.aggregator))
        self._controllers = Controllers(context, self._manager, own)
        return door

    def _new_auditor(self) -> Auditor | None:
        """Open the audit log; return what logs requests there, None if there is no policy. Raises OSError."""
        config, policy = self._config, self._config.audit_rules
        if policy is None:
            return None
        auditor = new_auditor(config, policy, self.state, self.audit_events, self._audit_client)
        auditor.waits = not self._is_inside  # else real time would decide what happens next
        return auditor

    async def _close(self) -> None:
        """Write and send what waits for that: to the place of the objects and to the audit log."""
        await self.state.registry.store.close()
        if self._parts.tracing is not None:
            await self._parts.tracing.close()
        auditor, self._auditor = self._auditor, None
        if auditor is not None:
            await asyncio.to_thread(auditor.close)
            await self._audit_client.close()
        if self._parts.egress is not None:
            await self._parts.egress.close()

    def _send_watch(self, source: WatchSource, frames: Frames) -> Stop:
        """Begin to send a watch to a thread of this process; return what ends it, from any thread."""
        assert self._listener is not None, "the server is not running"
        return self._listener.send_watch(source, frames)

    def connection(self, token: str) -> Connection:
        """Return the connection to the server with a token."""
        ask = self._ask_inside if self._is_inside else None
        return Connection(url=self.url, certificate_authority=self._authority(), token=token, ask_inside=ask)

    def _ask_inside(
        self, method: str, path: str, headers: Mapping[str, str], body: bytes, query: Mapping[str, str]
    ) -> Awaitable[Response | WatchResponse]:
        """Answer a request without a socket."""
        parameters = parse_query(urlencode({name: value for name, value in query.items() if value}))
        return self.door.director(Request(method, path, headers, body, parameters, self.state.release.version))

    def connection_of(self, user: User) -> Connection:
        """Return the connection of a component, whose requests are logged only if they fail."""
        self.request_log.components.add(user.name)
        return self.connection(self.door.tokens.issue(user))

    def _authority(self) -> bytes | None:
        """Return the certificates (PEM) that clients have to trust, None for plain HTTP."""
        authority = self._certificates.authority
        return base64.b64decode(authority) if authority else None

    async def _fill(self, door: FrontDoor, show: writing.Show = iter) -> None:
        """Store the objects that the server begins with. The controllers run already when manifests are loaded."""
        state = self.state
        await state.registry.store.open()
        if not self._config.is_read_only:
            try:
                await self._fill_bootstrap(door)
            except StatusError as why:
                raise StorageError(f"cannot store what a server begins with: {why}") from why
        self._start_background_tasks(door)
        if self._parts.storage_versions is not None:
            await self._parts.storage_versions.wait()
        for manifest in self._config.load:
            await writing.load(door.clients.client(USER_AGENT), asyncio.sleep, manifest, show)
        self._initial = state.registry.store.snapshot(with_history=True)

    async def _fill_bootstrap(self, door: FrontDoor) -> None:
        """Store what every server has. Raises StatusError if nothing can be written."""
        await fill.fill(self.state, self._port)
        await ranges.repair(self.state.registry, self.state.gates)
        if self._config.has_bootstrap_policy:
            await policy.ensure_policy(door.clients.client(APISERVER_AGENT), self.state.release, self.state.gates)

    def _start_background_tasks(self, door: FrontDoor) -> None:
        """Start the controllers, the upkeep of flow control and the compaction of history."""
        assert self._controllers is not None
        is_read_only = self._config.is_read_only
        self._controllers.start(writes=not is_read_only)
        state, client = self.state, door.clients.client(APISERVER_AGENT)
        pause = partial(sleep, state.clock)
        periodic: list[Coroutine[Any, Any, None]] = []
        if not self._is_inside:
            periodic.append(self._pauses.measure())
            if not is_read_only:
                periodic.append(flow_control.ensure_periodically(client, state, pause))
                periodic.append(ranges.repair_periodically(state.registry, state.gates, pause))
        if door.limiter is not None:
            periodic.append(door.limiter.adjust_periodically(pause))
        if interval := self._config.compaction_seconds:
            periodic.append(compact_periodically(state.registry.store, interval, pause))
        if self._config.admission_control_config_file:
            manifests = state.settings.manifests
            periodic.append(manifests.reload_periodically(asyncio.sleep, state.chain.forget))
        periodic += [file.reload_periodically(asyncio.sleep) for file in state.reloaded]
        periodic += [file.reload_periodically(asyncio.sleep) for file in self._config.authorities]
        periodic += [pair.reload_periodically(asyncio.sleep) for pair in self._certificates.pairs]
        versions = self._parts.storage_versions
        if self._config.etcd_servers or versions is not None:
            from understudy.apiserver.controllers.replicas.replica import Replica

            address = self._config.endpoint_address if self._config.etcd_servers else None
            self._replica = Replica(state, client, address, self._port, self._config.endpoint_count)
            periodic += self._replica.tasks(lambda: self.is_listening)
        if versions is not None:
            periodic.append(versions.run(client))
        if authenticators := state.tokens.jwt_authenticators:
            periodic.append(issuers.discover_periodically(authenticators))
        self._periodic = [asyncio.create_task(coroutine) for coroutine in periodic]

    async def _stop_background_tasks(self) -> None:
        """Stop the background tasks. Raises the error that has ended one of the tasks before."""
        if self._door is not None:
            self._door.hints.forget()
        periodic, self._periodic = self._periodic, []
        for task in periodic:
            task.cancel()
            with suppress(asyncio.CancelledError):
                await task
        if self._controllers is not None:
            await self._controllers.stop()

    async def reset(self) -> None:
        """Make the server as it was at the start. Raises RuntimeError for one that is stopping."""
        async with self._at_rest():
            self.steering.reset()
            await self.state.registry.store.rewind(self._initial)
            self.functions.restore({})
            self.state.gates.reset(self._config.feature_gates or {})
            self._start_background_tasks(self.door)
            self.request_log.clear()
            self.audit_events.clear()
            self.faults.reset()

    def _is_busy(self) -> bool:
        """Report whether requests are being answered, or components at work."""
        clock = self._config.clock
        return self.door.director.running > 0 or (isinstance(clock, SteeredClock) and clock.works > 0)

    def _activity(self) -> tuple[int, ...]:
        """Return numbers that change whenever the server is asked, writes, or something begins to wait."""
        clock, director = self._config.clock, self.door.director
        alarms = clock.alarms_set if isinstance(clock, SteeredClock) else 0
        return self.state.registry.store.revision, director.begun, alarms

    async def snapshot(self) -> Snapshot:
        """Take a snapshot of the server."""
        state = self.state
        stored, gates = state.registry.store.snapshot(), state.gates.snapshot()
        return Snapshot(state.release.version, stored, gates, self.functions.snapshot())

    async def restore(self, snapshot: Snapshot) -> None:
        """Make the server hold what a snapshot does. Raises ValueError for one of another release, RuntimeError for a
        server that is stopping."""
        if snapshot.version != self.state.release.version:
            raise ValueError(f"a snapshot of {snapshot.version} is not restored to {self.state.release.version}")
        async with self._at_rest():
            await self.state.registry.store.restore(snapshot.store)
            self.functions.restore(snapshot.functions)
            self.state.gates.restore(snapshot.gates)
            self._start_background_tasks(self.door)

    @asynccontextmanager
    async def _at_rest(self) -> AsyncIterator[None]:
        """End watches, stop all that works with the objects, and forget who has asked for what; the block makes the
        server hold something else and starts the background tasks. Raises RuntimeError for one that is stopping."""
        self._refuse_if_stopping()  # it waits for the requests that wait for this
        async with self._changing:
            self._refuse_if_stopping()
            await self._manager.stop_components()
            if self._listener is not None:
                self._listener.end_watches()
            await self._stop_background_tasks()
            if self._config.permission_report is None:  # else the report is of all that the server was asked
                self.state.permissions.clear()
            yield
            self._manager.start_components()

    def _refuse_if_stopping(self) -> None:
        if self._is_stopping:
            raise RuntimeError("the server is stopping")

    async def stop(self) -> None:
        """End watches and connections, stop listening and stop the controllers. A reset that runs comes to its end."""
        self._is_stopping = True
        async with self._changing:
            await self._stop()

    async def drain(self) -> None:
        """Do what a program does before it ends: tell that it is not ready, and answer the requests that run.

        Upstream: `preparedGenericAPIServer.RunWithContext`. It takes as long as they do, a minute at most.
        """
        self.door.director.is_ending = True
        termination = self._config.termination
        await asyncio.sleep(termination.delay)
        await self._leave()
        if self._listener is not None:
            await self._listener.drain(termination, LONGEST + termination.watch_grace)

    async def _leave(self) -> None:
        """Let no other server know this one any more."""
        replica, self._replica = self._replica, None
        if replica is not None and self.is_listening:
            await replica.leave()

    async def _stop(self) -> None:
        await self._leave()
        try:
            await self._manager.stop_components()  # which are clients, and would complain
        finally:
            await self._parts.aggregator.close()
            await self._parts.kubelets.close()
            listener, self._listener = self._listener, None
            if listener is not None:
                await listener.stop()
            await self._parts.webhooks.close()  # threads that wait for one would not end before it answers
            if listener is not None:
                await listener.finish()
        await self._stop_background_tasks()
        await self._parts.aggregator.close()  # its controller has asked until now
        await self.functions.stop()
        await self._close()
