"""Reads an AuthorizationConfiguration.

Upstream: k8s.io/apiserver/pkg/apis/apiserver/load, and the defaults of the types.
"""

from __future__ import annotations

from understudy.machinery.golang.json_reader import DecodeError
from understudy.machinery.golang.times import duration_error, parse_duration
from understudy.machinery.releases.version import V1_31, V1_32, V1_34, ByRelease, Version
from understudy.machinery.serializer.configuration import TYPE_META, ConfigurationTypes, decode_named
from understudy.machinery.typeinfo.go_types import Struct
from understudy.machinery.types import GroupVersionKind, NamedTuple, Obj

GROUP, KIND = "apiserver.config.k8s.io", "AuthorizationConfiguration"
WEBHOOK = "Webhook"
_VERSIONS = ByRelease({V1_32: ("v1alpha1", "v1beta1", "v1"), V1_31: ("v1alpha1", "v1beta1")})
# Other kinds of files that the same reader knows, in v1: given here by mistake.
_OTHER_FILES = ByRelease(
    {
        V1_34: (
            "AdmissionConfiguration",
            "AuthenticationConfiguration",
            "EncryptionConfiguration",
            "TracingConfiguration",
        ),
        V1_31: ("AdmissionConfiguration", "EncryptionConfiguration"),
    }
)
_SCHEME = "k8s.io/apiserver/pkg/apis/apiserver/load/load.go:32"  # in every release
_PACKAGE = "k8s.io/apiserver/pkg/apis/apiserver"
_CACHES = ("cacheAuthorizedRequests", "cacheUnauthorizedRequests")
_HAS_CACHES = ByRelease({V1_34: True, V1_31: False})
_TTLS = {"authorizedTTL": 300_000_000_000, "unauthorizedTTL": 30_000_000_000}  # nanoseconds, by default
_DURATIONS = (*_TTLS, "timeout")


class WebhookConfiguration(NamedTuple):
    """The configuration of a webhook, with defaults.

    authorized_ttl, unauthorized_ttl, timeout
                  in nanoseconds
    caches_authorized, caches_unauthorized
                  whether answers are kept at all
    version       of the SubjectAccessReviews that are sent
    condition_version
                  of those that conditions see
    connection    type of the connection, and the kubeconfig, None for none
    conditions    the expressions of the match conditions
    """

    authorized_ttl: int
    unauthorized_ttl: int
    timeout: int
    caches_authorized: bool
    caches_unauthorized: bool
    version: str
    condition_version: str
    failure_policy: str
    connection: tuple[str, str | None]
    conditions: tuple[str, ...]


class AuthorizerConfiguration(NamedTuple):
    """One authorizer of a configuration."""

    type: str
    name: str
    webhook: WebhookConfiguration | None


def read_authorizers(data: bytes, version: Version) -> list[AuthorizerConfiguration]:
    """Return the authorizers of a configuration as they stand there. Raises ValueError with the text of a release."""
    if not data:
        return []

    def find(kind: GroupVersionKind) -> Struct | None:
        if kind.api_version == f"{GROUP}/v1" and kind.kind in _OTHER_FILES[version]:
            raise DecodeError(f"expected {KIND}, got *apiserver.{kind.kind}")
        return _types(version).find(kind)

    try:
        _, obj = decode_named(data, find, _SCHEME)
        return [_authorizer(each) for each in obj.get("authorizers") or ()]
    except DecodeError as error:
        raise ValueError(f"failed to load AuthorizationConfiguration from file: {error}") from None


def _types(version: Version) -> ConfigurationTypes:
    """Return the Go types of the versions that a release reads. All have the same fields."""
    return ConfigurationTypes(
        {f"{GROUP}/{each}/{KIND}": f"{_PACKAGE}/{each}.{KIND}" for each in _VERSIONS[version]},
        {
            f"{_PACKAGE}/{each}.{name}": fields
            for each in _VERSIONS[version]
            for name, fields in _structs(f"{_PACKAGE}/{each}", _HAS_CACHES[version]).items()
        },
    )


def _structs(package: str, has_caches: bool) -> dict[str, list[list[object]]]:
    caches = [[_capital(name), name, "o", "*bool", 0] for name in _CACHES if has_caches]
    texts = ("subjectAccessReviewVersion", "matchConditionSubjectAccessReviewVersion", "failurePolicy")
    return {
        KIND: [TYPE_META, ["Authorizers", "authorizers", "", f"[]{package}.AuthorizerConfiguration", 0]],
        "AuthorizerConfiguration": [
            ["Type", "type", "", "string", 0],
            ["Name", "name", "", "string", 0],
            ["Webhook", "webhook", "o", f"*{package}.WebhookConfiguration", 0],
        ],
        "WebhookConfiguration": [
            *([_capital(name), name, "o", "*string", 0] for name in _DURATIONS),
            *([_capital(name), name, "", "string", 0] for name in texts),
            *caches,
            ["ConnectionInfo", "connectionInfo", "", f"{package}.WebhookConnectionInfo", 0],
            ["MatchConditions", "matchConditions", "", f"[]{package}.WebhookMatchCondition", 0],
        ],
        "WebhookConnectionInfo": [
            ["Type", "type", "", "string", 0],
            ["KubeConfigFile", "kubeConfigFile", "", "*string", 0],
        ],
        "WebhookMatchCondition": [["Expression", "expression", "", "string", 0]],
    }


def _capital(name: str) -> str:
    return name[0].upper() + name[1:]


def _authorizer(obj: Obj) -> AuthorizerConfiguration:
    webhook = obj.get("webhook")
    return AuthorizerConfiguration(
        obj.get("type") or "", obj.get("name") or "", None if webhook is None else _webhook(webhook)
    )


def _webhook(obj: Obj) -> WebhookConfiguration:
    """Return the configuration of a webhook with defaults (`SetDefaults_WebhookConfiguration`). Raises DecodeError."""
    durations = {name: _duration(obj[name]) for name in _DURATIONS if obj.get(name) is not None}
    authorized, unauthorized = (durations.get(name) or default for name, default in _TTLS.items())
    caches_authorized, caches_unauthorized = (obj.get(name) is not False for name in _CACHES)
    connection = obj.get("connectionInfo") or {}
    return WebhookConfiguration(
        authorized,
        unauthorized,
        durations.get("timeout", 0),
        caches_authorized,
        caches_unauthorized,
        obj.get("subjectAccessReviewVersion") or "",
        obj.get("matchConditionSubjectAccessReviewVersion") or "",
        obj.get("failurePolicy") or "",
        (connection.get("type") or "", connection.get("kubeConfigFile")),
        tuple(condition.get("expression") or "" for condition in obj.get("matchConditions") or ()),
    )


def _duration(text: str) -> int:
    nanoseconds = parse_duration(text)
    if nanoseconds is None:
        raise DecodeError(duration_error(text))
    return nanoseconds
