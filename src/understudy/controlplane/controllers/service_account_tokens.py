"""Puts tokens into Secrets of the type `kubernetes.io/service-account-token`.

    kubernetes.io/service-account.name    an annotation of the Secret: the account
    data                                  gets `token`, `namespace` and, over TLS, `ca.crt`
    kubectl delete serviceaccount …       deletes the Secrets of the account
    kubectl delete secret …               removes the Secret from those that the account lists

Source: k8s.io/kubernetes/pkg/controller/serviceaccount/tokens_controller.go.
"""

from __future__ import annotations

import json
from base64 import b64encode
from collections.abc import Iterable

from understudy.apiserver.authentication.service_accounts.legacy_tokens import (
    NAME_ANNOTATION,
    SECRET_TYPE,
    UID_ANNOTATION,
)
from understudy.apiserver.controllers.controller import CONTROLLER_AGENT, ControllerContext
from understudy.apiserver.controllers.framework.controller import Controller
from understudy.apiserver.controllers.framework.store_informer import StoreInformers
from understudy.apiserver.endpoints.requestinfo import resource_path
from understudy.apiserver.storage.interface import Entry
from understudy.controlplane.components import MANAGER_LEASE
from understudy.machinery.auth.users import AUTHENTICATED, User
from understudy.machinery.errors import StatusError
from understudy.machinery.types import Obj

SECRETS, ACCOUNTS = "/registry/secrets/", "/registry/serviceaccounts/"


class TokensController(Controller[str]):
    """Fills in Secrets, and deletes those whose account is gone. Upstream: `TokensController`.

    Keys are JSON: namespace, name and uid of the Secret, name and uid of its account. The uid of the account is "" for
    a Secret that does not say it yet.
    """

    def __init__(self, context: ControllerContext, informers: StoreInformers) -> None:
        super().__init__(informers)
        self._registry = context.state.registry
        self._tokens = context.state.tokens.accounts
        user = User(f"system:{MANAGER_LEASE}", [AUTHENTICATED])
        self._client = context.clients.client(CONTROLLER_AGENT, user)
        self._root_ca = context.root_ca.encode()
        informers.of(SECRETS).on_change(self._secret_changed)
        informers.of(ACCOUNTS).on_change(self._account_changed)

    def _secret_changed(self, entry: Entry) -> None:
        self.queue.add_all(_keys([entry.value]))

    def _account_changed(self, entry: Entry) -> None:
        if entry.is_deletion:
            secrets = self._registry.listing("", "secrets", entry.value["metadata"]["namespace"])
            self.queue.add_all(_keys(secrets, entry.value["metadata"]["name"]))

    async def sync(self, key: str) -> None:
        """Do for a Secret what has to be done, or for its account if the Secret is gone."""
        namespace, name, uid, account_name, account_uid = json.loads(key)
        secret = self._stored("secrets", namespace, name, uid)
        account = self._stored("serviceaccounts", namespace, account_name, account_uid)
        try:
            if secret is not None and account is not None:
                await self._fill(secret, account)
            elif secret is not None:
                await self._client.delete(resource_path("", "v1", "secrets", namespace, name), uid=uid)
            elif account is not None:
                await self._release(account, name)
        except StatusError as error:
            if error.code not in (404, 409):  # gone, or changed: then there is another event
                raise

    def _stored(self, resource: str, namespace: str, name: str, uid: str) -> Obj | None:
        """Return an object, None if there is none with that uid."""
        obj = self._registry.lookup("", resource, namespace, name)
        return obj if obj is not None and uid in ("", obj["metadata"]["uid"]) else None

    async def _fill(self, secret: Obj, account: Obj) -> None:
        """Write into a Secret what it lacks."""
        held, metadata, owner = secret.get("data") or {}, secret["metadata"], account["metadata"]
        lacks = {}
        if self._root_ca and held.get("ca.crt") != (authority := b64encode(self._root_ca).decode()):
            lacks["ca.crt"] = authority
        if not held.get("namespace"):
            lacks["namespace"] = b64encode(metadata["namespace"].encode()).decode()
        if not held.get("token"):
            lacks["token"] = b64encode(self._tokens.issue_legacy(owner, metadata).encode()).decode()
        if not lacks:
            return
        named = {NAME_ANNOTATION: owner["name"], UID_ANNOTATION: owner["uid"]}
        annotations = {**(metadata.get("annotations") or {}), **named}
        filled = {**secret, "metadata": {**metadata, "annotations": annotations}, "data": {**held, **lacks}}
        await self._client.update(resource_path("", "v1", "secrets", metadata["namespace"], metadata["name"]), filled)

    async def _release(self, account: Obj, secret: str) -> None:
        """Remove a Secret that is gone from those that an account lists."""
        listed, metadata = account.get("secrets") or [], account["metadata"]
        kept = [reference for reference in listed if reference.get("name") != secret]
        if len(kept) < len(listed):
            path = resource_path("", "v1", "serviceaccounts", metadata["namespace"], metadata["name"])
            await self._client.update(path, {**account, "secrets": kept})


def _keys(secrets: Iterable[Obj], account: str = "") -> Iterable[str]:
    """Yield the keys of the Secrets that hold tokens: all of them, or those of an account."""
    for secret in secrets:
        metadata = secret["metadata"]
        annotations = metadata.get("annotations") or {}
        name = annotations.get(NAME_ANNOTATION, "")
        if secret.get("type") == SECRET_TYPE and name and account in ("", name):
            place = [metadata["namespace"], metadata["name"], metadata["uid"]]
            yield json.dumps([*place, name, annotations.get(UID_ANNOTATION, "")])
