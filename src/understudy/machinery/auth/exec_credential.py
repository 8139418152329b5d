"""What the command of a kubeconfig's user prints: an ExecCredential (`client.authentication.k8s.io`)."""

from __future__ import annotations

from datetime import UTC, datetime

from understudy.machinery.auth.exec_plugin import GROUP, VERSIONS
from understudy.machinery.golang.json_reader import DecodeError
from understudy.machinery.golang.x509.key_pair import key_pair_error
from understudy.machinery.releases.version import Version
from understudy.machinery.serializer.configuration import TIME, TYPE_META, ConfigurationTypes
from understudy.machinery.serializer.json import decode_parsed, parse_json, read_type_meta, yaml_to_json
from understudy.machinery.typeinfo.go_types import INTERNAL
from understudy.machinery.typeinfo.scheme import gvk_with_defaults, not_registered, scheme_name
from understudy.machinery.types import GroupVersionKind, NamedTuple

KIND = "ExecCredential"
_PACKAGE = "k8s.io/client-go/pkg/apis/clientauthentication"
_TEXTS = ("token", "clientCertificateData", "clientKeyData")
_TYPES = ConfigurationTypes(
    {f"{GROUP}/{version}/{KIND}": f"{_PACKAGE}/v1.{KIND}" for version in (*VERSIONS, INTERNAL)},
    {
        f"{_PACKAGE}/v1.{KIND}": [TYPE_META, ["Status", "status", "o", f"*{_PACKAGE}/v1.ExecCredentialStatus", 0]],
        f"{_PACKAGE}/v1.ExecCredentialStatus": [
            ["ExpirationTimestamp", "expirationTimestamp", "o", f"*{TIME}", 0],
            *([name, name, "o", "string", 0] for name in _TEXTS),
        ],
    },
)


class CredentialsError(Exception):
    """A command that gives no credentials; the text is that of client-go."""


class Credentials(NamedTuple):
    """The credentials that a command has printed: a token, or "", and a certificate with its key (PEM).

    expires  seconds of the system's clock when they are over, None for never
    """

    token: str
    certificate: bytes | None
    key: bytes | None
    expires: float | None


def read_credentials(printed: bytes, version: str, release: Version) -> Credentials:
    """Return the credentials in what a command has printed. Raises CredentialsError.

    version  that of the API which the command is told to speak
    release  whose errors name lines of its source
    """
    try:
        status = _decoded(printed, version, release)
    except DecodeError as error:
        raise CredentialsError(f"decoding stdout: {error}") from None
    if status is None:
        raise CredentialsError("exec plugin didn't return a status field")
    token, certificate, key = (status.get(name) or "" for name in _TEXTS)
    if not (token or certificate or key):
        raise CredentialsError("exec plugin didn't return a token or cert/key pair")
    if bool(certificate) != bool(key):
        raise CredentialsError("exec plugin returned only certificate or key, not both")
    problem = key_pair_error(certificate.encode(), key.encode()) if certificate else ""
    if problem:
        raise CredentialsError(f"failed parsing client key/certificate: {problem}")
    until = status.get("expirationTimestamp")
    expires = datetime.strptime(until, "%Y-%m-%dT%H:%M:%SZ").replace(tzinfo=UTC).timestamp() if until else None
    return Credentials(token, certificate.encode() or None, key.encode() or None, expires)


def _decoded(printed: bytes, version: str, release: Version) -> dict[str, str] | None:
    """Return the status of an ExecCredential in JSON or YAML. Raises DecodeError, CredentialsError for one of
    another version."""
    expected = GroupVersionKind(GROUP, version, KIND)
    parsed = parse_json(printed if printed.lstrip().startswith(b"{") else yaml_to_json(printed)[0])
    gvk = gvk_with_defaults(*read_type_meta(parsed), expected._replace(version=INTERNAL))
    if not gvk.version:
        raise DecodeError(f"Object 'apiVersion' is missing in '{printed.decode('utf-8', 'replace')}'")
    struct = _TYPES.find(gvk)
    if struct is None:
        raise not_registered(gvk, scheme_name(release, "exec"))
    obj, _ = decode_parsed(parsed, struct)
    if gvk != expected:
        configured, returned = f"{GROUP}/{expected.version}", f"{gvk.group}/{gvk.version}"
        expects = "exec plugin is configured to use API version"
        raise CredentialsError(f"{expects} {configured}, plugin returned version {returned}")
    status: dict[str, str] | None = obj.get("status")
    return status
