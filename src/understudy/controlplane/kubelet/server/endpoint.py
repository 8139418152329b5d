"""The port at which the API server asks a kubelet. Upstream: `pkg/kubelet/server`, which has many more paths."""

from __future__ import annotations

import asyncio
import logging
import ssl
from collections.abc import Awaitable, Callable, Mapping, Sequence
from pathlib import Path
from urllib.parse import unquote

from multidict import CIMultiDict

from understudy.apiserver.server.http.tls_listener import TLSListener, listening_socket
from understudy.apiserver.server.http1.exchange import Exchange, Http1Exchange
from understudy.apiserver.server.http1.protocol import HTTPServer
from understudy.controlplane.kubelet.pod_status import is_terminal
from understudy.controlplane.kubelet.sandboxes import Sandboxes
from understudy.controlplane.kubelet.server.container_logs import Log, LogOptions, check_container, lines_of
from understudy.controlplane.kubelet.server.pod_streams import PodStreams, stream_options
from understudy.controlplane.kubelet.server.refused import RefusedError
from understudy.controlplane.kubelet.server.sessions import Sessions
from understudy.machinery.golang.text import go_quote
from understudy.machinery.options import Query, parse_query
from understudy.machinery.types import Obj
from understudy.machinery.util.clock import Clock, parse_timestamp

log = logging.getLogger(__name__)

FindPod = Callable[[str, str], Awaitable[Obj | None]]
_GRACE = 0.5  # seconds that requests get to finish when the kubelet stops
_TEXT = "text/plain; charset=utf-8"


class KubeletEndpoint:
    """Answers requests for logs over HTTPS, and those for commands and ports if processes stand in for containers.

    find            returns the pod of a namespace and name as it is now, None if the node has none
    sandboxes       the pods that run
    client_ca_file  certificates (PEM) of the authorities of clients, without which everybody is answered
    streams         runs commands and connects with ports, None if nothing stands in for containers

    Raises OSError, ValueError for a file that holds no certificates.
    """

    def __init__(
        self,
        find: FindPod,
        sandboxes: Sandboxes,
        clock: Clock,
        sessions: Sessions,
        client_ca_file: Path | None = None,
        streams: PodStreams | None = None,
    ) -> None:
        self._find = find
        self._sandboxes = sandboxes
        self._clock = clock
        self._sessions = sessions
        self._streams = streams
        self._clients = None if client_ca_file is None else Clients(client_ca_file, clock)
        self._changed = asyncio.Event()
        self._is_stopping = False
        self._server = HTTPServer(self._handle)
        self._listener: TLSListener | None = None

    async def start(self, address: str) -> int:
        """Listen at a free port of an address, and return it. Raises OSError if this machine has no such address."""
        context = await asyncio.to_thread(self._context, address)
        sock = listening_socket(address, 0)
        self._listener = TLSListener(sock, self._server.connect, lambda _: context)
        return int(sock.getsockname()[1])

    async def stop(self) -> None:
        """Stop listening, end all logs that are followed, and kill all processes."""
        self._is_stopping = True
        if self._listener is not None:
            self._listener.close()
        self._sessions.end_all()
        self.note_change()
        await self._server.shutdown(_GRACE)

    def note_change(self, *_: Obj) -> None:
        """Look at the pods of logs that are followed: one has changed, or is gone."""
        self._changed.set()
        self._changed = asyncio.Event()

    async def _handle(self, exchange: Exchange) -> None:
        """Answer a request."""
        assert isinstance(exchange, Http1Exchange), "no other version is offered"
        try:
            if self._clients is not None and not self._clients.trust(exchange):
                raise RefusedError(401, "Unauthorized")
            await self._answer(exchange)
        except RefusedError as why:
            headers = CIMultiDict([("Content-Type", _TEXT), *why.headers])
            await exchange.send(why.status, headers, [str(why).encode("utf-8", "surrogateescape")])

    async def _answer(self, exchange: Http1Exchange) -> None:
        """Answer a request of a client who may ask. Raises RefusedError."""
        path, _, text = exchange.target.partition("?")
        _, kind, *place = (unquote(part, errors="surrogateescape") for part in path.split("/"))
        query = parse_query(text)
        match kind, place:
            case "containerLogs", [namespace, name, container]:
                await self._log(exchange, query, (namespace, name, container))
            case (("exec" | "attach"), [namespace, name, *uid, container]) if (
                self._streams is not None and len(uid) < 2
            ):
                await self._run(exchange, query, kind, (namespace, name, container), uid)
            case "portForward", [namespace, name, *uid] if self._streams is not None and len(uid) < 2:
                self._streams.asked_ports(exchange, query)
                pod = await self._existing(namespace, name)
                if uid and uid[0] != pod["metadata"]["uid"]:
                    raise RefusedError(404, "pod not found")
                if self._sandboxes.get(pod["metadata"]["uid"]) is None:
                    raise RefusedError(500, f"pod not found ({go_quote(f'{name}_{namespace}')})")
                await self._streams.forward(exchange, query, pod)
            case _:
                raise RefusedError(404, "404: Page Not Found")

    async def _run(
        self, exchange: Http1Exchange, query: Query, kind: str, place: tuple[str, str, str], uid: Sequence[str]
    ) -> None:
        """Run a command in a container, or attach to it. Raises RefusedError."""
        assert self._streams is not None
        options = stream_options(query)
        namespace, name, container = place
        pod = await self._existing(namespace, name)
        spec = self._running(pod).get(container)
        if spec is None or uid not in ([], [pod["metadata"]["uid"]]):
            missing = f"container {container} not found in pod {name}_{namespace}"
            raise RefusedError(500, f"container not found ({go_quote(container)})" if kind == "exec" else missing)
        if kind == "exec":
            await self._streams.execute(exchange, options, pod, container, query.all("command"))
        else:
            await self._streams.attach(exchange, options, pod, spec)

    async def _existing(self, namespace: str, name: str) -> Obj:
        """Return a pod of the node. Raises RefusedError."""
        pod = await self._find(namespace, name)
        if pod is None:
            raise RefusedError(404, "pod does not exist")
        return pod

    def _running(self, pod: Obj) -> Mapping[str, Obj]:
        """Return the containers of a pod that run, by name."""
        if self._sandboxes.get(pod["metadata"]["uid"]) is None:
            return {}
        init = (each for each in pod["spec"].get("initContainers") or () if each.get("restartPolicy") == "Always")
        return {each["name"]: each for each in (*init, *pod["spec"]["containers"])}

    async def _log(self, exchange: Http1Exchange, query: Query, place: tuple[str, str, str]) -> None:
        """Answer with the log of a container (`getContainerLogs`). Raises RefusedError."""
        try:
            options = LogOptions.of(query, self._clock.now())
        except ValueError as why:
            raise RefusedError(400, str(why)) from None
        pod = check_container(await self._find(*place[:2]), *place)
        lines = Log(options, self._started(pod, place[2], options))
        await exchange.begin(200, CIMultiDict({"Content-Type": "text/plain"}))
        await self._send(exchange, lines, pod["metadata"]["uid"], place, follow=options.follow)
        await exchange.end()

    def _context(self, address: str) -> ssl.SSLContext:
        """Return the context of a server with a new certificate, which no authority that is known has signed."""
        import trustme  # takes a while

        certificate = trustme.CA().issue_cert(address)
        if self._clients is not None:
            from understudy.apiserver.server.options.tls.client_certificates import AskingContext  # pyOpenSSL

            authorities = [self._clients.authorities]
            return AskingContext(lambda context: certificate.configure_cert(context), authorities, ("http/1.1",))
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        certificate.configure_cert(context)
        return context

    def _started(self, pod: Obj, container: str, options: LogOptions) -> float:
        """Return the time at which a container was started (`validateContainerLogStatus`). Raises RefusedError."""
        name, sandbox = pod["metadata"]["name"], self._sandboxes.get(pod["metadata"]["uid"])
        which = f"container {go_quote(container)} in pod {go_quote(name)}"
        if options.previous:
            raise RefusedError(400, f"previous terminated {which} not found")
        if sandbox is not None:
            return sandbox.started
        if not is_terminal(pod):
            raise RefusedError(400, f"{which} is waiting to start: ContainerCreating")
        return parse_timestamp(pod["status"].get("startTime") or pod["metadata"]["creationTimestamp"])

    async def _send(
        self, exchange: Http1Exchange, log: Log, uid: str, place: tuple[str, str, str], *, follow: bool
    ) -> None:
        """Send a log, and what comes to it until the pod has ended if it is followed."""
        while True:
            changed = self._changed
            pod = await self._find(*place[:2])
            if pod is None or pod["metadata"]["uid"] != uid:
                return
            if text := log.more(lines_of(pod, place[2])):
                await exchange.send_chunk(text)
            if not follow or log.is_full or is_terminal(pod) or self._is_stopping:
                return
            await changed.wait()


class Clients:
    """The clients whose certificates count: those that an authority in a file (PEM) has signed.

    Raises OSError, ValueError for a file that holds no certificates.
    """

    def __init__(self, client_ca_file: Path, clock: Clock) -> None:
        from understudy.apiserver.authentication.certificates.authorities import Authorities  # cryptography
        from understudy.apiserver.authentication.certificates.client_chains import ClientChains

        self.authorities = Authorities(client_ca_file)
        self._chains = ClientChains(self.authorities, clock, lambda certificate: None)

    def trust(self, exchange: Http1Exchange) -> bool:
        """Report whether the client of a request has shown a certificate that counts."""
        from understudy.apiserver.authentication.errors import CertificateError

        self.authorities.reload()
        shown = exchange.transport.get_extra_info("ssl_object").peer if exchange.transport is not None else ()
        try:
            self._chains.verify(tuple(shown))
        except CertificateError as why:
            log.info("a client is refused: %s", why)
            return False
        return True
