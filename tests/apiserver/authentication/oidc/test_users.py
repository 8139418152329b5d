"""Users by tokens of other issuers, with the texts of kube-apiserver in the answers to token reviews."""

from __future__ import annotations

import base64
import hashlib
import json
import re
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, closing
from http.client import HTTPConnection
from pathlib import Path
from typing import Any

import pytest

from tests.apiserver.authentication.oidc.issuer import AUDIENCE, Issuer, serve
from tests.apiserver.server.worker.stop import SECONDS, Stop
from tests.http import send
from tests.waiting import wait_until
from understudy import Server
from understudy.apiserver.authentication import jose
from understudy.apiserver.server.bootstrap import issuers
from understudy.apiserver.server.worker import worker
from understudy.machinery.util.deep_recursion import call_deeply

REVIEWS = "/apis/authentication.k8s.io/v1/tokenreviews"
SELF_REVIEW = "/apis/authentication.k8s.io/v1/selfsubjectreviews"
ISSUER = Issuer()
EXPRESSIONS = {
    "username": {"expression": '"user:" + claims.sub'},
    "groups": {"expression": 'claims.?roles.orValue("").split(",").filter(role, role != "none")'},
    "uid": {"claim": "uid"},
    "extra": [{"key": "example.com/level", "valueExpression": "claims.level > 1 ? 'high' : ''"}],
}
RULES = [
    {"claim": "tenant", "requiredValue": "red"},
    {"expression": "claims.exp - claims.iat <= 3600", "message": "lives too long"},
]
USER_RULES = [{"expression": "!user.username.startsWith('user:system:')", "message": "is reserved"}]
GOOD: dict[str, Any] = {"uid": "7", "tenant": "red", "level": 2, "roles": "a,b,,none"}


def configuration(folder: Path, issuer: Issuer = ISSUER, *, version: str = "v1beta1", **fields: Any) -> Path:
    """Write the configuration of one issuer, whose keys are in a file, and return its path."""
    source = {"url": issuer.url, "audiences": [AUDIENCE], "discoveryURL": issuer.write_keys(folder)}
    spec = {"issuer": source, "claimMappings": {"username": {"claim": "sub", "prefix": ""}}, **fields}
    path = folder / "authentication.json"
    head = {"apiVersion": f"apiserver.config.k8s.io/{version}", "kind": "AuthenticationConfiguration"}
    path.write_text(json.dumps({**head, "jwt": [spec]}))
    return path


def review(server: Server, token: str) -> Any:
    headers = {"Authorization": "Bearer admin-token"}
    return send(server, "POST", REVIEWS, {"spec": {"token": token}}, headers=headers).json()["status"]


@pytest.fixture(scope="module")
def admin(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("admin") / "tokens.csv"
    path.write_text('admin-token,admin,1,"system:masters"\n')
    return path


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory, admin: Path) -> Iterator[Server]:
    folder = tmp_path_factory.mktemp("oidc")
    path = configuration(folder, claimMappings=EXPRESSIONS, claimValidationRules=RULES, userValidationRules=USER_RULES)
    with Server(authentication_config=path, token_auth_file=admin, authorization_mode="RBAC", tls=False) as running:
        yield running


def test_expressions_make_the_user(server: Server) -> None:
    """Expressions about the claims make name, groups, uid and extra fields; empty texts are left out."""
    status = review(server, ISSUER.token(**GOOD, jti="t-1"))
    assert status["user"] == {
        "username": "user:ann",
        "uid": "7",
        "groups": ["a", "b", "system:authenticated"],
        "extra": {"authentication.kubernetes.io/credential-id": ["JTI=t-1"], "example.com/level": ["high"]},
    }
    assert status["audiences"] == ["https://kubernetes.default.svc"]


def test_requests_are_made_with_the_token(server: Server) -> None:
    """A good token is good for requests; a wrong one is 401."""
    for changes, expected in (({}, 201), ({"tenant": "blue"}, 401)):
        headers = {"Authorization": f"Bearer {ISSUER.token(**GOOD | changes)}"}
        assert send(server, "POST", SELF_REVIEW, {}, headers=headers).status == expected


@pytest.mark.parametrize(
    ("changes", "reason"),
    [
        ({"aud": "other"}, f'oidc: verify token: oidc: expected audience "{AUDIENCE}" got ["other"]'),
        ({"aud": ["x", "y"]}, f'oidc: verify token: oidc: expected audience "{AUDIENCE}" got ["x" "y"]'),
        (
            {"aud": 7},
            "oidc: verify token: oidc: failed to unmarshal claims: "
            "json: cannot unmarshal number into Go struct field idToken.aud of type []string",
        ),
        (
            {"aud": [7]},
            "oidc: verify token: oidc: failed to unmarshal claims: "
            "json: cannot unmarshal number into Go struct field idToken.aud of type string",
        ),
        ({"exp": "1"}, "oidc: verify token: oidc: token is expired (Token Expiry: 1970-01-01 00:00:01 +0000 UTC)"),
        ({"exp": 1}, "oidc: verify token: oidc: token is expired (Token Expiry: 1970-01-01 00:00:01 +0000 UTC)"),
        ({"exp": None}, "oidc: verify token: oidc: token is expired (Token Expiry: 0001-01-01 00:00:00 +0000 UTC)"),
        *(
            (
                {"exp": expiry},
                "oidc: verify token: oidc: token is expired "
                f"(Token Expiry: 292277026596-12-04 15:30:{second} +0000 UTC)",
            )
            for expiry, second in ((-1e300, "08"), (1e300, "08"), ("-1e300", "08"), (2**63 - 1, "07"))
        ),
        (
            {"exp": "1e400"},
            "oidc: verify token: oidc: failed to unmarshal claims: "
            'strconv.ParseFloat: parsing "1e400": value out of range',
        ),
        ({"uid": None}, 'oidc: parse uid claim "uid": claim not present'),
        ({"uid": 7}, 'oidc: parse uid claim "uid": json: cannot unmarshal number into Go value of type string'),
        ({"tenant": None}, "oidc: required claim tenant not present in ID token"),
        ({"tenant": "blue"}, "oidc: required claim tenant value does not match. Got = blue, want = red"),
        (
            {"iat": 1},
            "oidc: error evaluating claim validation expression: "
            "validation expression 'claims.exp - claims.iat <= 3600' failed: lives too long",
        ),
        (
            {"sub": "system:admin"},
            "oidc: error evaluating user info validation rule: "
            "validation expression '!user.username.startsWith('user:system:')' failed: is reserved",
        ),
        (
            {"sub": None},
            "oidc: error evaluating username claim expression: expression '\"user:\" + claims.sub' "
            "resulted in error: no such key: sub",
        ),
        (
            {"sub": 7},
            "oidc: verify token: oidc: failed to unmarshal claims: "
            "json: cannot unmarshal number into Go struct field idToken.sub of type string",
        ),
    ],
)
def test_refused_claims(server: Server, changes: dict[str, Any], reason: str) -> None:
    """A token whose claims are refused names nobody, and the reason is told to those who review it."""
    status = review(server, ISSUER.token(**GOOD | changes))
    assert status == {"user": {}, "error": f"[invalid bearer token, {reason}]"}


def test_not_valid_yet(server: Server) -> None:
    """A token may be used a minute too early, not more."""
    now = time.time()
    assert review(server, ISSUER.token(**GOOD, nbf=now + 50))["authenticated"]
    assert "before the nbf (not before) time" in review(server, ISSUER.token(**GOOD, nbf=now + 90))["error"]


def test_other_issuers(server: Server) -> None:
    """A token of an issuer that is not known is left to others; so is text that is no token."""
    unread = [_with_claims(f'{{"iss": "{ISSUER.url}", "exp": {number}}}') for number in ("NaN", "-Infinity")]
    for token in (
        ISSUER.token(**GOOD, iss="https://other.example.com"),
        "a.b.c",
        "abc",
        f"e30.{'A' * 40}.x",
        *unread,
    ):
        assert review(server, token) == {"user": {}, "error": "invalid bearer token"}


FORGED = {
    "foreign key": lambda: Issuer().token(**GOOD),
    "no signature": lambda: ISSUER.token(**GOOD).rpartition(".")[0] + ".",
    "alg none": lambda: "eyJhbGciOiJub25lIn0." + ISSUER.token(**GOOD).split(".")[1] + ".",
    "claims changed": lambda: _swapped(ISSUER.token(**GOOD), ISSUER.token(**GOOD, sub="root")),
    "signature padded": lambda: ISSUER.token(**GOOD) + "==",
}


def _with_claims(text: str) -> str:
    """Return a token with claims that nobody has signed."""
    head, _, signature = ISSUER.token(**GOOD).split(".")
    return f"{head}.{base64.urlsafe_b64encode(text.encode()).decode().rstrip('=')}.{signature}"


def _swapped(token: str, other: str) -> str:
    head, _, signature = token.split(".")
    return f"{head}.{other.split('.')[1]}.{signature}"


@pytest.mark.parametrize("name", FORGED)
def test_forged(server: Server, name: str) -> None:
    """A token that the issuer has not signed as it is names nobody."""
    token = FORGED[name]()
    assert "authenticated" not in review(server, token)
    assert send(server, "GET", "/version", headers={"Authorization": f"Bearer {token}"}).status == 401


def test_new_keys_of_the_issuer(tmp_path: Path, admin: Path) -> None:
    """A token that none of the known keys has signed makes the server look for newer ones."""
    issuer = Issuer()
    with Server(authentication_config=configuration(tmp_path, issuer), token_auth_file=admin, tls=False) as server:
        old = issuer.token()
        assert review(server, old)["user"]["username"] == "ann"
        issuer.key = jose.new_private_key()
        assert "failed to verify id token signature" in review(server, issuer.token())["error"]
        issuer.write_keys(tmp_path)
        assert review(server, issuer.token())["authenticated"]
        assert "failed to verify id token signature" in review(server, old)["error"]


@pytest.mark.parametrize(
    ("options", "name", "groups"),
    [
        ({}, "{url}#ann", []),
        ({"oidc_username_prefix": "-"}, "ann", []),
        ({"oidc_username_prefix": "o:", "oidc_groups_claim": "groups"}, "o:ann", ["dev", "ops"]),
        ({"oidc_username_claim": "email", "oidc_groups_claim": "email"}, "ann@example.com", ["ann@example.com"]),
        ({"oidc_groups_claim": "groups", "oidc_groups_prefix": "g:"}, "{url}#ann", ["g:dev", "g:ops"]),
    ],
)
def test_flags(tmp_path: Path, admin: Path, options: dict[str, str], name: str, groups: list[str]) -> None:
    """With the flags, the keys come from the issuer's own address; prefixes are put before users and groups."""
    issuer = Issuer()
    with serve(tmp_path, issuer) as (authority, paths):
        flags: Any = {"oidc_issuer_url": issuer.url, "oidc_client_id": AUDIENCE, "oidc_ca_file": authority, **options}
        with Server(token_auth_file=admin, tls=False, **flags) as server:
            user = review(server, issuer.token(email="ann@example.com"))["user"]
            assert (user["username"], user["groups"]) == (
                name.format(url=issuer.url),
                [*groups, "system:authenticated"],
            )
            refused = review(server, issuer.token(email="a@example.com", email_verified=False))
            assert ("error" in refused) == (options.get("oidc_username_claim") == "email")
        assert paths == ["/.well-known/openid-configuration", "/keys"]


def test_keys_are_fetched_when_a_token_needs_them(tmp_path: Path, admin: Path) -> None:
    """An issuer that shows its keys after the start is no matter: the first token is good."""
    issuer = Issuer()
    with serve(tmp_path, issuer) as (authority, paths):
        issuer.shows_keys = False
        flags: Any = {"oidc_issuer_url": issuer.url, "oidc_client_id": AUDIENCE, "oidc_ca_file": authority}
        with Server(token_auth_file=admin, tls=False, **flags) as server:
            assert paths == ["/.well-known/openid-configuration"]
            issuer.shows_keys = True
            assert review(server, issuer.token())["authenticated"]
            assert review(server, issuer.token())["authenticated"]
        assert paths == ["/.well-known/openid-configuration", "/keys"]


@pytest.mark.parametrize(("release", "is_told"), [("1.34", False), ("1.37", True)])
def test_fetches_of_keys_are_told(tmp_path: Path, admin: Path, release: str, is_told: bool) -> None:
    """From 1.35 on /metrics tells when keys were fetched last, and a hash of them, as kube-apiserver 1.37 does."""
    issuer = Issuer()
    with serve(tmp_path, issuer) as (authority, _):
        flags: Any = {"oidc_issuer_url": issuer.url, "oidc_client_id": AUDIENCE, "oidc_ca_file": authority}
        with Server(token_auth_file=admin, tls=False, emulated_version=release, **flags) as server:
            assert fetches(server) == []
            issuer.shows_keys = False
            assert not review(server, issuer.token()).get("authenticated")
            failed = fetches(server)
            issuer.shows_keys = True
            assert review(server, issuer.token())["authenticated"]
            told = fetches(server)
    digest = hashlib.sha256(issuer.url.encode()).hexdigest()
    keys = hashlib.sha256(json.dumps(issuer.keys()).encode()).hexdigest()
    results = [
        f'timestamp_seconds{{jwt_issuer_hash="sha256:{digest}",result="{word}"}}' for word in ("failure", "success")
    ]
    info = f'key_set_info{{hash="sha256:{keys}",jwt_issuer_hash="sha256:{digest}"}}'
    assert (failed, told) == (([results[0]], [info, *results]) if is_told else ([], []))


def fetches(server: Server) -> list[str]:
    """Return the series of /metrics that tell of fetches of keys, without the identity of the server."""
    lines = send(server, "GET", "/metrics", headers={"Authorization": "Bearer admin-token"}).body.decode().splitlines()
    prefix, own = "apiserver_authentication_jwt_authenticator_jwks_fetch_last_", r'apiserver_id_hash="sha256:\w{64}",'
    return sorted(re.sub(own, "", line.split()[0]).removeprefix(prefix) for line in lines if line.startswith(prefix))


def test_requests_share_a_fetch_of_keys(tmp_path: Path, admin: Path) -> None:
    """Requests whose tokens need newer keys wait for the same fetch: good ones are taken, forged ones are refused."""
    issuer = Issuer()
    with serve(tmp_path, issuer) as (authority, paths):
        flags: Any = {"oidc_issuer_url": issuer.url, "oidc_client_id": AUDIENCE, "oidc_ca_file": authority}
        with Server(token_auth_file=admin, tls=False, **flags) as server, ExitStack() as stack:
            assert review(server, issuer.token())["authenticated"]
            issuer.key = jose.new_private_key()
            issuer.answers.clear()
            good = issuer.token()
            tokens = [good, good, issuer.token(jti="2"), Issuer(issuer.url).token(), Issuer(issuer.url).token()]
            address = server.url.removeprefix("http://")
            asked = [stack.enter_context(closing(HTTPConnection(address, timeout=60))) for _ in tokens]
            for connection, token in zip(asked, tokens, strict=True):
                connection.request("GET", "/version", headers={"Authorization": f"Bearer {token}"})
            for _ in range(2):  # when these are answered, those before them wait
                assert send(server, "GET", "/healthz").status == 401
            issuer.answers.set()
            assert [connection.getresponse().status for connection in asked] == [200, 200, 200, 401, 401]
        assert paths.count("/keys") == 2


def test_others_are_answered_while_a_rule_takes_long(
    tmp_path: Path, admin: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A rule about claims that takes long is evaluated in a thread, for requests and reviews of the token; what it
    says counts."""
    roles = "dyn(claims.roles)"
    rules = [
        {"expression": f"{roles}.all(a, {roles}.all(b, a == b || a != b))", "message": "never"},
        {"expression": f"{roles}.size() < 201", "message": "too many"},
    ]
    path = configuration(tmp_path, claimValidationRules=rules)
    good, bad = (ISSUER.token(roles=[f"r{number}" for number in range(count)]) for count in (200, 201))
    stop = Stop(call_deeply)
    with (
        Server(authentication_config=path, token_auth_file=admin, tls=False) as server,
        ThreadPoolExecutor() as beside,
    ):
        monkeypatch.setattr(worker, "call_deeply", stop)
        asked = [
            beside.submit(send, server, "GET", "/version", headers={"Authorization": f"Bearer {token}"})
            for token in (good, good, bad)
        ]
        assert stop.reached.wait(SECONDS)
        assert send(server, "GET", "/healthz", headers={"Authorization": "Bearer admin-token"}).body == b"ok"
        stop.released.set()
        assert [each.result(SECONDS).status for each in asked] == [200, 200, 401]
        assert review(server, good)["user"]["username"] == "ann"
        assert "too many" in review(server, bad)["error"]
        authenticator = server.state.tokens.jwt_authenticators[0]
        assert not authenticator._known


def test_issuer_that_does_not_answer(tmp_path: Path, admin: Path, caplog: pytest.LogCaptureFixture) -> None:
    """A server starts without the keys of an issuer; its tokens are not good until they are known."""
    issuer = Issuer("https://127.0.0.1:1")
    with Server(oidc_issuer_url=issuer.url, oidc_client_id="x", token_auth_file=admin, tls=False) as server:
        error = review(server, issuer.token())["error"]
        assert error == "[invalid bearer token, oidc: authenticator not initialized]"
    assert "oidc authenticator: initializing plugin" in caplog.text


@pytest.mark.parametrize(
    ("anonymous", "allowed", "refused"),
    [
        ({"enabled": True, "conditions": [{"path": "/healthz"}]}, ["/healthz"], ["/version", "/healthz/"]),
        ({"enabled": True}, ["/healthz", "/version"], []),
        ({"enabled": False}, [], ["/healthz", "/version"]),
    ],
)
def test_anonymous_conditions(tmp_path: Path, anonymous: Any, allowed: list[str], refused: list[str]) -> None:
    """Requests without credentials may ask for the paths of the conditions only, for all without conditions."""
    path = tmp_path / "authentication.json"
    head = {"apiVersion": "apiserver.config.k8s.io/v1", "kind": "AuthenticationConfiguration"}
    path.write_text(json.dumps({**head, "anonymous": anonymous}))
    with Server(authentication_config=path, authorization_mode="RBAC", tls=False) as server:
        assert [send(server, "GET", page).status for page in allowed] == [200] * len(allowed)
        assert [send(server, "GET", page).status for page in refused] == [401] * len(refused)


@pytest.mark.parametrize(
    ("release", "gates", "reason"),
    [
        ("1.37", {}, "oidc: authenticator not initialized"),
        (
            "1.37",
            {"StructuredAuthenticationConfigurationJWKSMetrics": False},
            "oidc: verify token: failed to verify signature: "
            'fetching keys oidc: get keys failed Get "": unsupported protocol scheme ""',
        ),
        (
            "1.34",
            {},
            "oidc: verify token: failed to verify signature: "
            'fetching keys oidc: get keys failed Get "": unsupported protocol scheme ""',
        ),
    ],
)
def test_issuers_without_an_address_of_keys(
    tmp_path: Path, admin: Path, monkeypatch: pytest.MonkeyPatch, release: str, gates: dict[str, bool], reason: str
) -> None:
    """From 1.35 on an issuer is used once it tells where its keys are, as by kube-apiserver 1.37 with and without the
    gate; before, and without it, its tokens are refused for ever."""
    monkeypatch.setattr(issuers, "INTERVAL", 0.01)
    issuer = Issuer()
    issuer.tells_address = False
    with serve(tmp_path, issuer) as (authority, _):
        flags: Any = {"oidc_issuer_url": issuer.url, "oidc_client_id": AUDIENCE, "oidc_ca_file": authority}
        options: Any = {"emulated_version": release, "feature_gates": gates, "token_auth_file": admin, "tls": False}
        with Server(**options, **flags) as server:
            refused = {"user": {}, "error": f"[invalid bearer token, {reason}]"}
            assert review(server, issuer.token()) == refused
            issuer.tells_address = True
            if "initialized" in reason:
                assert wait_until(lambda: review(server, issuer.token()).get("authenticated"))
            else:
                assert review(server, issuer.token()) == refused
