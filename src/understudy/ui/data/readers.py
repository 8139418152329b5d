"""Tells what a reader of the page may see of what others have asked for."""

from __future__ import annotations

from collections.abc import Callable

from understudy.apiserver.endpoints.requestinfo import OF_COLLECTIONS
from understudy.kinds.declarations.kind import Kind
from understudy.machinery.auth.authorization import Attributes, Authorizer
from understudy.machinery.auth.users import User

Reader = Callable[[Attributes], bool]  # reports whether a reader may do something


def reader(authorizer: Authorizer, user: User) -> Reader:
    """Return the reader who is a user. Its answers are kept as long as the reader is: for one request."""
    known: dict[Attributes, bool] = {}

    def may(asked: Attributes) -> bool:
        if asked not in known:
            known[asked] = authorizer.authorize(user, asked).allowed
        return known[asked]

    return may


def everything(asked: Attributes) -> bool:
    """Let a reader see everything, as the reader of a report does."""
    return True


def read_of(info: Attributes, key: str = "") -> Attributes:
    """Return the read that shows what a request was about: a GET of its object or path, or a list.

    key  that of the object which it has written, if it did
    """
    if not info.is_resource:
        return Attributes(info.path, "get")
    if info.verb in OF_COLLECTIONS:
        return read(info, "list", info.namespace, info.name)
    return read(info, "get", info.namespace, info.name or key.rpartition("/")[2])


def read(kind: Attributes | Kind, verb: str, namespace: str, name: str) -> Attributes:
    """Return the read of an object or of a collection; `kind` says of what group and resource."""
    return Attributes(
        "", verb, is_resource=True, group=kind.group, namespace=namespace, resource=kind.resource, name=name
    )
