"""Send sequences to two servers, and print those that they answer differently, as short as they get."""

from __future__ import annotations

import json
import sys
from collections import Counter
from dataclasses import asdict

from scripts.common.comparing import UnansweredError
from scripts.compare.sequences.server_pair import Difference, ServerPair, signature
from scripts.compare.sequences.steps import Step


def print_difference(sequence: list[Step], difference: Difference, title: str) -> None:
    """Print the requests of a sequence up to the difference, and the difference."""
    print(f"--- {title}")
    for step in sequence[: difference.index + 1]:
        fields = {k: v for k, v in asdict(step).items() if v is not None and (k == "body" or v not in ([], {}, -1))}
        print(json.dumps(fields))
    for line in difference.lines:
        print(f"    {line[:1500]}")
    sys.stdout.flush()


def compare(pair: ServerPair, sequences: dict[str, list[Step]], shrinking: bool) -> Counter[str]:
    """Send the sequences, print the first difference of each, and count how many "agree", "differ", are "unanswered".

    A difference is shrunk first, if that is wanted, and printed only once if it has the same cause as an earlier one.
    """
    outcomes: Counter[str] = Counter()
    causes: set[str] = set()
    for title, sequence in sequences.items():
        try:
            difference = pair.difference(sequence)
        except UnansweredError as why:
            print(f"--- {title}: the real server did not answer {why}")
            outcomes["unanswered"] += 1
            continue
        outcomes["differ" if difference else "agree"] += 1
        if difference is None:
            continue
        if (cause := signature(difference)) in causes:
            print(f"--- {title}: as before")
            continue
        causes.add(cause)
        shortest = pair.shrink(sequence[: difference.index + 1]) if shrinking else sequence
        try:
            difference = pair.difference(shortest) or difference
        except UnansweredError:
            shortest = sequence
        print_difference(shortest, difference, title)
    return outcomes
