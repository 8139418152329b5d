"""The name of a field manager: who a change of an object is put down to."""

from __future__ import annotations

from functools import lru_cache

from understudy.machinery.validation.field import Errors, Path, invalid, too_long

MAX_BYTES = 128


@lru_cache(1024)
def manager_name(field_manager: str, user_agent: str) -> str:
    """The `fieldManager` parameter, or what stands before the first slash of the User-Agent: printable characters
    only, at most 128 bytes. May be "": then an entry says `unknown`."""
    if field_manager:
        return field_manager
    name, size = "", 0
    for char in user_agent.split("/")[0]:
        if not char.isprintable():
            continue
        size += len(char.encode())
        if size > MAX_BYTES:
            break
        name += char
    return name


def validate_field_manager(name: str, path: Path) -> Errors:
    """At most 128 bytes, printable. `release` for the wording."""
    found: Errors = []
    if len(name.encode()) > MAX_BYTES:
        found.append(too_long(path, MAX_BYTES, in_bytes=True))
    if name.isprintable():
        return found
    position = 0
    for char in name:
        if not char.isprintable():
            found.append(invalid(path, name, f"invalid character {_unicode(char)} (at position {position})"))
        position += len(char.encode())
    return found


def _unicode(char: str) -> str:
    """Go's %#U: U+0041 'A', the character only if it can be seen."""
    code = f"U+{ord(char):04X}"
    return f"{code} '{char}'" if char.isprintable() else code
