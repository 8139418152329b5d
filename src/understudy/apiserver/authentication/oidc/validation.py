"""Validation of an AuthenticationConfiguration. Upstream: k8s.io/apiserver/pkg/apis/apiserver/validation."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from dataclasses import field
from urllib.parse import urlsplit

from understudy.apiserver.authentication.oidc.expressions import Variable, compile_expression, uses_claim
from understudy.cel.compiler import Compiled
from understudy.machinery.golang.urls import parse_error
from understudy.machinery.golang.x509.x509 import ca_bundle_error
from understudy.machinery.releases import features
from understudy.machinery.releases.features import Gates
from understudy.machinery.releases.version import Version
from understudy.machinery.types import Obj, dataclass
from understudy.machinery.util.regex import regex
from understudy.machinery.validation.field import (
    Errors,
    FieldError,
    Path,
    duplicate,
    forbidden,
    internal,
    invalid,
    required,
    too_many,
)
from understudy.machinery.validation.names import dns_subdomain_texts

MAX_AUTHENTICATORS = 64
MATCH_ANY = "MatchAny"
_RESERVED = ("kubernetes.io", "k8s.io")
_HTTP_PATH = regex(r"([A-Za-z0-9/\-._~%!$&'()*+,;=:]+)", re.ASCII)


@dataclass
class Expressions:
    """The compiled expressions of one authenticator. Upstream: `CELMapper`.

    extra  by key
    claim_rules, user_rules
           with their messages
    """

    username: Compiled | None = None
    groups: Compiled | None = None
    uid: Compiled | None = None
    extra: dict[str, Compiled] = field(default_factory=dict)
    claim_rules: list[tuple[Compiled, str]] = field(default_factory=list)
    user_rules: list[tuple[Compiled, str]] = field(default_factory=list)


class Validator:
    """Validates a configuration for one release.

    issuers  those of this server's own tokens, which no other authenticator may have
    """

    def __init__(self, version: Version, gates: Gates, issuers: Sequence[str]) -> None:
        self._version = version
        self._gates = gates
        self._issuers = issuers
        self.errors: Errors = []

    def validate(self, configuration: Obj) -> list[Expressions]:
        """Return the compiled expressions of each authenticator; what is wrong goes to `errors`."""
        authenticators, root = configuration.get("jwt") or [], Path("jwt")
        if len(authenticators) > MAX_AUTHENTICATORS:
            self.errors.append(too_many(root, len(authenticators), MAX_AUTHENTICATORS))
            return []
        compiled = []
        seen: dict[str, set[str]] = {"url": set(), "discoveryURL": set()}
        for number, authenticator in enumerate(authenticators):
            path, issuer = root.index(number), authenticator.get("issuer") or {}
            compiled.append(self._authenticator(authenticator, path))
            for name, values in seen.items():
                value = issuer.get(name, "")
                if value in values:
                    self.errors.append(duplicate(path.child("issuer", name), value))
                if value or name == "url":
                    values.add(value)
        self._anonymous(configuration.get("anonymous"))
        return compiled

    def _anonymous(self, anonymous: Obj | None) -> None:
        if anonymous is None:
            return
        if not self._gates[features.ANONYMOUS_AUTH_CONFIGURABLE_ENDPOINTS]:
            gate = "AnonymousAuthConfigurableEndpoints"
            text = f"anonymous is not supported when {gate} feature gate is disabled"
            self.errors.append(forbidden(Path("anonymous"), text))
        if not anonymous.get("enabled") and anonymous.get("conditions"):
            path, text = Path("anonymous", "conditions"), "enabled should be set to true when conditions are defined"
            self.errors.append(invalid(path, anonymous["conditions"], text))

    def _authenticator(self, authenticator: Obj, path: Path) -> Expressions:
        expressions = Expressions()
        self._issuer(authenticator.get("issuer") or {}, path.child("issuer"))
        rules = authenticator.get("claimValidationRules") or []
        self._claim_rules(expressions, rules, path.child("claimValidationRules"))
        self._mappings(expressions, authenticator.get("claimMappings") or {}, path.child("claimMappings"))
        rules = authenticator.get("userValidationRules") or []
        self._user_rules(expressions, rules, path.child("userValidationRules"))
        return expressions

    # --- the issuer -------------------------------------------------------------------------------------------

    def _issuer(self, issuer: Obj, path: Path) -> None:
        url, discovery = issuer.get("url", ""), issuer.get("discoveryURL", "")
        if not url:
            self.errors.append(required(path.child("url")))
        else:
            self.errors += _url_errors(url, path.child("url"), self._issuers)
        if discovery:
            if url and url.rstrip("/") == discovery.rstrip("/"):
                text = "discoveryURL must be different from URL"
                self.errors.append(invalid(path.child("discoveryURL"), discovery, text))
            if not discovery.startswith("file://"):  # a file is this server's own
                self.errors += _url_errors(discovery, path.child("discoveryURL"))
        self._audiences(issuer, path)
        authority = issuer.get("certificateAuthority", "")
        if authority and ca_bundle_error(authority.encode()):
            text = "data does not contain any valid RSA or ECDSA certificates"
            self.errors.append(invalid(path.child("certificateAuthority"), "<omitted>", text))
        egress = issuer.get("egressSelectorType", "")
        if egress and egress not in ("controlplane", "cluster"):
            text = "egress selector must be either controlplane or cluster"
            self.errors.append(invalid(path.child("egressSelectorType"), egress, text))

    def _audiences(self, issuer: Obj, path: Path) -> None:
        audiences, policy = issuer.get("audiences") or [], issuer.get("audienceMatchPolicy", "")
        where, policy_path = path.child("audiences"), path.child("audienceMatchPolicy")
        if not audiences:
            self.errors.append(required(where, f"at least one {where} is required"))
            return
        for number, audience in enumerate(audiences):
            if not audience:
                self.errors.append(required(where.index(number)))
            if audience in audiences[:number]:
                self.errors.append(duplicate(where.index(number), audience))
        if len(audiences) > 1 and policy != MATCH_ANY:
            text = "audienceMatchPolicy must be MatchAny for multiple audiences"
            self.errors.append(invalid(policy_path, policy, text))
        if len(audiences) == 1 and policy not in ("", MATCH_ANY):
            text = "audienceMatchPolicy must be empty or MatchAny for single audience"
            self.errors.append(invalid(policy_path, policy, text))

    # --- rules ------------------------------------------------------------------------------------------------

    def _claim_rules(self, expressions: Expressions, rules: Sequence[Obj], path: Path) -> None:
        claims: set[str] = set()
        seen: set[str] = set()
        for number, rule in enumerate(rules):
            where, claim, expression = path.index(number), rule.get("claim", ""), rule.get("expression", "")
            if claim and expression:
                self.errors.append(invalid(where, claim, "claim and expression can't both be set"))
            elif not claim and not expression:
                self.errors.append(required(where, "claim or expression is required"))
            elif claim:
                if rule.get("message"):
                    text = "may not be specified when claim is set"
                    self.errors.append(invalid(where.child("message"), rule["message"], text))
                if claim in claims:
                    self.errors.append(duplicate(where.child("claim"), claim))
                claims.add(claim)
            else:
                if rule.get("requiredValue"):
                    text = "may not be specified when expression is set"
                    self.errors.append(invalid(where.child("requiredValue"), rule["requiredValue"], text))
                self._rule(expressions.claim_rules, rule, where, "claims", seen)

    def _user_rules(self, expressions: Expressions, rules: Sequence[Obj], path: Path) -> None:
        seen: set[str] = set()
        for number, rule in enumerate(rules):
            if not rule.get("expression"):
                self.errors.append(required(path.index(number).child("expression")))
                continue
            self._rule(expressions.user_rules, rule, path.index(number), "user", seen)

    def _rule(
        self, rules: list[tuple[Compiled, str]], rule: Obj, path: Path, variable: Variable, seen: set[str]
    ) -> None:
        expression, where = rule["expression"], path.child("expression")
        if expression in seen:
            self.errors.append(duplicate(where, expression))
            return
        seen.add(expression)
        compiled = self._compile(expression, where, variable, is_rule=True)
        if compiled is not None:
            rules.append((compiled, rule.get("message", "")))

    def _compile(
        self, expression: str, path: Path, variable: Variable = "claims", *, is_rule: bool = False
    ) -> Compiled | None:
        """Return a compiled expression, None after an error."""
        compiled = compile_expression(expression, self._version, variable, is_rule=is_rule)
        if compiled.error is None:
            return compiled
        is_internal = compiled.error_kind == "internal"
        self.errors.append(internal(path, compiled.error) if is_internal else invalid(path, expression, compiled.error))
        return None

    # --- mappings ---------------------------------------------------------------------------------------------

    def _mappings(self, expressions: Expressions, mappings: Obj, path: Path) -> None:
        username = mappings.get("username") or {}
        expressions.username = self._mapping(username, path.child("username"), is_required=True)
        expressions.groups = self._mapping(mappings.get("groups") or {}, path.child("groups"))
        uid, where = mappings.get("uid") or {}, path.child("uid")
        if uid.get("claim") and uid.get("expression"):
            self.errors.append(invalid(where, "", "claim and expression can't both be set"))
        elif uid.get("expression"):
            expressions.uid = self._compile(uid["expression"], where.child("expression"))
        self._extra(expressions, mappings.get("extra") or [], path.child("extra"))
        self._verified_email(expressions, path)

    def _mapping(self, mapping: Obj, path: Path, *, is_required: bool = False) -> Compiled | None:
        claim, expression, prefix = mapping.get("claim", ""), mapping.get("expression", ""), mapping.get("prefix")
        if claim and expression:
            self.errors.append(invalid(path, "", "claim and expression can't both be set"))
        elif expression:
            if prefix is not None:
                text = "may not be specified when expression is set"
                self.errors.append(invalid(path.child("prefix"), prefix, text))
            return self._compile(expression, path.child("expression"))
        elif claim and prefix is None:
            text = "prefix is required when claim is set. It can be set to an empty string to disable prefixing"
            self.errors.append(required(path.child("prefix"), text))
        elif not claim and is_required:
            self.errors.append(required(path, "claim or expression is required"))
        return None

    def _extra(self, expressions: Expressions, mappings: Sequence[Obj], path: Path) -> None:
        seen: set[str] = set()
        for number, mapping in enumerate(mappings):
            where, key = path.index(number), mapping.get("key", "")
            self.errors += _key_errors(key, where.child("key"))
            if key in seen:
                self.errors.append(duplicate(where.child("key"), key))
                continue
            seen.add(key)
            expression = mapping.get("valueExpression", "")
            if not expression:
                self.errors.append(required(where.child("valueExpression")))
                continue
            compiled = self._compile(expression, where.child("valueExpression"))
            if compiled is not None:
                expressions.extra[key] = compiled

    def _verified_email(self, expressions: Expressions, path: Path) -> None:
        """Refuse a user named by `claims.email` where nothing looks at `claims.email_verified`."""
        username = expressions.username
        if username is None or not uses_claim(username.expression, "email", self._version):
            return
        others = [*expressions.extra.values(), *(rule for rule, _ in expressions.claim_rules)]
        if not self._any_uses([username, *others], "email_verified"):
            text = (
                "claims.email_verified must be used in claimMappings.username.expression or "
                "claimMappings.extra[*].valueExpression or claimValidationRules[*].expression when claims.email is "
                "used in claimMappings.username.expression"
            )
            self.errors.append(invalid(path.child("username", "expression"), username.expression, text))

    def _any_uses(self, compiled: Iterable[Compiled], claim: str) -> bool:
        return any(uses_claim(item.expression, claim, self._version) for item in compiled)


def _url_errors(url: str, path: Path, disallowed: Sequence[str] = ()) -> Errors:
    """Check the address of an issuer. Upstream: `validateURL`."""
    errors: Errors = []
    if url in disallowed:
        text = f"URL must not overlap with disallowed issuers: [{' '.join(sorted(disallowed))}]"
        errors.append(invalid(path, url, text))
    if error := parse_error(url):
        return [*errors, invalid(path, url, error)]
    parts = urlsplit(url)
    if parts.scheme != "https":
        errors.append(invalid(path, url, "URL scheme must be https"))
    if "@" in parts.netloc:
        errors.append(invalid(path, url, "URL must not contain a username or password"))
    if parts.query:
        errors.append(invalid(path, url, "URL must not contain a query"))
    if parts.fragment:
        errors.append(invalid(path, url, "URL must not contain a fragment"))
    return errors


def _key_errors(key: str, path: Path) -> Errors:
    """Check the key of an extra field. Upstream: `IsDomainPrefixedPath` and the checks after it."""
    if not key:
        return [required(path)]
    errors: list[FieldError] = []
    domain, _, name = key.partition("/")
    if not domain or not name:
        errors.append(invalid(path, key, 'must be a domain-prefixed path (such as "acme.io/foo")'))
    else:
        errors += [invalid(path, domain, text) for text in dns_subdomain_texts(domain)]
        if not _HTTP_PATH.fullmatch(name):
            text = f"Invalid path (regex used for validation is '{_HTTP_PATH.pattern}')"
            errors.append(invalid(path, name, text))
    if key != key.lower():
        errors.append(invalid(path, key, "must be lowercase"))
    if name and any(domain == own or domain.endswith(f".{own}") for own in _RESERVED):
        text = "k8s.io, kubernetes.io and their subdomains are reserved for Kubernetes use"
        errors.append(invalid(path, key, text))
    return errors


def texts(errors: Errors, version: Version) -> str:
    """Return errors as one text. Upstream: `Aggregate.Error`."""
    every = list(dict.fromkeys(error.text(version) for error in errors))
    return every[0] if len(every) == 1 else f"[{', '.join(every)}]"
