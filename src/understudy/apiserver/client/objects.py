"""Objects of a server, read and written as one user: what `Server` and each of its users offer to tests."""

from __future__ import annotations

import os
from abc import ABC, abstractmethod
from collections.abc import Callable, Coroutine, Iterable
from functools import partial
from pathlib import Path
from typing import Any, TypeVar

from understudy.apiserver.client import apply
from understudy.apiserver.client.apply import Pause
from understudy.apiserver.client.kubeconfig import KubeconfigPath
from understudy.apiserver.client.loopback import Client
from understudy.apiserver.client.manifests import located
from understudy.machinery.types import Obj

T = TypeVar("T")
Use = Callable[[Client, Pause], Coroutine[Any, Any, T]]


class ObjectAccess(ABC):
    """Reads and writes objects; errors are those that the server answers with.

    manifest_folder  where relative paths of manifests are looked for before the working directory: the folder of the
                     test in the fixture
    """

    manifest_folder: Path | None = None

    @abstractmethod
    def _ask(self, use: Use[T]) -> T:
        """Return what a function that is given a client returns. Raises StatusError, LoadError."""

    def apply(self, *manifests: str | os.PathLike[str] | Obj | Iterable[Obj]) -> list[Obj]:
        """Create or update objects from paths, YAML or JSON texts, and dicts; return them as stored, in order.

        Raises StatusError for what the server refuses, LoadError for what cannot be read.
        """
        __tracebackhide__ = True  # so that pytest shows the line of the test, and the error
        placed = [*map(partial(located, folder=self.manifest_folder), manifests)]
        return self._ask(lambda client, pause: apply.apply(client, pause, *placed))

    def get(self, kind: str, name: str, namespace: str = "default") -> Obj:
        """Return an object by its kind or resource ("ResourceClaim", "pods", "deploy"). Raises StatusError (404)."""
        __tracebackhide__ = True
        return self._ask(lambda client, pause: apply.get(client, kind, name, namespace))

    def list(self, kind: str, namespace: str = "", *, labels: str = "", fields: str = "") -> list[Obj]:
        """Return objects of a kind, of one namespace or of all, that label and field selectors match."""
        __tracebackhide__ = True
        return self._ask(lambda client, pause: apply.list_objects(client, kind, namespace, labels, fields))

    def delete(self, kind: str, name: str, namespace: str = "default") -> None:
        """Delete an object. Raises StatusError (404)."""
        __tracebackhide__ = True
        self._ask(lambda client, pause: apply.delete(client, kind, name, namespace))


class ServerUser(ObjectAccess):
    """A user of a server (see `Server.user`): who it is, how it logs in, and objects as it sees them.

    name, groups  of the user
    token         its bearer token, valid until the server stops
    kubeconfig    the path of a file (mode 0600) with that token: a `str` with the methods of `pathlib.Path`. The file
                  is deleted with the server
    """

    def __init__(
        self, name: str, groups: Iterable[str], token: str, kubeconfig: KubeconfigPath, ask: Callable[[Use[Any]], Any]
    ) -> None:
        self.name = name
        self.groups = tuple(groups)
        self.token = token
        self.kubeconfig = kubeconfig
        self._answer = ask

    def __repr__(self) -> str:
        return f"<user {self.name} of {', '.join(self.groups) or 'no group'}>"

    def _ask(self, use: Use[T]) -> T:
        __tracebackhide__ = True
        answer: T = self._answer(use)
        return answer
