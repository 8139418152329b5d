"""The certificates of webhooks: the context that verifies them, and Go's words for one that cannot be verified.

OpenSSL and Go look at a certificate in another order. After a failed handshake the certificate is fetched once more and
judged in Go's order: validity, names, authority (crypto/x509).
"""

from __future__ import annotations

import asyncio
import base64
import ssl
from collections.abc import Iterable, Mapping
from datetime import UTC, datetime
from ipaddress import ip_address
from typing import TYPE_CHECKING, Any

from understudy.admission.webhooks import Caller
from understudy.apiserver.client.connection import load_client_certificate
from understudy.machinery.golang.text import go_quote
from understudy.machinery.golang.x509.deprecated import Deprecated, deprecated_by, deprecated_ways
from understudy.machinery.util.metrics import Counter

if TYPE_CHECKING:
    from cryptography.x509 import Certificate

UNKNOWN_AUTHORITY = "certificate signed by unknown authority"
_MOST_NAMES = 100
INSECURE_HASHES = ("md5", "sha1")
_MOST_CONTEXTS = 256
_contexts: dict[tuple[str, str, tuple[str, ...], Caller], ssl.SSLContext] = {}


async def load_client_context(
    ca_bundle: str, server_name: str, protocols: tuple[str, ...], caller: Caller
) -> ssl.SSLContext:
    """Return the context of `client_context`, which a thread makes: to read the system's authorities takes 30 ms."""
    key = ca_bundle, server_name, protocols, caller
    if key not in _contexts:
        await asyncio.to_thread(client_context, *key)
    return client_context(*key)


def client_context(ca_bundle: str, server_name: str, protocols: tuple[str, ...], caller: Caller) -> ssl.SSLContext:
    """Return the context for calls of one server. `ca_bundle` is PEM in base64, "" for the system's authorities.

    Those used last are kept, since connections are used again only with the same one. A server name has its own.
    `protocols` are those that are offered to the server (ALPN), the preferred one first.
    """
    key = ca_bundle, server_name, protocols, caller
    known = _contexts.pop(key, None)
    context = _contexts.setdefault(key, known or _new_context(*key))  # behind those that were used before
    while len(_contexts) > _MOST_CONTEXTS:
        _contexts.pop(next(iter(_contexts)), None)
    return context


def _new_context(ca_bundle: str, server_name: str, protocols: tuple[str, ...], caller: Caller) -> ssl.SSLContext:
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    context.verify_flags |= ssl.VERIFY_X509_PARTIAL_CHAIN  # every certificate of a bundle is trusted, roots or not
    context.hostname_checks_common_name = False
    context.set_alpn_protocols(protocols)
    if ca_bundle:
        context.load_verify_locations(cadata=base64.b64decode(ca_bundle).decode("ascii", "replace"))
    elif not caller.insecure:
        context.load_default_certs()
    if caller.insecure:
        context.check_hostname = False
        context.verify_mode = ssl.CERT_NONE
    if caller.certificate is not None:
        load_client_certificate(context, caller.certificate, caller.key)
    return context


async def verification_error(place: Mapping[str, Any], name: str, authorities: ssl.SSLContext | None = None) -> str:
    """Return Go's words for the certificate of a server that could not be verified for a name.

    place        where the server is, the arguments with which `create_connection` connects to it
    authorities  the context that could not verify it, None for one that need not be told of
    """
    from understudy.apiserver.server.webhooks.streams.stream import close_writer  # few servers need it

    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    context.check_hostname = False
    context.verify_mode = ssl.CERT_NONE
    _, writer = await asyncio.open_connection(ssl=context, server_hostname=name, **place)
    try:
        der = writer.get_extra_info("ssl_object").getpeercert(binary_form=True)
    finally:
        await close_writer(writer)
    from cryptography.x509 import load_der_x509_certificate  # takes a while

    leaf = load_der_x509_certificate(der)
    if error := _validity_error(leaf, datetime.now(UTC)) or _name_error(leaf, name):
        return error
    known = [] if authorities is None else authorities.get_ca_certs(binary_form=True)
    return authority_error(leaf, map(load_der_x509_certificate, known))


def authority_error(leaf: Certificate, authorities: Iterable[Certificate]) -> str:
    """Return the error of a certificate that no authority vouches for: it says why one that is known does not count,
    if the signature is insecure (`UnknownAuthorityError`)."""
    from cryptography.x509 import NameOID

    hashed = leaf.signature_hash_algorithm
    if hashed is None or hashed.name not in INSECURE_HASHES:
        return UNKNOWN_AUTHORITY
    for authority in authorities:
        if authority.subject != leaf.issuer:
            continue
        subject = authority.subject
        texts = (subject.get_attributes_for_oid(oid) for oid in (NameOID.COMMON_NAME, NameOID.ORGANIZATION_NAME))
        named = next(
            (str(attributes[0].value) for attributes in texts if attributes), f"serial:{authority.serial_number}"
        )
        why = go_quote(f"x509: cannot verify signature: insecure algorithm {_algorithm(leaf, hashed.name.upper())}")
        tried = f"while trying to verify candidate authority certificate {go_quote(named)}"
        return f"{UNKNOWN_AUTHORITY} (possibly because of {why} {tried})"
    return UNKNOWN_AUTHORITY


def _algorithm(leaf: Certificate, hashed: str) -> str:
    """Return Go's name of the algorithm of a signature (`SignatureAlgorithm`)."""
    from cryptography.x509 import SignatureAlgorithmOID

    is_ecdsa = leaf.signature_algorithm_oid == SignatureAlgorithmOID.ECDSA_WITH_SHA1
    return f"ECDSA-{hashed}" if is_ecdsa else f"{hashed}-RSA"


def _validity_error(leaf: Certificate, now: datetime) -> str:
    """Return the error of a certificate that has expired or is not valid yet, "" for others."""
    begin, end = leaf.not_valid_before_utc, leaf.not_valid_after_utc
    if begin <= now <= end:
        return ""
    bound = f"is before {_rfc3339(begin)}" if now < begin else f"is after {_rfc3339(end)}"
    return f"certificate has expired or is not yet valid: current time {_rfc3339(now)} {bound}"


def _rfc3339(time: datetime) -> str:
    return time.strftime("%Y-%m-%dT%H:%M:%SZ")


def _name_error(leaf: Certificate, name: str) -> str:
    """Return the error of a certificate that is for other names (`HostnameError`), "" for one that has the name."""
    from cryptography.x509 import DNSName, ExtensionNotFound, IPAddress, NameOID, SubjectAlternativeName

    try:
        names = leaf.extensions.get_extension_for_class(SubjectAlternativeName).value
    except ExtensionNotFound:
        common = [str(attribute.value) for attribute in leaf.subject.get_attributes_for_oid(NameOID.COMMON_NAME)]
        if any(_matches(pattern, name) for pattern in common):
            return "certificate relies on legacy Common Name field, use SANs instead"
        return f"certificate is not valid for any names, but wanted to match {name}"
    if _is_address(name):
        addresses = [str(address) for address in names.get_values_for_type(IPAddress)]
        if name in addresses:
            return ""
        if not addresses:
            return f"cannot validate certificate for {name} because it doesn't contain any IP SANs"
        return _other_names(addresses, "IP SANs", name)
    domains = names.get_values_for_type(DNSName)
    return "" if any(_matches(pattern, name) for pattern in domains) else _other_names(domains, "names", name)


def _other_names(names: list[str], what: str, name: str) -> str:
    if not names:
        return f"certificate is not valid for any names, but wanted to match {name}"
    if len(names) >= _MOST_NAMES:
        return f"certificate is valid for {len(names)} {what}, but none matched {name}"
    return f"certificate is valid for {', '.join(names)}, not {name}"


def _is_address(name: str) -> bool:
    try:
        ip_address(name)
    except ValueError:
        return False
    return True


def _matches(pattern: str, name: str) -> bool:
    """Report whether a name, or a pattern such as `*.example.com` for one label, includes a host name."""
    pattern, name = pattern.lower().rstrip("."), name.lower().rstrip(".")
    if pattern.startswith("*."):
        return name.partition(".")[2] == pattern[2:]
    return pattern == name


# --- metrics of deprecated certificates


_ABOUT = {
    Deprecated.MISSING_SAN: (
        "requests to servers missing SAN extension in their serving certificate OR the number of connection failures "
        "due to the lack of x509 certificate SAN extension missing"
    ),
    Deprecated.INSECURE_SHA1: (
        "requests to servers with insecure SHA1 signatures in their serving certificate OR the number of connection "
        "failures due to the insecure SHA1 signatures"
    ),
}


class CertificateCounts:
    """Counts requests to servers of one kind that have deprecated certificates.

    subsystem  the part of the names of metrics that stands for the kind
    stage      how stable the metrics are
    """

    def __init__(self, subsystem: str, stage: str = "ALPHA") -> None:
        ending = "(either/or, based on the runtime environment)"
        self._counters = {
            way: Counter(
                f"apiserver_{subsystem}_x509_{way.key.replace('-', '_')}_total",
                f"[{stage}] Counts the number of {about} {ending}",
                (),
            )
            for way, about in _ABOUT.items()
        }
        for counter in self._counters.values():
            counter.series[()] = 0

    @property
    def families(self) -> tuple[Counter, ...]:
        """Return the families of /metrics."""
        return tuple(self._counters.values())

    def count_error(self, error: str) -> Deprecated | None:
        """Count a request that failed, from Go's words for why; return in which way its certificate is deprecated."""
        way = deprecated_by(error)
        if way is not None:
            self._counters[way].add()
        return way

    def count_answer(self, tls: ssl.SSLObject | None) -> list[Deprecated]:
        """Count an answer that came over TLS; return in which ways the server's certificate is deprecated.

        One that was verified is not.
        """
        if tls is None or tls.context.verify_mode != ssl.CERT_NONE:
            return []
        ways = deprecated_ways(tls.getpeercert(binary_form=True) or b"")
        for way in ways:
            self._counters[way].add()
        return ways
