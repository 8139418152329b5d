"""Says on the server's terminal, once, why a client waits in vain or cannot get what it asks for.

    kubectl delete namespace a     namespace a stays until its content is deleted: --controllers=namespace does that
    kubectl create token default   serviceaccount default/default does not exist: --controllers=serviceaccount makes it

The answers of the server are those of kube-apiserver, which also waits for other programs without a word.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Collection
from contextlib import suppress

from multidict import istr

from understudy.apiserver.client.loopback import USER_AGENT
from understudy.apiserver.endpoints.request import Request, Response, WatchResponse
from understudy.apiserver.endpoints.requestinfo import RequestInfo
from understudy.apiserver.endpoints.server_state import ServerState
from understudy.apiserver.server.filters.hints.waits import Hint, Waits
from understudy.apiserver.server.http1.streamed import StreamedResponse
from understudy.apiserver.storage.interface import UnreadableError
from understudy.kinds.declarations.kind import Kind
from understudy.machinery.types import Obj, nested_field

DELAY = 1.0  # seconds that programs next to the server have to act, before it is said that none does
COMMAND = istr("Kubectl-Command")  # a header of every request of kubectl: `kubectl port-forward`
TO_CONTAINERS = frozenset({"kubectl logs", "kubectl exec", "kubectl attach", "kubectl port-forward", "kubectl cp"})
CONNECTIONS = frozenset({"log", "exec", "attach", "portforward", "proxy"})  # subresources
NO_CONTAINERS = Hint(
    "containers",
    "no containers run here: logs, exec, attach and port-forward need the kubelet of a node, proxy a server",
)
ACCOUNT = "default"

log = logging.getLogger("understudy")


class Hints:
    """Watches requests, and gives each hint once.

    controllers  names of those that run behind the server
    """

    def __init__(self, state: ServerState, controllers: Collection[str]) -> None:
        self._state = state
        self._controllers = controllers
        self._waits = Waits(state.registry, controllers)
        self._given: set[str] = set()
        self._later: set[asyncio.TimerHandle] = set()

    def forget(self) -> None:
        """Start over: what was said is said again, and what was to be looked at is not."""
        self._given.clear()
        for handle in self._later:
            handle.cancel()
        self._later.clear()

    def observe(self, request: Request, answer: Response | WatchResponse) -> None:
        """Look at a request that has been answered. Those of the server's own controllers do not count."""
        info, headers = request.info, request.headers
        if headers.get(COMMAND) in TO_CONTAINERS or info.subresource in CONNECTIONS:
            is_answered = isinstance(answer, StreamedResponse)  # by a kubelet
            if info.is_resource and not is_answered and not self._is_kubelet_named():
                self._give(NO_CONTAINERS)
        elif info.verb == "delete" or (info.verb == "watch" and info.name):
            if not request.is_internal or headers.get("User-Agent") == USER_AGENT:
                self._look_later(info)
        elif info.subresource == "token" and isinstance(answer, Response) and answer.status == 404:
            self._of_missing_account(info)

    def _is_kubelet_named(self) -> bool:
        """Report whether a node says at which port its kubelet listens."""
        nodes = self._state.registry.listing("", "nodes", "")
        return any(
            nested_field(node, "status", "daemonEndpoints", "kubeletEndpoint", "Port", default=0) for node in nodes
        )

    def _of_missing_account(self, info: RequestInfo) -> None:
        """Say who makes the service account `default`, which is in every namespace of a cluster."""
        if info.name != ACCOUNT or "serviceaccount" in self._controllers:
            return
        if self._state.registry.lookup("", "serviceaccounts", info.namespace, ACCOUNT) is None:
            missing = f"serviceaccount {info.namespace}/{ACCOUNT} does not exist"
            self._give(Hint("serviceaccount", f"{missing}: --controllers=serviceaccount makes it in each namespace"))

    def _look_later(self, info: RequestInfo) -> None:
        """Look in a moment whether somebody cares for an object that a client waits for, or has deleted in vain."""
        kind = self._state.serving.resource(info.group, info.version, info.resource)
        if kind is None or info.subresource or self._object(kind, info) is None:
            return

        def look() -> None:
            self._later.discard(handle)
            obj = self._object(kind, info)
            if obj is None or (info.verb == "delete" and "deletionTimestamp" not in obj["metadata"]):
                return
            if hint := self._waits.hint(kind, obj, self._state.clock.now()):
                self._give(hint)

        handle = asyncio.get_running_loop().call_later(DELAY, look)
        self._later.add(handle)

    def _object(self, kind: Kind, info: RequestInfo) -> Obj | None:
        """Return the object that a request is about, None if there is none, or none that can be read."""
        namespace = info.namespace if kind.namespaced else ""
        with suppress(UnreadableError):
            return self._state.registry.lookup(info.group, info.resource, namespace, info.name)
        return None

    def _give(self, hint: Hint) -> None:
        if hint.topic not in self._given:
            self._given.add(hint.topic)
            log.warning("hint: %s", hint.text)
