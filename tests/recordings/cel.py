"""Replay recorded verdicts on CEL selectors, each in a DeviceClass of its own.

A line after the head is {"expression", "status", "causes"}: what a create with that one selector is answered.
"""

from __future__ import annotations

import json
from typing import Any

from .client import Client
from .replay import Outcome

PATH = "/apis/resource.k8s.io/v1alpha3/deviceclasses?dryRun=All"


def replay(lines: list[Any], client: Client) -> Outcome:
    outcome = Outcome()
    for number, case in enumerate(lines[1:], 2):
        status, causes = verdict(client, f"cel-{number}", case["expression"])
        differences = [] if status == case["status"] else [f"status: {status}, want {case['status']}"]
        if causes != (want := in_order(case["causes"])):
            differences.append(f"causes: {causes}, want {want}")
        outcome.add(number, repr(case["expression"][:200]), differences)
    return outcome


def verdict(client: Client, name: str, expression: str) -> tuple[int, list[Any]]:
    body = {
        "apiVersion": "resource.k8s.io/v1alpha3",
        "kind": "DeviceClass",
        "metadata": {"name": name},
        "spec": {"selectors": [{"cel": {"expression": expression}}]},
    }
    status, _, answer = client.exchange("POST", PATH, {"Content-Type": "application/json"}, json.dumps(body).encode())
    details = (answer.get("details") if isinstance(answer, dict) else None) or {}
    return status, in_order(details.get("causes") or [])


def in_order(causes: list[dict[str, str]]) -> list[tuple[str, ...]]:
    return sorted(tuple(cause.get(key, "") for key in ("field", "reason", "message")) for cause in causes)
