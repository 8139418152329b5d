"""Random CEL expressions and random tokens for `fuzz.py`, in this process: no text may raise what is not an answer.

An expression is compiled as the selector of a device, and evaluated if it compiles. A token is a good one of a service
account, broken in one place or in a few, and signed again if only its claims are. An input is known by its seed and its
number.
"""

from __future__ import annotations

import base64
import random
import re
import time
import traceback
from collections import Counter
from collections.abc import Callable
from contextlib import suppress
from copy import deepcopy
from functools import cache
from typing import Any

import orjson

from understudy.apiserver.authentication import jose
from understudy.apiserver.authentication.errors import KeysAwaitedError, TokenError
from understudy.apiserver.authentication.service_account_tokens import AccountTokens
from understudy.cel.checker.environment import device_environment
from understudy.cel.compiler import compile_anew
from understudy.cel.errors import EvaluationError
from understudy.machinery.releases.version import V1_36
from understudy.machinery.util.clock import SystemClock

SECONDS = 1.0  # of CPU that an input may take
PRINTED = 20  # failures
DEVICE = {
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
EXPRESSIONS = (
    'device.driver == "gpu.example.com" && device.attributes["gpu.example.com"].model.startsWith("large")',
    'device.capacity["gpu.example.com"].memory.compareTo(quantity("40Gi")) >= 0',
    'device.attributes["gpu.example.com"].firmware.isGreaterThan(semver("1.0.0"))',
    "[1, 2, 3].all(x, x > 0) && {'a': 1, 'b': 2}.exists(k, k == 'a') ? true : false",
    "[1, 2u, 3.5, -9223372036854775808, 0xffff, b'\\x00', r'\\d', null].map(x, [x, x].map(y, string(y))).size() > 3",
    "'a-b-c'.split('-', 2).join(',').replace('a', 'b').matches('^(b+,?)*$') && 'x'.charAt(0) == \"x\"",
    "timestamp('2023-01-01T00:00:00Z') + duration('1h30m') > timestamp('0001-01-01T00:00:00Z')",
    "cel.bind(x, 'é世'.lowerAscii(), x + x + x).size() in [1, 2, 3] || ip('::1').family() == 6",
    "cidr('10.0.0.0/8').containsIP('10.1.2.3') && url('https://a:1/b?c=d').getPort() == '1'",
    "'%d %s %.3f %x %e'.format([1, 'a', 2.5, 255, 1.0]) != '' && sets.contains([1, 2], [2])",
    "'abc'.find('[a-c]{1,3}') == 'abc' && '1,2'.findAll('[0-9]', 1).isSorted() && optional.of(1).hasValue()",
    "{1: {2: {3: [true]}}}[1][2][3][0] && has(device.driver) && type(1) == int && dyn(1) == 1.0",
)
_TOKENS = re.compile(r"\s+|\w+|'[^']*'|\"[^\"]*\"|==|!=|>=|<=|&&|\|\||.", re.S)
_PIECES = (
    *"()[]{}.,:?!-+*/%<>'\"\\ \n\0é😀", "&&", "||", "in", "has", "map", "filter", "exists", "all", "exists_one", "''' ",
    "9223372036854775808", "-1", "1e999", "0x", "1u", "b'\\xff'", "'\\u0000'", "'\\U0010ffff'", "null", "true", "dyn",
    "type", "[].", "{}.", ".?x", "[?0]", "cel.bind(x,", "//", "size()", "quantity('1e9999')", "semver('1.2')",
    "duration('1e')", "[1].map(x, x)", "'a'.matches('(a*)*b')", "string", "int(", "uint(", "double(", "bytes(",
    "timestamp(", "google.",
)  # fmt: skip


class Failures:
    """The failures of a run; each kind is printed once."""

    def __init__(self) -> None:
        self.kinds: Counter[str] = Counter()
        self.slowest = 0.0

    def add(self, kind: str, number: int, shown: str) -> None:
        """Count a failure, and print the first of its kind."""
        self.kinds[kind] += 1
        if self.kinds[kind] == 1 and len(self.kinds) <= PRINTED:
            print(f"FAILED: {kind}\n    input {number}: {shown[:1500]!r}", flush=True)

    def check(self, number: int, shown: str, work: Callable[[], None]) -> None:
        """Do the work of an input; it may raise nothing, and takes less than SECONDS of CPU."""
        began = time.process_time()
        try:
            work()
        except Exception as error:
            where = traceback.extract_tb(error.__traceback__)[-1]
            self.add(f"{type(error).__name__} at {where.filename.rpartition('/')[2]}:{where.lineno}", number, shown)
        took = time.process_time() - began
        self.slowest = max(self.slowest, took)
        if took > SECONDS:
            self.add(f"more than {SECONDS:g} s", number, f"{took:.1f} s: {shown}")


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
    rng = random.Random(f"cel {seed} {number}")
    pieces = _TOKENS.findall(rng.choice(EXPRESSIONS))
    if rng.random() < 0.3:
        pieces += [rng.choice((" && ", " || ", " == ", " + ")), *_TOKENS.findall(rng.choice(EXPRESSIONS))]
    return broken(rng, pieces)


def check_expression(text: str) -> None:
    """Compile an expression, and evaluate it if it compiles."""
    compiled = compile_anew(text, device_environment(V1_36))
    if compiled.program is not None:
        with suppress(EvaluationError):  # an answer as well
            compiled.evaluate(DEVICE)


@cache
def account_tokens() -> AccountTokens:
    """Return what issues and verifies the good tokens."""
    return AccountTokens(SystemClock(), V1_36)


_UID = "12345678-0000-0000-0000-000000000000"
_ACCOUNT = {"metadata": {"name": "a", "namespace": "b", "uid": _UID}}
_VALUES: tuple[Any, ...] = (
    None, True, "", "x", 0, -1, 1e300, 2**63, 1.5, [], {}, [None], ["a", 1], {"a": {}}, "\0", "é", [[[[]]]],
    {"name": 1}, {"name": "a", "uid": None}, "9" * 5000, "kubernetes.default.svc",
)  # fmt: skip
_NESTED = b'{"iss":' + b"[" * 3000 + b"]" * 3000 + b"}"


def token(seed: int, number: int) -> str:
    """Return the token of a number: signed anew if only its claims were changed."""
    rng = random.Random(f"token {seed} {number}")
    tokens = account_tokens()
    good = _good_token()
    head, payload, signature = good.split(".")
    way = rng.randrange(6)
    if way == 0:
        return broken(rng, list(good))
    if way == 1:  # bytes of a part are wrong
        raw = bytearray(base64.urlsafe_b64decode(rng.choice((head, payload)) + "=="))
        for _ in range(rng.choice((1, 2, 9))):
            raw[rng.randrange(len(raw))] = rng.randrange(256)
        part = jose.encode(bytes(raw))
        return f"{part}.{payload}.{signature}" if rng.random() < 0.5 else f"{head}.{part}.{signature}"
    if way == 2:  # a header that means something else
        header = {"alg": rng.choice((*jose.ALGORITHMS, "none", "HS256", *_VALUES)), "kid": rng.choice(_VALUES)}
        header |= {"crit": rng.choice(_VALUES)} if rng.random() < 0.3 else {}
        return f"{jose.encode(orjson.dumps(header))}.{payload}.{signature}"
    if way == 3 and rng.random() < 0.1:
        return f"{head}.{jose.encode(_NESTED)}.{signature}"
    claims = orjson.loads(base64.urlsafe_b64decode(payload + "=="))
    for _ in range(rng.choice((1, 1, 2, 4))):
        place = rng.choice(
            (claims, claims["kubernetes.io"]) if isinstance(claims.get("kubernetes.io"), dict) else (claims,)
        )
        name = rng.choice((*claims, "pod", "secret", "node", "serviceaccount", "namespace", "warnafter"))
        if rng.random() < 0.3:
            place.pop(name, None)
        else:
            place[name] = deepcopy(rng.choice(_VALUES))
    return jose.sign(tokens._signing_key, claims)


@cache
def _good_token() -> str:
    return account_tokens().issue(_ACCOUNT["metadata"], ["kubernetes.default.svc"], 2**33, {})


def _lookup(group: str, resource: str, namespace: str, name: str) -> dict[str, Any] | None:
    return _ACCOUNT if (resource, namespace, name) == ("serviceaccounts", "b", "a") else None


def check_token(text: str) -> None:
    """Ask whose a token is."""
    tokens = account_tokens()
    with suppress(TokenError, KeysAwaitedError):  # an answer as well
        tokens.user(text, tokens.audiences, _lookup)


INPUTS: dict[str, tuple[Callable[[int, int], str], Callable[[str], None]]] = {
    "cel": (expression, check_expression),
    "tokens": (token, check_token),
}


def fuzz(what: str, seed: int, first: int, count: int) -> Failures:
    """Try some inputs ("cel" or "tokens"), and return what failed."""
    failures, (make, check) = Failures(), INPUTS[what]
    began = time.monotonic()
    for number in range(first, first + count):
        text = make(seed, number)
        failures.check(number, text, lambda text=text: check(text))  # type: ignore[misc]
        if (done := number - first + 1) % 20_000 == 0:
            print(
                f"{done} inputs, {done / (time.monotonic() - began):.0f}/s, {failures.kinds.total()} failures",
                flush=True,
            )
    print(f"{count} inputs, the slowest took {failures.slowest:.2f} s; {failures.kinds.total()} failures")
    for kind, times in failures.kinds.most_common():
        print(f"FAILED {times} times: {kind}")
    return failures
