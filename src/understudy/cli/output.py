"""Prints the errors of all commands of `understudy` alike, and on a terminal how far long work has come."""

from __future__ import annotations

import sys
import time
from collections.abc import Iterable, Iterator, Sized
from typing import TypeVar

T = TypeVar("T")
INTERVAL = 0.2  # seconds between two states of a line of progress; what takes less shows none
_CLEAR = "\r\x1b[K"  # the cursor's line


def print_error(why: object) -> None:
    """Print an error, or its text, as one line on stderr that begins with `understudy:`."""
    if isinstance(why, OSError) and why.filename:
        why = f"{why.filename}: {why.strerror}"
    print("understudy:", " ".join(str(why).splitlines()), file=sys.stderr)


def print_places(errors: Iterable[object]) -> None:
    """Print errors that begin with the file and the line where they are, each as one line on stderr."""
    for why in errors:
        print(why, file=sys.stderr)


def counted(items: Iterable[T], what: str) -> Iterator[T]:
    """Yield items; a terminal shows how many are done meanwhile, such as `1,200 of 4,000 files checked`.

    Of an iterator, whose length nobody knows, it shows `1,200 objects loaded`.
    Nothing is printed where stderr is no terminal, as in CI.
    """
    if not sys.stderr.isatty():
        yield from items
        return
    last, is_shown = time.monotonic(), False
    total = f" of {len(items):,}" if isinstance(items, Sized) else ""
    try:
        for done, item in enumerate(items):
            if (now := time.monotonic()) - last >= INTERVAL:
                last, is_shown = now, True
                print(f"{_CLEAR}{done:,}{total} {what}", end="", file=sys.stderr, flush=True)
            yield item
    finally:
        if is_shown:
            print(_CLEAR, end="", file=sys.stderr, flush=True)
