"""What controllers in a server's process share: the store that they read from, and the clients that they write with."""

from __future__ import annotations

from collections.abc import Callable

from understudy.apiserver.client.connection import Connection
from understudy.apiserver.client.loopback import ClientBuilder
from understudy.apiserver.controllers.framework.leader_election import Election
from understudy.apiserver.endpoints.requestinfo import resource_path
from understudy.apiserver.endpoints.server_state import ServerState
from understudy.apiserver.extensions.serving import Serving
from understudy.apiserver.registry.keys import prefix_of
from understudy.kinds.declarations.kind import Kind
from understudy.machinery.auth.users import User, account_groups, account_name
from understudy.machinery.types import NamedTuple

# User agents of kube-apiserver's own controllers and of all others; they become the managers of managed fields.
APISERVER_AGENT, CONTROLLER_AGENT = "kube-apiserver", "kube-controller-manager"
EVERYTHING = "/registry/"  # the prefix of all keys in the store
# Prefixes of the keys that servers keep for themselves: no resource serves them, and they have no metadata.
OWN_PREFIXES = ("/registry/ranges/", "/registry/masterleases/", "/registry/peerserverleases/")
_ELECTION = Election()
NAMESPACE = "kube-system"  # the namespace of the controllers' service accounts


class ObjectReference(NamedTuple):
    """The kind, namespace and name of an object, whether it exists or not."""

    kind: Kind
    namespace: str
    name: str

    @property
    def path(self) -> str:
        """Return the object's path, in the kind's preferred version."""
        kind = self.kind
        return resource_path(kind.group, kind.versions[0], kind.resource, self.namespace, self.name)


def service_account(name: str) -> User:
    """Return one of kube-controller-manager's service accounts."""
    return User(account_name(NAMESPACE, name), account_groups(NAMESPACE))


class ControllerContext:
    """The parts that the controllers of one server share. Upstream: `ControllerContext`.

    state       to read from: what is stored, gates, the clock
    clients     make the clients to write with
    connection  returns how to reach the server over HTTP as a user
    root_ca     the certificates (PEM) that clients of the server have to trust, "" for plain HTTP
    election    of the server whose controllers run, None if there is one server only
    coordinated_election
                of the server that elects leaders among LeaseCandidates
    """

    def __init__(
        self,
        state: ServerState,
        clients: ClientBuilder,
        connection: Callable[[User], Connection],
        root_ca: str = "",
        election: Election | None = None,
        coordinated_election: Election = _ELECTION,
    ) -> None:
        self.state = state
        self.clients = clients
        self.connection = connection
        self.root_ca = root_ca
        self.election = election
        self.coordinated_election = coordinated_election
        self._serving: Serving | None = None
        self._kinds: dict[str, Kind] = {}

    def kinds(self) -> dict[str, Kind]:
        """Return the kinds that are stored and can be deleted, by the prefix of their keys.

        Of two kinds that are stored as one (events), the first.
        """
        if self._serving is not self.state.serving:
            self._serving = self.state.serving
            self._kinds = {}
            for kind in self._serving.kinds:
                if not kind.virtual and "delete" in kind.verbs:
                    self._kinds.setdefault(prefix_of(kind), kind)
        return self._kinds

    def reference(self, key: str) -> ObjectReference | None:
        """Return the object of a key in the store, None for what is of no kind that can be deleted."""
        head, _, name = key.rpartition("/")
        kind = self.kinds().get(f"{head}/")
        if kind is not None and not kind.namespaced:
            return ObjectReference(kind, "", name)
        head, _, namespace = head.rpartition("/")
        kind = self.kinds().get(f"{head}/")
        return ObjectReference(kind, namespace, name) if kind is not None and kind.namespaced else None
