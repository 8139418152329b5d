"""The structural schema of one version of a custom resource definition, with all that is made of it."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import cached_property
from time import perf_counter
from typing import TYPE_CHECKING, Any

from understudy.kinds.apiextensions.structural_schema import values
from understudy.kinds.apiextensions.structural_schema.correlation import Correlation
from understudy.kinds.apiextensions.structural_schema.defaulting import Change, compile_defaults, compile_null_pruner
from understudy.kinds.apiextensions.structural_schema.embedded import (
    Coerce,
    Coercion,
    Walk,
    compile_coercion,
    compile_walk,
)
from understudy.kinds.apiextensions.structural_schema.json_values import with_go_numbers
from understudy.kinds.apiextensions.structural_schema.list_types import Check, compile_list_types
from understudy.kinds.apiextensions.structural_schema.merge_type import merge_type
from understudy.kinds.apiextensions.structural_schema.pruning import Pruner
from understudy.kinds.context import RATCHETING, observe_nothing
from understudy.machinery.patch.structured_merge_diff.typed import MapType
from understudy.machinery.releases.version import V1_31, V1_33, ByRelease, Version
from understudy.machinery.types import Obj
from understudy.machinery.validation.field import Errors, FieldError, Path

if TYPE_CHECKING:
    from understudy.kinds.apiextensions.structural_schema.rules import Outcome, SchemaRules

_ROOT = Path()
_RATCHETS_STATUS = ByRelease({V1_33: True, V1_31: False})


def has_rules(schema: Any) -> bool:
    """Report whether a schema or one inside of it has CEL rules."""
    return any(part.get("x-kubernetes-validations") for part in _parts(schema))


def _parts(schema: Any) -> Iterator[Obj]:
    """Yield a schema and those inside of it that are about one value each."""
    if isinstance(schema, dict):
        yield schema
        for part in (
            schema.get("items"),
            schema.get("additionalProperties"),
            *(schema.get("properties") or {}).values(),
        ):
            yield from _parts(part)


def _lets_lists_pass(schema: Obj) -> bool:
    """Report whether a schema, whatever its type is, is not applied to lists since it has a format."""
    return bool(schema.get("format")) and schema.get("type") not in ("integer", "number", "array")


def _has_null(value: Any) -> bool:
    if isinstance(value, dict | list):
        return any(map(_has_null, value.values() if isinstance(value, dict) else value))
    return value is None


class StructuralSchema:
    """A schema, compiled part by part when a part is first needed.

    schema                   `openAPIV3Schema` of the version, {} for none
    preserve_unknown_fields  that field of the definition's spec: nothing is pruned

    No method edits the object that it is given; one that nothing changes in is returned itself.
    """

    def __init__(self, schema: Obj, version: Version, *, preserve_unknown_fields: bool = False) -> None:
        self.schema = schema
        self.version = version
        self.preserve_unknown_fields = preserve_unknown_fields

    def coerce(self, obj: Obj, unknown: list[str] | None = None, *, stored: bool = False) -> Obj:
        """Return a decoded object as the server takes it: metadata in canonical form, without unknown fields and
        without nulls that are not allowed (upstream: `unstructuredSchemaCoercer.apply`).

        The paths of unknown fields are added to `unknown`, if it is a list. Wrong metadata of an object that is
        `stored` is dropped. Raises DecodeError for metadata that cannot be decoded.
        """
        coercion = Coercion(self.version, drop_invalid=stored, unknown=unknown)
        metadata = coercion.metadata(obj["metadata"], _ROOT) if "metadata" in obj else None
        out = obj
        if not self.preserve_unknown_fields:
            pruned: list[str] | None = None if unknown is None else []
            out = self._pruner.prune(out, pruned)
            if unknown is not None and pruned:
                unknown += sorted(pruned)
            out = self._prune_nulls(out) if self._prune_nulls is not None else out
        if self._coerce is not None:
            coercion.unknown = None if unknown is None else []
            out = self._coerce(out, _ROOT, coercion)
            if unknown is not None and coercion.unknown:
                unknown += sorted(coercion.unknown)
        if stored and metadata is not None and not metadata.get("generation"):
            metadata = {**metadata, "generation": 1}
        return out if metadata is None else {**out, "metadata": metadata}

    @cached_property
    def reads_as_decoded(self) -> bool:
        """Report whether to coerce an object that was decoded and given its defaults changes nothing: not if a default
        has a null or an embedded resource, which coercion may remove."""
        return self._coerce is None and not any(_has_null(part.get("default", "")) for part in _parts(self.schema))

    @cached_property
    def lets_lists_pass(self) -> bool:
        """Report whether valid objects can have lists where the schema has none, so that no fields are owned."""
        return any(map(_lets_lists_pass, _parts(self.schema)))

    def default(self, obj: Obj) -> Obj:
        """Return an object with its defaults."""
        defaulted: Obj = self._default(obj) if self._default is not None else obj
        return defaulted

    def validate(self, obj: Obj) -> Errors:
        """Return the errors of the values of a new object."""
        return values.validate(self._values, obj)

    def validate_update(
        self, obj: Obj, old: Obj, *, ratchets: bool = True, observe: Callable[..., None] = observe_nothing
    ) -> Errors:
        """Return the errors of an object that replaces another one. If it `ratchets`, unchanged parts may be wrong;
        `observe` counts the seconds that this takes."""
        errors = values.validate(self._values, obj)
        if not ratchets:
            return errors
        started = perf_counter()
        if errors:
            errors = values.validate(self._values, obj, old=Correlation(obj, old, self.schema))
        observe(RATCHETING, perf_counter() - started)
        return errors

    def validate_status_update(
        self, obj: Obj, old: Obj, *, ratchets: bool = True, observe: Callable[..., None] = observe_nothing
    ) -> Errors:
        """Return the errors of an update of the status: those of the schema below `status`, up to 1.32 of the whole
        schema. `observe` counts the seconds that ratcheting takes."""
        started, errors = perf_counter(), list[FieldError]()
        if self._status_values is not None and "status" in obj:
            errors = values.validate(self._status_values, obj["status"], "status")
            started = perf_counter()
            if errors and ratchets and _RATCHETS_STATUS[self.version]:
                correlation = Correlation(obj["status"], old.get("status"), self.schema["properties"]["status"])
                errors = values.validate(self._status_values, obj["status"], "status", correlation)
        if ratchets and _RATCHETS_STATUS[self.version]:
            observe(RATCHETING, perf_counter() - started)
        return errors

    def validate_rules(
        self,
        obj: Obj,
        old: Obj | None,
        *,
        ratchets: bool = True,
        only_status: bool = False,
        observe: Callable[[str, float], None] = observe_nothing,
    ) -> Outcome:
        """Run the CEL rules of the schema on an object, and on its change from `old` (None for a new object).

        ratchets     whether unchanged parts may break rules, and rules with `optionalOldSelf` apply to new values
        only_status  whether only the status is updated: before 1.33 it may not break rules even if it is unchanged
        observe      counts the seconds of compilations and of evaluations
        """
        assert self.rules is not None
        correlation = None
        if old is not None and ratchets and (not only_status or _RATCHETS_STATUS[self.version]):
            correlation = Correlation(obj, old, self.schema)
        return self.rules.validate(obj, old, correlation=correlation, optional_rules=ratchets, observe=observe)

    @cached_property
    def rules(self) -> SchemaRules | None:
        """Return the CEL rules of the schema, None if it has none."""
        if not has_rules(self.schema):
            return None
        from understudy.kinds.apiextensions.structural_schema.rules import compile_rules  # here, since CEL is large

        return compile_rules(self.schema, self.version)

    def validate_list_types(self, obj: Obj) -> Errors:
        """Return the duplicates in sets and list maps (upstream: `ValidateListSetsAndMaps`)."""
        return self._list_types(obj, _ROOT) if self._list_types is not None else []

    def embedded_resources(self, obj: Obj) -> Iterator[tuple[Path, Obj]]:
        """Yield the resources embedded in an object, with their paths."""
        return self._walk(obj, _ROOT) if self._walk is not None else iter(())

    @cached_property
    def merge_type(self) -> MapType:
        """Return the type of the objects for server-side apply."""
        return merge_type(self.schema, self.version, preserve_unknown_fields=self.preserve_unknown_fields)

    @cached_property
    def _pruner(self) -> Pruner:
        return Pruner(self.schema, is_resource_root=True)

    @cached_property
    def _prune_nulls(self) -> Change | None:
        return compile_null_pruner(self.schema)

    @cached_property
    def _coerce(self) -> Coerce | None:
        return compile_coercion(self.schema)

    @cached_property
    def _walk(self) -> Walk | None:
        return compile_walk(self.schema)

    @cached_property
    def _default(self) -> Change | None:
        return compile_defaults(self.schema, self._prepare_default)

    def _prepare_default(self, default: Any, schema: Obj) -> Any:
        """Return a default without unknown fields (upstream: `PruneDefaults`)."""
        default = with_go_numbers(default)
        coerce = compile_coercion(schema)
        if coerce is not None:
            default = coerce(default, _ROOT, Coercion(self.version, drop_invalid=True, unknown=None))
        return default if self.preserve_unknown_fields else Pruner(schema).prune(default)

    @cached_property
    def _values(self) -> values.Check:
        return values.compile_values(self.schema, self.version)

    @cached_property
    def _status_values(self) -> values.Check | None:
        status = (self.schema.get("properties") or {}).get("status")
        return None if status is None else values.compile_values(status, self.version)

    @cached_property
    def _list_types(self) -> Check | None:
        return compile_list_types(self.schema)
