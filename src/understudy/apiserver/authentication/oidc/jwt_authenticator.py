"""Users by the tokens of one issuer. Upstream: k8s.io/apiserver/plugin/pkg/authenticator/token/oidc."""

from __future__ import annotations

import base64
import json
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from datetime import UTC, datetime, timedelta
from functools import partial
from math import isinf
from typing import Any, TypeVar

from understudy.apiserver.authentication import jose
from understudy.apiserver.authentication.errors import EvaluationAwaitedError, TokenError
from understudy.apiserver.authentication.oidc.expressions import claims_value, evaluate
from understudy.apiserver.authentication.oidc.key_set import KeySet
from understudy.apiserver.authentication.oidc.validation import Expressions
from understudy.cel.compiler import Compiled
from understudy.cel.limits.interrupts import WORK_ON_LOOP, EvaluationTakesLongError, Meter, metered
from understudy.cel.values import Value
from understudy.machinery.auth.users import CREDENTIAL_ID, User
from understudy.machinery.golang.text import go_quote
from understudy.machinery.releases.version import V1_36, Version
from understudy.machinery.types import Obj
from understudy.machinery.util.clock import Clock
from understudy.machinery.util.regex import regex

LEEWAY = 60  # seconds by which a token may be used too early
GOOGLE, BARE_GOOGLE = "https://accounts.google.com", "accounts.google.com"
T = TypeVar("T")
_TEXTS, _TIMES = ("iss", "sub", "nonce", "at_hash"), ("exp", "iat", "nbf")
_NUMBER = regex(r"-?[0-9]+(?:\.[0-9]+)?(?:[eE][+-]?[0-9]+)?")
_INTEGER = regex(r"-?[0-9]+")
STRINGS_ONLY = "expression must return a string or a list of strings"


class JWTAuthenticator:
    """Knows users by the tokens of one issuer.

    spec        a member of `jwt` in an AuthenticationConfiguration
    algorithms  with which a token may be signed
    """

    def __init__(
        self,
        spec: Obj,
        expressions: Expressions,
        algorithms: Sequence[str],
        clock: Clock,
        version: Version,
    ) -> None:
        issuer = spec["issuer"]
        self.issuer: str = issuer["url"]
        self.key_set = KeySet(self.issuer, issuer.get("discoveryURL", ""), issuer.get("certificateAuthority", ""))
        self._audiences: list[str] = issuer["audiences"]
        self._mappings: Obj = spec.get("claimMappings") or {}
        self._required = {
            rule["claim"]: rule.get("requiredValue", "")
            for rule in spec.get("claimValidationRules") or []
            if rule.get("claim")
        }
        self._expressions = expressions
        self._algorithms = sorted(algorithms)
        self._clock = clock
        self._version = version
        self._known: dict[str, list[User | TokenError]] = {}  # by tokens that took long, for those who wait for them

    def user(self, token: str) -> User:
        """Return the user of a token. Raises TokenError, KeysAwaitedError, EvaluationAwaitedError."""
        if not self._is_issued(token):
            raise TokenError
        if not self.key_set.is_initialized:
            raise TokenError("oidc: authenticator not initialized")
        try:
            claims = self._verified(token)
        except TokenError as error:
            raise TokenError(f"oidc: verify token: {error}") from None
        if token in self._known:
            return _checked(self._known[token][0])
        try:
            with metered(Meter(most=WORK_ON_LOOP)):
                return self._mapped(claims)
        except EvaluationTakesLongError:
            outcome: list[User | TokenError] = []
            raise EvaluationAwaitedError(
                partial(self._evaluate, claims, outcome), self._knowing(token, outcome)
            ) from None

    def _evaluate(self, claims: Obj, outcome: list[User | TokenError]) -> None:
        """Add the user that the claims make, or the error, to a list."""
        try:
            outcome.append(self._mapped(claims))
        except TokenError as error:
            outcome.append(error)

    @contextmanager
    def _knowing(self, token: str, outcome: list[User | TokenError]) -> Iterator[None]:
        """Let a token have the user that was found, or the error. Others find the same for it meanwhile."""
        known = self._known.setdefault(token, [])
        known += outcome
        try:
            yield
        finally:
            del known[0]
            if not known:
                del self._known[token]

    def _mapped(self, claims: Obj) -> User:
        """Return the user that the claims make, if they meet all rules. Raises TokenError."""
        value = claims_value(claims, self._version)
        user = User(self._username(claims, value), self._groups(claims, value), self._uid(claims, value))
        user.extra.update(self._extra(claims, value))
        self._check_claims(claims, value)
        self._check_user(user)
        return user

    def _is_issued(self, token: str) -> bool:
        """Report whether a token says that it is of the issuer. Upstream: `hasCorrectIssuer`."""
        parts = token.split(".")
        if len(parts) != 3:
            return False
        try:
            payload = base64.b64decode(parts[1] + "=" * (-len(parts[1]) % 4), altchars=b"-_")
            claims = json.loads(payload, parse_int=jose.read_integer, parse_constant=jose.refuse_constant)
        except (ValueError, RecursionError):
            return False
        issuer = claims.get("iss") if isinstance(claims, dict) else None
        return (GOOGLE if issuer == BARE_GOOGLE else issuer) == self.issuer

    # --- verification -----------------------------------------------------------------------------------------

    def _verified(self, text: str) -> Obj:
        """Return the claims of a token that is good. Raises TokenError, KeysAwaitedError.

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
        if not self.key_set.has_signed(text, token):
            raise TokenError("failed to verify signature: failed to verify id token signature")

    def _check_standard_claims(self, claims: Obj) -> None:
        """Check issuer, audience and time. Upstream: `IDTokenVerifier.Verify`."""
        if claims["iss"] not in (self.issuer, *((BARE_GOOGLE,) if self.issuer == GOOGLE else ())):
            actual, expected = go_quote(str(claims["iss"])), go_quote(self.issuer)
            raise TokenError(f"oidc: id token issued by a different provider, expected {expected} got {actual}")
        audiences = _strings(claims.get("aud") or [])
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

    # --- mappings ---------------------------------------------------------------------------------------------

    def _username(self, claims: Obj, value: Value) -> str:
        if self._expressions.username is not None:
            name = self._expressed("username claim", self._expressions.username, value, _one_string("username"))
            if not name:
                raise TokenError("oidc: empty username via CEL expression is not allowed")
            return name
        mapping = self._mappings.get("username") or {}
        claim = mapping.get("claim", "")
        try:
            name = _string(claims, claim)
        except ValueError as error:
            raise TokenError(f"oidc: parse username claims {go_quote(claim)}: {error}") from None
        if claim == "email" and "email_verified" in claims:
            verified = claims["email_verified"]
            if not isinstance(verified, bool | None):
                error_text = f"json: cannot unmarshal {jose.kind_of(verified)} into Go value of type bool"
                raise TokenError(f"oidc: parse 'email_verified' claim: {error_text}")
            if not verified:
                raise TokenError("oidc: email not verified")
        return f"{mapping.get('prefix') or ''}{name}"

    def _groups(self, claims: Obj, value: Value) -> list[str]:
        mapping = self._mappings.get("groups") or {}
        claim = mapping.get("claim", "")
        if claim and claim in claims:
            try:
                groups = _strings(claims[claim])
            except TokenError as error:
                raise TokenError(f"oidc: parse groups claim {go_quote(claim)}: {error}") from None
            return [f"{mapping.get('prefix') or ''}{group}" for group in groups]
        if self._expressions.groups is None:
            return []
        return self._expressed("group claim", self._expressions.groups, value, _string_list)

    def _uid(self, claims: Obj, value: Value) -> str:
        claim = (self._mappings.get("uid") or {}).get("claim", "")
        if claim:
            try:
                return _string(claims, claim)
            except ValueError as error:
                raise TokenError(f"oidc: parse uid claim {go_quote(claim)}: {error}") from None
        if self._expressions.uid is None:
            return ""
        return self._expressed("uid claim", self._expressions.uid, value, _one_string("uid"))

    def _extra(self, claims: Obj, value: Value) -> dict[str, list[str]]:
        extra = {}
        if isinstance(claims.get("jti"), str) and claims["jti"]:
            extra[CREDENTIAL_ID] = [f"JTI={claims['jti']}"]
        for key, compiled in self._expressions.extra.items():
            result = evaluate(compiled, {"claims": value})
            try:
                values = _string_list(result)
            except TokenError as error:
                text = f"oidc: error evaluating extra claim expression: {compiled.expression}: {error}"
                raise TokenError(text) from None
            if values:
                extra[key] = values
        return extra

    def _expressed(self, name: str, compiled: Compiled, value: Value, convert: Callable[[Any], T]) -> T:
        """Return the converted value of a mapping's expression. Raises TokenError."""
        try:
            return convert(evaluate(compiled, {"claims": value}))
        except TokenError as error:
            raise TokenError(f"oidc: error evaluating {name} expression: {error}") from None

    # --- rules ------------------------------------------------------------------------------------------------

    def _check_claims(self, claims: Obj, value: Value) -> None:
        for claim, expected in self._required.items():
            if claim not in claims:
                raise TokenError(f"oidc: required claim {claim} not present in ID token")
            try:
                actual = _string(claims, claim)
            except ValueError as error:
                raise TokenError(f"oidc: parse claim {claim}: {error}") from None
            if actual != expected:
                text = f"oidc: required claim {claim} value does not match. Got = {actual}, want = {expected}"
                raise TokenError(text)
        _check_rules("claim validation expression", self._expressions.claim_rules, {"claims": value})

    def _check_user(self, user: User) -> None:
        info: Value = {"username": user.name, "uid": user.uid, "groups": user.groups, "extra": user.extra}
        _check_rules("user info validation rule", self._expressions.user_rules, {"user": info})


def _checked(outcome: User | TokenError) -> User:
    """Return the user that was found. Raises the error that was."""
    if isinstance(outcome, TokenError):
        raise TokenError(str(outcome))
    return outcome


def _check_rules(name: str, rules: Sequence[tuple[Compiled, str]], variables: dict[str, Value]) -> None:
    """Raise TokenError for the first rule that is not met."""
    try:
        for compiled, message in rules:
            if not evaluate(compiled, variables):
                raise TokenError(f"validation expression '{compiled.expression}' failed: {message}")
    except TokenError as error:
        raise TokenError(f"oidc: error evaluating {name}: {error}") from None


def _one_string(name: str) -> Callable[[Any], str]:
    def convert(value: Any) -> str:
        if not isinstance(value, str):
            raise TokenError(f"{name} claim expression must return a string")
        return value

    return convert


def _string_list(value: Any) -> list[str]:
    """Return the texts of a value that is one text, a list of them or null; empty ones are left out."""
    values = [value] if isinstance(value, str | None) else value
    if not isinstance(values, list | tuple) or not all(isinstance(text, str | None) for text in values):
        raise TokenError(STRINGS_ONLY)
    return [text for text in values if text]


def _string(claims: Obj, name: str) -> str:
    """Return a claim that is a text. Raises ValueError with Go's text."""
    if name not in claims:
        raise ValueError("claim not present")
    value = claims[name]
    if not isinstance(value, str | None):
        raise ValueError(f"json: cannot unmarshal {jose.kind_of(value)} into Go value of type string")
    return value or ""


def _strings(value: Any) -> list[str]:
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
