"""Replay recorded verdicts on CEL selectors, each in a DeviceClass of its own.

A line after the head is {"expression", "status", "causes"}: what a create with that one selector is answered. The head
says, besides what `recorded.py` describes, the `path` of the classes: which version of them was created.
"""

from __future__ import annotations

import json
from typing import Any

from .client import Client
from .replay import Outcome


def replay(lines: list[Any], client: Client) -> Outcome:
    outcome = Outcome()
    for number, case in enumerate(lines[1:], 2):
        status, causes = verdict(client, lines[0]["path"], f"cel-{number}", case["expression"])
        differences = [] if status == case["status"] else [f"status: {status}, want {case['status']}"]
        if causes != (want := in_order(case["causes"])):
            differences.append(f"causes: {causes}, want {want}")
        outcome.add(number, repr(case["expression"][:200]), differences)
    return outcome


def verdict(client: Client, path: str, name: str, expression: str) -> tuple[int, list[Any]]:
    """Return the status and the causes with which a class with one selector is answered."""
    body = {
        "apiVersion": path.removeprefix("/apis/").rpartition("/")[0],
        "kind": "DeviceClass",
        "metadata": {"name": name},
        "spec": {"selectors": [{"cel": {"expression": expression}}]},
    }
    status, _, answer = client.exchange(
        "POST", f"{path}?dryRun=All", {"Content-Type": "application/json"}, json.dumps(body).encode()
    )
    details = (answer.get("details") if isinstance(answer, dict) else None) or {}
    return status, in_order(details.get("causes") or [])


def in_order(causes: list[dict[str, str]]) -> list[tuple[str, ...]]:
    return sorted(tuple(cause.get(key, "") for key in ("field", "reason", "message")) for cause in causes)
