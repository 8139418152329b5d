"""`understudy diff-releases FILE|DIR|- …`: says release by release what becomes of manifests that are created.

    gpus.yaml:1: ResourceClaim/gpus
      1.31 to 1.33 refused: no matches for kind "ResourceClaim" in version "resource.k8s.io/v1"; served is …
      1.34 changed: spec.devices.requests[0].exactly.tolerations: dropped
      1.35, 1.36 accepted

Exit code 0: all releases accept everything as it is; 1: some change or refuse something; 2: a file cannot be read.
"""

from __future__ import annotations

import argparse
import json
from collections.abc import Iterator, Sequence
from itertools import groupby
from typing import TYPE_CHECKING, Any

from understudy.cli.commands.validate_command import add_manifest_arguments
from understudy.cli.documents import all_objects, place, read_manifests
from understudy.cli.output import print_error, print_places
from understudy.cli.reports.report import INVALID, UNREADABLE, VALID
from understudy.cli.world_text import WorldsIn
from understudy.machinery.types import dataclass
from understudy.offline.checks import validators_of
from understudy.offline.documents import objects_in
from understudy.offline.release_differences import ACCEPTED, Outcome, outcomes
from understudy.offline.validator import described

if TYPE_CHECKING:
    from understudy.cli.program import AddParser


@dataclass(frozen=True, slots=True)
class Compared:
    """An object of a file with the outcomes of the releases; `line` is its first line."""

    file: str
    line: int
    kind: str
    namespace: str
    name: str
    outcomes: list[Outcome]

    def as_json(self) -> dict[str, Any]:
        """Return the object as `--output json` prints it, with its outcomes by release."""
        outcomes = {str(o.version): {"verdict": o.verdict, "reasons": list(o.reasons)} for o in self.outcomes}
        out = {name: getattr(self, name) for name in ("file", "line", "kind", "namespace", "name")}
        return out | {"releases": outcomes}


_ABOUT = "Tells which releases accept, change or refuse manifests, and why: 0 all accept all, 1 not, 2 unreadable."


def add_command(add_parser: AddParser) -> None:
    """Add the command with its flags."""
    parser = add_parser(description=_ABOUT)
    add_arguments(parser)
    parser.set_defaults(run=run)


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the arguments of `understudy diff-releases` to a parser."""
    add_manifest_arguments(parser, default_release="all")
    parser.add_argument("-o", "--output", choices=("text", "json"), default="text", help="json: a list of objects")


def run(args: argparse.Namespace) -> int:
    """Print the outcomes of every object; return the exit code."""
    try:
        validators = list(validators_of(args.emulated_version, args.feature_gates).values())
    except ValueError as why:
        print_error(why)
        return UNREADABLE
    rows: list[Compared] = []
    manifests, unreadable = read_manifests(
        args.paths, args.exclude, WorldsIn(args.emulated_version[-1], args.feature_gates or {})
    )
    print_places(unreadable)
    objects = all_objects(manifests)
    validators = [validator.with_definitions(objects) for validator in validators]
    code = UNREADABLE if unreadable else VALID
    for file, documents in manifests.items():
        for document in documents:
            for obj, node in objects_in(document):
                results = outcomes(obj, validators)
                if any(outcome.verdict != ACCEPTED for outcome in results):
                    code = max(code, INVALID)
                rows.append(Compared(file, node.line if node else 0, *described(obj), results))
    if args.output == "json":
        print(json.dumps([row.as_json() for row in rows], indent=2))
    else:
        for row in rows:
            print(f"{place(row.file, row.line)}: {row.kind or 'object'}/{row.name}")
            for line in lines(row.outcomes):
                print(f"  {line}")
    return code


def lines(results: Sequence[Outcome]) -> Iterator[str]:
    """Yield a line for each reason; releases that follow each other and agree share their lines."""
    for (verdict, reasons), group in groupby(results, key=lambda outcome: (outcome.verdict, outcome.reasons)):
        names = [str(outcome.version) for outcome in group]
        span = f"{names[0]} to {names[-1]}" if len(names) > 2 else ", ".join(names)
        for reason in reasons or ("",):
            yield " ".join(f"{span} {verdict}{': ' if reason else ''}{reason}".splitlines())
