"""Prints the errors of all commands of `understudy` alike."""

from __future__ import annotations

import sys


def print_error(why: object) -> None:
    """Print an error, or its text, as one line on stderr that begins with `understudy:`."""
    if isinstance(why, OSError) and why.filename:
        why = f"{why.filename}: {why.strerror}"
    print("understudy:", " ".join(str(why).splitlines()), file=sys.stderr)
