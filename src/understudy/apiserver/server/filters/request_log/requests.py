"""Requests that a server has answered, as tests ask for them: `Server.requests`.

    assert len(apiserver.requests.patches("resourceclaims", subresource="status", user="driver")) == 1

A request is made of its note in the log when a test asks.
"""

from __future__ import annotations

import json
from collections.abc import Collection, Iterable, Mapping
from dataclasses import field
from typing import Any, SupportsIndex, TypedDict, Unpack, overload

from understudy.apiserver.client.kind_names import find
from understudy.apiserver.extensions.serving import Serving
from understudy.machinery.types import dataclass
from understudy.machinery.util.spelling import did_you_mean


@dataclass(frozen=True, slots=True)
class LoggedRequest:
    """A request that was answered.

    verb        create, get, list, watch, update, patch, delete, deletecollection, …; the method in lower case for a
                path that is no resource
    path        without the query
    query       the parameters; of one that is there twice, the first
    user        "" for a request that was not authenticated
    user_agent  of the program that has sent it; "understudy" for the methods of `Server`
    status      of the answer (HTTP); 0 for a request whose connection a fault has reset before it was done
    message     of an answer that is an error, "" for others
    refused_by  what has refused the request: "validation", "admission plugin NAME", "webhook NAME", "policy NAME",
                "authorization", "RBAC" (for rights that the user would grant and does not hold), "authentication",
                "fault"; "" if that is none of them (not found, conflict), and if nothing has
    body        as it was sent; see `json`
    seconds     until the answer, or until a watch began
    """

    verb: str
    path: str
    query: Mapping[str, str]
    group: str
    version: str
    resource: str
    subresource: str
    namespace: str
    name: str
    user: str
    user_agent: str
    status: int
    message: str
    refused_by: str
    body: bytes = field(repr=False)
    seconds: float

    def json(self) -> Any:
        """Return the body as JSON. Raises ValueError for a body in another encoding, or without one."""
        return json.loads(self.body)

    def __repr__(self) -> str:
        return f"<{' '.join(cell for cell in self.cells() if cell)}>"

    def cells(self) -> tuple[str, str, str, str, str]:
        """Return verb, path with query, user, status and message, for a line of a table."""
        query = "&".join(f"{name}={value}" for name, value in self.query.items())
        path = f"{self.path}?{query}" if query else self.path
        return self.verb, path, self.user or "(unknown)", str(self.status), self.message


class Which(TypedDict, total=False):
    """The fields by which requests are chosen; those that are left out do not matter.

    subresource  "" for requests of the object itself
    """

    namespace: str
    name: str
    subresource: str
    user: str
    user_agent: str
    status: int


class Requests(list[LoggedRequest]):
    """Requests in the order of their answers.

    Each method returns those of a verb, and of a kind if one is given: a kind, resource, singular or short name, as for
    `Server.get`. Raises StatusError (404) for an unknown kind.
    """

    def __init__(self, requests: Iterable[LoggedRequest], serving: Serving) -> None:
        super().__init__(requests)
        self._serving = serving

    @overload
    def __getitem__(self, index: SupportsIndex, /) -> LoggedRequest: ...
    @overload
    def __getitem__(self, index: slice, /) -> Requests: ...
    def __getitem__(self, index: SupportsIndex | slice, /) -> LoggedRequest | Requests:
        if isinstance(index, slice):
            return Requests(super().__getitem__(index), self._serving)
        return super().__getitem__(index)

    def where(self, verbs: str | Collection[str] = (), kind: str = "", **which: Unpack[Which]) -> Requests:
        """Return the requests of some verbs, of a kind, and with some fields. Raises TypeError for an unknown field."""
        __tracebackhide__ = True  # so that pytest shows the line of the test, and the error
        fields: dict[str, object] = dict(which)
        for name in fields.keys() - LoggedRequest.__dataclass_fields__.keys():
            raise TypeError(f"requests are not chosen by {name!r}{did_you_mean(name, Which.__annotations__)}")
        if kind:
            served = find(self._serving, kind)
            fields |= {"group": served.kind.group, "resource": served.kind.resource}
            if kind.lower().partition(".")[2] == f"{served.version}.{served.kind.group}":
                fields["version"] = served.version
        chosen = {verbs} if isinstance(verbs, str) else set(verbs)
        return Requests(
            (
                each
                for each in self
                if (not chosen or each.verb in chosen)
                and all(getattr(each, name) == value for name, value in fields.items())
            ),
            self._serving,
        )

    def gets(self, kind: str = "", **which: Unpack[Which]) -> Requests:
        """Return the requests for one object."""
        return self.where("get", kind, **which)

    def lists(self, kind: str = "", **which: Unpack[Which]) -> Requests:
        """Return the requests for lists."""
        return self.where("list", kind, **which)

    def watches(self, kind: str = "", **which: Unpack[Which]) -> Requests:
        """Return the requests for watches."""
        return self.where("watch", kind, **which)

    def creates(self, kind: str = "", **which: Unpack[Which]) -> Requests:
        """Return the requests that create an object."""
        return self.where("create", kind, **which)

    def updates(self, kind: str = "", **which: Unpack[Which]) -> Requests:
        """Return the requests that replace an object."""
        return self.where("update", kind, **which)

    def patches(self, kind: str = "", **which: Unpack[Which]) -> Requests:
        """Return the requests that patch or apply an object."""
        return self.where("patch", kind, **which)

    def deletes(self, kind: str = "", **which: Unpack[Which]) -> Requests:
        """Return the requests that delete an object or a collection."""
        return self.where(("delete", "deletecollection"), kind, **which)
