"""The file of `--authentication-config` is read again when it changes."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.apiserver.authentication.oidc.issuer import AUDIENCE, Issuer
from tests.http import send
from tests.waiting import wait_until
from understudy import Server
from understudy.apiserver.server.bootstrap import issuers

REVIEWS = "/apis/authentication.k8s.io/v1/tokenreviews"
ADMIN = {"Authorization": "Bearer admin-token"}
FAMILIES = "apiserver_authentication_config_controller_automatic_reloads_total"


class Configured:
    """A server, and the file of its issuers, which is replaced in one step."""

    def __init__(self, folder: Path, release: str) -> None:
        self._folder = folder
        self.issuer = Issuer()
        self.write(prefix="first:")
        tokens = folder / "tokens.csv"
        tokens.write_text('admin-token,admin,1,"system:masters"\n')
        self.server = Server(
            token_auth_file=tokens, authentication_config=folder / "config.json", emulated_version=release
        )

    def write(self, text: str = "", *, prefix: str = "", discovery: str = "", **fields: Any) -> None:
        """Replace the file by a text, or by a configuration whose users have a prefix."""
        address = discovery or self.issuer.write_keys(self._folder)
        source = {"url": self.issuer.url, "audiences": [AUDIENCE], "discoveryURL": address}
        spec = {"issuer": source, "claimMappings": {"username": {"claim": "sub", "prefix": prefix}}}
        head = {"apiVersion": "apiserver.config.k8s.io/v1beta1", "kind": "AuthenticationConfiguration"}
        new = self._folder / "new.json"
        new.write_text(text or json.dumps({**head, "jwt": [spec], **fields}))
        new.replace(self._folder / "config.json")

    def user(self) -> str:
        """Return the name of the user of the issuer's token, "" if it is not accepted."""
        body = {"spec": {"token": self.issuer.token()}}
        status = send(self.server, "POST", REVIEWS, body, headers=ADMIN).json()["status"]
        return str(status.get("user", {}).get("username", ""))

    def reloads(self) -> dict[str, int]:
        """Return the number of times that the file was read again, by their status."""
        lines = send(self.server, "GET", "/metrics", headers=ADMIN).body.decode().splitlines()
        counts = [line for line in lines if line.startswith(FAMILIES)]
        return {line.split('status="')[1].split('"')[0]: int(line.split()[-1]) for line in counts}


@pytest.fixture(params=["1.32", "1.37"])
def configured(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Configured]:
    configured = Configured(tmp_path, request.param)
    with configured.server:
        yield configured


def test_other_issuers_are_asked(configured: Configured) -> None:
    """Users are those of the new configuration, which is counted; none at all if it names no issuer."""
    assert (configured.user(), configured.reloads()) == ("first:ann", {})
    configured.write(prefix="second:")
    assert wait_until(lambda: configured.user() == "second:ann")
    assert configured.reloads() == {"success": 1}
    configured.write('{"apiVersion": "apiserver.config.k8s.io/v1beta1", "kind": "AuthenticationConfiguration"}')
    assert wait_until(lambda: configured.user() == "")
    assert configured.reloads() == {"success": 2}


@pytest.mark.parametrize(
    ("text", "fields"),
    [
        ("{", {}),
        ("", {"jwt": [{"issuer": {"url": "http://plain"}}]}),
        ("", {"anonymous": {"enabled": False}}),  # as said at the start, or not at all
    ],
    ids=["syntax", "values", "anonymous"],
)
def test_errors_leave_the_old_ones(configured: Configured, text: str, fields: dict[str, Any]) -> None:
    """A file with errors changes nothing, and is counted."""
    configured.write(text, prefix="second:", **fields)
    assert wait_until(configured.reloads) == {"failure": 1}
    assert configured.user() == "first:ann"


def test_issuers_must_answer(configured: Configured, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """Issuers that cannot be reached do not replace those that can, until the file is read once more."""
    monkeypatch.setattr(issuers, "INTERVAL", 0.01)
    configured.write(prefix="second:", discovery=(tmp_path / "gone.json").as_uri())
    assert wait_until(configured.reloads) == {"failure": 1}
    assert configured.user() == "first:ann"
    configured.write(prefix="second:")
    assert wait_until(lambda: configured.user() == "second:ann")
