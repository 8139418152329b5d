"""Answers of a kubelet other than what is asked for."""

from __future__ import annotations

from collections.abc import Iterable


class RefusedError(Exception):
    """A request that is refused, with status, text and headers of the answer."""

    def __init__(self, status: int, text: str, headers: Iterable[tuple[str, str]] = ()) -> None:
        super().__init__(text)
        self.status = status
        self.headers = headers
