"""Hints at what a mistyped name was meant to be."""

from __future__ import annotations

from collections.abc import Iterable


def did_you_mean(text: str, known: Iterable[str]) -> str:
    """Return "; did you mean 'pods'?" for the known name that is most like a mistyped one, "" if none is.

    It ends messages for people who write Python or flags, never an answer of the server.
    """
    from difflib import get_close_matches  # only mistakes need it

    names = {name.lower(): name for name in reversed(list(known))}  # of equal ones the first counts
    close = get_close_matches(text.lower(), names, n=1, cutoff=0.7)
    return f"; did you mean {names[close[0]]!r}?" if close else ""
