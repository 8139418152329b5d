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
"""

from understudy.cel.checker.environment import Environment, device_environment
from understudy.cel.compiler import Compiled, compile  # noqa: A004 - named as the field names it
from understudy.cel.errors import EvaluationError
from understudy.cel.limits.budget import Budget, CostLimitError, OutOfBudgetError

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
