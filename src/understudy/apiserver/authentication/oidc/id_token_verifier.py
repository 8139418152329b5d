"""The verification of tokens: signature, issuer, audience and time. Upstream: `IDTokenVerifier` of go-oidc."""

from __future__ import annotations

import json
from collections.abc import Sequence
from datetime import UTC, datetime, timedelta
from math import isinf
from typing import Any

from understudy.apiserver.authentication import jose
from understudy.apiserver.authentication.errors import TokenError
from understudy.apiserver.authentication.oidc.key_set import KeySet
from understudy.machinery.golang.text import go_quote
from understudy.machinery.releases.version import V1_36, Version
from understudy.machinery.types import Obj
from understudy.machinery.util.clock import Clock
from understudy.machinery.util.regex import regex

LEEWAY = 60  # seconds by which a token may be used too early
GOOGLE, BARE_GOOGLE = "https://accounts.google.com", "accounts.google.com"
NAMES, SOURCES = "_claim_names", "_claim_sources"  # of claims that are elsewhere (`distributed_claims`)
_SOURCE = ("endpoint", "access_token")
_TEXTS, _TIMES = ("iss", "sub", "nonce", "at_hash"), ("exp", "iat", "nbf")
_NUMBER = regex(r"-?[0-9]+(?:\.[0-9]+)?(?:[eE][+-]?[0-9]+)?")
_INTEGER = regex(r"-?[0-9]+")


class IDTokenVerifier:
    """Verifies the tokens of one issuer.

    audiences   of which a token names at least one
    algorithms  with which a token may be signed
    """

    def __init__(
        self, key_set: KeySet, audiences: Sequence[str], algorithms: Sequence[str], clock: Clock, version: Version
    ) -> None:
        self._key_set = key_set
        self._issuer = key_set.issuer
        self._audiences = audiences
        self._algorithms = sorted(algorithms)
        self._clock = clock
        self._version = version

    def verify(self, text: str) -> Obj:
        """Return the claims of a token that is good. Raises TokenError, FetchAwaitedError.

        Until 1.35 the claims are checked before the signature: what is wrong with them is told first.
        """
        try:
            token = jose.Token.parse(text)
        except ValueError as error:
            raise TokenError(f"oidc: malformed jwt: {error}") from None
        if self._version >= V1_36:
            self._check_signature(text, token)
        try:
            claims = jose.read_claims(token.payload)
            _check_types(claims)
        except ValueError as error:
            raise TokenError(f"oidc: failed to unmarshal claims: {error}") from None
        _check_sources(claims)
        self._check_standard_claims(claims)
        if self._version < V1_36:
            self._check_signature(text, token)
        return claims

    def _check_signature(self, text: str, token: jose.Token) -> None:
        algorithm = token.header.get("alg", "")
        if algorithm not in self._algorithms:
            raise TokenError(
                "oidc: id token signed with unsupported algorithm, "
                f"expected {_quoted(self._algorithms)} got {go_quote(str(algorithm))}"
            )
        if not self._key_set.has_signed(text, token):
            raise TokenError("failed to verify signature: failed to verify id token signature")

    def _check_standard_claims(self, claims: Obj) -> None:
        """Check issuer, audience and time. Upstream: `IDTokenVerifier.Verify`."""
        if claims["iss"] not in (self._issuer, *((BARE_GOOGLE,) if self._issuer == GOOGLE else ())):
            actual, expected = go_quote(str(claims["iss"])), go_quote(self._issuer)
            raise TokenError(f"oidc: id token issued by a different provider, expected {expected} got {actual}")
        audiences = strings(claims.get("aud") or [])
        if len(self._audiences) == 1 and self._audiences[0] not in audiences:
            expected = go_quote(self._audiences[0])
            raise TokenError(f"oidc: expected audience {expected} got {_quoted(audiences)}")
        now, expiry = self._clock.now(), _seconds(claims.get("exp"))
        if expiry is None or expiry < now:
            raise TokenError(f"oidc: token is expired (Token Expiry: {_time(expiry)})")
        start = _seconds(claims.get("nbf"))
        if start is not None and now + LEEWAY < start:
            raise TokenError(f"oidc: current time {_time(now)} before the nbf (not before) time: {_time(start)}")
        if not set(self._audiences) & set(audiences):
            raise TokenError(f"oidc: expected audience in {_quoted(sorted(self._audiences))} got {_quoted(audiences)}")


def untrusted_issuer(text: str) -> str:
    """Return the issuer that a token says it is of, which nobody has verified. Raises ValueError, with Go's text."""
    if text.strip().startswith("{"):
        raise ValueError("token is not compact JWT")
    parts = text.split(".")
    if len(parts) != 3:
        raise ValueError("malformed token")
    try:
        payload = jose.decode(parts[1])
    except ValueError as error:
        raise ValueError(f"error decoding token: {error}") from None
    try:
        issuer = jose.read_claims(payload).get("iss")
    except ValueError as error:
        raise ValueError(f"while unmarshaling token: {error}") from None
    if not isinstance(issuer, str | None):
        kind = jose.kind_of(issuer)
        raise ValueError(
            f"while unmarshaling token: json: cannot unmarshal {kind} into Go struct field .iss of type string"
        )
    return GOOGLE if issuer == BARE_GOOGLE else issuer or ""


def strings(value: Any) -> list[str]:
    """Return the texts of a claim that is one text or a list of them. Raises TokenError with Go's text."""
    if isinstance(value, str):
        return [value]
    if isinstance(value, list) and all(isinstance(text, str | None) for text in value):
        return [text or "" for text in value]
    raise TokenError(f"json: cannot unmarshal {jose.kind_of(value)} into Go value of type string")


def _check_types(claims: Obj) -> None:
    """Raise ValueError, with Go's text, for a claim that all tokens may have if it is of another type."""
    for name, value in claims.items():
        error = f"json: cannot unmarshal {jose.kind_of(value)} into Go"
        if name in _TEXTS and not isinstance(value, str | None):
            raise ValueError(f"{error} struct field idToken.{name} of type string")
        if name == NAMES:
            _check_names(value, error)
        if name == SOURCES:
            _check_types_of_sources(value, error)
        if name == "aud" and not isinstance(value, str | list | None):
            raise ValueError(f"{error} struct field idToken.aud of type []string")
        if name == "aud" and isinstance(value, list):
            for item in value:
                if not isinstance(item, str | None):
                    kind = jose.kind_of(item)
                    raise ValueError(f"json: cannot unmarshal {kind} into Go struct field idToken.aud of type string")
        if name in _TIMES and (isinstance(value, bool) or not isinstance(value, str | int | float | None)):
            raise ValueError(f"{error} value of type json.Number")
        if name in _TIMES and isinstance(value, str) and not _NUMBER.fullmatch(value):
            literal = go_quote(json.dumps(value))
            raise ValueError(f"json: invalid number literal, trying to unmarshal {literal} into Number")
        if name in _TIMES and value is None:
            raise ValueError('strconv.ParseFloat: parsing "": invalid syntax')
        if name in _TIMES and isinstance(value, str | float) and isinf(float(value)):
            raise ValueError(f"strconv.ParseFloat: parsing {go_quote(str(value))}: value out of range")


def _check_names(value: Any, error: str) -> None:
    """Raise ValueError for the names of sources of claims unless they are texts by name."""
    if not isinstance(value, dict | None):
        raise ValueError(f"{error} struct field idToken.{NAMES} of type map[string]string")
    for text in (value or {}).values():
        if not isinstance(text, str | None):
            kind = jose.kind_of(text)
            raise ValueError(f"json: cannot unmarshal {kind} into Go struct field idToken.{NAMES} of type string")


def _check_types_of_sources(value: Any, error: str) -> None:
    """Raise ValueError for sources of claims unless they are objects by name, with texts."""
    if not isinstance(value, dict | None):
        raise ValueError(f"{error} struct field idToken.{SOURCES} of type map[string]oidc.claimSource")
    for source in (value or {}).values():
        error = f"json: cannot unmarshal {jose.kind_of(source)} into Go"
        if not isinstance(source, dict | None):
            raise ValueError(f"{error} struct field idToken.{SOURCES} of type oidc.claimSource")
        for name in _SOURCE:
            field = (source or {}).get(name)
            if not isinstance(field, str | None):
                where = f"claimSource.{SOURCES}.{name} of type string"
                raise ValueError(f"json: cannot unmarshal {jose.kind_of(field)} into Go struct field {where}")


def _check_sources(claims: Obj) -> None:
    """Raise TokenError for a claim whose source is not among those of the token."""
    for name in (claims.get(NAMES) or {}).values():
        if not name:
            raise TokenError("oidc: failed to obtain source from claim name")
        if name not in (claims.get(SOURCES) or {}):
            raise TokenError("oidc: source does not exist")


def _seconds(value: str | float | None) -> int | None:
    """Return a time in a claim, which may be a text as well, in seconds since 1970; None if it is missing.

    Go counts from the year 1 in 64 bits, so that a time after all others is one before them. A float that does not fit
    is the least integer.
    """
    if value is None:
        return None
    number = jose.read_integer(value) if isinstance(value, str) and _INTEGER.fullmatch(value) else value
    whole = (
        number if isinstance(number, int) and _fits(number) else int(float(number)) if _fits(float(number)) else -_HALF
    )
    return (whole + _FROM_YEAR_1 + _HALF) % (2 * _HALF) - _HALF - _FROM_YEAR_1


def _fits(number: float) -> bool:
    return -_HALF <= number < _HALF


def _time(seconds: float | None) -> str:
    """Return a time as Go prints it, whose calendar begins 730692556 times 400 years before the year 1."""
    if seconds is None:
        return "0001-01-01 00:00:00 +0000 UTC"
    days, second = divmod((int(seconds) + _FROM_YEAR_1 + _CYCLES * _CYCLE * 86400) % (2 * _HALF), 86400)
    cycles, day = divmod(days, _CYCLE)
    moment = datetime(1, 1, 1, tzinfo=UTC) + timedelta(days=day, seconds=second)
    year = moment.year + 400 * (cycles - _CYCLES)
    return f"{'-' * (year < 0)}{abs(year):04d}-{moment:%m-%d %H:%M:%S} +0000 UTC"


_HALF = 2**63
_FROM_YEAR_1 = 62135596800  # seconds from the year 1 to 1970
_CYCLES, _CYCLE = 730692556, 146097  # of 400 years, and its days


def _quoted(texts: Sequence[str]) -> str:
    return f"[{' '.join(go_quote(text) for text in texts)}]"
