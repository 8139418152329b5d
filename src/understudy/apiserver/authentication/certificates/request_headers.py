"""Users whom a front proxy names in headers. Upstream: k8s.io/apiserver/pkg/authentication/request/headerrequest.

https://kubernetes.io/docs/reference/access-authn-authz/authentication/#authenticating-proxy
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from urllib.parse import unquote

from cryptography import x509

from understudy.apiserver.authentication.certificates.authorities import Authorities
from understudy.apiserver.authentication.certificates.client_certificates import common_name
from understudy.apiserver.authentication.certificates.client_chains import ClientChains
from understudy.apiserver.authentication.certificates.user_headers import with_standard
from understudy.apiserver.authentication.errors import CertificateError
from understudy.machinery.auth.users import User
from understudy.machinery.types import NamedTuple
from understudy.machinery.util.clock import Clock
from understudy.machinery.util.regex import regex

_MALFORMED = regex(r"%(?![0-9a-fA-F]{2})")


class RequestHeaders(NamedTuple):
    """The headers in which a front proxy names a user, and who may be one. Upstream: `RequestHeaderConfig`.

    authorities    sign the certificates of front proxies
    allowed_names  common names of their certificates, none for any
    """

    authorities: Authorities
    allowed_names: Sequence[str]
    username: Sequence[str]
    uid: Sequence[str]
    group: Sequence[str]
    extra_prefix: Sequence[str]

    def lowered(self) -> RequestHeaders:
        """Return the same with headers in lower case."""
        username, uid, group, prefixes = [[name.lower() for name in names] for names in self[2:]]
        return RequestHeaders(self.authorities, self.allowed_names, username, uid, group, prefixes)


class FrontProxies:
    """Finds the user whom a front proxy names in headers.

    user_headers  those headers, and the standard ones
    """

    def __init__(self, accepted: RequestHeaders, clock: Clock) -> None:
        self.user_headers = with_standard((*accepted.username, *accepted.uid, *accepted.group), accepted.extra_prefix)
        self._accepted = accepted.lowered()
        self._chains = ClientChains(accepted.authorities, clock, self._check)

    def _check(self, leaf: x509.Certificate) -> None:
        """Raise CertificateError for a client that is no front proxy (`verifySubject`)."""
        allowed, name = self._accepted.allowed_names, common_name(leaf)
        if allowed and name not in allowed:
            raise CertificateError(f"x509: subject with cn={name} is not in the allowed list")

    def user(self, certificates: tuple[bytes, ...], headers: Mapping[str, str]) -> User | None:
        """Return the user of a request that shows certificates in DER, the client's own first; None without a name.

        Raises CertificateError for a client that is no front proxy.
        """
        self._chains.verify(certificates)
        accepted = self._accepted
        sent = [(header.lower(), value) for header, value in headers.items()]
        user = next(iter(_values(sent, accepted.username, first=True)), "")
        if not user:
            return None
        uid = next(iter(_values(sent, accepted.uid, first=True)), "")
        return User(user, _values(sent, accepted.group), uid, _extra(sent, accepted.extra_prefix))


def _values(sent: Sequence[tuple[str, str]], names: Sequence[str], *, first: bool = False) -> list[str]:
    """Return the values of headers that are not empty, in the order of names; all names are in lower case.

    first  whether only the first value of each counts
    """
    values: list[str] = []
    for name in names:
        own = [value for header, value in sent if header == name]
        values += filter(None, own[:1] if first else own)
    return values


def _extra(sent: Sequence[tuple[str, str]], prefixes: Sequence[str]) -> dict[str, list[str]]:
    """Return the extra fields of a user, whose keys are the ends of headers; prefixes are in lower case."""
    extra: dict[str, list[str]] = {}
    for prefix in prefixes:
        for header, value in sent:
            if header.startswith(prefix):
                extra.setdefault(_unescaped(header[len(prefix) :]), []).append(value)
    return extra


def _unescaped(key: str) -> str:
    """Return a key without its escapes; a malformed one stays as it is."""
    return key if _MALFORMED.search(key) else unquote(key, errors="surrogateescape")
