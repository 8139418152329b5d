"""Configurations that are refused at the start, with the texts of kube-apiserver."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from understudy.apiserver.server.options.config import ServerConfig

HEAD = {"apiVersion": "apiserver.config.k8s.io/v1beta1", "kind": "AuthenticationConfiguration"}
ISSUER = {"url": "https://a.example.com", "audiences": ["x"]}
MAPPINGS = {"username": {"claim": "sub", "prefix": ""}}
GOOD = {"issuer": ISSUER, "claimMappings": MAPPINGS}


def error_of(folder: Path, content: Any, release: str = "1.36", **options: Any) -> str:
    """Return the error of a configuration, "" for a good one."""
    path = folder / "authentication.yaml"
    path.write_text(content if isinstance(content, str) else json.dumps(content))
    try:
        ServerConfig(authentication_config=path, emulated_version=release, **options)
    except ValueError as error:
        return str(error).replace(str(path), "FILE")
    return ""


def of_mapping(name: str, **mapping: Any) -> Any:
    return {**GOOD, "claimMappings": {**MAPPINGS, name: mapping}}


def of_issuer(**fields: Any) -> Any:
    return {**GOOD, "issuer": {**ISSUER, **fields}}


@pytest.mark.parametrize(
    ("authenticator", "error"),
    [
        (of_issuer(url=""), "jwt[0].issuer.url: Required value"),
        (
            of_issuer(url="http://a.example.com"),
            'jwt[0].issuer.url: Invalid value: "http://a.example.com": URL scheme must be https',
        ),
        (
            of_issuer(url="https://kubernetes.default.svc"),
            'jwt[0].issuer.url: Invalid value: "https://kubernetes.default.svc": '
            "URL must not overlap with disallowed issuers: [https://kubernetes.default.svc]",
        ),
        (
            of_issuer(url="https://u:p@a.example.com?x=1#y"),
            '[jwt[0].issuer.url: Invalid value: "https://u:p@a.example.com?x=1#y": '
            "URL must not contain a username or password, "
            'jwt[0].issuer.url: Invalid value: "https://u:p@a.example.com?x=1#y": URL must not contain a query, '
            'jwt[0].issuer.url: Invalid value: "https://u:p@a.example.com?x=1#y": URL must not contain a fragment]',
        ),
        (
            of_issuer(discoveryURL="https://a.example.com/"),
            'jwt[0].issuer.discoveryURL: Invalid value: "https://a.example.com/": '
            "discoveryURL must be different from URL",
        ),
        (
            of_issuer(audiences=[]),
            "jwt[0].issuer.audiences: Required value: at least one jwt[0].issuer.audiences is required",
        ),
        (of_issuer(audiences=[""]), "jwt[0].issuer.audiences[0]: Required value"),
        (
            of_issuer(audiences=["x", "x"], audienceMatchPolicy="MatchAny"),
            'jwt[0].issuer.audiences[1]: Duplicate value: "x"',
        ),
        (
            of_issuer(audiences=["x", "y"]),
            'jwt[0].issuer.audienceMatchPolicy: Invalid value: "": '
            "audienceMatchPolicy must be MatchAny for multiple audiences",
        ),
        (
            of_issuer(certificateAuthority="none"),
            'jwt[0].issuer.certificateAuthority: Invalid value: "<omitted>": '
            "data does not contain any valid RSA or ECDSA certificates",
        ),
        (
            {**GOOD, "claimMappings": {}},
            "jwt[0].claimMappings.username: Required value: claim or expression is required",
        ),
        (
            of_mapping("username", claim="sub"),
            "jwt[0].claimMappings.username.prefix: Required value: prefix is required when claim is set. "
            "It can be set to an empty string to disable prefixing",
        ),
        (
            of_mapping("username", claim="sub", expression="claims.sub"),
            'jwt[0].claimMappings.username: Invalid value: "": claim and expression can\'t both be set',
        ),
        (
            of_mapping("groups", expression="claims.groups", prefix="x"),
            'jwt[0].claimMappings.groups.prefix: Invalid value: "x": may not be specified when expression is set',
        ),
        (
            of_mapping("username", expression="claims.email"),
            'jwt[0].claimMappings.username.expression: Invalid value: "claims.email": claims.email_verified must be '
            "used in claimMappings.username.expression or claimMappings.extra[*].valueExpression or "
            "claimValidationRules[*].expression when claims.email is used in claimMappings.username.expression",
        ),
        (
            {**GOOD, "claimMappings": {**MAPPINGS, "extra": [{"key": "a", "valueExpression": "''"}]}},
            'jwt[0].claimMappings.extra[0].key: Invalid value: "a": '
            'must be a domain-prefixed path (such as "acme.io/foo")',
        ),
        (
            {**GOOD, "claimMappings": {**MAPPINGS, "extra": [{"key": "k8s.io/a", "valueExpression": "''"}]}},
            'jwt[0].claimMappings.extra[0].key: Invalid value: "k8s.io/a": '
            "k8s.io, kubernetes.io and their subdomains are reserved for Kubernetes use",
        ),
        (
            {**GOOD, "claimValidationRules": [{"claim": "a", "message": "x"}, {"claim": "a"}, {}]},
            '[jwt[0].claimValidationRules[0].message: Invalid value: "x": may not be specified when claim is set, '
            'jwt[0].claimValidationRules[1].claim: Duplicate value: "a", '
            "jwt[0].claimValidationRules[2]: Required value: claim or expression is required]",
        ),
        (
            {**GOOD, "claimValidationRules": [{"expression": "claims.sub"}]},
            'jwt[0].claimValidationRules[0].expression: Invalid value: "claims.sub": must evaluate to bool',
        ),
        (
            {**GOOD, "userValidationRules": [{"expression": "user.name == ''"}]},
            "jwt[0].userValidationRules[0].expression: Invalid value: \"user.name == ''\": compilation failed: "
            "ERROR: <input>:1:5: undefined field 'name'\n | user.name == ''\n | ....^",
        ),
    ],
)
def test_invalid(tmp_path: Path, authenticator: Any, error: str) -> None:
    """A mistake in an authenticator is an error with the path of the field."""
    content = {**HEAD, "jwt": [authenticator]}
    assert error_of(tmp_path, content) == f"invalid authentication configuration: {error}"


def test_two_of_one_issuer(tmp_path: Path) -> None:
    """An issuer has one authenticator."""
    error = error_of(tmp_path, {**HEAD, "jwt": [GOOD, GOOD]})
    assert error.endswith('jwt[1].issuer.url: Duplicate value: "https://a.example.com"')


@pytest.mark.parametrize(
    ("content", "error"),
    [
        ("", "empty config data"),
        ("kind: Pod\napiVersion: v1\n", 'no kind "Pod" is registered for version "v1"'),
        ({**HEAD, "jwt": [{**GOOD, "x": 1}]}, 'strict decoding error: unknown field "jwt[0].x"'),
    ],
)
def test_malformed(tmp_path: Path, content: Any, error: str) -> None:
    """A file that is no configuration is refused with its name."""
    prefix = 'failed to load authentication configuration from file "FILE": '
    assert error_of(tmp_path, content) == prefix + error


@pytest.mark.parametrize(("release", "is_known"), [("1.33", False), ("1.34", True)])
def test_versions(tmp_path: Path, release: str, is_known: bool) -> None:
    """Version v1 came with 1.34."""
    error = error_of(tmp_path, {**HEAD, "apiVersion": "apiserver.config.k8s.io/v1", "jwt": [GOOD]}, release)
    assert (error == "") == is_known


def test_good_yaml(tmp_path: Path) -> None:
    """Every expression that is good in kube-apiserver is good here; YAML is read as well."""
    text = """
apiVersion: apiserver.config.k8s.io/v1beta1
kind: AuthenticationConfiguration
jwt:
- issuer: {url: https://a.example.com, audiences: [x, z], audienceMatchPolicy: MatchAny}
  claimMappings:
    username: {expression: "claims.email"}
    extra: [{key: example.com/verified, valueExpression: "claims.?email_verified.orValue('')"}]
  userValidationRules: [{expression: "user.groups.all(group, !group.startsWith('system:'))"}]
anonymous: {enabled: true, conditions: [{path: /livez}]}
"""
    assert error_of(tmp_path, text) == ""
    assert "--anonymous-auth flag cannot be set" in error_of(tmp_path, text, anonymous_auth=False)


def test_flags_exclude_each_other(tmp_path: Path) -> None:
    """The flags of one issuer go together, and not with a file."""
    together = "oidc-issuer-url and oidc-client-id must be specified together when any oidc-\\* flags are set"
    with pytest.raises(ValueError, match=together):
        ServerConfig(oidc_issuer_url="https://a.example.com")
    exclude = "authentication-config file and oidc-\\* flags are mutually exclusive"
    with pytest.raises(ValueError, match=exclude):
        ServerConfig(oidc_issuer_url="https://a.example.com", authentication_config=tmp_path)
    options: Any = {"oidc_issuer_url": "https://a.example.com", "oidc_client_id": "x"}
    with pytest.raises(ValueError, match='oidc: unsupported signing alg: "HS256"'):
        ServerConfig(**options, oidc_signing_algs=["HS256"])
    gates = {"StructuredAuthenticationConfiguration": False}
    assert "=true to use authentication-config file" in error_of(tmp_path, HEAD, "1.33", feature_gates=gates)
