"""Keeps the ConfigMap that says since when the server notes the use of tokens that are kept in Secrets.

    since: x    is replaced by the day of today, since x is no day
    deleted     it is made again, but 30 minutes after the time before, or after the start, at the earliest

Upstream: k8s.io/kubernetes/pkg/controlplane/controller/legacytokentracking.
"""

from __future__ import annotations

from datetime import date

from understudy.apiserver.controllers.controller import APISERVER_AGENT, NAMESPACE, ControllerContext
from understudy.apiserver.controllers.framework.controller import Controller
from understudy.apiserver.controllers.framework.store_informer import StoreInformers
from understudy.apiserver.endpoints.requestinfo import resource_path
from understudy.apiserver.storage.interface import Entry
from understudy.machinery.errors import StatusError
from understudy.machinery.types import Obj
from understudy.machinery.util.clock import timestamp

NAME = "kube-apiserver-legacy-service-account-token-tracking"
CONFIG_MAPS = f"/registry/configmaps/{NAMESPACE}/"
SINCE = "since"
PAUSE = 30 * 60.0  # seconds between two times that it is made


class TokenTrackingController(Controller[str]):
    """Mends the ConfigMap or makes it again; the only key is its name."""

    def __init__(self, context: ControllerContext, informers: StoreInformers) -> None:
        super().__init__(informers)
        self._registry = context.state.registry
        self._clock = context.state.clock
        self._client = context.clients.client(APISERVER_AGENT)
        self._made = self._clock.monotonic()
        informers.of(CONFIG_MAPS).on_change(self._changed)

    def _changed(self, entry: Entry) -> None:
        if entry.key == CONFIG_MAPS + NAME:
            self.queue.add(NAME)

    async def sync(self, key: str) -> None:
        """Write the ConfigMap if it is missing or says no day."""
        stored = self._registry.lookup("", "configmaps", NAMESPACE, key)
        if stored is None and (wait := self._made + PAUSE - self._clock.monotonic()) > 0:
            self.queue.add_after(key, wait)
        elif stored is None or not is_day((stored.get("data") or {}).get(SINCE, "")):
            await self._write(stored)

    async def _write(self, stored: Obj | None) -> None:
        today = {SINCE: timestamp(self._clock.now())[:10]}
        try:
            if stored is None:
                path = resource_path("", "v1", "configmaps", NAMESPACE)
                await self._client.create(path, {"metadata": {"name": NAME}, "data": today})
                self._made = self._clock.monotonic()
            else:
                changed = {**stored, "data": {**(stored.get("data") or {}), **today}}
                await self._client.update(resource_path("", "v1", "configmaps", NAMESPACE, NAME), changed)
        except StatusError as error:
            if error.code not in (404, 409):  # gone, or written by somebody else
                raise


def is_day(text: str) -> bool:
    """Report whether a text is a day, such as "2006-01-02"."""
    try:
        return date.fromisoformat(text).isoformat() == text
    except ValueError:
        return False
