"""The errors of a value, as kube-openapi gathers them, and their way to field errors."""

from __future__ import annotations

from typing import Any

from understudy.machinery.golang.text import go_quote
from understudy.machinery.validation.field import OMITTED, ErrorType, FieldError


class Result:
    """The errors of a value by their text, since no two may say the same, and how many checks it passed.

    `root` is the path of the whole value in front of all places in it (upstream: `validate.Result`).
    """

    __slots__ = ("errors", "matches", "root")

    def __init__(self, root: str) -> None:
        self.root = root
        self.errors: dict[str, FieldError] = {}
        self.matches = 0

    def merge(self, other: Result) -> None:
        """Add the errors of another result after these, and its passed checks."""
        for text, error in other.errors.items():
            self.errors.setdefault(text, error)
        self.matches += other.matches

    def add(self, kind: ErrorType, place: str, text: str, value: Any = OMITTED, detail: Any = None) -> None:
        """Add an error about a place such as `spec.a[0]`. Its `detail` is its text if none is given."""
        inside = place.removeprefix(".")
        path = ".".join(filter(None, (self.root, inside))) or "<nil>"
        self.errors.setdefault(text, FieldError(kind, path, value, text if detail is None else detail))

    def add_plain(self, text: str) -> None:
        """Add an error without a place."""
        self.add(ErrorType.INVALID, "", text, "")

    def add_invalid(self, place: str, value: Any, rule: str) -> None:
        """Add the error of a value that breaks a rule ("should be …")."""
        self.add(ErrorType.INVALID, place, f"{place} in body {rule}", value)

    def add_type(self, place: str, expected: str, value: str) -> None:
        """Add the error of a value that is not of the expected type or format."""
        text = f"{place} in body must be of type {expected}: {go_quote(value)}"
        self.add(ErrorType.TYPE_INVALID, place, text, value)
