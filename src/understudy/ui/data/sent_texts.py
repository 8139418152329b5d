"""Texts that clients have sent, as the page shows them: valid Unicode, and none of endless length."""

from __future__ import annotations

from urllib.parse import quote

from understudy.machinery.options import Query

_LONGEST = 2_000  # characters of a text in a row


def sent_path(path: str, query: Query) -> str:
    """Return a path with its query as a client sends them."""
    return valid(_joined(quote(path, safe="/:@!$&'()*+,;=~", errors="surrogateescape"), query))


def shown_path(path: str, query: Query) -> str:
    """Return a path with its query as a row shows them."""
    return short(_joined(path, query))


def short(text: str) -> str:
    """Return a text without the end of a very long one."""
    shown = valid(text[:_LONGEST])
    return shown if len(text) <= _LONGEST else f"{shown}…"


def _joined(path: str, query: Query) -> str:
    return f"{path}?{query.text}" if query.text else path


def valid(text: str) -> str:
    """Return a text with other characters in the place of those that are not Unicode."""
    return text.encode(errors="replace").decode()
