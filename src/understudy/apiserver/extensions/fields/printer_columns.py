"""The tables of custom resources: `additionalPrinterColumns` (upstream: `registry/customresource/tableconvertor`)."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from understudy.apiserver.extensions.fields.jsonpath import Find, JSONPathError, parse
from understudy.apiserver.serving.release import Release
from understudy.kinds.common.printers import Row, human_duration
from understudy.machinery.golang.fmt import print_value
from understudy.machinery.golang.json_writer import encode_map, encode_sorted, go_number
from understudy.machinery.golang.times import TimeError, canonical_time
from understudy.machinery.releases.version import Version
from understudy.machinery.types import Obj
from understudy.machinery.util.clock import parse_timestamp

Cell = Callable[[Any, float], Any]  # the cell of a value that was found, at a time


def column_definitions(columns: Sequence[Obj], version: Version) -> list[Obj]:
    """Return the column definitions of the tables of a version: the name, then its own columns, or the age."""
    name, age = _metadata_columns(version)
    return [name, *(_definition(column, age["description"]) for column in columns or [_AGE])]


def table_row(columns: Sequence[Obj]) -> Row:
    """Return the function that makes the row of an object."""
    cells = [(parse(column["jsonPath"]), _CELLS[column["type"]]) for column in columns or [_AGE]]

    def row(obj: Obj, now: float) -> list[Any]:
        return [obj["metadata"].get("name", ""), *(_cell(find, cell, obj, now) for find, cell in cells)]

    return row


def parsed_columns(columns: Sequence[Obj]) -> list[Obj]:
    """Return the columns before the first one whose path cannot be parsed."""
    out: list[Obj] = []
    for column in columns:
        try:
            parse(column["jsonPath"])
        except JSONPathError:
            return out
        out.append(column)
    return out


_AGE: Obj = {"name": "Age", "type": "date", "jsonPath": ".metadata.creationTimestamp"}


def _definition(column: Obj, age_description: str) -> Obj:
    """Return the definition of a column."""
    description = f"Custom resource definition column (in JSONPath format): {column['jsonPath']}"
    if column is _AGE:
        description = age_description
    return {
        "name": column["name"],
        "type": column["type"],
        "format": column.get("format", ""),
        "description": column.get("description") or description,
        "priority": column.get("priority", 0),
    }


def _metadata_columns(version: Version) -> tuple[Obj, Obj]:
    """Return the columns of name and creation time, with the real server's descriptions of these fields."""
    definitions = Release.of(version).kind("apiextensions.k8s.io", "CustomResourceDefinition")
    assert definitions is not None
    by_name = {column["name"]: column for column in definitions.columns["v1"]}
    return by_name["Name"], by_name["Created At"]


def _cell(find: Find, cell: Cell, obj: Obj, now: float) -> Any:
    """Return the cell of the first value that a column finds, None if there is none."""
    try:
        values = find(obj)
    except JSONPathError:
        return None
    return cell(values[0], now) if values else None


def _string(value: Any, now: float) -> str:
    if value is None:
        return "<no value>"
    if isinstance(value, dict):
        return encode_map(value).decode()
    if isinstance(value, list):
        return encode_sorted(value).decode()
    return value if isinstance(value, str) else print_value(value)


def _integer(value: Any, now: float) -> int | None:
    return int(value) if isinstance(value, int | float) and not isinstance(value, bool) else None


def _number(value: Any, now: float) -> Any:
    return go_number(float(value)) if isinstance(value, int | float) and not isinstance(value, bool) else None


def _boolean(value: Any, now: float) -> bool | None:
    return value if isinstance(value, bool) else None


def _date(value: Any, now: float) -> str | None:
    """Return the age of a time. Upstream: `ConvertToHumanReadableDateType`."""
    if not isinstance(value, str):
        return None
    if not value:
        return "<unknown>"
    try:
        time = canonical_time(value)
    except TimeError:
        return "<invalid>"
    return "<unknown>" if time is None else human_duration(now - parse_timestamp(time))


_CELLS: dict[str, Cell] = {
    "string": _string,
    "integer": _integer,
    "number": _number,
    "boolean": _boolean,
    "date": _date,
}
