"""`understudy validate FILE|DIR|- …`: checks manifests without a server.

    gpus.yaml:12: ResourceClaim/gpus: spec.devices.requests[0].count: Invalid value: 0: must be greater than zero

With several releases a line ends with those that find fault: ` [1.31, 1.32]`. The last line, on stderr, says how much
was looked at.

Exit code 0: all would be created; 1: some would be refused; 2: some cannot be read, or there is nothing to look at.
"""

from __future__ import annotations

import argparse
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

from understudy.apiserver.server.options.values import names
from understudy.apiserver.serving.release import DEFAULT
from understudy.cli.documents import all_objects, read_all, read_manifests
from understudy.cli.flags import add_release_flags
from understudy.cli.output import counted, print_error
from understudy.cli.reports.report import FORMS, UNREADABLE, Located, Report
from understudy.cli.world_text import WorldsIn
from understudy.offline.checks import Checks, duplicates, has_kind, validators_of
from understudy.offline.documents import Document, line_of, objects_in
from understudy.offline.validator import Finding, Validator, described, is_list

if TYPE_CHECKING:
    from understudy.cli.program import AddParser


_ABOUT = "Tells what a server would refuse in manifests, without one: 0 nothing, 1 something, 2 nothing to look at."


def add_command(add_parser: AddParser) -> None:
    """Add the command with its flags."""
    parser = add_parser(description=_ABOUT)
    add_arguments(parser)
    parser.set_defaults(run=run)


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the arguments of `understudy validate`."""
    add_manifest_arguments(parser)
    text = "json: a list of objects; github: annotations; sarif: for code scanning; junit: for CI servers"
    parser.add_argument("-o", "--output", "--format", choices=tuple(FORMS), default="text", help=text)
    add_check_arguments(parser)


def add_check_arguments(parser: argparse.ArgumentParser, where: str = "the manifests") -> None:
    """Add the arguments of commands that check objects.

    where  names the place in which definitions are looked for besides
    """
    add = parser.add_argument
    text = f"custom resource definitions whose objects are among the manifests; so are those among {where}"
    add("--crds", action="append", metavar="FILE|DIR", help=text)
    text = "enforce the admission policies there, and those among the manifests; parameters are found there, too"
    add("--policies", action="append", metavar="FILE|DIR", help=text)
    text = "do not check objects of these kinds: Secret, or with the version, v1/Secret; may be repeated"
    add("--skip", action="extend", type=names, default=[], metavar="KIND,KIND", help=text)
    text = "do not check custom resources that no definition defines"
    add("--ignore-missing-schemas", action="store_true", help=text)


def add_manifest_arguments(parser: argparse.ArgumentParser, default_release: str = DEFAULT) -> None:
    """Add the arguments of commands that read manifests for some releases."""
    parser.add_argument("paths", nargs="+", metavar="FILE|DIR|-", help="manifests; - reads standard input")
    add_release_arguments(parser, default_release)


def add_release_arguments(parser: argparse.ArgumentParser, default_release: str) -> None:
    """Add the arguments that say which files are left out, and which releases judge the others."""
    text = "leave out files and folders with such a name, or end of path; may be repeated"
    parser.add_argument("--exclude", action="append", default=[], metavar="GLOB", help=text)
    add_release_flags(parser, default_release)


def run(args: argparse.Namespace) -> int:
    """Print what is found; return the exit code."""
    try:
        validators = validators_of(args.emulated_version, args.feature_gates)
    except ValueError as why:
        print_error(why)
        return UNREADABLE
    manifests, unreadable = read_manifests(
        args.paths, args.exclude, WorldsIn(args.emulated_version[-1], args.feature_gates or {})
    )
    definitions, no_definitions = read_all(args.crds or [])
    policies, no_policies = read_all(args.policies or [])
    checks = Checks(validators, frozenset(args.skip), args.ignore_missing_schemas)
    checks = checks.with_definitions(all_objects(definitions | manifests))
    if args.policies:
        checks = checks.with_policies(all_objects(policies | manifests))
    report = Report(list(validators), [*unreadable, *no_definitions, *no_policies], len(manifests))
    reader = _Reader(checks, report)
    for file, documents in counted([*manifests.items()], "files checked"):
        reader.check(file, documents)
    report.print(args.output)
    return report.code


class _Reader:
    """Checks files, and adds to a report what is found in them."""

    def __init__(self, checks: Checks, report: Report) -> None:
        self._checks = checks
        self._report = report

    def check(self, file: str, documents: list[Document]) -> None:
        """Add the objects of a file to the report, and their findings by line."""
        pairs = [pair for document in documents for pair in self._findings_in(file, document)]
        for located, release in sorted(pairs, key=lambda pair: pair[0].line):
            self._report.findings.setdefault(located, {})[release] = None

    def _findings_in(self, file: str, document: Document) -> Iterator[tuple[Located, str]]:
        """Yield each finding in a document with a release that has it, and count the objects."""
        checks, report = self._checks, self._report
        if is_list(document.value) or not checks.is_skipped(document.value):
            for line, finding in duplicates(document):
                located = Located(file, line, finding, document.source)
                yield from ((located, release) for release in checks.validators)
        for item, node in objects_in(document):
            report.objects += 1
            if checks.is_skipped(item):
                report.skipped += 1
                continue
            kind, _, name = described(item)
            report.checked.append((document.source or file, f"{kind or 'object'}/{name}"))
            for release, validator in checks.validators.items():
                for finding in _findings(item, validator):
                    yield Located(file, line_of(finding.field, node), finding, document.source), release


def _findings(obj: Any, validator: Validator) -> Iterator[Finding]:
    if has_kind(obj):
        return validator.findings(obj)
    return iter([Finding(*described(obj), "NoMatch", "", "no object with apiVersion and kind")])
