"""CEL expressions about the claims of a token and about the user that was made of them.

Upstream: k8s.io/apiserver/pkg/authentication/cel.
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import cache
from typing import Any, Literal

from understudy import cel
from understudy.admission.expressions.activation import cel_value
from understudy.apiserver.authentication.errors import TokenError
from understudy.cel.ast import Call, Const, Ident, Node, Select, children
from understudy.cel.checker.declarations import Declarations
from understudy.cel.checker.environment import Environment, base_libraries, build_declarations
from understudy.cel.compiler import Compiled, parse
from understudy.cel.errors import Report
from understudy.cel.values import Value
from understudy.machinery.releases.version import V1_34, Version
from understudy.machinery.types import Obj

Variable = Literal["claims", "user"]
_TYPES = {"claims": "map(string, any)", "user": "kubernetes.UserInfo"}
_USER = {"username": "string", "uid": "string", "groups": "list(string)", "extra": "map(string, list(string))"}


@cache
def _declarations(version: Version, variable: Variable) -> Declarations:
    return build_declarations(
        version, base_libraries(version, True), {variable: _TYPES[variable]}, {"kubernetes.UserInfo": _USER}
    )


def environment(version: Version, variable: Variable, *, is_rule: bool) -> Environment:
    """Return the environment of an expression about the claims or the user. The result of a rule is a bool."""
    return Environment(
        version,
        features=frozenset(),
        stored=True,
        declarations=_declarations(version, variable),
        result_error=lambda result: "must evaluate to bool" if is_rule and result.declared_name != "bool" else "",
        purpose=("authentication", variable, is_rule),
    )


def compile_expression(expression: str, version: Version, variable: Variable, *, is_rule: bool = False) -> Compiled:
    """Return a compiled expression about the claims or the user."""
    return cel.compile(expression, environment(version, variable, is_rule=is_rule))


def evaluate(compiled: Compiled, variables: Mapping[str, Value]) -> Any:
    """Return the value of an expression. Raises TokenError."""
    try:
        return compiled.run(variables, cel.Budget())
    except (cel.EvaluationError, cel.CostLimitError, cel.OutOfBudgetError) as error:
        raise TokenError(f"expression '{compiled.expression}' resulted in error: {error}") from None


def uses_claim(expression: str, claim: str, version: Version) -> bool:
    """Report whether an expression that compiles selects `claims.NAME`. Upstream: `hasSelectExp`."""
    tree = parse(expression, Report(expression), environment(version, "claims", is_rule=False))
    pending = [] if tree is None else [tree]
    while pending:
        node = pending.pop()
        if _selects(node, claim):
            return True
        pending += children(node)
    return False


def _selects(node: Node, claim: str) -> bool:
    match node:
        case Select(operand=Ident(name="claims"), field=name):
            return name == claim
        case Call(function="_?._", args=[Ident(name="claims"), Const(value=name)]):
            return name == claim
    return False


def claims_value(claims: Obj, version: Version) -> Value:
    """Return the claims of a token as expressions see them: from 1.34 on all numbers are doubles."""
    convert = _with_doubles if version >= V1_34 else cel_value
    return {name: convert(value) for name, value in claims.items()}


def _with_doubles(value: Any) -> Value:
    if isinstance(value, dict):
        return {name: _with_doubles(item) for name, item in value.items()}
    if isinstance(value, list):
        return [_with_doubles(item) for item in value]
    return float(value) if isinstance(value, int) and not isinstance(value, bool) else value
