"""Refuses requests while a server comes to its end (upstream: `WithRetryAfter`)."""

from __future__ import annotations

from multidict import CIMultiDict

from understudy.apiserver.server.http1.exchange import Exchange
from understudy.apiserver.server.http1.served import Handler
from understudy.machinery.validation.generated_names import new_uid

_ANSWERED = ("/readyz", "/livez", "/healthz", "/metrics")  # prefixes of paths that are answered to the end
_OWN_AGENT = "kube-apiserver/"
_TEXT = b"The apiserver is shutting down, please try again later.\n"


def refusing(handle: Handler) -> Handler:
    """Return a handler that refuses requests, but for those about the server's health, which `handle` answers."""

    async def answer(exchange: Exchange) -> None:
        own = exchange.headers.get("User-Agent", "").startswith(_OWN_AGENT)
        if own or exchange.target.startswith(_ANSWERED):
            return await handle(exchange)
        exchange.closes = True
        headers = CIMultiDict(
            {
                "Audit-Id": exchange.headers.get("Audit-Id") or new_uid(),
                "Connection": "close",
                "Retry-After": "5",
                "Content-Type": "text/plain; charset=utf-8",
                "X-Content-Type-Options": "nosniff",
            }
        )
        await exchange.send(429, headers, [_TEXT])
        return None

    return answer
