"""The expression language of device selectors: CEL as kube-apiserver compiles and evaluates it.

    environment = device_environment("1.32")
    compiled = compile('device.driver == "dra.example.com"', environment)
    compiled.error, compiled.cost
    compiled.evaluate({"driver": "dra.example.com", "attributes": {}, "capacity": {}})

The way of an expression: `tokens` → `parser_celpy` (cel-python's grammar), with `build` and `macros` → `ast` →
`checker` → `validators` → `cost` → `evaluator`. What the parser refuses, `syntax` reads again to say in upstream's
words what is wrong with it. Names and functions come from `environment`, `declarations` and `library`; `compiler`
runs the stages.
"""

from understudy.admission.cel.checker.environment import Environment, device_environment
from understudy.admission.cel.compiler import Compiled, compile  # noqa: A004 - named as the field names it
from understudy.admission.cel.errors import EvaluationError

__all__ = ["Compiled", "Environment", "EvaluationError", "compile", "device_environment"]
