"""Validation of a version of a custom resource definition: schema, subresources, columns, selectable fields.

What is the same in all versions is in the definition itself.
"""

from __future__ import annotations

from collections.abc import Sequence

from understudy.kinds.apiextensions import schemas, structural_schemas
from understudy.kinds.apiextensions.schema_rules import KnownRules
from understudy.kinds.common.formats import invalid_texts, label_1035, of_field
from understudy.machinery.releases.version import V1_31, V1_34, ByRelease
from understudy.machinery.types import Obj
from understudy.machinery.validation.bad_values import TextByRelease
from understudy.machinery.validation.field import Errors, Path, duplicate, invalid, required, too_many
from understudy.machinery.validation.names import size
from understudy.machinery.validation.schema_paths import SchemaPathError, at_path

COLUMN_TYPES = ("boolean", "date", "integer", "number", "string")
COLUMN_FORMATS = ("byte", "date", "date-time", "double", "float", "int32", "int64", "password")
WARNING_LENGTH = 256
MOST_SELECTABLE = 8

# Why fields of a schema that is not there cannot be selected by; the second is meant the other way round.
_NO_SCHEMA = {
    "validation": of_field("selectableFields", "may only be set when validations.schema is included"),
    "schema": TextByRelease(
        ByRelease(
            {
                V1_34: "may only be set when `version.schema.openAPIV3Schema` is not included",
                V1_31: "selectableFields may only be set when version.schema.openAPIV3Schema is not included",
            }
        )
    ),
}


def schema_of(part: Obj, name: str) -> Obj | None:
    """Return the schema of a version (under "schema") or of a spec (under "validation")."""
    schema: Obj | None = (part.get(name) or {}).get("openAPIV3Schema")
    return schema


def has_status(part: Obj) -> bool:
    """Report whether a version, or the spec for all of them, has a status subresource."""
    return (part.get("subresources") or {}).get("status") is not None


def validate(version: Obj, spec: Obj, path: Path, known: KnownRules) -> Errors:
    """Check a version without what it shares with the others: that is in the spec (see `definitions.internal`)."""
    errors = label_1035(version.get("name", ""), path.child("name"))
    warning = version.get("deprecationWarning")
    errors += invalid_texts(
        _warning_texts(warning, bool(version.get("deprecated"))), warning, path.child("deprecationWarning")
    )
    return errors + part(version, "schema", has_status(version) or has_status(spec), path, known)


def _warning_texts(warning: str | None, deprecated: bool) -> list[str]:
    if warning is None:
        return []
    if not deprecated:
        return ["can only be set for deprecated versions"]
    texts = [f"must be <= {WARNING_LENGTH} characters long"] if size(warning) > WARNING_LENGTH else []
    texts += [] if warning else ["must not be an empty string"]
    odd = next((i for i, char in enumerate(warning) if not char.isprintable()), None)
    if odd is not None:
        about = "must only contain printable UTF-8 characters; non-printable character found at index"
        texts.append(f"{about} {size(warning[:odd])}")
    return texts


def part(part: Obj, schema: str, has_status: bool, path: Path, known: KnownRules) -> Errors:
    """Check schema, subresources, columns and selectable fields of a version, or of the spec for all of them."""
    whole_schema = schema_of(part, schema)
    errors: Errors = []
    if whole_schema is not None:
        version = part.get("name" if schema == "schema" else "version", "")
        errors += schemas.validate(whole_schema, path.child(schema), has_status, version, known)
    errors += _subresources(part.get("subresources") or {}, path.child("subresources"))
    for i, column in enumerate(part.get("additionalPrinterColumns") or ()):
        errors += _column(column, path.child("additionalPrinterColumns").index(i))
    if part.get("selectableFields"):
        where = path.child("selectableFields")
        if schema == "validation" and part.get(schema) == {}:  # the real server has no answer to paths of fields
            errors += _selectable(part["selectableFields"], {}, where)
        elif whole_schema is None:
            errors.append(invalid(where, "", _NO_SCHEMA[schema]))
        else:
            if unfit := structural_schemas.unfit(whole_schema):
                errors.append(invalid(path.child("schema.openAPIV3Schema"), "", unfit))
            errors += _selectable(part["selectableFields"], whole_schema, where)
    return errors


def _subresources(subresources: Obj, path: Path) -> Errors:
    scale = subresources.get("scale")
    if scale is None:
        return []
    errors: Errors = []
    for name, roots in (("specReplicasPath", (".spec.",)), ("statusReplicasPath", (".status.",))):
        value, where = scale.get(name, ""), path.child(f"scale.{name}")
        errors += _under(value, roots, f"under {roots[0][:-1]}", where) if value else [required(where)]
    selector, where = scale.get("labelSelectorPath"), path.child("scale.labelSelectorPath")
    return errors + (
        _under(selector, (".spec.", ".status."), "under either .spec or .status", where) if selector else []
    )


def _under(value: str, roots: tuple[str, ...], rule: str, path: Path) -> Errors:
    wrong = _simple_path(value, path)
    if wrong or value.startswith(roots):
        return wrong
    return [invalid(path, value, f"should be a json path {rule}")]


def _simple_path(value: str, path: Path) -> Errors:
    return [] if value.startswith(".") else [invalid(path, value, "must be a simple json path starting with .")]


def _column(column: Obj, path: Path) -> Errors:
    kind, form, source = column.get("type", ""), column.get("format", ""), column.get("jsonPath", "")
    errors = [] if column.get("name") else [required(path.child("name"))]
    types = f"must be one of {','.join(COLUMN_TYPES)}"
    if not kind:
        errors.append(required(path.child("type"), types))
    elif kind not in COLUMN_TYPES:
        errors.append(invalid(path.child("type"), kind, types))
    if form and form not in COLUMN_FORMATS:
        errors.append(invalid(path.child("format"), form, f"must be one of {','.join(COLUMN_FORMATS)}"))
    where = path.child("JSONPath")
    return errors + (_simple_path(source, where) if source else [required(where)])


def _selectable(fields: Sequence[Obj], schema: Obj, path: Path) -> Errors:
    errors: Errors = []
    seen: list[str] = []
    for i, field in enumerate(fields):
        source, where = field.get("jsonPath", ""), path.index(i).child("jsonPath")
        if not source:
            errors.append(required(where))
            continue
        try:
            field_schema = at_path(schema, source, brackets=False)
        except SchemaPathError as why:
            errors.append(invalid(where, source, f"is an invalid path: {why}"))
            continue
        if source.startswith(".metadata"):
            errors.append(invalid(where, source, "must not point to fields in metadata"))
        if field_schema.get("type") not in ("string", "boolean", "integer"):
            text = "must point to a field of type string, boolean or integer. "
            errors.append(invalid(where, source, f"{text}Enum string fields and strings with formats are allowed."))
        if source in seen:
            errors.append(duplicate(where, source))
        else:
            seen.append(source)
    return errors + ([too_many(path, len(seen), MOST_SELECTABLE)] if len(seen) > MOST_SELECTABLE else [])
