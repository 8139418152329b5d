"""Takes back tokens in Secrets that nobody uses: those that old releases made for each account, which lists them.

    unused for a year, in no pod              the Secret gets the label kubernetes.io/legacy-token-invalid-since
    has had that label for another year       the Secret is deleted

It looks at all Secrets when it starts and once a day, and does nothing in the first year in which uses are noted.
Source: k8s.io/kubernetes/pkg/controller/serviceaccount/legacy_serviceaccount_token_cleaner.go.
"""

from __future__ import annotations

import logging
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta

from understudy.apiserver.authentication.service_accounts.legacy_tokens import (
    DAY,
    INVALID_SINCE,
    LAST_USED,
    NAME_ANNOTATION,
    SECRET_TYPE,
    UID_ANNOTATION,
)
from understudy.apiserver.controllers.controller import CONTROLLER_AGENT, NAMESPACE, ControllerContext, service_account
from understudy.apiserver.controllers.framework.controller import Controller
from understudy.apiserver.controllers.framework.store_informer import StoreInformers
from understudy.apiserver.controllers.token_tracking import NAME, SINCE, is_day
from understudy.apiserver.endpoints.requestinfo import resource_path
from understudy.kinds.core.pods.pod_references import secrets
from understudy.machinery.errors import StatusError
from understudy.machinery.types import Obj
from understudy.machinery.util.clock import timestamp

log = logging.getLogger("understudy")
ACCOUNT = "legacy-service-account-token-cleaner"
PERIOD = 365 * DAY  # seconds without use. Upstream: `CleanUpPeriod`
PAUSE = float(DAY)  # seconds between two looks. Upstream: `DefaultCleanerSyncInterval`
_EVERYTHING = ""


class TokenCleaner(Controller[str]):
    """Marks and deletes Secrets; the only key stands for all of them. Upstream: `LegacySATokenCleaner`."""

    def __init__(self, context: ControllerContext, informers: StoreInformers) -> None:
        super().__init__(informers)
        self._registry = context.state.registry
        self._clock = context.state.clock
        self._client = context.clients.client(CONTROLLER_AGENT, service_account(ACCOUNT))
        self.queue.add(_EVERYTHING)

    async def sync(self, key: str) -> None:
        """Look at all Secrets, and again after a day."""
        self.queue.add_after(key, PAUSE)
        now = self._clock.now()
        if not self._is_tracked(now - PERIOD):
            return
        before = timestamp(now - PERIOD)
        for secret in [*self._unused(before)]:
            metadata = secret["metadata"]
            marked = (metadata.get("labels") or {}).get(INVALID_SINCE, "")
            try:
                if not is_day(marked):
                    await self._mark(metadata, timestamp(now)[:10])
                elif marked < before[:10]:
                    await self._client.delete(_path(metadata), resource_version=metadata["resourceVersion"])
            except StatusError as error:
                if error.code not in (404, 409):
                    log.error("Secret %s/%s: %s", metadata["namespace"], metadata["name"], error)

    def _is_tracked(self, since: float) -> bool:
        """Report whether uses have been noted since some time: from the day on after that in the ConfigMap."""
        stored = self._registry.lookup("", "configmaps", NAMESPACE, NAME) or {}
        day = (stored.get("data") or {}).get(SINCE, "")
        if not is_day(day):
            log.error("ConfigMap %s does not say since when uses of tokens are noted", NAME)
            return False
        return since >= (datetime.fromisoformat(day).replace(tzinfo=UTC) + timedelta(days=1)).timestamp()

    def _unused(self, before: str) -> Iterator[Obj]:
        """Yield the Secrets that are listed by their account, and were neither made nor used since some time."""
        mounted: dict[str, set[str]] = {}
        for secret in self._registry.listing("", "secrets"):
            metadata = secret["metadata"]
            namespace, name = metadata["namespace"], metadata["name"]
            used = (metadata.get("labels") or {}).get(LAST_USED)
            if secret.get("type") != SECRET_TYPE or metadata["creationTimestamp"] >= before:
                continue
            if "deletionTimestamp" in metadata or (used is not None and (not is_day(used) or used >= before[:10])):
                continue
            if namespace not in mounted:
                pods = self._registry.listing("", "pods", namespace)
                mounted[namespace] = {named for pod in pods for named in secrets(pod)}
            if name not in mounted[namespace] and self._is_listed(metadata):
                yield secret

    def _is_listed(self, metadata: Obj) -> bool:
        """Report whether the account of a Secret lists it, as those do for which old releases made it."""
        annotations = metadata.get("annotations") or {}
        name, uid = (annotations.get(annotation, "") for annotation in (NAME_ANNOTATION, UID_ANNOTATION))
        account = self._registry.lookup("", "serviceaccounts", metadata["namespace"], name) if name else None
        if account is None or uid not in ("", account["metadata"]["uid"]):
            return False
        return any(reference.get("name") == metadata["name"] for reference in account.get("secrets") or ())

    async def _mark(self, metadata: Obj, day: str) -> None:
        """Mark a Secret as one whose token is refused."""
        named = {name: metadata[name] for name in ("name", "namespace", "uid")}
        changes = {"kind": "Secret", "apiVersion": "v1", "metadata": {**named, "labels": {INVALID_SINCE: day}}}
        await self._client.patch(_path(metadata), changes)


def _path(metadata: Obj) -> str:
    return resource_path("", "v1", "secrets", metadata["namespace"], metadata["name"])
