"""Tokens in Secrets, from the Secret without one to the deleted account, as beside kube-apiserver 1.32 and 1.37."""

from __future__ import annotations

from base64 import b64decode
from collections.abc import Iterator

import pytest

from tests.http import MERGE_PATCH, Response, send
from tests.waiting import wait_until
from understudy import Server
from understudy.apiserver.authentication.service_accounts.legacy_tokens import LAST_USED, NAME_ANNOTATION, SECRET_TYPE
from understudy.apiserver.controllers import token_tracking
from understudy.machinery.types import Obj

CORE = "/api/v1/namespaces/default"
TRACKING = f"/api/v1/namespaces/kube-system/configmaps/{token_tracking.NAME}"
REVIEWS = "/apis/authentication.k8s.io/v1/selfsubjectreviews"


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    tokens = tmp_path_factory.mktemp("tokens") / "tokens.csv"
    tokens.write_text("admin,admin,admin,system:masters\n")
    with Server(token_auth_file=tokens, tls=False, controllers=["serviceaccount-token-controller"]) as running:
        yield running


def ask(
    server: Server, method: str, path: str, body: Obj | None = None, media: str | None = None, token: str = "admin"
) -> Response:
    return send(server, method, path, body, media, headers={"Authorization": f"Bearer {token}"})


def add(server: Server, account: str, **metadata: object) -> str:
    """Add a Secret for an account; return its path."""
    described = {"name": f"{account}-token", "annotations": {NAME_ANNOTATION: account}, **metadata}
    assert ask(server, "POST", f"{CORE}/secrets", {"metadata": described, "type": SECRET_TYPE}).status == 201
    return f"{CORE}/secrets/{account}-token"


def test_life_of_a_token(server: Server) -> None:
    """A Secret gets a token, its use is noted, it is listed no longer when it is gone, and goes with its account."""
    account = {"metadata": {"name": "bot"}, "secrets": [{"name": "bot-token"}, {"name": "other"}]}
    ask(server, "POST", f"{CORE}/serviceaccounts", account)
    path = add(server, "bot")
    secret = wait_until(lambda: ask(server, "GET", path).json(), lambda obj: "token" in (obj.get("data") or {}))
    token = b64decode(secret["data"]["token"]).decode()
    assert b64decode(secret["data"]["namespace"]) == b"default"
    assert set(secret["metadata"]["annotations"]) == {NAME_ANNOTATION, "kubernetes.io/service-account.uid"}

    review = ask(server, "POST", REVIEWS, {}, token=token)
    assert review.json()["status"]["userInfo"]["username"] == "system:serviceaccount:default:bot"
    assert len(review.warnings) == 1
    used = ask(server, "GET", path).json()["metadata"]
    assert set(used["labels"]) == {LAST_USED}
    assert {(entry["manager"], entry["operation"]) for entry in used["managedFields"]} >= {
        ("kube-apiserver", "Update"),
        ("kube-controller-manager", "Update"),
    }

    ask(server, "DELETE", path)
    assert ask(server, "POST", REVIEWS, {}, token=token).status == 401
    of_account = f"{CORE}/serviceaccounts/bot"
    assert wait_until(lambda: ask(server, "GET", of_account).json()["secrets"], lambda kept: len(kept) == 1)
    path = add(server, "bot")
    wait_until(lambda: ask(server, "GET", path).json(), lambda obj: "token" in (obj.get("data") or {}))
    ask(server, "DELETE", of_account)
    assert wait_until(lambda: ask(server, "GET", path).status, lambda status: status == 404)


def test_secret_of_no_account_is_deleted(server: Server) -> None:
    """A Secret whose account is not there goes at once."""
    path = add(server, "nobody")
    assert wait_until(lambda: ask(server, "GET", path).status, lambda status: status == 404)


def test_day_of_tracking_is_mended(server: Server) -> None:
    """The ConfigMap that says since when uses are noted always says a day."""
    before = ask(server, "GET", TRACKING).json()["data"]
    ask(server, "PATCH", TRACKING, {"data": {"since": "2026-1-1"}}, MERGE_PATCH)
    assert wait_until(
        lambda: ask(server, "GET", TRACKING).json()["data"], lambda data: data["since"] >= before["since"]
    )
