"""URLs as Go's `net/url` parses them."""

from __future__ import annotations

import re
from posixpath import normpath

from understudy.machinery.golang.netip import addr_error, parse_ip
from understudy.machinery.golang.text import go_quote
from understudy.machinery.util.regex import regex

_SCHEME = regex(r"([A-Za-z][A-Za-z0-9+.\-]*)?:")
_CONTROL = regex(r"[\x00-\x1f\x7f]")
_BAD_ESCAPE = regex(r"%(?![0-9A-Fa-f]{2}).{0,2}", re.DOTALL)
_ESCAPED_ASCII = regex(r"%(?!25)[0-7].")  # a host may escape other characters, and the percent sign itself
_NOT_IN_HOST = regex(r"[\x00-\x20\\^`{|}/?#@\x7f]")
_USER_INFO = regex(r"[A-Za-z0-9\-._:~!$&'()*+,;=%@]*")
_PORT = regex("(:[0-9]*)?")


def parse_error(text: str, *, relative: bool = False) -> str:
    """Return the text of Go's error for a text that is not a URL, "" for a URL (upstream: `ParseRequestURI`).

    With `relative`, a URL without a scheme is fine (upstream: `Parse`).
    """
    if relative:
        text, _, fragment = text.partition("#")
        return _parse_error(text, relative=True) or _escape_error(fragment)
    return _parse_error(text, relative=False)


def _parse_error(text: str, *, relative: bool) -> str:
    if _CONTROL.search(text):
        return "net/url: invalid control character in URL"
    if not text and not relative:
        return "empty url"
    if text == "*":
        return ""
    match = _SCHEME.match(text)
    if match and not match[1]:
        return "missing protocol scheme"
    scheme, rest = (match[1].lower(), text[match.end() :]) if match else ("", text)
    rest = rest.partition("?")[0]
    if not rest.startswith("/"):
        if scheme:
            return ""
        if not relative:
            return "invalid URI for request"
        if ":" in rest.partition("/")[0]:
            return "first path segment in URL cannot contain colon"
    elif rest.startswith("//") and (scheme or (relative and not rest.startswith("///"))):
        authority, slash, path = rest[2:].partition("/")
        return _authority_error(authority) or _escape_error(slash + path)
    return _escape_error(rest)


def _escape_error(text: str, pattern: re.Pattern[str] = _BAD_ESCAPE) -> str:
    bad = pattern.search(text)
    return f"invalid URL escape {go_quote(bad.group())}" if bad else ""


def _authority_error(authority: str) -> str:
    user, separator, host = authority.rpartition("@")
    if error := _host_error(host):
        return error
    if separator and not _USER_INFO.fullmatch(user):
        return "net/url: invalid userinfo"
    return _escape_error(user)


def _host_error(host: str) -> str:
    bracket = host.rfind("[")
    if bracket > 0:
        return "invalid IP-literal"
    if bracket == 0:
        address, end, port = host[1:].rpartition("]")
        if not end:
            return "missing ']' in host"
        return _port_error(port) or _literal_error(address)
    if ":" in host:
        if error := _port_error(host[host.rindex(":") :]):
            return error
    return _host_name_error(host)


def _port_error(port: str) -> str:
    return "" if _PORT.fullmatch(port) else f"invalid port {go_quote(port)} after host"


def _host_name_error(host: str) -> str:
    if error := _escape_error(host) or _escape_error(host, _ESCAPED_ASCII):
        return error
    bad = _NOT_IN_HOST.search(host)
    return f"invalid character {go_quote(bad.group())} in host name" if bad else ""


def _literal_error(address: str) -> str:
    """Return the error of an address in brackets, which is one of IPv6."""
    name, _, zone = address.partition("%25")
    if error := _host_name_error(name) or _escape_error(zone):
        return error
    parsed = parse_ip(name)
    if parsed is None:
        return f"invalid host: ParseAddr({go_quote(name)}): {addr_error(name)}"
    return "invalid IP-literal" if parsed.version == 4 else ""


def clean_path(path: str) -> str:
    """Return a path without empty and relative parts, with the slash at its end (`JoinPreservingTrailingSlash`)."""
    clean = normpath(path).replace("//", "/", 1)
    return f"{clean}/" if path.endswith("/") and clean != "/" else clean
