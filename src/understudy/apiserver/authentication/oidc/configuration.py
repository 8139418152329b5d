"""An AuthenticationConfiguration: the file of `--authentication-config`, or what the `--oidc-*` flags make of one.

Upstream: `loadAuthenticationConfig` and `ToAuthenticationConfig` of k8s.io/kubernetes/pkg/kubeapiserver/options.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import orjson

from understudy.apiserver.authentication.jose import ALGORITHMS
from understudy.apiserver.authentication.oidc.validation import Expressions, Validator, texts
from understudy.machinery.golang.text import go_quote
from understudy.machinery.golang.yaml_reader import to_json
from understudy.machinery.releases.features import Gates
from understudy.machinery.releases.version import V1_31, V1_34, ByRelease, Version
from understudy.machinery.types import NamedTuple, Obj

GROUP, KIND = "apiserver.config.k8s.io", "AuthenticationConfiguration"
_VERSIONS = ByRelease({V1_31: ("v1alpha1", "v1beta1"), V1_34: ("v1alpha1", "v1beta1", "v1")})
# The fields of the configuration and their types: a text, a truth value, an object, or a list of one of them.
_MAPPING = {"claim": str, "prefix": str, "expression": str}
_JWT: Mapping[str, Any] = {
    "issuer": {
        "url": str,
        "discoveryURL": str,
        "certificateAuthority": str,
        "audiences": [str],
        "audienceMatchPolicy": str,
        "egressSelectorType": str,
    },
    "claimValidationRules": [{"claim": str, "requiredValue": str, "expression": str, "message": str}],
    "claimMappings": {
        "username": _MAPPING,
        "groups": _MAPPING,
        "uid": {"claim": str, "expression": str},
        "extra": [{"key": str, "valueExpression": str}],
    },
    "userValidationRules": [{"expression": str, "message": str}],
}
_FIELDS = {"kind": str, "apiVersion": str, "jwt": [_JWT], "anonymous": {"enabled": bool, "conditions": [{"path": str}]}}


class Configuration(NamedTuple):
    """A valid configuration.

    authenticators   members of `jwt`, each with its compiled expressions
    algorithms       with which their tokens may be signed
    anonymous_paths  what may be asked for without credentials, none for everything; None if nothing may
    has_anonymous    whether it says so, and not `--anonymous-auth`
    """

    authenticators: Sequence[tuple[Obj, Expressions]]
    algorithms: Sequence[str]
    anonymous_paths: Sequence[str] | None
    has_anonymous: bool


def checked(
    configuration: Obj, algorithms: Sequence[str], version: Version, gates: Gates, issuers: Sequence[str]
) -> Configuration:
    """Return a configuration with its expressions compiled. Raises ValueError.

    issuers  those of this server's own tokens
    """
    for algorithm in algorithms:
        if algorithm not in ALGORITHMS:
            raise ValueError(f"oidc: unsupported signing alg: {go_quote(algorithm)}")
    validator = Validator(version, gates, issuers)
    compiled = validator.validate(configuration)
    if validator.errors:
        raise ValueError(f"invalid authentication configuration: {texts(validator.errors, version)}")
    specs = configuration.get("jwt") or []
    return Configuration(
        list(zip(specs, compiled, strict=True)),
        algorithms,
        anonymous_paths(configuration),
        configuration.get("anonymous") is not None,
    )


def load_configuration(path: Path, data: bytes, version: Version) -> Obj:
    """Return the configuration in a file that holds some bytes. Raises ValueError for one that a release does not
    take."""
    try:
        return decoded(data, version)
    except ValueError as error:
        text = f"failed to load authentication configuration from file {go_quote(str(path))}: {error}"
        raise ValueError(text) from None


def decoded(data: bytes, version: Version) -> Obj:
    """Return the configuration in some bytes, whose values are not checked. Raises ValueError."""
    if not data:
        raise ValueError("empty config data")
    text, duplicates = to_json(data)
    configuration = orjson.loads(text)
    if not isinstance(configuration, dict):
        raise ValueError("couldn't get version/kind; json parse error: not an object")
    kind, api_version = configuration.get("kind", ""), configuration.get("apiVersion", "")
    if kind != KIND or api_version not in [f"{GROUP}/{name}" for name in _VERSIONS[version]]:
        raise ValueError(f"no kind {go_quote(str(kind))} is registered for version {go_quote(str(api_version))}")
    errors = [*duplicates, *_field_errors(configuration, _FIELDS, "")]
    if errors:
        raise ValueError(f"strict decoding error: {', '.join(errors)}")
    return dict(configuration)


def _field_errors(value: Any, expected: Any, path: str) -> list[str]:
    """Return an error for each unknown field and each value of a wrong type."""
    if value is None:
        return []
    if isinstance(expected, list):
        if not isinstance(value, list):
            return [f"{path}: not a list"]
        return [
            error
            for number, item in enumerate(value)
            for error in _field_errors(item, expected[0], f"{path}[{number}]")
        ]
    if isinstance(expected, type):
        return [] if isinstance(value, expected) else [f"{path}: not a {expected.__name__}"]
    if not isinstance(value, dict):
        return [f"{path}: not an object"]
    errors = []
    for name, item in value.items():
        where = f"{path}.{name}" if path else name
        if name not in expected:
            errors.append(f"unknown field {go_quote(where)}")
        else:
            errors += _field_errors(item, expected[name], where)
    return errors


def configuration_of_flags(
    issuer_url: str,
    client_id: str,
    *,
    username_claim: str,
    username_prefix: str,
    groups_claim: str,
    groups_prefix: str,
    required_claims: Mapping[str, str],
    certificate_authority: str,
) -> Obj:
    """Return the configuration that the `--oidc-*` flags stand for.

    Users have the issuer as prefix unless there is one or they are named by their e-mail addresses; "-" is no prefix.
    """
    prefix = username_prefix
    if not prefix and username_claim != "email":
        prefix = f"{issuer_url}#"
    mappings: Obj = {"username": {"claim": username_claim, "prefix": "" if prefix == "-" else prefix}}
    if groups_claim:
        mappings["groups"] = {"claim": groups_claim, "prefix": groups_prefix}
    rules = [{"claim": claim, "requiredValue": value} for claim, value in required_claims.items()]
    issuer = {"url": issuer_url, "audiences": [client_id], "certificateAuthority": certificate_authority}
    return {"jwt": [{"issuer": issuer, "claimMappings": mappings, "claimValidationRules": rules}]}


def anonymous_paths(configuration: Obj) -> Sequence[str] | None:
    """Return the paths that may be asked for without credentials; none for all, None if nothing may."""
    anonymous = configuration.get("anonymous") or {}
    if not anonymous.get("enabled"):
        return None
    return [condition.get("path", "") for condition in anonymous.get("conditions") or []]
