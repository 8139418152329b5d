"""The stories of `compare access` about tokens of OpenID Connect whose groups are elsewhere (distributed claims).

The webhook is the issuer of the tokens, and another one below `/other`; both have the same key.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from typing import Any, NamedTuple

from scripts.common.comparing import Obj
from scripts.compare.cases.access_stories import Hook, Story, asks, reviewed
from scripts.compare.cases.webhook_server import Answer

ISSUER, OTHER, AUDIENCE = "https://{{hook}}", "https://{{hook}}/other", "cluster"
WELL_KNOWN, KEYS, CLAIMS = "/.well-known/openid-configuration", "/keys", "/claims"
NEVER = 9999999999  # seconds since 1970


class Sign(NamedTuple):
    """A token with claims, which requests send by its name; those that are None are left out."""

    name: str
    claims: Mapping[str, Any]
    issuer: str = ISSUER


class Pause(NamedTuple):
    """Time in which a server does what it does in the background."""

    seconds: float


def source(**fields: Any) -> Obj:
    """Return the claims of a token whose groups are at a source."""
    return {"_claim_names": {"groups": "src"}, "_claim_sources": {"src": {"endpoint": f"{ISSUER}{CLAIMS}", **fields}}}


def signed(name: str, issuer: str = ISSUER, **claims: Any) -> Sign:
    """Return a token of a user without groups."""
    return Sign(name, {"sub": "ann", "aud": AUDIENCE, "exp": NEVER, **claims}, issuer)


def answers(raw: str, path: str = CLAIMS, **fields: Any) -> Hook:
    """Return the answer of the endpoint from now on, in which the names of tokens stand for them."""
    return Hook(answer=Answer(review=False, raw=raw, **fields), path=path)


def document(issuer: str) -> str:
    """Return the discovery document of an issuer."""
    return json.dumps({"issuer": issuer, "jwks_uri": f"{ISSUER}{KEYS}"})


_DOCUMENTS = {WELL_KNOWN: document(ISSUER), f"/other{WELL_KNOWN}": document(OTHER), KEYS: "{{keys}}"}
_FLAGS = {
    "authorization_mode": "RBAC",
    "oidc_issuer_url": ISSUER,
    "oidc_client_id": AUDIENCE,
    "oidc_ca_file": "{{dir}}/ca.pem",
    "oidc_username_claim": "sub",
    "oidc_username_prefix": "-",
}
_GROUPS = {**_FLAGS, "oidc_groups_claim": "groups", "oidc_groups_prefix": "g:"}
_FILES = {"ca.pem": "{{ca_pem}}"}
_ODD: Mapping[str, Obj] = {
    "its own groups": {**source(), "groups": ["own"]},
    "no groups anywhere": {},
    "no names": {"_claim_names": "x", "_claim_sources": {}},
    "null names": {"_claim_names": None, "_claim_sources": {}},
    "a number as name": {"_claim_names": {"groups": 1}, "_claim_sources": {}},
    "no sources": {"_claim_names": {"groups": "src"}},
    "sources that are none": {"_claim_names": {"groups": "src"}, "_claim_sources": []},
    "a source that is none": {"_claim_names": {"groups": "src"}, "_claim_sources": {"src": "x"}},
    "an endpoint that is none": source(endpoint=1),
    "null sources": {"_claim_names": {"groups": "src"}, "_claim_sources": None},
    "another source": {"_claim_names": {"groups": "src"}, "_claim_sources": {"other": {}}},
    "the source of another claim": {"_claim_names": {"roles": "src"}, "_claim_sources": {"src": {"endpoint": "x"}}},
    "a claim that is aggregated": {"_claim_names": {"groups": "src"}, "_claim_sources": {"src": {"JWT": "x"}}},
    "an endpoint without a scheme": source(endpoint="x"),
    "an endpoint of another scheme": source(endpoint="ftp://x"),
    "an endpoint where nobody listens": source(endpoint="https://{{refused}}/x"),
}
_PAYLOAD = "eyJpc3MiOjF9"  # {"iss":1}
_TEXTS = ("", "{}", "a.b", "a.=.c", "a.YQ.c", f"a.{_PAYLOAD}.c", "a.e30.c")


def odd() -> Iterator[Any]:
    """Yield requests with tokens whose claims are not as they should be."""
    for number, (name, claims) in enumerate(_ODD.items()):
        yield from (signed(f"odd{number}", **{**claims, "jti": name}), reviewed(f"{{{{odd{number}}}}}"))


def returned() -> Iterator[Any]:
    """Yield requests for which the endpoint returns what is no good token."""
    for number, text in enumerate(_TEXTS):
        yield from (answers(text), signed(f"text{number}", jti=str(number), **source()))
        yield reviewed(f"{{{{text{number}}}}}")
    bad: Mapping[str, Sign] = {
        "over": signed("bad", exp=1, groups=["a"]),
        "for another": signed("bad", aud="other", groups=["a"]),
        "without groups": signed("bad"),
        "with a number": signed("bad", groups=7),
        "of nobody": signed("bad", "https://{{hook}}/nobody", groups=["a"]),
    }
    for number, token in enumerate(bad.values()):
        yield from (token, answers("{{bad}}"), signed(f"bad{number}", jti=f"bad{number}", **source()))
        yield reviewed(f"{{{{bad{number}}}}}")
    yield from (answers("no", status=404), signed("gone", **source()), reviewed("{{gone}}"))
    yield from (answers("no", status=500), reviewed("{{gone}}"))


_KNOWN: Any = (
    *(signed("claims", groups=["dev", "ops"]), answers("{{claims}}"), signed("ann", **source()), asks("{{ann}}")),
    *(Pause(1), asks("{{ann}}"), asks("{{ann}}"), reviewed("{{ann}}")),
    *(signed("bob", sub="bob", **source(access_token="secret")), asks("{{bob}}")),
    *(signed("claims", groups="one"), answers("{{claims}}\n"), signed("eve", sub="eve", **source()), asks("{{eve}}")),
    *(signed("claims", OTHER, groups=["far"]), answers("{{claims}}"), signed("far", jti="1", **source())),
    *(asks("{{far}}"), Pause(1), reviewed("{{far}}"), asks("{{far}}")),
)
_CONFIGURATION = {
    "apiVersion": "apiserver.config.k8s.io/v1beta1",
    "kind": "AuthenticationConfiguration",
    "jwt": [
        {
            "issuer": {
                "url": ISSUER,
                "audiences": [AUDIENCE, "x"],
                "audienceMatchPolicy": "MatchAny",
                "certificateAuthority": "{{ca_text}}",
            },
            "claimMappings": {
                "username": {"expression": "claims.sub + (has(claims.groups) ? '+' + claims.groups[0] : '')"},
                "groups": {"claim": "groups", "prefix": ""},
            },
        }
    ],
}

DISTRIBUTED: dict[str, Story] = {
    "groups that are elsewhere": Story(_GROUPS, _KNOWN, _FILES, hooks=_DOCUMENTS),
    "groups that nobody asks for": Story(
        _FLAGS, (signed("ann", **source()), asks("{{ann}}")), _FILES, hooks=_DOCUMENTS
    ),
    "groups of odd tokens": Story(_GROUPS, tuple(odd()), _FILES, hooks=_DOCUMENTS),
    "groups that an endpoint does not have": Story(
        _GROUPS,
        (
            signed("claims", groups=["a"]),
            answers("{{claims}}"),
            signed("ann", **source()),
            asks("{{ann}}"),
            Pause(1),
            *returned(),
        ),
        _FILES,
        hooks=_DOCUMENTS,
    ),
    "groups that are elsewhere, by a configuration": Story(
        {"authorization_mode": "RBAC", "authentication_config": "{{dir}}/authentication.json"},
        _KNOWN,
        {"authentication.json": json.dumps(_CONFIGURATION)},
        hooks=_DOCUMENTS,
    ),
}
