"""Reads the values of options: as Python programs give them, and as texts, which flags and configuration files have."""

from __future__ import annotations

import csv
import os
from collections.abc import Callable, Iterable, Mapping
from dataclasses import Field
from typing import Any

from understudy.machinery.golang.text import go_quote
from understudy.machinery.golang.times import duration_error, parse_duration
from understudy.machinery.releases.version import Version

_BOOLEANS = {"true": True, "1": True, "t": True, "false": False, "0": False, "f": False}


def option_value(option: Field[Any], value: object) -> Any:
    """Return the value of an option: texts are read as those of flags, None is the option's default.

    Raises ValueError, which names the option, for a value that means nothing.
    """
    if value is None or value is option.default:
        return option.default
    try:
        return READERS[str(option.type)](value)
    except ValueError as why:
        raise ValueError(f"{option.name}: {why}") from None


def nanoseconds(options: object, name: str) -> int:
    """Return the duration of an option. Raises ValueError with the text of a flag that cannot be read."""
    text = getattr(options, name)
    if (duration := parse_duration(text)) is None:
        option = f"--{name.replace('_', '-')}"
        raise ValueError(f"invalid argument {go_quote(text)} for {go_quote(option)} flag: {duration_error(text)}")
    return duration


def host_and_port(text: str) -> tuple[str, int] | None:
    """Return the host and port of an address such as `127.0.0.1:9443` or `[::1]:9443`, None for another text."""
    host, _, port = text.rpartition(":")
    if not host or not port.isdecimal() or not 0 < int(port) <= 65535:
        return None
    return host.removeprefix("[").removesuffix("]"), int(port)


def boolean(value: object) -> bool:
    """Return True of True and "true". Raises ValueError. Upstream: `strconv.ParseBool`."""
    if isinstance(value, bool):
        return value
    if not isinstance(value, str) or value.strip().lower() not in _BOOLEANS:
        raise ValueError(f"want true or false, not {value!r}")
    return _BOOLEANS[value.strip().lower()]


def switches(value: object) -> dict[str, bool]:
    """Return {"A": True, "B": False} of "A=true,B=false", ["A=true", "B=false"] or itself. Raises ValueError.

    Upstream: `MapStringBool`.
    """
    return _mapping(value, boolean, "NAME=true or NAME=false")


def pairs(value: object) -> dict[str, str]:
    """Return {"A": "b", "C": "d"} of "A=b,C=d", ["A=b", "C=d"] or itself. Raises ValueError.

    Upstream: `StringToString`.
    """
    return _mapping(pair_texts(value) if isinstance(value, str) else value, _text, "NAME=VALUE")


def pair_texts(text: str) -> list[str]:
    """Return ["A=b", "C=d,e"] of 'A=b,"C=d,e"': a text with one equals sign is one pair, with its commas."""
    texts = [text.strip().strip('"')] if text.count("=") == 1 else next(csv.reader([text]), [])
    return [each.strip() for each in texts if each.strip()]


def names(value: object) -> list[str]:
    """Return ["a", "b"] of "a,b" or itself. Raises ValueError."""
    if isinstance(value, str):
        return [name.strip() for name in value.split(",") if name.strip()]
    return [os.fspath(each) if isinstance(each, os.PathLike) else _text(each) for each in _items(value, "names")]


def _mapping(value: object, read: Callable[[object], Any], example: str) -> dict[str, Any]:
    """Return a mapping whose values are read by a function."""
    items = value.items() if isinstance(value, Mapping) else [_pair(item, example) for item in names(value)]
    out = {}
    for name, each in items:
        try:
            out[_text(name)] = read(each)
        except ValueError:
            raise ValueError(f"want {example}, not {f'{name}={each}'!r}") from None
    return out


def _pair(item: str, example: str) -> tuple[str, str]:
    name, equals, value = item.partition("=")
    if not equals:
        raise ValueError(f"want {example}, not {item!r}")
    return name.strip(), value.strip()


def _manifests(value: object) -> list[Any]:
    """Return [manifest] of one manifest, or a list as it is: paths, texts and objects."""
    if isinstance(value, str | os.PathLike | Mapping):
        return [value]
    manifests = _items(value, "paths, texts or objects")
    for each in manifests:
        if not isinstance(each, str | os.PathLike | Mapping):
            raise ValueError(f"want paths, texts or objects, not {each!r}")
    return manifests


def _items(value: object, of_what: str) -> list[Any]:
    if not isinstance(value, Iterable) or isinstance(value, str | bytes | Mapping):
        raise ValueError(f"want a list of {of_what}, not {value!r}")
    return list(value)


def _text(value: object) -> str:
    """Return a text as it is, and that of a number or a release: "1.36" of 1.36."""
    if isinstance(value, bool) or not isinstance(value, str | int | float | Version):
        raise ValueError(f"want a text, not {value!r}")
    return str(value)


def _texts(value: object) -> list[str]:
    """Return texts as they are, and one text as the only one."""
    return [_text(each) for each in (value if isinstance(value, list | tuple) else [value])]


def _number(value: object) -> int:
    """Return a number as it is, and 7 of "7"."""
    if isinstance(value, str) and value.isdecimal():
        return int(value)
    if isinstance(value, bool) or not isinstance(value, int):
        raise ValueError(f"want a number, not {value!r}")
    return value


def _decimal(value: object) -> float:
    """Return a number as it is, and 7.5 of "7.5"."""
    try:
        return float(_text(value))
    except ValueError:
        raise ValueError(f"want a number, not {value!r}") from None


def _path(value: object) -> str | os.PathLike[str]:
    if not isinstance(value, str | os.PathLike):
        raise ValueError(f"want a path, not {value!r}")
    return value


# How values are read, by the type of their option.
READERS: Mapping[str, Callable[[object], Any]] = {
    "str": _text,
    "int": _number,
    "int | None": _number,
    "float": _decimal,
    "bool": boolean,
    "bool | None": boolean,
    "PathLike | None": _path,
    "Mapping[str, bool] | None": switches,
    "Mapping[str, str] | None": pairs,
    "Sequence[str]": names,
    "Sequence[Manifest]": _manifests,
    "Sequence[NamedCertKey]": _texts,
}
