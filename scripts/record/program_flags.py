"""Write the flags of programs that understudy stands in for, with their types, to `schemas/flags.json`.

    python -m scripts.record program-flags kube-apiserver=PATH kube-apiserver=PATH etcd=PATH

The programs that `understudy envtest-assets` lays down accept these. A program is asked with `--help`. Name several
releases of one to accept the flags of all of them.
"""

from __future__ import annotations

import argparse
import json
import re
import subprocess
from pathlib import Path

from scripts.common.commands import UsageError

OUT = Path(__file__).parents[2] / "src" / "understudy" / "schemas" / "flags.json"
# `  -v, --v Level   number…` of kube-apiserver, `  --data-dir '${name}.etcd'` of etcd
FLAG = re.compile(r"^\s+(?:-\w, )?\s*--(?P<name>[a-z0-9-]+)(?: (?P<type>\S+))?(?:\s{2,}|$)", re.MULTILINE)


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the arguments of the command."""
    parser.add_argument("programs", nargs="+", metavar="PROGRAM=PATH")


def run(args: argparse.Namespace) -> int:
    """Ask each program for its flags; return the exit code."""
    flags: dict[str, dict[str, str]] = {}
    for each in args.programs:
        program, equals, path = each.partition("=")
        if not equals:
            raise UsageError(f"want PROGRAM=PATH, not {each}")
        done = subprocess.run([path, "--help"], capture_output=True, text=True, check=True)
        flags.setdefault(program, {}).update(flags_in(done.stdout + done.stderr))
    OUT.write_text(json.dumps(flags, indent=1, sort_keys=True) + "\n")
    return 0


def flags_in(usage: str) -> dict[str, str]:
    """Return the type of each flag in a usage; a flag that is shown without one, or with true or false, is "bool"."""
    return {match["name"]: _type(match["type"] or "") for match in FLAG.finditer(usage)}


def _type(text: str) -> str:
    if text in ("", "'true'", "'false'"):
        return "bool"
    return text.removesuffix("[=true]") if text[0].isalpha() else "string"
