"""Compares the structured allocator with upstream's, on cases as `understudy allocate` reads them.

    python -m scripts.compare allocator --emulated-version 1.34 --oracle "oracle 1.34" CASES.jsonl …

The oracle reads cases, one a line, and writes for each {"case": name, "answers": […]}, all that upstream's allocator
gives (up to 1.35 it visits pools in random order), or {"case": name, "slow": true} and ends; then it is started again.
Any of the answers is right. Differences are printed with their case; the exit code is 1 if there are any.
"""

from __future__ import annotations

import argparse
import json
import random
import re
import shlex
import subprocess
import sys
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from functools import partial
from itertools import islice
from pathlib import Path
from typing import Any

from scripts.compare.cases.allocations import broken, mutated
from understudy.cli.commands.allocate_command import CaseError, answer_of, read_case
from understudy.machinery.releases.version import Version

BATCH = 500
ADDRESS = re.compile(r"\b0x[0-9a-f]+")  # in errors that print a whole device
AGAIN = (
    10  # times that the oracle is asked about a difference, which may be an order of pools that it has not tried yet
)


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("cases", nargs="+", type=Path, metavar="CASES.jsonl")
    parser.add_argument("--emulated-version", type=Version.parse, required=True, metavar="VERSION")
    parser.add_argument("--oracle", type=shlex.split, required=True, metavar="COMMAND")
    parser.add_argument("--mutate", type=int, metavar="SEED", help="change each case at random first")
    parser.add_argument("--break", type=int, metavar="SEED", dest="seed", help="break something in each case first")
    parser.add_argument("--show", type=int, default=5, help="differences to print (default: %(default)s)")


def run(args: argparse.Namespace) -> int:
    """Compare the answers to all cases; return the exit code."""
    counts: Counter[str] = Counter()
    change = None
    if args.mutate is not None or args.seed is not None:
        rng = random.Random(args.mutate if args.seed is None else args.seed)
        change = partial(mutated if args.seed is None else broken, rng=rng)
    for case, answers in recorded(args.cases, args.oracle, args.emulated_version, change):
        if answers is None:
            counts["slow"] += 1
            continue
        answer = normal(answer_of(case, args.emulated_version), {})
        for _ in range(AGAIN):
            if same := answer in [normal(other, {}) for other in answers]:
                break
            answers += ask([json.dumps(case) + "\n"], args.oracle)[0].get("answers", [])
        counts["same" if same else "different"] += 1
        counts[f"answer: {next(iter(answers[0]))}"] += 1
        if not same and counts["different"] <= args.show:
            print(json.dumps({**case, "answers": answers, "ours": answer}))
    print(f"{args.emulated_version}: {dict(sorted(counts.items()))}", file=sys.stderr)
    return 1 if counts["different"] else 0


def recorded(
    paths: Sequence[Path], oracle: Sequence[str], version: Version, change: Callable[[Any], Any] | None
) -> Iterator[tuple[dict[str, Any], list[Any] | None]]:
    """Yield each case with the oracle's answers; None if it found the case slow. What is no case is left out.

    change  makes another case of a case
    """
    for path in paths:
        with path.open() as lines:
            while batch := [json.loads(line) for line in islice(lines, BATCH)]:
                for case in batch:
                    case.pop("answers", None)
                cases = batch if change is None else [case for case in map(change, batch) if is_case(case, version)]
                answers = ask([json.dumps(case) + "\n" for case in cases], oracle)
                for case, answer in zip(cases, answers, strict=True):
                    assert case["case"] == answer["case"]
                    yield case, None if answer.get("slow") else answer["answers"]


def is_case(case: Any, version: Version) -> bool:
    """Report whether a case can be read: the oracle ends at others."""
    try:
        read_case(case, version)
    except CaseError:
        return False
    return isinstance(case.get("case"), str)


def ask(lines: Sequence[str], oracle: Sequence[str]) -> list[dict[str, Any]]:
    """Return the oracle's answer to each case. It ends after a slow one and is started again for those that follow."""
    answers: list[dict[str, Any]] = []
    while len(answers) < len(lines):
        text = "".join(lines[len(answers) :])
        done = subprocess.run(oracle, input=text, capture_output=True, text=True, check=False)
        more = [json.loads(line) for line in done.stdout.splitlines()]
        if not more:
            sys.exit(f"the oracle does not answer: {done.stderr[-1000:]}")
        answers += more
    return answers


def normal(value: Any, shares: dict[str, str]) -> Any:
    """Return a value without what is empty and addresses of memory, with share ids numbered in their order."""
    if isinstance(value, list):
        return [normal(item, shares) for item in value]
    if isinstance(value, str):
        return ADDRESS.sub("<address>", value)
    if not isinstance(value, dict):
        return value
    named = {k: shares.setdefault(v, f"<share:{len(shares) + 1}>") if k == "shareID" else v for k, v in value.items()}
    return {k: v for k, item in named.items() if (v := normal(item, shares)) not in (None, "", [], {})}
