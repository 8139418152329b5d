"""Refuses what a web page makes a browser send, where every client is an administrator.

A page of any site can have its visitors' browsers send requests to a server on their own machines. The browser then
names the site in `Origin` or `Sec-Fetch-Site`. Or the page waits until the name that it was loaded from leads to the
server's address ("DNS rebinding"): then that name is the `Host`. A server that asks for tokens needs none of this,
because a page does not know them. Upstream: `FilterServer` of `kubectl proxy`, and its flag `--accept-hosts`.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from ipaddress import ip_address

from understudy.apiserver.endpoints.request import Request
from understudy.machinery import errors
from understudy.machinery.errors import StatusError
from understudy.machinery.golang.text import go_quote
from understudy.machinery.util.caches import cache_short_texts

HOSTS = 16  # that are kept; a client mostly uses one
FOREIGN_SITES = ("cross-site", "same-site")  # values of Sec-Fetch-Site; the others are "same-origin" and "none"
ADVICE = "by a server that asks for no tokens; name its host in --accept-hosts, or use --token-auth-file"


def with_accept_hosts(accepted: Sequence[re.Pattern[str]]) -> Callable[[Request], None]:
    """Return the filter that raises 403 for foreign hosts, and for requests of web pages of other origins.

    Hosts are IP addresses, `localhost` and names below it, and names that one of the `accepted` patterns matches as a
    whole. Pages of accepted names may send requests, too.
    """

    def is_named(host: str) -> bool:
        return any(pattern.fullmatch(host) for pattern in accepted)

    @cache_short_texts(HOSTS)
    def is_accepted(authority: str) -> bool:
        host = hostname(authority)
        return host == "localhost" or host.endswith(".localhost") or _is_address(host) or is_named(host)

    def check(request: Request) -> None:
        authority = request.headers.get("Host", "")
        if authority and not is_accepted(authority):
            raise _refused(f"host {go_quote(authority)}")
        if page := foreign_page(request, is_named):
            raise _refused(f"a request from {page}")

    return check


def foreign_page(request: Request, is_named: Callable[[str], bool]) -> str:
    """Return words for the web page of another origin that makes a browser send a request, "" if there is none.

    is_named  says whether pages of a host may send requests nevertheless
    """
    origin = request.headers.get("Origin")
    if origin is not None:
        page, authority = origin.partition("://")[2], request.headers.get("Host", "")
        return "" if page == authority.lower() or is_named(hostname(page)) else f"a web page of {go_quote(origin)}"
    return "a web page of another site" if request.headers.get("Sec-Fetch-Site") in FOREIGN_SITES else ""


def hostname(authority: str) -> str:
    """Return the host of `HOST:PORT` in lower case, without the brackets of IPv6 and without a final dot."""
    if authority.startswith("["):
        return authority[1:].partition("]")[0].lower()
    return authority.partition(":")[0].removesuffix(".").lower()


def _is_address(host: str) -> bool:
    try:
        ip_address(host)
    except ValueError:
        return False
    return True


def _refused(subject: str) -> StatusError:
    return errors.forbidden("", "", "", f"{subject} is not accepted {ADVICE}")
