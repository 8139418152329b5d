"""Random CEL expressions for `fuzz`: selectors of devices, validations of policies, rules of definitions.

Each is a good one, broken in a few places. It is compiled for one of the three uses, which its number decides, and
evaluated if it compiles.
"""

from __future__ import annotations

import random
import re
from collections.abc import Callable
from contextlib import suppress
from functools import cache
from typing import NamedTuple

from understudy.cel.checker.declared_types import declared_type
from understudy.cel.checker.environment import Environment, device_environment
from understudy.cel.checker.policy_environments import policy_environment
from understudy.cel.checker.rule_environments import rule_environment
from understudy.cel.compiler import Compiled, compile_anew
from understudy.cel.errors import EvaluationError
from understudy.cel.interpreter.unstructured import converter
from understudy.cel.limits.budget import Budget, CostLimitError, OutOfBudgetError
from understudy.cel.types import STRING, list_of
from understudy.machinery.releases.version import V1_36
from understudy.machinery.types import Obj

DEVICE: Obj = {
    "driver": "gpu.example.com",
    "attributes": {
        "model": {"string": "large-80"},
        "index": {"int": 1},
        "ecc": {"bool": True},
        "firmware": {"version": "1.2.3-rc.1+b"},
    },
    "capacity": {"memory": "80Gi"},
    "allowMultipleAllocations": False,
}
POD: Obj = {
    "metadata": {"name": "web-1", "labels": {"app": "web", "tier": "front"}},
    "spec": {"replicas": 3, "containers": [{"name": "a", "image": "nginx:1"}, {"name": "b", "image": "redis"}]},
}
SCHEMA: Obj = {
    "type": "object",
    "properties": {
        "replicas": {"type": "integer"},
        "name": {"type": "string", "maxLength": 20},
        "ports": {"type": "array", "maxItems": 8, "x-kubernetes-list-type": "set", "items": {"type": "integer"}},
        "limits": {"type": "object", "additionalProperties": {"x-kubernetes-int-or-string": True}},
        "since": {"type": "string", "format": "date-time"},
        "hosts": {
            "type": "array",
            "x-kubernetes-list-type": "map",
            "x-kubernetes-list-map-keys": ["ip"],
            "items": {"type": "object", "properties": {"ip": {"type": "string"}, "weight": {"type": "number"}}},
        },
    },
}
SELF: Obj = {
    "replicas": 3,
    "name": "web",
    "ports": [80, 443],
    "limits": {"cpu": 1, "memory": "1Gi"},
    "since": "2024-01-01T00:00:00Z",
    "hosts": [{"ip": "10.0.0.1", "weight": 0.5}, {"ip": "::1", "weight": 2}],
}
ANYWHERE = (
    "[1, 2, 3].all(x, x > 0) && {'a': 1, 'b': 2}.exists(k, k == 'a') ? true : false",
    "[1, 2u, 3.5, -9223372036854775808, 0xffff, b'\\x00', r'\\d', null].map(x, [x, x].map(y, string(y))).size() > 3",
    "'a-b-c'.split('-', 2).join(',').replace('a', 'b').matches('^(b+,?)*$') && 'x'.charAt(0) == \"x\"",
    "timestamp('2023-01-01T00:00:00Z') + duration('1h30m') > timestamp('0001-01-01T00:00:00Z')",
    "cel.bind(x, 'é世'.lowerAscii(), x + x + x).size() in [1, 2, 3] || ip('::1').family() == 6",
    "cidr('10.0.0.0/8').containsIP('10.1.2.3') && url('https://a:1/b?c=d').getPort() == '1'",
    "'%d %s %.3f %x %e'.format([1, 'a', 2.5, 255, 1.0]) != '' && sets.contains([1, 2], [2])",
    "'abc'.find('[a-c]{1,3}') == 'abc' && '1,2'.findAll('[0-9]', 1).isSorted() && optional.of(1).hasValue()",
    "{1: {2: {3: [true]}}}[1][2][3][0] && has({'a': 1}.a) && type(1) == int && dyn(1) == 1.0",
)
OF_DEVICES = (
    'device.driver == "gpu.example.com" && device.attributes["gpu.example.com"].model.startsWith("large")',
    'device.capacity["gpu.example.com"].memory.compareTo(quantity("40Gi")) >= 0',
    'device.attributes["gpu.example.com"].firmware.isGreaterThan(semver("1.0.0"))',
    "has(device.driver) && device.attributes[device.driver].index + 1 == 2",
)
OF_POLICIES = (
    "object.spec.containers.all(c, c.image.startsWith('nginx') || c.name in ['a', 'b'])",
    "object.metadata.?labels['app'].orValue('') == request.namespace || oldObject == null",
    "request.operation == 'CREATE' && object.spec.replicas <= params.limit * 2",
    "variables.names.exists_one(n, n == 'a') && !has(object.metadata.annotations)",
    "object.spec.containers.map(c, c.image.split(':')).filter(p, p.size() > 1)[0][1] == '1'",
)
OF_RULES = (
    "self.replicas <= 5 && self.ports.all(p, p > 0 && p < 65536) && self.name.matches('^[a-z]+$')",
    "self.hosts.exists(h, ip(h.ip).family() == 4) || self.hosts.map(h, h.weight).sum() < 3.0",
    "self.limits.all(k, type(self.limits[k]) == int || sign(quantity(string(self.limits[k]))) >= 0)",
    "self.since < timestamp('2030-01-01T00:00:00Z') && self.ports + [80] == self.ports && self == oldSelf",
    "[self.name] + self.hosts.map(h, h.ip) != [] && self.hosts + self.hosts == self.hosts",
)
_TOKENS = re.compile(r"\s+|\w+|'[^']*'|\"[^\"]*\"|==|!=|>=|<=|&&|\|\||.", re.S)
_PIECES = (
    *"()[]{}.,:?!-+*/%<>'\"\\ \n\0é😀", "&&", "||", "in", "has", "map", "filter", "exists", "all", "exists_one", "''' ",
    "9223372036854775808", "-1", "1e999", "0x", "1u", "b'\\xff'", "'\\u0000'", "'\\U0010ffff'", "null", "true", "dyn",
    "type", "[].", "{}.", ".?x", "[?0]", "cel.bind(x,", "//", "size()", "quantity('1e9999')", "semver('1.2')",
    "duration('1e')", "[1].map(x, x)", "'a'.matches('(a*)*b')", "string", "int(", "uint(", "double(", "bytes(",
    "timestamp(", "google.",
)  # fmt: skip


class Use(NamedTuple):
    """A use of expressions: what they are compiled with, good ones, and their evaluation."""

    environment: Environment
    good: tuple[str, ...]
    evaluate: Callable[[Compiled], object]


@cache
def uses() -> tuple[Use, ...]:
    """Return the uses of expressions: each number has the one after that of the number before."""
    policies = policy_environment(
        V1_36, params=True, authorizer=False, composed=(("names", list_of(STRING)),), strict_cost=True
    )
    declared = declared_type(SCHEMA, V1_36)
    assert declared is not None
    rules = rule_environment(declared, V1_36, stored=True, optional_old_self=False)
    value = converter(SCHEMA)
    variables = {"self": value(SELF), "oldSelf": value(SELF)}
    request: Obj = {"operation": "CREATE", "namespace": "web", "name": "web-1"}
    activation = {
        "object": POD,
        "oldObject": None,
        "request": request,
        "namespaceObject": None,
        "params": {"limit": 2},
        "variables": {"names": ["a", "b"]},
    }
    return (
        Use(device_environment(V1_36), OF_DEVICES, lambda compiled: compiled.evaluate(DEVICE)),
        Use(policies, OF_POLICIES, lambda compiled: compiled.run(activation, Budget())),
        Use(rules, OF_RULES, lambda compiled: compiled.run(variables, Budget())),
    )


def broken(rng: random.Random, pieces: list[str]) -> str:
    """Return a text with some of its pieces dropped, doubled, exchanged, repeated many times or replaced."""
    for _ in range(rng.choice((0, 1, 1, 2, 3, 6))):
        at, other = rng.randrange(len(pieces) + 1), rng.randrange(len(pieces) + 1)
        match rng.randrange(7):
            case 0:
                del pieces[at : at + rng.choice((1, 1, 3))]
            case 1:
                pieces[at:at] = pieces[other : other + rng.choice((1, 3, 8))]
            case 2 if at < len(pieces) > other:
                pieces[at], pieces[other] = pieces[other], pieces[at]
            case 3:
                pieces[at : at + 1] = rng.choice(_PIECES) * rng.choice((1, 1, 1, 2, 60, 300))
            case _:
                pieces.insert(at, rng.choice(_PIECES))
    return "".join(pieces)


def expression(seed: int, number: int) -> str:
    """Return the expression of a number."""
    rng, good = random.Random(f"cel {seed} {number}"), _use(number).good + ANYWHERE
    pieces = _TOKENS.findall(rng.choice(good))
    if rng.random() < 0.3:
        pieces += [rng.choice((" && ", " || ", " == ", " + ")), *_TOKENS.findall(rng.choice(good))]
    return broken(rng, pieces)


def check_expression(text: str, number: int) -> None:
    """Compile the expression of a number, and evaluate it if it compiles."""
    use = _use(number)
    compiled = compile_anew(text, use.environment)
    if compiled.error is None:
        with suppress(EvaluationError, CostLimitError, OutOfBudgetError):  # answers as well
            use.evaluate(compiled)


def _use(number: int) -> Use:
    return uses()[number % len(uses())]
