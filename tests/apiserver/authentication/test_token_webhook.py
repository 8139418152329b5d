"""A webhook that knows tokens: how long its answers are kept, and flags without sense.

What it is asked is recorded, see `tests/apiserver/authorization/webhook`.
"""

from __future__ import annotations

from pathlib import Path

import pytest

from scripts.common.comparing import Server as Client
from scripts.compare.cases.access_stories import kubeconfig, of_token
from scripts.compare.cases.webhook_server import WebhookServer
from tests.clock import FixedClock
from understudy import Server

GOOD = {"authenticated": True, "user": {"username": "carol"}}


@pytest.mark.parametrize(("ttl", "status", "kept"), [("2m0s", GOOD, 120), ("0s", GOOD, 10), ("5s", {}, 5)])
def test_answers_are_kept_for_a_while(ttl: str, status: dict[str, object], kept: int, tmp_path: Path) -> None:
    """An answer is asked for again when its time is over; users are known for ten seconds at least."""
    clock, path = FixedClock.at("2026-01-01T00:00:00Z"), tmp_path / "hook.kubeconfig"
    with WebhookServer() as hook:
        answer = of_token(status, "v1beta1").answer
        assert answer is not None
        hook.answers["/tokens"] = answer
        path.write_text(kubeconfig(f"https://127.0.0.1:{hook.port}/tokens").replace("{{ca}}", hook.bundle))
        options = {
            "authentication_token_webhook_config_file": path,
            "authentication_token_webhook_cache_ttl": ttl,
            "authorization_mode": "RBAC",
        }
        with Server(**options, clock=clock) as server, Client(server.url, "token") as client:  # type: ignore[arg-type]
            for seconds, calls in ((0, 1), (kept - 1, 0), (2, 1)):
                clock.seconds += seconds
                assert client.exchange("GET", "/version").status == (200 if status else 401)
                assert len(hook.taken()) == calls


@pytest.mark.parametrize(
    ("flags", "error"),
    [
        ({"config_file": "none"}, "stat none: no such file or directory"),
        (
            {"config_file": "empty"},
            "invalid configuration: no configuration has been provided, try setting KUBERNETES_MASTER environment "
            "variable",
        ),
        (
            {"config_file": "good", "version": "v2"},
            'unsupported authentication webhook version "v2", supported versions are "v1", "v1beta1"',
        ),
        (
            {"cache_ttl": "x"},
            'invalid argument "x" for "--authentication-token-webhook-cache-ttl" flag: time: invalid duration "x"',
        ),
    ],
)
def test_flags_without_sense(
    flags: dict[str, str], error: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A server does not start with them, and says why in the words of kube-apiserver 1.32 and 1.37."""
    monkeypatch.chdir(tmp_path)
    Path("good").write_text(kubeconfig("https://127.0.0.1:1/tokens").replace("{{ca}}", ""))
    Path("empty").touch()
    with pytest.raises(ValueError) as why:  # noqa: PT011 - the whole text is compared
        Server(**{f"authentication_token_webhook_{name}": value for name, value in flags.items()})  # type: ignore[arg-type]
    assert str(why.value) == error
