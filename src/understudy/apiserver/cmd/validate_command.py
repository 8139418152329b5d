"""`understudy validate FILE|DIR|- …`: checks manifests without a server.

    gpus.yaml:12: ResourceClaim/gpus: spec.devices.requests[0].count: Invalid value: 0: must be greater than zero

With several releases a line ends with those that find fault: ` [1.31, 1.32]`.

Exit code 0: all would be created; 1: some would be refused; 2: some cannot be read.
"""

from __future__ import annotations

import argparse
import json
import re
import sys
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from understudy.apiserver.client.manifests import SUFFIXES
from understudy.apiserver.cmd.flags import add_release_flags
from understudy.apiserver.cmd.output import print_error
from understudy.apiserver.cmd.validator import Finding, Validator, described, is_list
from understudy.apiserver.kinds.release import DEFAULT, Release
from understudy.machinery.golang.json_reader import DecodeError
from understudy.machinery.golang.yaml_reader import Document, Node, load_yaml
from understudy.machinery.releases.features import Gates, UnknownGateError

VALID, INVALID, UNREADABLE = 0, 1, 2
STDIN = "-"

# One step of a path: a field, or an index or key in brackets.
_STEP = re.compile(r"\[(?P<key>.*?)\](?=[.\[]|$)|(?P<field>[^.\[]+)")


@dataclass(frozen=True, slots=True)
class Located:
    """A finding and its place; `line` counts from 1, 0 for the whole file."""

    file: str
    line: int
    finding: Finding

    def __str__(self) -> str:
        return " ".join(f"{place(self.file, self.line)}: {self.finding}".splitlines())

    def as_json(self) -> dict[str, Any]:
        """Return the finding as `--output json` prints it, but for its releases."""
        return {"file": self.file, "line": self.line, **asdict(self.finding)}


class UnreadableError(ValueError):
    """A file that is missing or holds no YAML; str(error) begins with its name."""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the arguments of `understudy validate`."""
    add_manifest_arguments(parser)
    text = "custom resource definitions whose objects are among the manifests; so are those among the manifests"
    parser.add_argument("--crds", action="append", metavar="FILE|DIR", help=text)
    text = "enforce the admission policies there, and those among the manifests; parameters are found there, too"
    parser.add_argument("--policies", action="append", metavar="FILE|DIR", help=text)


def add_manifest_arguments(parser: argparse.ArgumentParser, default_release: str = DEFAULT) -> None:
    """Add the arguments of commands that read manifests for some releases."""
    add = parser.add_argument
    add("paths", nargs="+", metavar="FILE|DIR|-", help="manifests; - reads standard input")
    add_release_flags(parser, default_release)
    add("-o", "--output", choices=("text", "json"), default="text", help="json: a list of objects")


def run(args: argparse.Namespace) -> int:
    """Print a line for each finding; return the exit code."""
    try:
        validators = validators_of(args.emulated_version, args.feature_gates)
    except ValueError as why:
        print_error(why)
        return UNREADABLE
    releases: dict[Located, dict[str, None]] = {}  # the releases that have a finding, in order
    manifests, unreadable = parse_all(files(args.paths))
    definitions, unreadable_definitions = parse_all(files(args.crds or []))
    policies, unreadable_policies = parse_all(files(args.policies or []))
    objects = all_objects(definitions | manifests)
    validators = {name: validator.with_definitions(objects) for name, validator in validators.items()}
    if args.policies:
        objects = all_objects(policies | manifests)
        validators = {name: validator.with_policies(objects) for name, validator in validators.items()}
    unreadable = unreadable or unreadable_definitions or unreadable_policies
    for file, documents in manifests.items():
        findings = [(located, name) for name, v in validators.items() for located in check(file, documents, v)]
        for located, name in sorted(findings, key=lambda found_by: found_by[0].line):
            releases.setdefault(located, {})[name] = None
    if args.output == "json":
        print(
            json.dumps([located.as_json() | {"releases": list(names)} for located, names in releases.items()], indent=2)
        )
    else:
        for located, names in releases.items():
            print(f"{located} [{', '.join(names)}]" if len(validators) > 1 else located)
    return UNREADABLE if unreadable else INVALID if releases else VALID


def parse_all(files: Iterable[str]) -> tuple[dict[str, list[Document]], bool]:
    """Return the documents of files by file, and whether some cannot be read, which is printed."""
    documents: dict[str, list[Document]] = {}
    unreadable = False
    for file in files:
        try:
            documents[file] = parse(file)
        except UnreadableError as why:
            unreadable = True
            print(why, file=sys.stderr)
    return documents, unreadable


def all_objects(documents: Mapping[str, list[Document]]) -> list[Any]:
    """Return the objects of files."""
    return [obj for parsed in documents.values() for document in parsed for obj, _ in objects_in(document)]


def validators_of(releases: list[str], feature_gates: Mapping[str, bool] | None) -> dict[str, Validator]:
    """Return the validators of releases by their names.

    A gate is set in the releases that have it. Raises UnknownGateError for one that none of them has.
    """
    if len(releases) == 1:
        return {releases[0]: Validator.of(releases[0], feature_gates)}
    known = {name: Gates.of(Release.named(name).version).in_force() for name in releases}
    unknown = [gate for gate in feature_gates or {} if not any(gate in gates for gates in known.values())]
    if unknown:
        raise UnknownGateError(unknown)
    return {
        name: Validator.of(name, {gate: on for gate, on in (feature_gates or {}).items() if gate in known[name]})
        for name in releases
    }


def files(paths: list[str]) -> Iterator[str]:
    """List the files, and the manifests below the folders."""
    for path in paths:
        if path != STDIN and Path(path).is_dir():
            yield from sorted(str(file) for file in Path(path).rglob("*") if file.suffix in SUFFIXES)
        else:
            yield path


def read(file: str) -> str:
    """Return the text of a file. Raises UnreadableError."""
    try:
        return sys.stdin.read() if file == STDIN else Path(file).read_text()
    except (OSError, UnicodeDecodeError) as why:
        raise UnreadableError(f"{file}: {getattr(why, 'strerror', None) or why}") from None


def parse(file: str) -> list[Document]:
    """Return the documents of a file. Raises UnreadableError."""
    try:
        return list(load_yaml(read(file)))
    except DecodeError as why:
        raise UnreadableError(f"{file}: {why}") from None


def check(file: str, documents: Iterable[Document], validator: Validator) -> Iterator[Located]:
    """List the findings in the documents of a file."""
    for document in documents:
        for twice in document.duplicates:
            line, _, message = twice.removeprefix("line ").partition(": ")
            finding = Finding(*described(document.value), "BadRequest", "", message)
            yield Located(file, int(line) if line.isdigit() else document.root.line, finding)
        for item, at in objects_in(document):
            for finding in _findings(item, validator):
                yield Located(file, line_of(finding.field, at), finding)


def place(file: str, line: int) -> str:
    """Return `FILE:LINE`, and only the file for line 0."""
    return f"{file}:{line}" if line else file


def _findings(obj: Any, validator: Validator) -> Iterator[Finding]:
    if isinstance(obj, dict) and obj.get("kind") and obj.get("apiVersion"):
        return validator.findings(obj)
    return iter([Finding(*described(obj), "NoMatch", "", "no object with apiVersion and kind")])


# --- where things stand -----------------------------------------------------------------------------------------------


def objects_in(document: Document) -> Iterator[tuple[Any, Node | None]]:
    """List the object of a document with its YAML node; of a List the items, and those of Lists in it, with theirs."""
    todo: list[tuple[Any, Node | None]] = [(document.value, document.root)]
    while todo:
        obj, node = todo.pop()
        if not is_list(obj):
            yield obj, node
            continue
        _, items = _step(node, "items") or (0, None)
        members = (_step(items, str(i)) for i in range(len(obj["items"])))
        nodes = [member[1] if member else None for member in members]
        todo += reversed([*zip(obj["items"], nodes, strict=True)])


def line_of(field: str, node: Node | None) -> int:
    """Return the line of a field, or of the nearest field above it that the file has."""
    line = node.line if node else 0
    for step in _STEP.finditer(field):
        member = _step(node, step["field"] or step["key"])
        if member:
            line, node = member
    return line


def _step(node: Node | None, name: str) -> tuple[int, Node] | None:
    """Return (line, node) of a member of a mapping or a list, None if there is none."""
    if node and node.kind == "alias":
        (node,) = node.children
    if node and node.kind == "sequence" and name.isdecimal() and int(name) < len(node.children):
        item = node.children[int(name)]
        return item.line, item
    if node and node.kind == "mapping":
        for key, member in zip(node.children[::2], node.children[1::2], strict=True):
            if key.text == name:
                return key.line, member
    return None
