"""The name of a field manager, to whom the changes of a request are attributed."""

from __future__ import annotations

from understudy.machinery.golang.json_reader import to_bytes
from understudy.machinery.util.caches import cache_short_texts
from understudy.machinery.util.regex import regex
from understudy.machinery.validation.field import Errors, Path, invalid, too_long

MAX_BYTES = 128
_NOT_UTF8 = regex("[\udc80-\udcff]")  # bytes that were decoded to surrogates; Go reads each as U+FFFD


def manager_name(field_manager: str, user_agent: str) -> str:
    """Return the `fieldManager` parameter, or the User-Agent up to the first slash: printable characters only, at most
    128 bytes.

    May be ""; then the entry says `unknown`.
    """
    return _NOT_UTF8.sub("\ufffd", field_manager) if field_manager else _name_of_agent(user_agent)


@cache_short_texts(1024)
def _name_of_agent(user_agent: str) -> str:
    name, size = "", 0
    for char in _NOT_UTF8.sub("\ufffd", user_agent).split("/")[0]:
        if not char.isprintable():
            continue
        size += len(char.encode())
        if size > MAX_BYTES:
            break
        name += char
    return name


def validate_field_manager(name: str, path: Path) -> Errors:
    """Check that a name has at most 128 bytes and is printable (upstream: `ValidateFieldManager`)."""
    errors: Errors = []
    if len(to_bytes(name)) > MAX_BYTES:
        errors.append(too_long(path, MAX_BYTES, in_bytes=True))
    if name.isprintable():
        return errors
    position = 0
    for char in name:
        if not char.isprintable() and not _NOT_UTF8.match(char):
            errors.append(invalid(path, name, f"invalid character U+{ord(char):04X} (at position {position})"))
        position += len(to_bytes(char))
    return errors
