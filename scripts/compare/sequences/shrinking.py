"""Make sequences of requests smaller, step by step: fewer requests, parameters and fields."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from typing import Any

from scripts.compare.sequences.steps import Step


def smaller_sequences(sequence: list[Step]) -> Iterator[list[Step]]:
    """Yield the sequence without some requests, then with requests without some parameters, headers or fields."""
    for size in (len(sequence) // 2, len(sequence) // 4, 1):
        for start in range(0, len(sequence) - 1, size or 1) if size else ():
            yield sequence[:start] + (sequence[start + size :] or sequence[-1:])
    for index in reversed(range(len(sequence))):
        for step in smaller_steps(sequence[index]):
            yield [*sequence[:index], step, *sequence[index + 1 :]]


def smaller_steps(step: Step) -> Iterator[Step]:
    """Yield the request without one of its parameters, edits, headers or fields."""
    for i in range(len(step.query)):
        if step.query[i][0] == "timeoutSeconds":
            continue  # a watch without it does not end
        yield replace(step, query=step.query[:i] + step.query[i + 1 :])
    for i in range(len(step.edits)):
        yield replace(step, edits=step.edits[:i] + step.edits[i + 1 :])
    if "Accept" in step.headers:
        yield replace(step, headers={k: v for k, v in step.headers.items() if k != "Accept"})
    for body in smaller_values(step.body, 3):
        yield replace(step, body=body)


def smaller_values(value: Any, depth: int) -> Iterator[Any]:
    """Yield the value without one of its elements, down to a depth."""
    if not depth or not isinstance(value, dict | list):
        return
    if isinstance(value, list):
        for i, item in enumerate(value):
            yield value[:i] + value[i + 1 :]
            for smaller in smaller_values(item, depth - 1):
                yield [*value[:i], smaller, *value[i + 1 :]]
        return
    for key, item in value.items():
        yield {k: v for k, v in value.items() if k != key}
        for smaller in smaller_values(item, depth - 1):
            yield {**value, key: smaller}
