"""Record the cases of `tests/controlplane/allocator/cases` again: upstream's allocator answers them."""

from __future__ import annotations

import json
import sys
from collections.abc import Sequence

from scripts.common.comparing import Obj
from scripts.compare.allocator import ask, normal


def again(lines: Sequence[Obj], oracle: Sequence[str]) -> list[Obj]:
    """Return cases with the answers of an oracle; those that agree with the recorded ones stay as they stand."""
    cases = [{name: value for name, value in line.items() if name != "answers"} for line in lines]
    answered = ask([json.dumps(case) + "\n" for case in cases], oracle)
    return [line_again(line, answer) for line, answer in zip(lines, answered, strict=True)]


def line_again(line: Obj, answer: Obj) -> Obj:
    """Return a case with the answers to it. Their order says how often each came up, and is another every time."""
    if answer.get("slow"):
        print(f"{line['case']}: not answered in time, so left as it was", file=sys.stderr)
        return line
    recorded = [normal(each, {}) for each in line["answers"]]
    live = [normal(each, {}) for each in answer["answers"]]
    if all(each in recorded for each in live) and all(each in live for each in recorded):
        return line
    print(f"{line['case']}: another answer", file=sys.stderr)
    return {**line, "answers": live}
