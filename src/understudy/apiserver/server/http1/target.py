"""Reads the target of a request as Go does (`url.ParseRequestURI`): mostly a path and query, or a whole URL."""

from __future__ import annotations

from ipaddress import AddressValueError, IPv6Address

from understudy.machinery.options import MALFORMED
from understudy.machinery.util.regex import regex

_CONTROL = regex(r"[\x00-\x1f\x7f]")
_SCHEME = regex(r"([A-Za-z][A-Za-z0-9+.-]*):")
_USER = regex(r"(?:[A-Za-z0-9\-._:~!$&'()*+,;=@]|%[0-9A-Fa-f]{2})*")
_NAME = regex(r"(?:[A-Za-z0-9\-._~!$&'()*+,;=:\[\]<>\"]|[^\x00-\x7f]|%25|%[89A-Fa-f][0-9A-Fa-f])*")
_PORT = regex("(?::[0-9]*)?")


class InvalidTargetError(Exception):
    """A target that Go refuses."""


def read_target(method: str, target: str) -> tuple[str, str]:
    """Return the path of a target, still escaped, with its query; and its host, "" if it has none.

    Raises InvalidTargetError.
    """
    host = ""
    if target[:1] != "/":
        if target == "*" and method != "CONNECT":
            return target, ""
        target, host = _read_url(f"http://{target}" if method == "CONNECT" else target)
    elif not target.isprintable() and _CONTROL.search(target):
        raise InvalidTargetError
    if "%" in target and MALFORMED.search(target.partition("?")[0]):
        raise InvalidTargetError
    return target, host


def _read_url(url: str) -> tuple[str, str]:
    """Return the path with its query, and the host of a URL. Raises InvalidTargetError."""
    scheme = _SCHEME.match(url)
    if scheme is None or _CONTROL.search(url):
        raise InvalidTargetError
    rest, mark, query = url[scheme.end() :].partition("?")
    host = ""
    if rest[:1] != "/":
        rest = ""  # an opaque URL, such as mailto:a
    elif rest[:2] == "//":
        authority, slash, path = rest[2:].partition("/")
        rest = slash + path
        user, _, host = authority.rpartition("@")
        if not _USER.fullmatch(user) or not _is_host(host):
            raise InvalidTargetError
    return rest + mark + query, host


def _is_host(host: str) -> bool:
    """Report whether a text is a host with or without a port. Upstream: `url.parseHost`."""
    if host[:1] == "[":
        address, bracket, port = host[1:].rpartition("]")
        try:
            IPv6Address(address.replace("%25", "%", 1))
        except AddressValueError:
            return False
        return bool(bracket) and _PORT.fullmatch(port) is not None
    name, colon, port = host.rpartition(":")
    if not colon:
        name, port = port, ""
    return "[" not in name and bool(_NAME.fullmatch(name)) and bool(_PORT.fullmatch(colon + port))
