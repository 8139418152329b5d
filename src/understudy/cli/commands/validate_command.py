"""`understudy validate FILE|DIR|- …`: checks manifests without a server.

    gpus.yaml:12: ResourceClaim/gpus: spec.devices.requests[0].count: Invalid value: 0: must be greater than zero

With several releases a line ends with those that find fault: ` [1.31, 1.32]`. The last line, on stderr, says how much
was looked at.

Exit code 0: all would be created; 1: some would be refused; 2: some cannot be read, or there is nothing to look at.
"""

from __future__ import annotations

import argparse
from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING, Any

from understudy.apiserver.server.options.values import names
from understudy.apiserver.serving.release import DEFAULT, Release
from understudy.cli.documents import all_objects, line_of, objects_in, read_all, read_manifests
from understudy.cli.flags import add_release_flags
from understudy.cli.output import print_error
from understudy.cli.report import FORMS, UNREADABLE, Located, Report
from understudy.machinery.golang.yaml_reader import Document
from understudy.machinery.releases.features import Gates, UnknownGateError
from understudy.offline.validator import Finding, Validator, described, is_list

if TYPE_CHECKING:
    from argparse import _SubParsersAction


_ABOUT = "Tells what a server would refuse in manifests, without one: 0 nothing, 1 something, 2 nothing to look at."


def add_command(commands: _SubParsersAction[Any]) -> None:
    """Add the command with its flags."""
    parser = commands.add_parser("validate", help="check manifests without a server", description=_ABOUT)
    add_arguments(parser)
    parser.set_defaults(run=run)


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the arguments of `understudy validate`."""
    add_manifest_arguments(parser)
    add = parser.add_argument
    text = "json: a list of objects; github: annotations for a workflow of GitHub Actions"
    add("-o", "--output", choices=tuple(FORMS), default="text", help=text)
    text = "custom resource definitions whose objects are among the manifests; so are those among the manifests"
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
    manifests, unreadable = read_manifests(args.paths, args.exclude)
    definitions, no_definitions = read_all(args.crds or [])
    policies, no_policies = read_all(args.policies or [])
    objects = all_objects(definitions | manifests)
    validators = {name: validator.with_definitions(objects) for name, validator in validators.items()}
    if args.policies:
        objects = all_objects(policies | manifests)
        validators = {name: validator.with_policies(objects) for name, validator in validators.items()}
    report = Report(list(validators), [*unreadable, *no_definitions, *no_policies], len(manifests))
    checks = _Checks(validators, frozenset(args.skip), args.ignore_missing_schemas)
    for file, documents in manifests.items():
        checks.check(file, documents, report)
    report.print(args.output)
    return report.code


def validators_of(releases: list[str], feature_gates: Mapping[str, bool] | None) -> dict[str, Validator]:
    """Return the validators of releases by their names.

    A gate is set in the releases that have it. Raises UnknownGateError for one that none of them has.
    """
    if len(releases) == 1:
        return {releases[0]: Validator.of(releases[0], feature_gates)}
    known = {name: Gates.of(Release.named(name).version).in_force() for name in releases}
    unknown = [gate for gate in feature_gates or {} if not any(gate in gates for gates in known.values())]
    if unknown:
        raise UnknownGateError(unknown, {gate for gates in known.values() for gate in gates})
    return {
        name: Validator.of(name, {gate: on for gate, on in (feature_gates or {}).items() if gate in known[name]})
        for name in releases
    }


class _Checks:
    """The checks of each object that is not skipped, by the validator of each release.

    skip             kinds (`Secret`), with the version too (`v1/Secret`)
    skips_undefined  whether custom resources without a definition are skipped
    """

    def __init__(self, validators: Mapping[str, Validator], skip: frozenset[str], skips_undefined: bool) -> None:
        self._validators = validators
        self._skip = skip
        self._skips_undefined = skips_undefined

    def check(self, file: str, documents: list[Document], report: Report) -> None:
        """Add the objects of a file to a report, and their findings by line."""
        pairs = [pair for document in documents for pair in self._findings_in(file, document, report)]
        for located, release in sorted(pairs, key=lambda pair: pair[0].line):
            report.findings.setdefault(located, {})[release] = None

    def _findings_in(self, file: str, document: Document, report: Report) -> Iterator[tuple[Located, str]]:
        """Yield each finding in a document with a release that has it, and count the objects."""
        if is_list(document.value) or not self._is_skipped(document.value):
            for line, finding in _duplicates(document):
                yield from ((Located(file, line, finding), release) for release in self._validators)
        for item, node in objects_in(document):
            report.objects += 1
            if self._is_skipped(item):
                report.skipped += 1
                continue
            for release, validator in self._validators.items():
                for finding in _findings(item, validator):
                    yield Located(file, line_of(finding.field, node), finding), release

    def _is_skipped(self, obj: Any) -> bool:
        if not _has_kind(obj):
            return False
        if not self._skip.isdisjoint((str(obj["kind"]), f"{obj['apiVersion']}/{obj['kind']}")):
            return True
        return self._skips_undefined and all(v.is_undefined(obj) for v in self._validators.values())


def _has_kind(obj: Any) -> bool:
    return isinstance(obj, dict) and bool(obj.get("kind") and obj.get("apiVersion"))


def _findings(obj: Any, validator: Validator) -> Iterator[Finding]:
    if _has_kind(obj):
        return validator.findings(obj)
    return iter([Finding(*described(obj), "NoMatch", "", "no object with apiVersion and kind")])


def _duplicates(document: Document) -> Iterator[tuple[int, Finding]]:
    """Yield (line, finding) for each repeated key in a mapping."""
    for twice in document.duplicates:
        line, _, message = twice.removeprefix("line ").partition(": ")
        finding = Finding(*described(document.value), "BadRequest", "", message)
        yield int(line) if line.isdigit() else document.root.line, finding
