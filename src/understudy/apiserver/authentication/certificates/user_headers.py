"""The headers in which front proxies name users, and which are not passed on to other servers."""

from __future__ import annotations

from collections.abc import Iterable, Sequence


class UserHeaders:
    """The names of headers, and what those of extra fields begin with; in any case."""

    def __init__(self, names: Iterable[str], extra_prefixes: Iterable[str]) -> None:
        self._names = frozenset(name.lower() for name in names)
        self._prefixes = tuple(prefix.lower() for prefix in extra_prefixes)

    def __contains__(self, header: str) -> bool:
        lower = header.lower()
        return lower in self._names or lower.startswith(self._prefixes)


_STANDARD: tuple[Sequence[str], Sequence[str]] = (
    ("Authorization", "X-Remote-User", "X-Remote-Uid", "X-Remote-Group"),
    ("X-Remote-Extra-",),
)
STANDARD = UserHeaders(*_STANDARD)


def with_standard(names: Iterable[str], extra_prefixes: Iterable[str]) -> UserHeaders:
    """Return the headers of a server that knows more than the standard ones (`ClearAuthenticationHeaders`)."""
    return UserHeaders([*_STANDARD[0], *names], [*_STANDARD[1], *extra_prefixes])
