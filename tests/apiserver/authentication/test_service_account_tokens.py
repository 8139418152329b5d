"""Tokens of service accounts: who they name, when they are refused, and the keys that verify them."""

from __future__ import annotations

import base64
import json
from collections.abc import Callable, Iterator
from typing import Any

import pytest
from cryptography.hazmat.primitives.asymmetric.padding import PKCS1v15
from cryptography.hazmat.primitives.asymmetric.rsa import RSAPublicNumbers
from cryptography.hazmat.primitives.hashes import SHA256

from tests.clock import FixedClock
from tests.http import send
from tests.releases import RELEASES
from understudy import Server
from understudy.apiserver.authentication import jose
from understudy.apiserver.authentication.errors import TokenError
from understudy.apiserver.authentication.service_accounts.account_tokens import ISSUER, STALE_ANNOTATION, AccountTokens
from understudy.machinery.releases.version import V1_36

ACCOUNT = {"name": "sa", "namespace": "default", "uid": "1"}
POD, NODE, SECRET = ({"name": name, "uid": f"uid-of-{name}"} for name in ("pod", "node", "secret"))
CLOCK = FixedClock.at("2026-01-01T00:00:00Z")
TOKENS = AccountTokens(CLOCK, V1_36)
Objects = dict[str, Any]


def decoded(text: str) -> bytes:
    return base64.urlsafe_b64decode(text + "=" * (-len(text) % 4))


def issued(audiences: list[str] | None = None, lasts: int = 3600, **bound: Any) -> str:
    return TOKENS.issue(ACCOUNT, audiences or [ISSUER], int(CLOCK.now()) + lasts, bound)


def stored(*changed: tuple[str, str]) -> Any:
    """Return a lookup in a store that holds an account, a pod, a secret and a node; the named ones have another uid."""
    objects = {"serviceaccounts": ACCOUNT, "pods": POD, "secrets": SECRET, "nodes": NODE}
    uids = dict(changed)

    def lookup(group: str, resource: str, namespace: str, name: str) -> Any:
        result = objects[resource]
        uid = uids.get(resource, result["uid"])
        return {"metadata": {**result, "uid": uid}} if uid else None

    return lookup


def verify(jwk: Any, signed: str, signature: str) -> None:
    """Verify a signature with the published key, as any client can."""
    exponent, modulus = (int.from_bytes(decoded(jwk[name])) for name in "en")
    public = RSAPublicNumbers(exponent, modulus).public_key()
    public.verify(decoded(signature), signed.encode(), PKCS1v15(), SHA256())


def test_claims_and_signature() -> None:
    """A token has the header and claims of kube-apiserver, and the published key verifies its signature."""
    head, claims, signature = issued(pod=POD, node={"name": "node"}).split(".")
    assert json.loads(decoded(head)) == {"alg": "RS256", "kid": TOKENS.jwks[0]["kid"]}
    payload = json.loads(decoded(claims))
    assert (payload["iss"], payload["sub"], payload["aud"]) == (ISSUER, "system:serviceaccount:default:sa", [ISSUER])
    assert payload["kubernetes.io"] == {
        "namespace": "default",
        "node": {"name": "node"},
        "pod": POD,
        "serviceaccount": {"name": "sa", "uid": "1"},
    }
    verify(TOKENS.jwks[0], f"{head}.{claims}", signature)


def test_user_of_a_token() -> None:
    """A token names its account and what it is bound to, for the audiences that it shares with the reviewer."""
    user, audiences = TOKENS.user(issued(["x", "y"], pod=POD, node=NODE), ["z", "y"], stored())
    assert (user.name, user.uid, audiences) == ("system:serviceaccount:default:sa", "1", ["y"])
    assert user.groups == ["system:serviceaccounts", "system:serviceaccounts:default"]
    assert {key.partition("/")[2]: value for key, value in user.extra.items() if "credential" not in key} == {
        "node-name": ["node"],
        "node-uid": ["uid-of-node"],
        "pod-name": ["pod"],
        "pod-uid": ["uid-of-pod"],
    }


GONE = "service account token has been invalidated"
REFUSED = [
    pytest.param(lambda: "abc", stored(), "", id="no token at all"),
    pytest.param(lambda: "a.b.c", stored(), "", id="no claims"),
    pytest.param(lambda: f"e30.{base64.urlsafe_b64encode(b'[]').decode()}.eA", stored(), "", id="claims of no account"),
    pytest.param(
        lambda: issued()[:-4] + "AAAA", stored(), "go-jose/go-jose: error in cryptographic primitive", id="changed"
    ),
    pytest.param(
        lambda: issued(warnafter=["a"]), stored(), "expected number value to unmarshal NumericDate", id="no time"
    ),
    pytest.param(lambda: issued(lasts=-61), stored(), "service account token has expired", id="expired"),
    pytest.param(
        lambda: issued(["x", "y"]),
        stored(),
        f'token audiences ["x" "y"] is invalid for the target audiences ["{ISSUER}"]',
        id="for others",
    ),
    pytest.param(
        lambda: issued(), stored(("serviceaccounts", "")), 'serviceaccounts "sa" not found', id="account gone"
    ),
    pytest.param(
        lambda: issued(),
        stored(("serviceaccounts", "2")),
        "service account UID (2) does not match claim (1)",
        id="another account of that name",
    ),
    pytest.param(lambda: issued(pod=POD), stored(("pods", "")), GONE, id="pod gone"),
    pytest.param(lambda: issued(secret=SECRET), stored(("secrets", "")), GONE, id="secret gone"),
    pytest.param(
        lambda: issued(node=NODE),
        stored(("nodes", "2")),
        "node UID (2) does not match service account node ref claim (uid-of-node)",
        id="another node",
    ),
]


@pytest.mark.parametrize(("token", "lookup", "why"), REFUSED)
def test_invalid_tokens_are_refused(token: Callable[[], str], lookup: Any, why: str) -> None:
    """A token that cannot be used is refused with the reason; a token of another issuer is left to others."""
    with pytest.raises(TokenError) as refused:
        TOKENS.user(token(), [ISSUER], lookup)
    assert str(refused.value) == why


def test_a_token_is_valid_for_its_time_and_a_minute_around() -> None:
    """Machines whose clocks differ by up to a minute accept the same tokens."""
    clock = FixedClock.at("2026-01-01T00:00:00Z")
    tokens = AccountTokens(clock, V1_36)
    start = clock.now()
    token = tokens.issue(ACCOUNT, [ISSUER], int(start) + 600, {})
    for seconds in (-60, 0, 660):
        clock.seconds = start + seconds
        assert tokens.user(token, [ISSUER], stored())[1] == [ISSUER]
    for seconds, reason in ((-61, "is not valid yet"), (661, "has expired")):
        clock.seconds = start + seconds
        with pytest.raises(TokenError, match=reason):
            tokens.user(token, [ISSUER], stored())


def test_deleted_node_of_a_pod_keeps_the_token_valid() -> None:
    """A token bound to a pod stays valid when the node of the pod is deleted."""
    TOKENS.user(issued(pod=POD, node=NODE), [ISSUER], stored(("nodes", "")))


def test_token_without_a_subject() -> None:
    """A token that names nobody, but an account, is as good as any: somebody else who has the key has signed it."""
    place = {"namespace": "default", "serviceaccount": {"name": "sa", "uid": "1"}, "warnafter": int(CLOCK.now()) - 1}
    claims = {"aud": [ISSUER], "iss": ISSUER, "kubernetes.io": place}
    token = jose.sign(TOKENS._signing_key, claims)
    assert TOKENS.user(token, [ISSUER], stored())[0].name == "system:serviceaccount:default:sa"
    assert TOKENS.annotations(token, stored()) == {STALE_ANNOTATION: "subject: , seconds after warning threshold: 1"}
    with pytest.raises(TokenError, match="malformed claim sub"):
        TOKENS.user(jose.sign(TOKENS._signing_key, {**claims, "sub": 1}), [ISSUER], stored())


@pytest.fixture(scope="module", params=RELEASES, ids=str)
def server(request: pytest.FixtureRequest) -> Iterator[Server]:
    with Server(emulated_version=str(request.param)) as running:
        running.apply({"apiVersion": "v1", "kind": "ServiceAccount", "metadata": {"name": "sa"}})
        yield running


def asked(server: Server, path: str, body: Any = None) -> Any:
    response = send(server, "GET" if body is None else "POST", path, body)
    assert response.status < 300, response.body
    return response.headers, response.json()


def test_openid_configuration_leads_to_the_keys(server: Server) -> None:
    """The OpenID configuration names the page of the keys that verify the server's tokens."""
    headers, configuration = asked(server, "/.well-known/openid-configuration")
    assert (headers["Content-Type"], headers["Cache-Control"]) == ("application/json", "public, max-age=3600")
    assert configuration["issuer"] == ISSUER
    headers, keys = asked(server, configuration["jwks_uri"].removeprefix(server.url))
    assert headers["Content-Type"] == "application/jwk-set+json"
    accounts = "/api/v1/namespaces/default/serviceaccounts"
    token = asked(server, f"{accounts}/sa/token", {"spec": {}})[1]["status"]["token"]
    signed, _, signature = token.rpartition(".")
    (jwk,) = keys["keys"]
    assert jwk["kid"] == json.loads(decoded(token.partition(".")[0]))["kid"]
    verify(jwk, signed, signature)


def test_token_review_checks_audiences(server: Server) -> None:
    """A TokenReview is authenticated for audiences of the token, and for the server's own where it asks for none."""
    accounts, reviews = "/api/v1/namespaces/default/serviceaccounts", "/apis/authentication.k8s.io/v1/tokenreviews"
    token = asked(server, f"{accounts}/sa/token", {"spec": {"audiences": ["x"]}})[1]["status"]["token"]
    result = asked(server, reviews, {"spec": {"token": token, "audiences": ["x", "z"]}})[1]["status"]
    assert (result["authenticated"], result["audiences"]) == (True, ["x"])
    why = f'token audiences ["x"] is invalid for the target audiences ["{ISSUER}"]'
    assert asked(server, reviews, {"spec": {"token": token}})[1]["status"] == {
        "user": {},
        "error": f"[invalid bearer token, {why}]",
    }
    other = asked(server, reviews, {"spec": {"token": "abc"}})[1]["status"]
    assert other == {"user": {}, "error": "invalid bearer token"}


@pytest.mark.parametrize(
    ("later", "told"),
    [(3607, None), (3608, "subject: system:serviceaccount:default:sa, seconds after warning threshold: 1")],
)
def test_stale_tokens_are_audited(later: int, told: str | None) -> None:
    """A pod's token that is good for a year is to be read again after an hour; the audit log tells who does not."""
    clock = FixedClock.at("2026-01-01T00:00:00Z")
    tokens = AccountTokens(clock, V1_36)
    token = tokens.issue(ACCOUNT, [ISSUER], int(clock.now()) + 3607, {"pod": POD})
    clock.seconds += later
    expected = {} if told is None else {"authentication.k8s.io/stale-token": told}
    assert tokens.annotations(token, stored()) == expected
    tokens.user(token, [ISSUER], stored())
    counted = {family.name: family.series[()] for family in tokens.uses.families if family.series[()]}
    assert counted == {f"serviceaccount_{'valid' if told is None else 'stale'}_tokens_total": 1}
