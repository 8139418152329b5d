"""Users by the tokens of one issuer. Upstream: k8s.io/apiserver/plugin/pkg/authenticator/token/oidc."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from time import perf_counter
from typing import Any, TypeVar

from understudy.apiserver.authentication import jose
from understudy.apiserver.authentication.counted.metrics import AuthenticationMetrics
from understudy.apiserver.authentication.errors import EvaluationAwaitedError, Outcomes, TokenError
from understudy.apiserver.authentication.oidc.distributed_claims import KEPT, KEPT_SECONDS, ClaimResolver
from understudy.apiserver.authentication.oidc.downloads import Connect
from understudy.apiserver.authentication.oidc.expressions import claims_value, evaluate
from understudy.apiserver.authentication.oidc.id_token_verifier import IDTokenVerifier, strings, untrusted_issuer
from understudy.apiserver.authentication.oidc.key_set import KeySet, Observe
from understudy.apiserver.authentication.oidc.validation import Expressions
from understudy.cel.compiler import Compiled
from understudy.cel.limits.interrupts import WORK_ON_LOOP, EvaluationTakesLongError, Meter, metered
from understudy.cel.values import Value
from understudy.machinery.auth.users import CREDENTIAL_ID, User
from understudy.machinery.golang.text import go_quote
from understudy.machinery.releases.version import Version
from understudy.machinery.types import Obj
from understudy.machinery.util.clock import Clock
from understudy.machinery.util.expiring import ExpiringResults

T = TypeVar("T")
STRINGS_ONLY = "expression must return a string or a list of strings"


class JWTAuthenticator:
    """Knows users by the tokens of one issuer.

    spec        a member of `jwt` in an AuthenticationConfiguration
    algorithms  with which a token may be signed
    observe_keys
                is told the issuer and the document of each fetch of its keys, "" of one that has failed; None where
                nobody wants to know
    connect     connects to the issuer, None where it is reached directly
    """

    def __init__(
        self,
        spec: Obj,
        expressions: Expressions,
        algorithms: Sequence[str],
        clock: Clock,
        version: Version,
        metrics: AuthenticationMetrics,
        observe_keys: Observe | None = None,
        connect: Connect | None = None,
    ) -> None:
        issuer = spec["issuer"]
        self.issuer: str = issuer["url"]
        discovery, authority = (issuer.get(name, "") for name in ("discoveryURL", "certificateAuthority"))
        self.key_set = KeySet(self.issuer, discovery, authority, observe_keys, connect)
        new_verifier = partial(
            IDTokenVerifier, audiences=issuer["audiences"], algorithms=algorithms, clock=clock, version=version
        )
        self._verifier = new_verifier(self.key_set)
        self._mappings: Obj = spec.get("claimMappings") or {}
        self._required = {
            rule["claim"]: rule.get("requiredValue", "")
            for rule in spec.get("claimValidationRules") or []
            if rule.get("claim")
        }
        self._expressions = expressions
        self._version = version
        self._metrics = metrics
        self._counted = ExpiringResults[str, bool](KEPT, clock)  # tokens that were counted as good
        self._known = Outcomes[User]()  # of tokens that took long
        groups = (self._mappings.get("groups") or {}).get("claim", "")
        self._resolver = ClaimResolver(groups, self.key_set, new_verifier, clock) if groups else None

    def retire(self) -> None:
        """Forget what metrics tell of the keys, since the issuer is asked no more."""
        self._metrics.forget_issuer(self.issuer)

    def user(self, token: str) -> User:
        """Return the user of a token. Raises TokenError, FetchAwaitedError, EvaluationAwaitedError."""
        if not self._is_issued(token):
            raise TokenError
        started = perf_counter()
        try:
            user = self._user(token)
        except TokenError:
            self._metrics.observe_token(self.issuer, perf_counter() - started, succeeded=False)
            raise
        if self._counted.get(token) is None:  # others are in kube-apiserver's cache of users
            self._counted.add(token, True, KEPT_SECONDS)
            self._metrics.observe_token(self.issuer, perf_counter() - started, succeeded=True)
        return user

    def _user(self, token: str) -> User:
        """Return the user of a token of the issuer. Raises as `user`."""
        if not self.key_set.is_initialized:
            raise TokenError("oidc: authenticator not initialized")
        try:
            claims = self._verifier.verify(token)
        except TokenError as error:
            raise TokenError(f"oidc: verify token: {error}") from None
        if token in self._known:
            return self._known.get(token)
        if self._resolver is not None:
            self._resolver.expand(token, claims)
        try:
            with metered(Meter(most=WORK_ON_LOOP)):
                return self._mapped(claims)
        except EvaluationTakesLongError:
            outcome: list[User | TokenError] = []
            raise EvaluationAwaitedError(
                partial(self._evaluate, claims, outcome), self._known.of(token, outcome)
            ) from None

    def _is_issued(self, token: str) -> bool:
        """Report whether a token says that it is of the issuer. Upstream: `hasCorrectIssuer`."""
        try:
            return untrusted_issuer(token) == self.issuer
        except ValueError:
            return False

    def _evaluate(self, claims: Obj, outcome: list[User | TokenError]) -> None:
        """Add the user that the claims make, or the error, to a list."""
        try:
            outcome.append(self._mapped(claims))
        except TokenError as error:
            outcome.append(error)

    def _mapped(self, claims: Obj) -> User:
        """Return the user that the claims make, if they meet all rules. Raises TokenError."""
        value = claims_value(claims, self._version)
        user = User(self._username(claims, value), self._groups(claims, value), self._uid(claims, value))
        user.extra.update(self._extra(claims, value))
        self._check_claims(claims, value)
        self._check_user(user)
        return user

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
                groups = strings(claims[claim])
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
