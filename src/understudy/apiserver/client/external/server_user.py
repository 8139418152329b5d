"""A user of a server, made by `Server.user`."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any, TypeVar

from understudy.apiserver.client.external.access import ExternalClients
from understudy.apiserver.client.kubeconfig import KubeconfigPath
from understudy.apiserver.client.objects import ObjectAccess, Use

T = TypeVar("T")


class ServerUser(ObjectAccess, ExternalClients):
    """A user of a server (see `Server.user`): who it is, how it logs in, and objects as it sees them.

    name, groups  of the user
    token         its bearer token, valid until the server stops
    """

    def __init__(
        self, name: str, groups: Iterable[str], token: str, kubeconfig: KubeconfigPath, ask: Callable[[Use[Any]], Any]
    ) -> None:
        self.name = name
        self.groups = tuple(groups)
        self.token = token
        self._kubeconfig = kubeconfig
        self._answer = ask

    def __repr__(self) -> str:
        return f"<user {self.name} of {', '.join(self.groups) or 'no group'}>"

    @property
    def kubeconfig(self) -> KubeconfigPath:
        """Return the path of a file (mode 0600) with the token: a `str` with the methods of `pathlib.Path`.

        The file is deleted with the server.
        """
        return self._kubeconfig

    def _ask(self, use: Use[T]) -> T:
        __tracebackhide__ = True
        answer: T = self._answer(use)
        return answer
