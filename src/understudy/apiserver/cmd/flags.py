"""Flags of the command line, which are named as kube-apiserver names them."""

from __future__ import annotations

import argparse
from collections.abc import Collection
from dataclasses import fields
from typing import Any

from understudy.apiserver.kinds.release import Release, UnknownReleaseError, releases
from understudy.apiserver.server.options.config import ServerConfig

_BOOLEANS = {"true": True, "1": True, "t": True, "false": False, "0": False, "f": False}


def boolean(text: str) -> bool:
    """Return True of "true". Raises ArgumentTypeError. Upstream: `strconv.ParseBool`."""
    if text.lower() not in _BOOLEANS:
        raise argparse.ArgumentTypeError(f"want true or false, not {text!r}")
    return _BOOLEANS[text.lower()]


def switches(text: str) -> dict[str, bool]:
    """Return {"A": True, "B": False} of "A=true,B=false". Raises ArgumentTypeError. Upstream: `MapStringBool`."""
    out = {}
    for item in text.split(","):
        name, equals, value = item.strip().partition("=")
        if not item.strip():
            continue
        if not equals or value.strip().lower() not in _BOOLEANS:
            raise argparse.ArgumentTypeError(f"want NAME=true or NAME=false, not {item.strip()!r}")
        out[name.strip()] = boolean(value.strip())
    return out


def pairs(text: str) -> dict[str, str]:
    """Return {"A": "b", "C": "d"} of "A=b,C=d". Raises ArgumentTypeError. Upstream: `MapStringString`."""
    items = [item.partition("=") for item in comma_separated(text)]
    for name, equals, _ in items:
        if not equals:
            raise argparse.ArgumentTypeError(f"want NAME=VALUE, not {name!r}")
    return {name.strip(): value.strip() for name, _, value in items}


def comma_separated(text: str) -> list[str]:
    """Return ["a", "b"] of "a,b"."""
    return [name.strip() for name in text.split(",") if name.strip()]


# How a flag is read, by the type of its option.
_READERS: dict[str, dict[str, Any]] = {
    "str": {},
    "int": {"type": int},
    "bool": {"type": boolean, "nargs": "?", "const": True},
    "bool | None": {"type": boolean, "nargs": "?", "const": True},
    "PathLike | None": {},
    "Mapping[str, bool] | None": {"type": switches},
    "Mapping[str, str] | None": {"type": pairs},
    "Sequence[str]": {"type": comma_separated},
    "Sequence[Manifest]": {"action": "append"},
}


def add_server_flags(parser: argparse.ArgumentParser, only: Collection[str] = ()) -> None:
    """Add a flag for each option of a server that has one, or for those named in `only`."""
    for option in fields(ServerConfig):
        if not option.metadata or (only and option.name not in only):
            continue
        reader = dict(_READERS[str(option.type)])
        if option.metadata["metavar"]:
            reader["metavar"] = option.metadata["metavar"]
        default = None if "append" in reader.values() else option.default
        parser.add_argument(
            f"--{option.name.replace('_', '-')}", default=default, help=option.metadata["help"], **reader
        )


def emulated_versions(text: str) -> list[str]:
    """Return the releases of "1.33,v1.36", or of "all", oldest first. Raises ArgumentTypeError for an unknown one."""
    if text == "all":
        return [str(release) for release in releases()]
    try:
        return [str(release) for release in sorted({Release.named(name).version for name in comma_separated(text)})]
    except UnknownReleaseError as why:
        raise argparse.ArgumentTypeError(str(why)) from None


def add_release_flags(parser: argparse.ArgumentParser, default: str) -> None:
    """Add the flags of commands that look at several releases: which ones, and their feature gates."""
    usage = f"some of {', '.join(map(str, releases()))}, or all (default: %(default)s)"
    parser.add_argument(
        "--emulated-version", type=emulated_versions, default=default, metavar="VERSION,VERSION", help=usage
    )
    add_server_flags(parser, ("feature_gates",))


def server_options(args: argparse.Namespace) -> dict[str, Any]:
    """Return the options of a server that parsed flags set, as `Server(…)` takes them."""
    values = {option.name: getattr(args, option.name) for option in fields(ServerConfig) if option.metadata}
    return {name: value for name, value in values.items() if value is not None}
