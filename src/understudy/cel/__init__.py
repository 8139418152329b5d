"""CEL (Common Expression Language) as kube-apiserver compiles and evaluates it, for device selectors and policies.

    environment = device_environment(Version(1, 32))
    compiled = compile('device.driver == "dra.example.com"', environment)
    compiled.error, compiled.cost
    compiled.evaluate({"driver": "dra.example.com", "attributes": {}, "capacity": {}})

    environment = policy_environment(Version(1, 32), params=False, authorizer=False)
    compile("object.spec.replicas <= 5", environment).run({"object": {"spec": {"replicas": 3}}}, Budget())

`compiler` runs the stages on an expression: `parser` (tokens, tree, macros), `checker` (types, then validators),
`interpreter` (the plan of the evaluation) and `cost` (the estimate). `checker.environment` says which names and
functions there are; the functions are in `library`.

The default parser is `parser.quick_parser`. `parser.antlr_parser` parses again what it refuses, to report cel-go's
syntax errors.

A name is imported from its module when it is first used: `limits` is needed at every start, and the compiler is not.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from understudy.cel.checker.environment import Environment, device_environment
    from understudy.cel.compiler import Compiled, compile  # noqa: A004 - named as the field names it
    from understudy.cel.errors import EvaluationError
    from understudy.cel.limits.budget import Budget, CostLimitError, OutOfBudgetError

_HOMES = {
    "Budget": "limits.budget",
    "Compiled": "compiler",
    "CostLimitError": "limits.budget",
    "Environment": "checker.environment",
    "EvaluationError": "errors",
    "OutOfBudgetError": "limits.budget",
    "compile": "compiler",
    "device_environment": "checker.environment",
}

__all__ = [
    "Budget",
    "Compiled",
    "CostLimitError",
    "Environment",
    "EvaluationError",
    "OutOfBudgetError",
    "compile",
    "device_environment",
]


def __getattr__(name: str) -> Any:
    if name not in _HOMES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    value = globals()[name] = getattr(import_module(f"{__name__}.{_HOMES[name]}"), name)
    return value
