"""The fields that rules name: objects are dicts, so no type checker finds a name that is misspelt.

A misspelt key of `obj.get("…")` finds nothing, and its rule never applies; a misspelt path is a wrong answer.
"""

from __future__ import annotations

import ast
import json
import re
from collections.abc import Iterable, Iterator
from pathlib import Path

import pytest

pytestmark = pytest.mark.maintenance

PACKAGE = Path(__file__).parents[2] / "src" / "understudy"
ROOMS = ("kinds", "admission/plugins")

# Functions that take fields: from one of their arguments on, or as one of them.
TAKE_FIELDS = {
    **dict.fromkeys(("Path", "child", "count", "field", "field_guard", "keep_stored", "_from_statuses"), 0),
    **dict.fromkeys(("nested_field", "remove_fields", "_any_has", "_drop_each", "_fields_in", "_of_status"), 1),
    **dict.fromkeys(("copy_stored", "require_fields"), 2),
}
TAKE_ONE_FIELD = {"get": 0, "setdefault": 0, "pop": 0, "default_if_nil": 1}

NOT_RECORDED = {
    "attachedRequired": "upstream's name for attachRequired in errors",
    "imageVolumeStatus": "upstream's name for volumeMounts[].image in errors",
    "initiatorname": "upstream's name for initiatorName in errors",
    "nodeSwapStatus": "upstream's name for swap in errors",
    "persistentvolumesource": "upstream's name for the source of a volume in errors",
    "webhookClientConfig": "upstream's name for webhook.clientConfig in errors, as in v1beta1",
    "targetportal": "upstream's name for targetPortal in errors",
    "templateGeneration": "field of a DaemonSet in upstream's internal form",
    **dict.fromkeys(("imagePolicy", "kubeConfigFile", "defaultAllow"), "field of ImagePolicyWebhook's configuration"),
    "cpu": "resource",
    "memory": "resource",
    "op": "field of JSON patches",
    "integer": "type of a schema",
    "kubernetes": "finalizer of namespaces",
    "oldSelf": "variable of CEL rules",
    "domain": "upstream's name for the part of a qualified name in errors",
    **dict.fromkeys(
        ("burst", "cacheSize", "defaults", "exemptions", "limitedResources", "matchContains", "matchScopes", "qps"),
        "field of the configuration of an admission plugin, which is a file",
    ),
    "podtolerationrestriction": "admission plugin, in lower case",
    "digest": "group of a regular expression",
    "tag": "group of a regular expression",
    "admissionPlugins": "key of a release's facts",
    "check": "key of a declared rule",
    "item": "key of a declared rule",
    "keys": "key of a declared rule",
    "steps": "key of a declared rule",
    "types": "key of declared rules",
}


def recorded_fields() -> set[str]:
    """Return the JSON names of the fields of every type of every release."""
    types = [json.loads(path.read_text()) for path in (PACKAGE / "schemas").glob("*/types.json")]
    return {field[1] for each in types for fields in each["structs"].values() for field in fields}


def used_fields(tree: ast.Module) -> Iterator[tuple[str, int]]:
    """Yield the texts that a module uses as keys of objects and as names in paths, with their lines."""
    for node in ast.walk(tree):
        for text in texts(arguments(node)):
            if re.fullmatch(r"[a-z$][\w.\[\]]*", text):  # others are labels, values, separators
                yield from ((name, getattr(node, "lineno", 0)) for name in re.split(r"[.\[\]]+", text))


def arguments(node: ast.AST) -> list[ast.expr]:
    """List the expressions of a node that stand where a field may be."""
    match node:
        case ast.Call(func=ast.Name(id=name) | ast.Attribute(attr=name), args=args) if name in TAKE_ONE_FIELD:
            return args[TAKE_ONE_FIELD[name] :][:1]
        case ast.Call(func=ast.Name(id=name) | ast.Attribute(attr=name), args=args) if name in TAKE_FIELDS:
            return args[TAKE_FIELDS[name] :]
        case ast.Subscript(slice=key):
            return [key]
        case ast.Compare(left=key, ops=[ast.In() | ast.NotIn()], comparators=[ast.Name() | ast.Attribute()]):
            return [key]
    return []


def texts(nodes: Iterable[ast.expr]) -> list[str]:
    return [node.value for node in nodes if isinstance(node, ast.Constant) and isinstance(node.value, str)]


def test_fields_of_rules_are_recorded() -> None:
    """Every field that kinds and admission plugins name is one of a recorded type; each exception is needed."""
    fields, unknown, known = recorded_fields(), dict[str, str](), 0
    for path in sorted(path for room in ROOMS for path in (PACKAGE / room).rglob("*.py")):
        for name, line in used_fields(ast.parse(path.read_text())):
            known += name in fields
            if name not in fields:
                unknown[name] = f"{path.relative_to(PACKAGE)}:{line}"
    assert {name: where for name, where in unknown.items() if name not in NOT_RECORDED} == {}
    assert NOT_RECORDED.keys() - unknown.keys() == set()
    assert known > 5000  # the texts are looked at where they stand


def test_misspelt_fields_are_noticed() -> None:
    """A misspelt field is noticed as a key, in a path, and as an argument of a helper."""
    source = """
spec.get("replicaz", "any text")
spec["selectr"]
"finalizerz" in meta
path.child("spec").child("template.metadta.name")
path = Path("spec", "podz")
remove_fields(obj, "statuz")
default_if_nil(obj, "tipe", "nothing")
"kubernetes.io/os" in labels, "*" in verbs, codes.get("Deny")
"""
    unknown = [name for name, _ in used_fields(ast.parse(source)) if name not in recorded_fields()]
    assert sorted(unknown) == ["finalizerz", "metadta", "podz", "replicaz", "selectr", "statuz", "tipe"]
