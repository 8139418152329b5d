"""What is recorded of the bootstrap policy of RBAC of a release, from what scripts/record/gopolicy prints.

`record` writes schemas/RELEASE/bootstrap_policy.json: the roles and bindings that kube-apiserver writes when it starts,
in their order. An object or a rule that depends on feature gates has a field `gates`, {name: on}; it is there while all
of them are as they are there. That every printed policy follows from the file is checked.
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any

from scripts.record.schemas import identity, write
from understudy.apiserver.authorization.rbac.bootstrap_policy import with_gates
from understudy.machinery.releases.version import Version

OF_ALL = ("creationTimestamp",)

Gates = Mapping[str, bool]
Setting = tuple[Gates, list[dict[str, Any]]]


def merged(sequences: Iterable[Sequence[str]]) -> list[str]:
    """Return all texts of some sequences, in an order that is the order of each."""
    out: list[str] = []
    for sequence in sequences:
        place = 0
        for text in sequence:
            if text in out:
                place = out.index(text) + 1
            else:
                out.insert(place, text)
                place += 1
    return out


def conditions(present: Sequence[Gates], every: Sequence[Gates]) -> dict[str, bool]:
    """Return the gates that are the same wherever something is present, but not everywhere."""
    same = {name: on for name, on in present[0].items() if all(gates[name] == on for gates in present)}
    return {name: on for name, on in same.items() if any(gates[name] != on for gates in every)}


def gated(
    settings: Sequence[tuple[Gates, Sequence[Any]]], name_of: Callable[[Any], str]
) -> list[tuple[str, dict[str, bool]]]:
    """Return the names of all items of some settings in order, with the gates that each depends on."""
    names = [(gates, [name_of(item) for item in items]) for gates, items in settings]
    every = [gates for gates, _ in settings]
    return [
        (name, conditions([gates for gates, known in names if name in known], every))
        for name in merged(known for _, known in names)
    ]


def key(obj: dict[str, Any]) -> str:
    """Return kind, namespace and name of an object as text."""
    return json.dumps(identity(obj))


def policy(settings: Sequence[Setting]) -> list[dict[str, Any]]:
    """Return the objects of all settings, with the gates that they and their rules depend on."""
    out = []
    for name, gates in gated(settings, key):
        versions = [(each, obj) for each, objects in settings for obj in objects if key(obj) == name]
        obj = dict(versions[0][1])
        if obj.get("rules") is not None or any(version.get("rules") for _, version in versions):
            rules = [(each, version.get("rules") or []) for each, version in versions]
            obj["rules"] = [with_condition(json.loads(rule), on) for rule, on in gated(rules, json.dumps)]
        out.append(with_condition(obj, gates))
    return out


def with_condition(value: dict[str, Any], gates: Mapping[str, bool]) -> dict[str, Any]:
    """Return an object or rule with the gates that it depends on, if there are any."""
    return {**value, "gates": gates} if gates else value


def cleaned(obj: dict[str, Any]) -> dict[str, Any]:
    """Return an object without its null time of creation."""
    return {**obj, "metadata": {name: value for name, value in obj["metadata"].items() if name not in OF_ALL}}


def record(version: Version, printed: Iterable[Mapping[str, Any]]) -> int:
    """Write the policy of a release; return 1 if it does not explain every setting."""
    settings = [(each["gates"], [cleaned(obj) for obj in each["objects"]]) for each in printed]
    recorded = policy(settings)
    for gates, objects in settings:
        if (made := list(with_gates(recorded, gates))) != objects:
            differing = Counter(map(json.dumps, made))
            differing.subtract(map(json.dumps, objects))
            print(f"not explained: {gates}: {[text for text, count in differing.items() if count]}")
            return 1
    write(version, "bootstrap_policy.json", json.dumps(recorded, separators=(",", ":")) + "\n")
    print(f"{version}: {len(recorded)} objects of the policy, explained in {len(settings)} settings")
    return 0
