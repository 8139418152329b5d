"""Front proxies, which name users in headers, and the ConfigMap that tells aggregated servers of them.

The expected answers are those of kube-apiserver 1.32 and 1.37 with the same flags.
"""

from __future__ import annotations

import http.client
import json
import ssl
from collections.abc import Iterator
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import pytest

from tests.certificates import CN, Holder, issue, new_authority
from tests.waiting import wait_until
from understudy import Server
from understudy.apiserver.authentication.certificates.user_headers import with_standard
from understudy.apiserver.server.options.config import ServerConfig

pytest.importorskip("OpenSSL.SSL", reason="client certificates need pyOpenSSL")

FRONT, CLIENTS = new_authority("front"), new_authority("clients")
PROXY, STRANGER, ALICE = issue([(CN, "proxy")], FRONT), issue([(CN, "other")], FRONT), issue([(CN, "alice")], CLIENTS)
REVIEW = "/apis/authentication.k8s.io/v1/selfsubjectreviews"
CONFIG_MAP = "/api/v1/namespaces/kube-system/configmaps/extension-apiserver-authentication"
BOB = ("X-Remote-User", "bob")
Header = tuple[str, str]


@pytest.fixture
def front_authority(tmp_path: Path) -> Path:
    (tmp_path / "front.crt").write_bytes(FRONT.pem)
    return tmp_path / "front.crt"


@pytest.fixture(params=["1.32", "1.37"])
def server(request: pytest.FixtureRequest, tmp_path: Path, front_authority: Path) -> Iterator[Server]:
    (tmp_path / "clients.crt").write_bytes(CLIENTS.pem)
    (tmp_path / "tokens.csv").write_text("admin-token,admin,admin,system:masters\n")
    with Server(
        emulated_version=request.param,
        token_auth_file=tmp_path / "tokens.csv",
        client_ca_file=tmp_path / "clients.crt",
        requestheader_client_ca_file=front_authority,
        requestheader_allowed_names=["proxy", "R&D"],
        requestheader_username_headers=["X-Remote-User", "X-Own-User"],
        requestheader_uid_headers=["X-Remote-Uid"] if request.param == "1.37" else [],
        requestheader_group_headers=["X-Remote-Group"],
        requestheader_extra_headers_prefix=["X-Remote-Extra-"],
    ) as running:
        yield running


def ask(server: Server, folder: Path, holder: Holder | None, *headers: Header, path: str = REVIEW) -> tuple[int, Any]:
    """Return the answer to a client that shows a certificate, if it has one."""
    context = ssl._create_unverified_context()
    if holder is not None:
        (folder / "client.pem").write_bytes(holder.pem + holder.key_pem)
        context.load_cert_chain(folder / "client.pem")
    client = http.client.HTTPSConnection(urlsplit(server.url).netloc, context=context, timeout=30)
    body = json.dumps({"apiVersion": "authentication.k8s.io/v1", "kind": "SelfSubjectReview"}).encode()
    client.putrequest("POST" if path == REVIEW else "GET", path)
    for name, value in (("Content-Type", "application/json"), ("Content-Length", str(len(body))), *headers):
        client.putheader(name, value)
    client.endheaders(body)
    answer = client.getresponse()
    status, answered = answer.status, json.loads(answer.read())
    client.close()
    return status, answered


def user_of(server: Server, folder: Path, holder: Holder | None, *headers: Header) -> dict[str, Any] | int:
    """Return the user as which a request is answered, without the credential's id, or the status of an error."""
    status, answer = ask(server, folder, holder, *headers)
    if status != 201:
        return status
    info: dict[str, Any] = answer["status"]["userInfo"]
    info.get("extra", {}).pop("authentication.kubernetes.io/credential-id", None)
    return info


def known(name: str, *groups: str, **more: Any) -> dict[str, Any]:
    return {"username": name, "groups": [*groups, "system:authenticated"]} | more


def test_users_in_headers(server: Server, tmp_path: Path) -> None:
    """A front proxy names the user, before its token does; headers of others count for nothing, or without a name."""
    groups = [("X-Remote-Group", "a"), ("X-Remote-Group", ""), ("x-remote-group", "b")]
    extra = [("X-Remote-Extra-A%2fB", "1"), ("X-Remote-Extra-A%2fb", "2"), ("X-Remote-Extra-Bad%zz", "3")]
    told = user_of(server, tmp_path, PROXY, BOB, *groups, *extra, ("X-Remote-Uid", "u"))
    uid = {"uid": "u"} if "1.37" in str(server) else {}
    assert told == known("bob", "a", "b", extra={"a/b": ["1", "2"], "bad%zz": ["3"]}, **uid)
    token = ("Authorization", "Bearer admin-token")
    assert user_of(server, tmp_path, PROXY, BOB, ("Authorization", "Bearer wrong")) == known("bob")
    assert user_of(server, tmp_path, PROXY, token) == known("admin", "system:masters", uid="admin")
    assert user_of(server, tmp_path, PROXY, ("X-Remote-User", ""), ("X-Own-User", "eve")) == known("eve")
    assert user_of(server, tmp_path, ALICE, BOB) == known("alice") | {"extra": {}}
    assert [user_of(server, tmp_path, holder, BOB) for holder in (STRANGER, PROXY)] == [401, known("bob")]


def test_config_map(server: Server, tmp_path: Path, front_authority: Path) -> None:
    """The ConfigMap tells whom the server trusts; it comes back, and has authorities that the file gets as well."""

    def data() -> dict[str, str]:
        _, answer = ask(server, tmp_path, None, ("Authorization", "Bearer admin-token"), path=CONFIG_MAP)
        return answer.get("data") or {}

    uids = {"requestheader-uid-headers": '["X-Remote-Uid"]'} if "1.37" in str(server) else {}
    complete = {
        "client-ca-file": CLIENTS.pem.decode(),
        "requestheader-client-ca-file": FRONT.pem.decode(),
        "requestheader-allowed-names": '["proxy","R\\u0026D"]',
        "requestheader-username-headers": '["X-Remote-User","X-Own-User"]',
        "requestheader-group-headers": '["X-Remote-Group"]',
        "requestheader-extra-headers-prefix": '["X-Remote-Extra-"]',
    } | uids
    wait_until(data, lambda value: value == complete)
    assert user_of(server, tmp_path, PROXY, BOB) == known("bob")
    other = new_authority("other")
    front_authority.write_bytes(other.pem)
    changed = complete | {"requestheader-client-ca-file": FRONT.pem.decode() + other.pem.decode()}
    wait_until(data, lambda value: value == changed)
    proxy = issue([(CN, "R&D")], other)
    assert [user_of(server, tmp_path, holder, BOB) for holder in (PROXY, proxy)] == [401, known("bob")]


@pytest.mark.parametrize(
    ("options", "error"),
    [
        ({"username_headers": [" "]}, 'empty value in "requestheader-username-headers"'),
        ({"allowed_names": ["a", ""]}, 'empty value in "requestheader-allowed-names"'),
        (
            {"uid_headers": ["X-A"]},
            "--requestheader-uid-headers is set without .* X-Remote-Uid header - API",
        ),
        ({"client_ca_file": "missing"}, "--requestheader-client-ca-file: missing: No such file or directory"),
    ],
)
def test_options_without_sense(options: dict[str, Any], error: str) -> None:
    """Names that are empty, uids without the standard header and missing files are refused."""
    with pytest.raises(ValueError, match=error):
        ServerConfig(**{f"requestheader_{name}": value for name, value in options.items()})


def test_uids_need_their_feature() -> None:
    """Headers with uids are refused where the gate is off, as in 1.32 by default."""
    with pytest.raises(ValueError, match='requires the "RemoteRequestHeaderUID" feature to be enabled'):
        ServerConfig(emulated_version="1.32", requestheader_uid_headers=["X-Remote-Uid"])


def test_headers_that_are_not_passed_on() -> None:
    """Other servers see neither the standard headers nor those of the flags, in any case."""
    headers = with_standard(["X-Own-User"], ["X-Own-Extra-"])
    names = ("authorization", "x-remote-user", "X-REMOTE-EXTRA-A", "x-own-user", "x-own-extra-b", "X-Own", "Accept")
    assert [name for name in names if name not in headers] == ["X-Own", "Accept"]
