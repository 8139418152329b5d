"""The warnings in the status of ValidatingAdmissionPolicies, with the texts of kube-controller-manager."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import count
from typing import Any

import pytest

from tests.http import send, watch
from understudy import Server
from understudy.machinery.types import Obj

POLICIES = "/apis/admissionregistration.k8s.io/v1/validatingadmissionpolicies"
DEPLOYMENTS = {"apiGroups": ["apps"], "apiVersions": ["v1"], "resources": ["deployments"]}
CONFIG_MAPS = {"apiGroups": [""], "apiVersions": ["v1"], "resources": ["configmaps"]}
GEARS = {"apiGroups": ["example.com"], "apiVersions": ["v1"], "resources": ["gears"]}
EVENTS = {"apiGroups": [""], "apiVersions": ["v1"], "resources": ["events"]}
NAMES = count()


@pytest.fixture(scope="module")
def server() -> Iterator[Server]:
    spec = {"type": "object", "properties": {"size": {"type": "integer"}, "port": {"x-kubernetes-int-or-string": True}}}
    schema = {"type": "object", "properties": {"spec": spec}}
    version = {"name": "v1", "served": True, "storage": True, "schema": {"openAPIV3Schema": schema}}
    names = {"plural": "gears", "kind": "Gear"}
    with Server(emulated_version="1.36", controllers=["validatingadmissionpolicy-status"]) as running:
        running.apply(
            {
                "apiVersion": "apiextensions.k8s.io/v1",
                "kind": "CustomResourceDefinition",
                "metadata": {"name": "gears.example.com"},
                "spec": {"group": "example.com", "scope": "Cluster", "names": names, "versions": [version]},
            }
        )
        yield running


def observed(server: Server, name: str, generation: int) -> Obj:
    """Return the status of a policy, once it is about a generation."""
    with watch(server, POLICIES, f"&fieldSelector=metadata.name={name}") as events:
        for event in events:
            status: Obj = event["object"].get("status") or {}
            if status.get("observedGeneration") == generation:
                return status
    raise AssertionError("the watch ended")


def create(server: Server, rules: list[Obj], *expressions: str, **spec: Any) -> str:
    """Create a policy with these expressions and return its name."""
    name = f"policy-{next(NAMES)}"
    matched = {"resourceRules": [{**rule, "operations": ["*"]} for rule in rules]}
    validations = [{"expression": expression} for expression in expressions]
    policy = {"metadata": {"name": name}, "spec": {"validations": validations, "matchConstraints": matched, **spec}}
    assert send(server, "POST", POLICIES, policy).status == 201
    return name


def warnings(server: Server, rules: list[Obj], *expressions: str, **spec: Any) -> list[tuple[str, str]]:
    """Return (field, warning) of a new policy with these expressions."""
    checked = observed(server, create(server, rules, *expressions, **spec), 1)["typeChecking"]
    return [(warning["fieldRef"], warning["warning"]) for warning in checked.get("expressionWarnings", ())]


def test_an_expression_that_does_not_fit_is_named(server: Server) -> None:
    """A warning names the expression and the kind, and shows where it fails, as the compiler does."""
    text = (
        "apps/v1, Kind=Deployment: ERROR: <input>:1:22: found no matching overload for '_>_' applied to '(int, string)'"
    )
    shown = "\n | object.spec.replicas > '1'\n | .....................^\n"
    given = warnings(server, [DEPLOYMENTS], "object.spec.replicas > 1", "object.spec.replicas > '1'")
    assert given == [("spec.validations[1].expression", text + shown)]


@pytest.mark.parametrize(
    ("rules", "expression", "kinds", "text"),
    [
        ([DEPLOYMENTS], "oldObject.spec.nope == 1", ["apps/v1, Kind=Deployment"], "undefined field 'nope'"),
        ([DEPLOYMENTS], "object.metadata.labels.x == 1", ["apps/v1, Kind=Deployment"], "'(string, int)'"),
        ([DEPLOYMENTS], "object.spec.strategy.rollingUpdate.maxSurge == 1", [], ""),
        ([DEPLOYMENTS, CONFIG_MAPS], "object.spec.replicas > 1", ["/v1, Kind=ConfigMap"], "undefined field 'spec'"),
        ([EVENTS], "object.x == 1", ["/v1, Kind=Event", "events.k8s.io/v1, Kind=Event"], "undefined field 'x'"),
        ([GEARS], "object.spec.size == 'x'", ["example.com/v1, Kind=Gear"], "'(int, string)'"),
        ([GEARS], "object.spec.port == 'x' && object.metadata.name == 'y'", [], ""),
        ([GEARS], "object.metadata.zz == 1", ["example.com/v1, Kind=Gear"], "undefined field 'zz'"),
        ([{**DEPLOYMENTS, "apiVersions": ["*"]}], "object.x == 1", [], ""),
        ([{**DEPLOYMENTS, "resources": ["deployments/scale", "nothing"]}], "object.x == 1", [], ""),
        ([DEPLOYMENTS], "variables.count > '1'", ["apps/v1, Kind=Deployment"], "'(int, string)'"),
        ([DEPLOYMENTS], "params.data.x == 1", ["apps/v1, Kind=Deployment"], "'(string, int)'"),
    ],
)  # fmt: skip
def test_kinds_that_are_checked(server: Server, rules: list[Obj], expression: str, kinds: list[str], text: str) -> None:
    """The kinds are those that the rules name; a wildcard names none, and the core group stands for any group."""
    variables = [{"name": "count", "expression": "object.spec.replicas"}] if "variables" in expression else []
    params = {"apiVersion": "v1", "kind": "ConfigMap"} if "params" in expression else None
    given = warnings(server, rules, expression, variables=variables, paramKind=params)
    texts = given[0][1].split("\n\n") if given else []
    assert [warning.partition(": ERROR: ")[0] for warning in texts] == kinds
    assert all(text in warning for warning in texts)


def test_a_changed_policy_is_checked_again(server: Server) -> None:
    """The warnings are about the generation that the status names."""
    name = create(server, [DEPLOYMENTS], "object.nope == 1")
    assert observed(server, name, 1)["typeChecking"]["expressionWarnings"]
    changed = {"spec": {"validations": [{"expression": "object.spec.replicas == 1"}]}}
    assert send(server, "PATCH", f"{POLICIES}/{name}", changed).status == 200
    assert "typeChecking" not in observed(server, name, 2)  # server-side apply removes what has become empty
