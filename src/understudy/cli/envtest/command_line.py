"""Reads command lines as Go's packages `pflag` (kube-apiserver) and `flag` (etcd) do, with their errors."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path

Flags = dict[str, list[str]]

_RECORDED = Path(__file__).parents[2] / "schemas" / "flags.json"
_TRUTHS = ("1", "t", "T", "TRUE", "true", "True", "0", "f", "F", "FALSE", "false", "False")  # of `strconv.ParseBool`


class FlagError(ValueError):
    """A command line that the program refuses; its text is that of the real program."""


def recorded_flags(program: str) -> Mapping[str, str]:
    """Return the type of each flag of a real program, "kube-apiserver" or "etcd": "bool", "int", "string", …"""
    flags: dict[str, dict[str, str]] = json.loads(_RECORDED.read_text())
    return flags[program]


def parse_pflags(argv: Sequence[str], types: Mapping[str, str]) -> tuple[Flags, list[str]]:
    """Return all values of each flag, and the other arguments. `-v` and `-h` are the only short names.

    Raises FlagError. Upstream: `FlagSet.Parse` of `pflag`, whose names may be written with underscores.
    """
    flags: Flags = {}
    others: list[str] = []
    rest = iter(argv)
    for argument in rest:
        if argument == "--":
            return flags, [*others, *rest]
        if not argument.startswith("-") or argument == "-":
            others.append(argument)
            continue
        name, value, shown = _named(argument)
        if name not in types:
            raise FlagError(f"unknown flag: --{name}")
        if value is None:
            value = "true" if types[name] in ("bool", "version") else next(rest, None)
        if value is None:
            short = f"{argument[1]!r} in " if argument[1] != "-" else ""
            raise FlagError(f"flag needs an argument: {short}{argument}")
        if problem := _problem(types[name], value):
            raise FlagError(f'invalid argument "{value}" for "{shown}" flag: {problem}')
        flags.setdefault(name, []).append(value)
    return flags, others


def _named(argument: str) -> tuple[str, str | None, str]:
    """Return the name of a flag, its value if it is there, and how errors name the flag. Raises FlagError."""
    if not argument.startswith("--"):
        if argument[1] not in "vh":
            raise FlagError(f"unknown shorthand flag: '{argument[1]}' in {argument}")
        name = {"v": "v", "h": "help"}[argument[1]]
        return name, argument[2:].removeprefix("=") if argument[2:] else None, f"-{argument[1]}, --{name}"
    name, equals, value = argument[2:].partition("=")
    if not name or name.startswith("-"):
        raise FlagError(f"bad flag syntax: {argument}")
    name = name.replace("_", "-")
    return name, value if equals else None, "-v, --v" if name == "v" else f"--{name}"


def _problem(type_: str, value: str) -> str:
    """Return the error of a text that is no value of a type, "" if there is none; some types are not checked here."""
    if type_ == "bool" and value not in _TRUTHS:
        return f'strconv.ParseBool: parsing "{value}": invalid syntax'
    if type_ in ("int", "Level") and not value.removeprefix("-").isdecimal():
        return f'strconv.{"ParseInt" if type_ == "int" else "ParseUint"}: parsing "{value}": invalid syntax'
    return ""


def parse_go_flags(argv: Sequence[str], types: Mapping[str, str]) -> Flags:
    """Return all values of each flag; one dash is as good as two. Raises FlagError. Upstream: `flag.FlagSet.Parse`."""
    flags: Flags = {}
    rest: Iterator[str] = iter(argv)
    for argument in rest:
        if not argument.startswith("-"):
            raise FlagError(f"'{argument}' is not a valid flag")
        name, equals, text = argument.removeprefix("-").removeprefix("-").partition("=")
        if name not in types:
            raise FlagError(f"flag provided but not defined: -{name}")
        value = text if equals else "true" if types[name] == "bool" else next(rest, None)
        if value is None:
            raise FlagError(f"flag needs an argument: -{name}")
        if types[name] == "bool" and value not in _TRUTHS:
            raise FlagError(f'invalid boolean value "{value}" for -{name}: parse error')
        flags.setdefault(name, []).append(value)
    return flags


def last(flags: Flags, name: str, default: str = "") -> str:
    """Return the last value of a flag."""
    return flags.get(name, [default])[-1]
