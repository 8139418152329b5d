"""The selector of a list, a watch or a deletion of a collection."""

from __future__ import annotations

from collections.abc import Callable, Mapping

from understudy.machinery.selectors.fields import FieldTerm
from understudy.machinery.selectors.labels import Requirement
from understudy.machinery.selectors.shards import Shards
from understudy.machinery.types import NamedTuple, Obj

_NO_LABELS: Mapping[str, str] = {}
_OF_METADATA = ("metadata.name", "name", "metadata.namespace")  # fields of every kind


class Condition(NamedTuple):
    """A condition of a selector that an index can answer: a label or field has one of some values."""

    is_label: bool
    name: str  # of the label or field
    values: frozenset[str]

    @property
    def is_of_key(self) -> bool:
        """Report whether it asks for a part of the object's key: its name or namespace."""
        return not self.is_label and self.name in _OF_METADATA


class Selector:
    """The selector of a list, a watch or a deletion of a collection: label requirements and field terms.

    `values` maps each field label that the kind supports to a function that reads it from an object, `shards` are those
    that are asked for, None for all.
    """

    __slots__ = ("_fields", "_label_tests", "_labels", "_values", "shards")

    def __init__(
        self,
        labels: tuple[Requirement, ...] = (),
        fields: tuple[FieldTerm, ...] = (),
        values: Mapping[str, Callable[[Obj], str]] | None = None,
        shards: Shards | None = None,
    ) -> None:
        self._labels = labels
        self._label_tests = [requirement.test() for requirement in labels]
        self._fields = fields
        self._values = values or {}
        self.shards = shards

    @property
    def key(self) -> object:
        """Return a key that selectors of one kind share if they match the same objects in the same way."""
        return self._labels, self._fields, self.shards

    @property
    def reads_metadata_only(self) -> bool:
        """Report whether it matters to no object what it has besides its metadata."""
        return all(term.label in _OF_METADATA for term in self._fields)

    @property
    def reads_labels_only(self) -> bool:
        """Report whether it matters to no object what it has besides its labels."""
        return not self._fields and self.shards is None

    @property
    def everything(self) -> bool:
        """Report whether every object matches (upstream: `Everything`)."""
        return self.has_shards_only and self.shards is None

    @property
    def has_shards_only(self) -> bool:
        """Report whether it asks for no labels and fields (upstream: `labelFieldEmpty`)."""
        return not self._labels and not self._fields

    @property
    def name(self) -> str:
        """Return the name that the field selector asks for, "" for any."""
        return self._required("metadata.name")

    @property
    def namespace(self) -> str:
        """Return the namespace that the field selector asks for, "" for any."""
        return self._required("metadata.namespace")

    def _required(self, label: str) -> str:
        return next((t.value for t in self._fields if t.label == label and t.equal), "")

    def indexed(self) -> tuple[Condition, Selector] | None:
        """Return a condition that an index can answer, and the selector of all others; None if there is none.

        One of the object's key comes last, since the order of keys answers most of these.
        """
        for at, requirement in enumerate(self._labels):
            if requirement.operator == "in":
                rest = self._narrowed(self._labels[:at] + self._labels[at + 1 :], self._fields)
                return Condition(True, requirement.key, requirement.values), rest
        for at, term in sorted(enumerate(self._fields), key=lambda each: each[1].label in _OF_METADATA):
            if term.equal:
                rest = self._narrowed(self._labels, self._fields[:at] + self._fields[at + 1 :])
                return Condition(False, term.label, frozenset([term.value])), rest
        return None

    def _narrowed(self, labels: tuple[Requirement, ...], fields: tuple[FieldTerm, ...]) -> Selector:
        """Return the selector of some of the requirements and terms."""
        return Selector(labels, fields, self._values, self.shards)

    def matches(self, obj: Obj) -> bool:
        """Report whether an object meets all requirements and terms, and is in a shard. KeyError for a field label that
        the kind does not have."""
        if self.shards is not None and not self.shards.matches(obj["metadata"]):
            return False
        if not self.matches_labels(obj["metadata"].get("labels") or _NO_LABELS):
            return False
        return all((self.value(term.label, obj) == term.value) is term.equal for term in self._fields)

    def matches_labels(self, labels: Mapping[str, str]) -> bool:
        """Report whether the labels of an object meet all requirements."""
        return all(test(labels) for test in self._label_tests)

    def value(self, label: str, obj: Obj) -> str:
        """Return the value of a field label in an object. KeyError for one that the kind does not have."""
        if label in ("metadata.name", "name"):
            return str(obj["metadata"].get("name", ""))
        if label == "metadata.namespace":
            return str(obj["metadata"].get("namespace", ""))
        return self._values[label](obj)
