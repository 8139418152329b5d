"""Webhooks that authorize: when they are asked again, what the rest of a request asks them, and flags without sense."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from scripts.common.comparing import Answer as Answered
from scripts.common.comparing import Server as Client
from scripts.compare.cases.access_stories import ALLOWED, REFUSED, kubeconfig, review
from scripts.compare.cases.webhook_server import Answer, WebhookServer
from tests.clock import FixedClock
from understudy import Server, StatusError
from understudy.admission import generic_webhook

POLICY = {
    "apiVersion": "admissionregistration.k8s.io/v1",
    "kind": "ValidatingAdmissionPolicy",
    "metadata": {"name": "asks"},
    "spec": {
        "matchConstraints": {
            "resourceRules": [
                {"apiGroups": [""], "apiVersions": ["v1"], "operations": ["CREATE"], "resources": ["configmaps"]}
            ]
        },
        "validations": [{"expression": "!authorizer.group('x').resource('y').check('fly').errored()"}],
    },
}
BINDING = {
    "apiVersion": "admissionregistration.k8s.io/v1",
    "kind": "ValidatingAdmissionPolicyBinding",
    "metadata": {"name": "asks"},
    "spec": {"policyName": "asks", "validationActions": ["Deny"]},
}
CONFIG_MAP = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "a"}}


@pytest.fixture
def hook() -> Iterator[WebhookServer]:
    with WebhookServer() as hook:
        yield hook


@pytest.fixture
def options(hook: WebhookServer, tmp_path: Path) -> dict[str, Any]:
    """The options of a server that asks the webhook."""
    path = tmp_path / "hook.kubeconfig"
    path.write_text(kubeconfig(f"https://127.0.0.1:{hook.port}/authz").replace("{{ca}}", hook.bundle))
    return {"authorization_mode": "Webhook", "authorization_webhook_config_file": path}


class User:
    """A user without rights, who asks a server for pages."""

    def __init__(self, server: Server) -> None:
        self._client = Client(server.url, server.user("alice").token)

    def asks(self, path: str) -> Answered:
        """Return the answer to a GET."""
        with self._client:
            return self._client.exchange("GET", path)


def asked(hook: WebhookServer) -> list[Any]:
    """Return the verbs that the webhook was asked about since the last time."""
    specs = [call["body"]["spec"] for call in hook.taken()]
    return [(spec.get("resourceAttributes") or spec["nonResourceAttributes"])["verb"] for spec in specs]


def test_answers_are_kept_for_a_while(hook: WebhookServer, options: dict[str, Any]) -> None:
    """An answer is asked for again when its time is over, one that refuses earlier."""
    clock = FixedClock.at("2026-01-01T00:00:00Z")
    with Server(**options, clock=clock) as server:
        user = User(server)
        for status, seconds in ((ALLOWED, 300), (REFUSED, 30)):
            hook.answers["/authz"] = review(status, "v1beta1")
            path = f"/kept/{seconds}"
            for step, calls in ((0, ["get"]), (seconds - 1, []), (2, ["get"])):
                clock.seconds += step
                user.asks(path)
                assert asked(hook) == calls


def test_webhook_that_fails_is_asked_five_times(
    hook: WebhookServer, options: dict[str, Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    """A server error may pass; what the client sent does not get better by sending it again."""
    monkeypatch.setattr(generic_webhook, "DELAY", 0.0)
    calls: list[Any] = []
    monkeypatch.setattr(hook, "note", calls.append)
    with Server(**options) as server:
        user = User(server)
        for status, expected in ((500, 5), (502, 5), (504, 5), (503, 1), (400, 1)):
            hook.answers["/authz"] = Answer(review=False, status=status, raw="{}")
            assert user.asks("/version").status == 500
            assert len(calls) == expected, status
            calls.clear()


def test_expressions_ask_the_webhook_once(hook: WebhookServer, options: dict[str, Any]) -> None:
    """A policy's question is asked while a request is answered, and what came before is not done again."""
    hook.answers["/authz"] = review(ALLOWED, "v1beta1")
    with Server(**options, authorization_webhook_cache_authorized_ttl="0s") as server:
        server.create(POLICY)
        server.create(BINDING)
        user = server.user("alice")
        hook.taken()
        user.create(CONFIG_MAP)
        assert asked(hook) == ["create", "fly"]


def test_request_that_is_out_of_time(hook: WebhookServer, options: dict[str, Any]) -> None:
    """A webhook that takes longer than the request may is waited for no longer."""
    hook.answers["/authz"] = Answer(review=False, delay=2.0)
    with Server(**options) as server:
        answer = User(server).asks("/api/v1/pods?timeout=200ms")
    assert (answer.status, json.loads(answer.body)["reason"]) == (504, "Timeout")


def test_server_itself_asks_nobody(hook: WebhookServer, options: dict[str, Any]) -> None:
    """Members of system:masters may do everything, controllers and the tests' own objects among them."""
    with Server(**options, controllers="namespace") as server:
        server.create(CONFIG_MAP)
        assert asked(hook) == []
        with pytest.raises(StatusError, match="could not find the requested resource"):
            server.user("alice").get("configmap", "a")


@pytest.mark.parametrize(
    ("flags", "error"),
    [
        (
            {"authorization_mode": "Webhook,RBAC,RBAC"},
            "[authorization-mode Webhook's authorization config file not passed, "
            'authorization-mode ["Webhook" "RBAC" "RBAC"] has mode specified more than once]',
        ),
        (
            {"authorization_webhook_config_file": "good", "authorization_mode": "RBAC"},
            "cannot specify --authorization-webhook-config-file without mode Webhook",
        ),
        (
            {"authorization_webhook_config_file": "none"},
            "invalid authorization config: stat none: no such file or directory",
        ),
        (
            {"authorization_webhook_config_file": "empty"},
            "invalid authorization config: invalid configuration: no configuration has been provided, try setting "
            "KUBERNETES_MASTER environment variable",
        ),
        (
            {"authorization_webhook_config_file": "good", "authorization_webhook_version": "v2"},
            'invalid authorization config: unsupported webhook authorizer version "v2", supported versions are "v1", '
            '"v1beta1"',
        ),
        (
            {"authorization_webhook_config_file": "good", "authorization_webhook_cache_authorized_ttl": "5"},
            'invalid argument "5" for "--authorization-webhook-cache-authorized-ttl" flag: time: missing unit in '
            'duration "5"',
        ),
    ],
)
def test_flags_without_sense(
    flags: dict[str, str], error: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A server does not start with them, and says why in the words of kube-apiserver 1.32 and 1.37."""
    monkeypatch.chdir(tmp_path)
    Path("good").write_text(kubeconfig("https://127.0.0.1:1/authz").replace("{{ca}}", ""))
    Path("empty").touch()
    with pytest.raises(ValueError) as why:  # noqa: PT011 - the whole text is compared
        Server(**{"authorization_mode": "Webhook", **flags})  # type: ignore[arg-type]
    assert str(why.value) == error
