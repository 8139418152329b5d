"""What authorizer checks of policies and of match conditions cost: nothing in 1.31, unless feature gates say so."""

from __future__ import annotations

import pytest

from tests.http import exchange
from understudy import Server
from understudy.cel import Budget, CostLimitError
from understudy.kinds.admissionregistration.expressions import Expressions
from understudy.machinery.auth.always_allow import AlwaysAllow
from understudy.machinery.releases.version import V1_31
from understudy.machinery.types import Obj

CHECKS = " && ".join(["authorizer.group('').resource('pods').check('get').allowed()"] * 5)
GROUP = "admissionregistration.k8s.io/v1"
RULE = {"apiGroups": [""], "apiVersions": ["v1"], "operations": ["CREATE"], "resources": ["configmaps"]}


def policy() -> list[Obj]:
    spec = {"matchConstraints": {"resourceRules": [RULE]}, "validations": [{"expression": CHECKS}]}
    binding = {"policyName": "checks", "validationActions": ["Deny"]}
    kinds = {"ValidatingAdmissionPolicy": spec, "ValidatingAdmissionPolicyBinding": binding}
    return [
        {"apiVersion": GROUP, "kind": kind, "metadata": {"name": "checks"}, "spec": fields}
        for kind, fields in kinds.items()
    ]


@pytest.mark.parametrize(
    ("release", "gates", "allowed"),
    [
        ("1.31", {}, True),
        ("1.31", {"StrictCostEnforcementForVAP": True}, False),
        ("1.31", {"StrictCostEnforcementForWebhooks": True}, True),
        ("1.32", {}, False),
        ("1.36", {}, False),
    ],
)
def test_many_checks_of_a_policy(release: str, gates: dict[str, bool], allowed: bool) -> None:
    """Two checks are all that an expression may make, from 1.32 on and with the gate in 1.31."""
    with Server(emulated_version=release, feature_gates=gates) as server:
        for obj in policy():
            server.apply(obj)
        code, body = exchange(server, "POST", "/api/v1/namespaces/default/configmaps", {"metadata": {"name": "a"}})
        assert (code == 201) == allowed, body
        assert allowed or "exceeded" in body["message"]


@pytest.mark.parametrize("strict", [False, True])
def test_cost_of_library_functions(strict: bool) -> None:
    """Without strict costs functions of the Kubernetes libraries cost 1, such as a search in a long text."""
    text = "ab" * 2000
    compiled = Expressions(V1_31, strict_cost=strict).compile(f"'{text}'.find('a+b+') == 'ab' && isURL('{text}')")
    budget = Budget()
    before = budget.remaining
    compiled.run({"authorizer": AlwaysAllow()}, budget)
    assert (before - budget.remaining < 10) == (not strict)


def test_limit_of_one_expression_stays() -> None:
    """Without strict costs the functions of CEL itself still have theirs."""
    words = ", ".join(["'" + "a" * 900 + "'"] * 10)
    compiled = Expressions(V1_31, strict_cost=False).compile(
        f"[{words}].all(x, [{words}].all(y, [{words}].all(z, (x + y + z + x + y + z).contains(x + y + z))))"
    )
    with pytest.raises(CostLimitError):
        compiled.run({}, Budget())
