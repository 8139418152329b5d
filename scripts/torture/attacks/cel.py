"""Attacks of `attack` with expressions of CEL: in policies, and in the rules of definitions."""

from __future__ import annotations

import json
import threading
import time
from collections import Counter
from collections.abc import Mapping, Sequence

from scripts.common.custom_resources import DEFINITIONS, definition, served_version
from scripts.torture.attacks.case import Case, Target

MAPS = "/api/v1/namespaces/default/configmaps"
_POLICIES = "/apis/admissionregistration.k8s.io/v1"
_GROUP = "torture.example.com"
_SETTLED = 60.0  # seconds until a policy is in force


def _post(target: Target, path: str, obj: Mapping[str, object]) -> tuple[int, bytes]:
    return target.send("POST", path, json.dumps(obj).encode())


def _config_map(name: str, data: Mapping[str, str]) -> dict[str, object]:
    return {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": name}, "data": data}


def _policy(validations: Sequence[str], variables: Mapping[str, str]) -> dict[str, object]:
    """Return a policy about ConfigMaps whose names begin with `victim`, and which refuses one named `ready`."""
    rule = {"apiGroups": [""], "apiVersions": ["v1"], "operations": ["CREATE"], "resources": ["configmaps"]}
    return {
        "apiVersion": "admissionregistration.k8s.io/v1",
        "kind": "ValidatingAdmissionPolicy",
        "metadata": {"name": "torture"},
        "spec": {
            "matchConstraints": {"resourceRules": [rule]},
            "variables": [{"name": name, "expression": text} for name, text in variables.items()],
            "validations": [{"expression": "object.metadata.name != 'ready'", "message": "in force"}]
            + [{"expression": f"object.metadata.name == 'ready' || {text}"} for text in validations],
        },
    }


def _put_in_force(target: Target, validations: Sequence[str], variables: Mapping[str, str]) -> str:
    """Create a policy with its binding, and wait until it is asked; return what it was answered if it is refused."""
    began = time.monotonic()
    status, answer = _post(target, f"{_POLICIES}/validatingadmissionpolicies", _policy(validations, variables))
    if status != 201:
        return f"policy {status} after {time.monotonic() - began:.1f} s {answer[:300]!r}"
    binding = {"policyName": "torture", "validationActions": ["Deny"]}
    _post(
        target,
        f"{_POLICIES}/validatingadmissionpolicybindings",
        {
            "apiVersion": "admissionregistration.k8s.io/v1",
            "kind": "ValidatingAdmissionPolicyBinding",
            "metadata": {"name": "torture"},
            "spec": binding,
        },
    )
    while time.monotonic() < began + _SETTLED:
        status, _ = _post(target, MAPS, _config_map("ready", {}))
        if status != 201:
            return ""
        target.send("DELETE", f"{MAPS}/ready")
        time.sleep(0.1)
    return "the policy is not in force"


def _ask(target: Target, data: Mapping[str, str], *, count: int = 1, query: str = "") -> str:
    """Create ConfigMaps at once; return how they were answered, the last one in words."""
    answers: list[tuple[int, bytes]] = []
    began = time.monotonic()

    def create(number: int) -> None:
        answers.append(_post(target, MAPS + query, _config_map(f"victim-{number}", data)))

    threads = [threading.Thread(target=create, args=(number,)) for number in range(count)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    statuses = dict(Counter(status for status, _ in answers))
    text = answers[-1][1].decode(errors="replace")
    message = "" if statuses == {201: count} else f" {json.loads(text)['message'][:200] if text else 'nothing'}"
    return f"{statuses} after {time.monotonic() - began:.1f} s{message}"


def _doubled(target: Target, times: int) -> str:
    """Add a list to itself again and again, by variables, and ask for the size of the last one."""
    variables = {"v0": "object.data.map(key, key)"}
    variables |= {f"v{number}": f"variables.v{number - 1} + variables.v{number - 1}" for number in range(1, times + 1)}
    refused = _put_in_force(target, [f"variables.v{times}.size() > 0"], variables)
    return refused or _ask(target, {f"k{number}": "" for number in range(100)})


def _collected(target: Target) -> str:
    """Collect 40,000 elements with `map` and with `filter`."""
    variables = {"all": "object.data.list.split(',')"}
    validations = ["variables.all.map(x, x).size() == 40000", "variables.all.filter(x, true).size() == 40000"]
    refused = _put_in_force(target, validations, variables)
    return refused or _ask(target, {"list": ",".join("x" * 40_000)})


def _chained(target: Target, times: int) -> str:
    """Create a policy with a chain of `optMap`."""
    text = "optional.of(1)" + ".optMap(x, x + 1)" * times + ".hasValue()"
    refused = _put_in_force(target, [text], {})
    return refused or _ask(target, {})


def _asked(target: Target, expression: str, text: str) -> str:
    """Ask a policy with one validation about a text."""
    return _put_in_force(target, [expression], {}) or _ask(target, {"text": text})


_PAIRS = "object.data.all(a, object.data.all(b, a == b || a != b))"
_QUANTITY = "!isQuantity(object.data.text) || quantity(object.data.text).isGreaterThan(quantity('1'))"
_DECIMALS = "object.data.text.format([1.0]) != ''"
_KEYS = {f"k{number:03d}": "" for number in range(400)}


def _pairs(target: Target, count: int) -> str:
    """Compare all pairs of keys, ten times."""
    return _put_in_force(target, [_PAIRS] * 10, {}) or _ask(target, _KEYS, count=count)


def _endless(target: Target, count: int, query: str = "") -> str:
    """Look at all quadruples of keys, which costs hardly anything, since nothing is done with them."""
    text = "object.data.exists_one(d, false)"
    for name in "cba":
        text = f"object.data.exists_one({name}, {text})"
    return _put_in_force(target, [f"!{text}"], {}) or _ask(target, _KEYS, count=count, query=query)


def _rule(target: Target) -> str:
    """Compare all pairs of 380 numbers by a rule of a definition, seven times."""
    rule = {"rule": "self.values.all(a, self.values.all(b, a == b || a != b))"}
    values = {"type": "array", "maxItems": 400, "items": {"type": "integer"}}
    specs = {"type": "object", "x-kubernetes-validations": [rule], "properties": {"values": values}}
    schema = {"type": "object", "properties": {f"spec{number}": specs for number in range(7)}}
    status, answer = _post(target, DEFINITIONS, definition(_GROUP, "Victim", served_version(schema)))
    if status != 201:
        return f"definition {status} {answer[:300]!r}"
    path = f"/apis/{_GROUP}/v1/victims"
    while target.send("GET", path)[0] != 200:
        time.sleep(0.1)
    began = time.monotonic()
    victim = {"apiVersion": f"{_GROUP}/v1", "kind": "Victim", "metadata": {"name": "victim"}}
    status, answer = _post(
        target, path, {**victim, **{f"spec{number}": {"values": list(range(380))} for number in range(7)}}
    )
    return f"{status} after {time.monotonic() - began:.1f} s {'' if status == 201 else answer[:300]!r}"


CASES = (
    Case("lists doubled 26 times", lambda target: _doubled(target, 26)),
    Case("lists doubled 30 times", lambda target: _doubled(target, 30)),
    Case("map and filter of 40,000", _collected),
    Case("a chain of 13 optMaps", lambda target: _chained(target, 13)),
    Case("a chain of 14 optMaps", lambda target: _chained(target, 14)),
    Case("a policy over all pairs", lambda target: _pairs(target, 1)),
    Case("ten over all pairs", lambda target: _pairs(target, 10)),
    Case("a policy without an end", lambda target: _endless(target, 1)),
    Case("ten without an end", lambda target: _endless(target, 10)),
    Case("without an end, in 5 s", lambda target: _endless(target, 1, "?timeout=5s")),
    Case("a rule over all pairs", _rule),
    Case("a quantity of 5,000 digits", lambda target: _asked(target, _QUANTITY, "1" * 5000)),
    Case("a quantity of 400,000 digits", lambda target: _asked(target, _QUANTITY, "1" * 400_000)),
    Case("3,000,000,000 decimals", lambda target: _asked(target, "'%.3000000000f'.format([1.0]) != ''", "")),
    Case("300,000,000 decimals", lambda target: _asked(target, _DECIMALS, "%.300000000f")),
)
