"""Tables of definitions."""

from __future__ import annotations

from typing import Any

from tests.http import send
from tests.waiting import wait_until
from understudy import Server

DEFINITIONS = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions"
TABLE = {"Accept": "application/json;as=Table;v=v1;g=meta.k8s.io"}


def row(server: Server) -> list[Any]:
    """Return the cells of the only definition."""
    cells: list[Any] = send(server, "GET", DEFINITIONS, headers=TABLE).json()["rows"][0]["cells"]
    return cells


def test_rows_of_definitions() -> None:
    """Since 1.37 a table of definitions says what each is about; objects of a definition have the usual columns."""
    schema = {"openAPIV3Schema": {"type": "object"}}
    versions = [
        {"name": "v2", "served": True, "storage": False, "schema": schema},
        {"name": "v1", "served": True, "storage": True, "schema": schema},
        {"name": "v0", "served": False, "storage": False, "schema": schema},
    ]
    names = {"plural": "ws", "kind": "W", "shortNames": ["w", "wi"]}
    spec = {"group": "x.io", "scope": "Cluster", "names": names, "versions": versions}
    definition = {"metadata": {"name": "ws.x.io"}, "spec": spec}
    with Server(emulated_version="1.37") as server:
        assert send(server, "POST", DEFINITIONS, definition).status == 201
        cells = wait_until(lambda: row(server), lambda cells: cells[-1])  # it is established in the background
        assert cells[:3] + cells[4:] == ["ws.x.io", "Cluster", "v1(storage),v2", "x.io", "W", "w,wi", True]
        columns = send(server, "GET", "/apis/x.io/v1/ws", headers=TABLE).json()["columnDefinitions"]
        assert [column["name"] for column in columns] == ["Name", "Age"]
