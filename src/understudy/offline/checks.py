"""The checks of `understudy validate`, which its language server makes as well: which objects, by which releases."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import field, replace
from typing import Any

from understudy.apiserver.serving.release import Release
from understudy.machinery.releases.features import Gates, UnknownGateError
from understudy.machinery.types import dataclass
from understudy.offline.documents import Document
from understudy.offline.validator import Finding, Validator, described


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


@dataclass(frozen=True)
class Checks:
    """The checks of each object that is not skipped, by the validator of each release.

    validators       by the names of their releases, in the order in which findings name them
    skip             kinds (`Secret`), with the version too (`v1/Secret`)
    skips_undefined  whether custom resources without a definition are skipped
    """

    validators: Mapping[str, Validator]
    skip: frozenset[str] = field(default_factory=frozenset)
    skips_undefined: bool = False

    def with_definitions(self, objects: Iterable[Any]) -> Checks:
        """Return these checks with the kinds that definitions among some objects define as well."""
        objects = list(objects)
        known = {name: validator.with_definitions(objects) for name, validator in self.validators.items()}
        return replace(self, validators=known)

    def with_policies(self, objects: Iterable[Any]) -> Checks:
        """Return these checks with the admission policies among some objects."""
        objects = list(objects)
        known = {name: validator.with_policies(objects) for name, validator in self.validators.items()}
        return replace(self, validators=known)

    def is_skipped(self, obj: Any) -> bool:
        """Report whether an object is not checked."""
        if not has_kind(obj):
            return False
        if not self.skip.isdisjoint((str(obj["kind"]), f"{obj['apiVersion']}/{obj['kind']}")):
            return True
        return self.skips_undefined and self.is_undefined(obj)

    def is_undefined(self, obj: Any) -> bool:
        """Report whether an object with apiVersion and kind is a custom resource that no release knows."""
        return all(validator.is_undefined(obj) for validator in self.validators.values())


def has_kind(obj: Any) -> bool:
    """Report whether a value is an object with apiVersion and kind."""
    return isinstance(obj, dict) and bool(obj.get("kind") and obj.get("apiVersion"))


def duplicates(document: Document) -> Iterator[tuple[int, Finding]]:
    """Yield (line, finding) for each repeated key in a mapping."""
    for twice in document.duplicates:
        line, _, message = twice.removeprefix("line ").partition(": ")
        finding = Finding(*described(document.value), "BadRequest", "", message)
        yield int(line) if line.isdigit() else document.root.line, finding
