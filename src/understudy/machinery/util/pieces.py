"""Work on very many things in pieces, in a thread beside the event loop.

Python lets another thread have its turn between two steps of a program. To join, encode or free a million things is one
step, for which nobody is answered; a thousand things at a time take less than a millisecond.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any, TypeVar

T = TypeVar("T")
PIECE = 1024  # things at a time


def pieces(things: Sequence[T], size: int = PIECE) -> Iterator[Sequence[T]]:
    """Yield parts of a sequence, in order."""
    for at in range(0, len(things), size):
        yield things[at : at + size]


def join(separator: str, texts: Sequence[str], before: str = "", behind: str = "") -> str:
    """Join texts, and put others before and behind them: all at once, since each copy of a long text takes its time."""
    joined = [before]
    for piece in pieces(texts):
        joined += separator.join(piece), separator
    joined[-1] = behind if texts else before + behind
    return "".join(joined)


def release(things: list[Any]) -> None:
    """Empty a list, to free what is in it."""
    while things:
        del things[-PIECE:]
