"""The environments of expressions in policies."""

from __future__ import annotations

import pytest

from understudy.cel import compile as compile_expression
from understudy.cel.checker.policy_environments import policy_environment
from understudy.machinery.releases.version import V1_34


@pytest.mark.parametrize(
    ("result", "expression", "compiles"),
    [
        ("Object", "Object{spec: Object.spec{replicas: object.spec.replicas + 1}}", True),
        ("Object", "Object{spec: Object.spec{template: {'a': 1}}}", True),
        ("Object", "object", False),
        ("Object", "JSONPatch{op: 'add'}", False),
        ("list(JSONPatch)", "[JSONPatch{op: 'add', path: '/a/' + jsonpatch.escapeKey('b/c'), value: object}]", True),
        ("list(JSONPatch)", "[JSONPatch{op: 1}]", False),
        ("list(JSONPatch)", "[JSONPatch{ops: 'add'}]", False),
    ],
)
def test_mutations_have_types_for_patches(result: str, expression: str, compiles: bool) -> None:
    """Mutations may make objects to be applied and JSON patches; other expressions of policies may not."""
    mutation = policy_environment(V1_34, returns=(result,), params=False, authorizer=True, patch_types=True)
    assert (compile_expression(expression, mutation).error is None) is compiles
    other = policy_environment(V1_34, returns=(result,), params=False, authorizer=True)
    assert compile_expression(expression, other).error is not None


def test_result_of_mutation_is_named() -> None:
    """A mutation whose result has another type is refused with both types."""
    mutation = policy_environment(V1_34, returns=("list(JSONPatch)",), params=False, authorizer=True, patch_types=True)
    assert compile_expression("Object{}", mutation).error == "must evaluate to list(JSONPatch) but got Object"
