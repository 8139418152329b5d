"""The configuration of PodSecurity: the policy of namespaces without labels, and what is exempt from all policies.

Upstream: k8s.io/pod-security-admission/admission/api.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator

from understudy.admission.manifest.settings import InitializationError
from understudy.admission.plugins.pod_security.levels import (
    ANYTHING,
    LEVELS,
    MODES,
    PRIVILEGED,
    WRONG_LEVEL,
    WRONG_VERSION,
    Policy,
    Standard,
    minor_of,
)
from understudy.machinery.golang.text import aggregate
from understudy.machinery.releases.version import Version
from understudy.machinery.serializer.configuration import TYPE_META, ConfigurationTypes, decode_named
from understudy.machinery.typeinfo.scheme import scheme_name
from understudy.machinery.types import NamedTuple, Obj, nested_field
from understudy.machinery.validation.field import FieldError, Path, duplicate, invalid
from understudy.machinery.validation.names import dns_label_texts, dns_subdomain_texts

_GROUP = "pod-security.admission.config.k8s.io"
_PACKAGE = "k8s.io/pod-security-admission/admission/api"
_VERSIONS = ("v1", "v1beta1", "v1alpha1")
_MODES = [("Enforce", "enforce"), ("Audit", "audit"), ("Warn", "warn")]
_TYPES = ConfigurationTypes(
    {f"{_GROUP}/{v}/PodSecurityConfiguration": f"{_PACKAGE}/{v}.PodSecurityConfiguration" for v in _VERSIONS},
    {
        f"{_PACKAGE}/{version}.{name}": fields
        for version in _VERSIONS
        for name, fields in {
            "PodSecurityConfiguration": [
                TYPE_META,
                ["Defaults", "defaults", "", f"{_PACKAGE}/{version}.PodSecurityDefaults", 0],
                ["Exemptions", "exemptions", "", f"{_PACKAGE}/{version}.PodSecurityExemptions", 0],
            ],
            "PodSecurityDefaults": [
                [f"{go}{part}", f"{mode}{suffix}", "o", "string", 0]
                for go, mode in _MODES
                for part, suffix in (("", ""), ("Version", "-version"))
            ],
            "PodSecurityExemptions": [
                ["Usernames", "usernames", "o", "[]string", 0],
                ["Namespaces", "namespaces", "o", "[]string", 0],
                ["RuntimeClasses", "runtimeClasses", "o", "[]string", 0],
            ],
        }.items()
    },
)


class PodSecurityConfiguration(NamedTuple):
    """The policy of namespaces whose labels do not say otherwise, and the names of what no policy concerns."""

    defaults: Policy = ANYTHING
    usernames: frozenset[str] = frozenset()
    namespaces: frozenset[str] = frozenset()
    runtime_classes: frozenset[str] = frozenset()


def read_pod_security(data: bytes | None, version: Version) -> PodSecurityConfiguration:
    """Return the configuration of some bytes, the default one without. Raises ValueError, InitializationError."""
    if not data:
        return PodSecurityConfiguration()
    _, obj = decode_named(data, _TYPES.find, scheme_name(version, "podsecurity"))
    defaults = _defaults(obj.get("defaults") or {})
    exemptions: Obj = obj.get("exemptions") or {}
    checks = {"namespaces": dns_label_texts, "runtimeClasses": dns_subdomain_texts, "usernames": _username_texts}
    texts = [error.text(version) for name, check in checks.items() for error in _wrong_names(exemptions, name, check)]
    if texts:
        raise InitializationError(f"PodSecurity invalid: {aggregate(texts)}")
    return PodSecurityConfiguration(
        defaults, *(frozenset(exemptions.get(name) or ()) for name in ("usernames", "namespaces", "runtimeClasses"))
    )


def _defaults(fields: Obj) -> Policy:
    """Return the policy that the fields set (`ToPolicy`). Raises InitializationError."""
    texts, standards = [], []
    for mode in MODES:
        level, version = fields.get(mode) or PRIVILEGED, fields.get(f"{mode}-version") or "latest"
        minor = minor_of(version)
        if level not in LEVELS:
            texts.append(f"{mode}: {WRONG_LEVEL}")
        if minor is None and version != "latest":
            texts.append(f"{mode}-version: {WRONG_VERSION}")
        standards.append(Standard(level, minor))
    if texts:
        raise InitializationError(f"PodSecurity configuration error: {aggregate(texts)}")
    return Policy(*standards)


def _username_texts(name: str) -> list[str]:
    return [] if name else ["username must not be empty"]


def _wrong_names(exemptions: Obj, name: str, check: Callable[[str], list[str]]) -> Iterator[FieldError]:
    """Yield the errors of a list of names, in which none may be twice."""
    seen: set[str] = set()
    for i, value in enumerate(nested_field(exemptions, name, default=())):
        path = Path("exemptions", name).index(i)
        if texts := check(value):
            yield invalid(path, value, ", ".join(texts))
        elif value in seen:
            yield duplicate(path, value)
        seen.add(value)
