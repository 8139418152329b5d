"""Flags of the command line, which are named as kube-apiserver names them."""

from __future__ import annotations

import argparse
from collections.abc import Callable, Collection, Mapping
from dataclasses import fields
from types import MappingProxyType
from typing import Any

from understudy.apiserver.server.options.config import ServerConfig
from understudy.apiserver.server.options.values import READERS, names
from understudy.apiserver.serving.release import Release, UnknownReleaseError, release_names, releases

_BOOLEAN = {"nargs": "?", "const": True}
# What argparse is told besides the reader of a flag's value, by the type of its option.
_ACTIONS: dict[str, dict[str, Any]] = {
    "bool": _BOOLEAN,
    "bool | None": _BOOLEAN,
    "Sequence[Manifest]": {"action": "append"},
    "Sequence[NamedCertKey]": {"action": "append"},
}


def _reader(type_: str) -> Callable[[str], Any]:
    """Return the function that parses the text of a flag for an option's type."""
    if "action" in _ACTIONS.get(type_, {}):
        return str  # the flag is repeated for each

    def read(text: str) -> Any:
        try:
            return READERS[type_](text)
        except ValueError as why:
            raise argparse.ArgumentTypeError(str(why)) from None

    return read


def add_server_flags(
    parser: argparse.ArgumentParser, only: Collection[str] = (), defaults: Mapping[str, str] = MappingProxyType({})
) -> None:
    """Add a flag for each option of a server that has one, or for those named in `only`.

    defaults  what the help says of an option's default, where the command has another one than `serve`
    """
    for option in fields(ServerConfig):
        if not option.metadata or (only and option.name not in only):
            continue
        action = _ACTIONS.get(str(option.type), {})
        parser.add_argument(
            f"--{option.name.replace('_', '-')}",
            type=_reader(str(option.type)),
            default=None if "action" in action else option.default,
            help=_with_default(option.metadata["help"], defaults.get(option.name)),
            metavar=option.metadata["metavar"],
            **action,
        )


def _with_default(text: str, default: str | None) -> str:
    """Return the help of an option with another default than its own."""
    return text if default is None else f"{text.rpartition(' (default: ')[0]} (default: {default})"


def emulated_versions(text: str) -> list[str]:
    """Return the releases of "1.33,v1.36", or of "all", oldest first; "all" is without previews.

    Raises ArgumentTypeError for an unknown one.
    """
    if text == "all":
        return [str(release) for release in releases()]
    try:
        return [str(release) for release in sorted({Release.named(name).version for name in names(text)})]
    except UnknownReleaseError as why:
        raise argparse.ArgumentTypeError(str(why)) from None


def add_release_flags(parser: argparse.ArgumentParser, default: str) -> None:
    """Add the flags of commands that look at several releases: which ones, and their feature gates."""
    usage = f"some of {release_names()}, or all releases (default: %(default)s)"
    parser.add_argument(
        "--emulated-version", type=emulated_versions, default=default, metavar="VERSION,VERSION", help=usage
    )
    add_server_flags(parser, ("feature_gates",))


def server_options(args: argparse.Namespace) -> dict[str, Any]:
    """Return the options of a server that parsed flags set, as `Server(…)` takes them."""
    values = {option.name: getattr(args, option.name) for option in fields(ServerConfig) if option.metadata}
    return {name: value for name, value in values.items() if value is not None}
