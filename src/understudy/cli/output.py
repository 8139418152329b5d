"""Prints the errors of all commands of `understudy` alike."""

from __future__ import annotations

import sys
from collections.abc import Iterable


def print_error(why: object) -> None:
    """Print an error, or its text, as one line on stderr that begins with `understudy:`."""
    if isinstance(why, OSError) and why.filename:
        why = f"{why.filename}: {why.strerror}"
    print("understudy:", " ".join(str(why).splitlines()), file=sys.stderr)


def print_places(errors: Iterable[object]) -> None:
    """Print errors that begin with the file and the line where they are, each as one line on stderr."""
    for why in errors:
        print(why, file=sys.stderr)
