"""The kubelets of nodes: where they are reached, and what the server asks of them.

Upstream: `NodeConnectionInfoGetter`, and `LogLocation`, `streamLocation` and `PortForwardLocation` of the pod registry.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from types import MappingProxyType
from typing import Protocol
from urllib.parse import quote, urlencode

from understudy.admission.webhooks import CallError
from understudy.apiserver.endpoints.request import Request, Response
from understudy.machinery import errors
from understudy.machinery.golang.times import canonical_time
from understudy.machinery.options import Query, boolean, integer
from understudy.machinery.types import NamedTuple, Obj, nested_field

# Types of a node's addresses in the order in which kube-apiserver takes them by default.
PREFERRED_ADDRESS_TYPES = ("Hostname", "InternalDNS", "InternalIP", "ExternalDNS", "ExternalIP")
DEFAULT_PORT = 10250
# Subprotocols of WebSockets: for commands, with a message that ends a stream; and the prefix of those whose messages
# carry SPDY, with the suffix of all that Kubernetes has.
STREAM_CLOSE = "v5.channel.k8s.io"
TUNNEL_PREFIX, _SUFFIX = "SPDY/3.1+", ".k8s.io"
_STREAMS = {"stdin": "input", "stdout": "output", "stderr": "error", "tty": "tty"}


class Location(NamedTuple):
    """The place that is asked: host and port, path, and the parameters of its URL.

    scheme      https, or http
    is_kubelet  whether it is one of a kubelet, which is shown a certificate; certificates of others do not count
    features    those that its node declares
    """

    host: str
    port: int
    path: str = ""
    query: str = ""
    scheme: str = "https"
    is_kubelet: bool = True
    features: Sequence[str] = ()

    @property
    def authority(self) -> str:
        """Return host and port, as a URL has them."""
        return f"[{self.host}]:{self.port}" if ":" in self.host else f"{self.host}:{self.port}"

    @property
    def url(self) -> str:
        """Return the URL, as errors quote it."""
        return f"{self.scheme}://{self.authority}{self.target}"

    @property
    def target(self) -> str:
        """Return path and parameters."""
        path = quote(self.path, "/:@&=+$,;", errors="surrogateescape")
        return f"{path}?{self.query}" if self.query else path

    def at(self, path: str, parameters: Iterable[tuple[str, str]] = ()) -> Location:
        """Return another place at the same kubelet."""
        return self._replace(path=path, query=urlencode(sorted(parameters, key=lambda pair: pair[0])))


class KubeletClient(Protocol):
    """Asks kubelets, and what listens at nodes, pods and services.

    address_types      those of a node's addresses, the one to dial first
    service_addresses  {"NAMESPACE/NAME": (host, port)} of services that are reached elsewhere than they say
    """

    address_types: Sequence[str]
    service_addresses: Mapping[str, tuple[str, int]]

    async def log(self, location: Location, request: Request, *, insecure: bool) -> Response:
        """Return the log of a container, as it comes.

        insecure  whether the certificate of the kubelet does not count

        Raises CallError for a kubelet that cannot be asked, and StatusError as it answers.
        """

    async def connect(self, location: Location, request: Request) -> Response:
        """Return the answer to a request for another protocol, which then is relayed. Raises CallError."""

    async def translate(self, location: Location, request: Request, options: Obj) -> Response:
        """Return the answer to a WebSocket with channels, whose command a kubelet runs over SPDY.

        options  PodExecOptions or PodAttachOptions
        """

    async def tunnel(self, location: Location, request: Request) -> Response:
        """Return the answer to a WebSocket whose messages carry SPDY, which a kubelet speaks. Raises CallError."""

    async def forward(self, location: Location, request: Request, prefix: str) -> Response:
        """Return the answer to a request that is passed on, whose path is that of the location behind a prefix.

        Raises CallError.
        """


class NoKubelets:
    """Asks no kubelet, for a server without a network."""

    address_types: Sequence[str] = PREFERRED_ADDRESS_TYPES
    service_addresses: Mapping[str, tuple[str, int]] = MappingProxyType({})

    async def log(self, location: Location, request: Request, *, insecure: bool) -> Response:
        """Raise CallError."""
        raise CallError(f"this server asks no kubelets, nor {location.url}")

    async def connect(self, location: Location, request: Request) -> Response:
        """Raise CallError."""
        raise CallError(f"this server asks no kubelets, nor {location.url}")

    async def translate(self, location: Location, request: Request, options: Obj) -> Response:
        """Raise CallError."""
        raise CallError(f"this server asks no kubelets, nor {location.url}")

    async def tunnel(self, location: Location, request: Request) -> Response:
        """Raise CallError."""
        raise CallError(f"this server asks no kubelets, nor {location.url}")

    async def forward(self, location: Location, request: Request, prefix: str) -> Response:
        """Raise CallError."""
        raise CallError(f"this server asks nobody, nor {location.url}")


def preferred_address(node: Obj, address_types: Sequence[str]) -> str:
    """Return the address of a node that is dialed (`GetPreferredNodeAddress`). Raises 500."""
    known = (node.get("status") or {}).get("addresses") or ()
    for kind in address_types:
        for entry in known:
            if entry["type"] == kind:
                return str(entry["address"])
    texts = " ".join(f"{{{entry['type']} {entry['address']}}}" for entry in known)
    raise errors.unknown_error(f"no preferred addresses found; known addresses: [{texts}]")


def location_of(node: Obj | None, node_name: str, client: KubeletClient) -> Location:
    """Return the place of a node's kubelet. Raises 404, which calls a missing node a pod as the real server does."""
    if node is None:
        raise errors.not_found("", "pods", node_name)
    host = preferred_address(node, client.address_types)
    port = nested_field(node, "status", "daemonEndpoints", "kubeletEndpoint", "Port", default=0)
    declared = nested_field(node, "status", "declaredFeatures", default=())
    return Location(host, port if port > 0 else DEFAULT_PORT, features=declared)


def log_parameters(query: Query) -> Iterable[tuple[str, str]]:
    """Yield the parameters that a kubelet gets of those of a log."""
    for name in ("follow", "previous", "timestamps"):
        if boolean(query, name):
            yield name, "true"
    for name in ("sinceSeconds", "tailLines", "limitBytes"):
        if name in query:
            yield name, str(integer(query.get(name)))
    if (text := query.get("sinceTime")) and (since := canonical_time(text)):
        yield "sinceTime", since


def tunneled_protocols(names: Iterable[str]) -> list[str]:
    """Return the protocols that are to be spoken over SPDY in the messages of a WebSocket, by its subprotocols."""
    tunnels = (name for name in names if name.startswith(TUNNEL_PREFIX) and name.endswith(_SUFFIX))
    return [name.removeprefix(TUNNEL_PREFIX) for name in tunnels]


def stream_parameters(query: Query) -> Iterable[tuple[str, str]]:
    """Yield the parameters that a kubelet gets of those of a command (`streamParams`)."""
    for name, parameter in _STREAMS.items():
        if boolean(query, name):
            yield parameter, "1"
    for command in query.all("command"):
        yield "command", command


def port_parameters(query: Query) -> Iterable[tuple[str, str]]:
    """Yield the parameter that a kubelet gets of the ports that are forwarded."""
    if "ports" in query:
        yield "port", ",".join(str(integer(port)) for port in query.all("ports"))
