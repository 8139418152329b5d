"""How controllers read and write: with the request handlers' own code, so that the same rules hold for them."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Protocol

import orjson

from understudy.apiserver.endpoints.handlers import write
from understudy.apiserver.endpoints.handlers.delete import Deletion
from understudy.apiserver.endpoints.request import Request
from understudy.apiserver.endpoints.requestinfo import request_info
from understudy.apiserver.endpoints.scope import RequestScope, ServerState
from understudy.apiserver.kinds.release import Release
from understudy.apiserver.registry.keys import prefix_of
from understudy.apiserver.registry.kind import Kind
from understudy.apiserver.storage.interface import Entry, Event
from understudy.machinery.options import DeleteOptions, Query
from understudy.machinery.types import Obj
from understudy.machinery.users import AUTHENTICATED, MASTERS, User, account_groups, account_name

AGENT = "kube-controller-manager"
NAMESPACE = "kube-system"  # of its service accounts
SERVER, SERVER_AGENT = User("system:apiserver", [MASTERS, AUTHENTICATED]), "kube-apiserver"
MERGE, APPLY = "application/merge-patch+json", "application/apply-patch+yaml"


class UnknownOwnerError(Exception):
    """An owner reference to a kind that is not served, or that the object cannot have as an owner."""


class Controller(Protocol):
    """`todo` holds the keys that are to be looked at, in order."""

    todo: dict[str, None]

    def begin(self, entries: list[Entry]) -> None:
        """Forgets everything: this is what is stored."""

    def observe(self, event: Event) -> None:
        """A write that happened."""

    async def sync(self, key: str) -> None:
        """Does what is to be done about a key, as it is stored now; nothing if all is well. Raises StatusError and
        UnknownOwnerError for what is to be tried again."""


@dataclass(frozen=True, slots=True)
class Place:
    """Where an object is."""

    kind: Kind
    namespace: str
    name: str


def account(name: str) -> User:
    """One of kube-controller-manager's service accounts."""
    return User(account_name(NAMESPACE, name), [*account_groups(NAMESPACE), AUTHENTICATED])


class Access:
    """To one server, as somebody with some program."""

    def __init__(self, state: ServerState, user: User, agent: str = AGENT) -> None:
        self.state = state
        self._user = user
        self._agent = agent
        self._release: Release | None = None
        self._prefixes: dict[str, Kind] = {}

    def kinds(self) -> dict[str, Kind]:
        """Of everything that is stored and can be deleted, by prefix; what is stored for two kinds once."""
        if self._release is not self.state.release:
            self._release = self.state.release
            self._prefixes = {}
            for kind in self._release.kinds:
                if not kind.virtual and "delete" in kind.verbs:
                    self._prefixes.setdefault(prefix_of(kind), kind)
        return self._prefixes

    def place(self, key: str) -> Place | None:
        """None for what is of no kind that can be deleted."""
        head, _, name = key.rpartition("/")
        kind = self.kinds().get(f"{head}/")
        if kind is not None and not kind.namespaced:
            return Place(kind, "", name)
        head, _, namespace = head.rpartition("/")
        kind = self.kinds().get(f"{head}/")
        return Place(kind, namespace, name) if kind is not None and kind.namespaced else None

    async def patch(self, place: Place, body: Obj, subresource: str = "") -> None:
        """A merge patch. Raises StatusError."""
        request, scope = self._request("PATCH", place, subresource, body, MERGE)
        await write.patch(self.state, request, scope)

    async def apply(self, place: Place, body: Obj, subresource: str, manager: str) -> None:
        """A patch of what `manager` wants, whoever else wants something else. Raises StatusError."""
        kind = place.kind
        head = {"apiVersion": kind.gvk(kind.versions[0]).api_version, "kind": kind.name}
        query = f"fieldManager={manager}&force=true"
        request, scope = self._request("PATCH", place, subresource, head | body, APPLY, query)
        await write.patch(self.state, request, scope)

    async def update(self, place: Place, body: Obj, subresource: str = "") -> None:
        """Raises StatusError."""
        request, scope = self._request("PUT", place, subresource, body)
        await write.update(self.state, request, scope)

    async def delete(self, place: Place, uid: str, propagation: str) -> None:
        """Raises StatusError: 404, 409 for another uid."""
        request, scope = self._request("DELETE", place)
        deletion = Deletion(self.state, place.kind, self.state.context(request, scope))
        await deletion.run(place.namespace, place.name, DeleteOptions(uid=uid, propagation=propagation))

    def _request(
        self,
        method: str,
        place: Place,
        subresource: str = "",
        body: Obj | None = None,
        content: str = "application/json",
        parameters: str = "",
    ) -> tuple[Request, RequestScope]:
        kind = place.kind
        version = kind.versions[0]
        head = f"/apis/{kind.group}/{version}" if kind.group else f"/api/{version}"
        inside = f"/namespaces/{place.namespace}" if place.namespace else ""
        path = "/".join(filter(None, (f"{head}{inside}/{kind.resource}", place.name, subresource)))
        headers = {"User-Agent": self._agent, "Accept": "application/json", "Content-Type": content}
        raw = b"" if body is None else orjson.dumps(body)
        query = Query(parameters)
        request = Request(method, path, headers, raw, query, self.state.release.version, user=self._user)
        info = request_info(method, path, query)
        return request, RequestScope(info, kind, version, place.namespace, place.name, subresource)
