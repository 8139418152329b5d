"""Random CEL expressions and random tokens for `fuzz`, in this process: no text may raise what is not an answer.

An input is known by its seed and its number; `expressions` and `tokens` make them.
"""

from __future__ import annotations

import time
import traceback
from collections import Counter
from collections.abc import Callable

from scripts.torture.inputs.expressions import check_expression, expression
from scripts.torture.inputs.tokens import check_token, token

SECONDS = 1.0  # of CPU that an input may take
PRINTED = 20  # failures


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


# What makes the input of a seed and a number, and what checks the input of a number.
INPUTS: dict[str, tuple[Callable[[int, int], str], Callable[[str, int], None]]] = {
    "cel": (expression, check_expression),
    "tokens": (token, check_token),
}


def fuzz(what: str, seed: int, first: int, count: int) -> Failures:
    """Try some inputs ("cel" or "tokens"), and return what failed."""
    failures, (make, check) = Failures(), INPUTS[what]
    began = time.monotonic()
    for number in range(first, first + count):
        text = make(seed, number)
        failures.check(number, text, lambda text=text, number=number: check(text, number))  # type: ignore[misc]
        if (done := number - first + 1) % 20_000 == 0:
            print(
                f"{done} inputs, {done / (time.monotonic() - began):.0f}/s, {failures.kinds.total()} failures",
                flush=True,
            )
    print(f"{count} inputs, the slowest took {failures.slowest:.2f} s; {failures.kinds.total()} failures")
    for kind, times in failures.kinds.most_common():
        print(f"FAILED {times} times: {kind}")
    return failures
