"""The arguments of commands that record a server, and the files that they write."""

from __future__ import annotations

import argparse
import json
from pathlib import Path
from typing import Any

from scripts.common.comparing import Server


def add_server_arguments(parser: argparse.ArgumentParser, *, is_required: bool = True) -> None:
    """Add the arguments that name a server and the folder of the recordings."""
    parser.add_argument("--server", required=is_required, help="URL of the kube-apiserver")
    parser.add_argument("--token", default="", help="bearer token of a member of system:masters")
    parser.add_argument(
        "--ca", default="", help="file of the CA that signed its certificate; without one, any is taken"
    )
    parser.add_argument("--output", type=Path, default=Path(), help="folder of the recordings")


def server_of(options: argparse.Namespace) -> Server:
    """Return the server that the arguments name, and make the folder of the recordings."""
    options.output.mkdir(parents=True, exist_ok=True)
    return Server(options.server, options.token, options.ca)


def save(target: Path, lines: list[Any]) -> None:
    """Write a recording, one step a line, and say so. Rows, pairs and stories have spaces in their JSON."""
    if isinstance(lines[0], dict) and lines[0].keys() & {"server", "answers"}:
        text = [json.dumps(line, separators=(",", ":"), ensure_ascii=False) for line in lines]
    else:
        text = [json.dumps(line) for line in lines]
    target.write_text("".join(line + "\n" for line in text), encoding="utf-8")
    print(f"{target}: {len(lines)} lines")
