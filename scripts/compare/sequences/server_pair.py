"""Send sequences of requests to two servers, and find the first request that they answer differently."""

from __future__ import annotations

import itertools
import os
import re
from collections import Counter
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from typing import Any

from scripts.common.comparing import UNANSWERED, Answer, Server, UnansweredError, differences
from scripts.compare.sequences.answers import comparable
from scripts.compare.sequences.kinds import KINDS, clean, served_kinds
from scripts.compare.sequences.shrinking import smaller_sequences
from scripts.compare.sequences.steps import Player, Step


@dataclass(frozen=True)
class Difference:
    """The first request of a sequence that is answered differently, by its index, and a line for each difference."""

    index: int
    lines: list[str]


class ServerPair:
    """The real server and the other one, which are compared; every sequence gets a new namespace."""

    def __init__(self, real: Server, other: Server, known: str = "") -> None:
        self.servers = (real, other)
        self.kinds = served_kinds(real, KINDS)
        self._known = re.compile(known) if known else None
        self.verbs: Counter[str] = Counter()
        self.unanswered = 0
        self.both = ThreadPoolExecutor(2)
        self.run = f"d{os.getpid():x}"
        self._names = itertools.count()

    def difference(self, sequence: list[Step]) -> Difference | None:
        """Return the first difference; None if all requests agree. Raises UnansweredError if the real server does not
        answer one, and SystemExit if a server does not create the namespace.
        """
        namespace = f"{self.run}-{next(self._names)}"
        players = [Player(server, namespace) for server in self.servers]
        for server in self.servers:
            self.open_namespace(server, namespace)
        try:
            for index, step in enumerate(sequence):
                self.verbs[step.method] += 1
                real, other = self.both.map(lambda player, step=step: player.send(step), players)
                if real.status == UNANSWERED:
                    self.unanswered += 1
                    raise UnansweredError(f"{step.method} {step.path}: {real.body.decode()}")
                left, right = map(self.comparable, self.servers, (real, other), (step, step))
                lines = list(differences(left, right, ""))
                if self._known is not None:
                    lines = [line for line in lines if not self._known.search(line)]
                if lines:
                    return Difference(index, lines)
            return None
        finally:
            list(self.both.map(lambda server: self.close_namespace(server, namespace), self.servers))

    def comparable(self, server: Server, answer: Answer, step: Step) -> Any:
        """Return the state in which servers must agree after a request."""
        return comparable(answer, step)

    def open_namespace(self, server: Server, namespace: str) -> None:
        """Create the namespace of a sequence. Raises SystemExit if the server does not do it."""
        server.must("POST", "/api/v1/namespaces", {"metadata": {"name": namespace}})

    def close_namespace(self, server: Server, namespace: str) -> None:
        """Delete the namespace of a sequence with everything that the sequence has left."""
        clean(server, namespace, self.kinds)

    def shrink(self, sequence: list[Step], budget: int = 150) -> list[Step]:
        """Return the shortest sequence, of those tried within the budget, whose last request still differs."""
        progress = True
        while progress and budget > 0:
            progress = False
            for smaller in smaller_sequences(sequence):
                budget -= 1
                try:
                    difference = self.difference(smaller)
                except UnansweredError:
                    continue
                if difference is not None:
                    sequence = smaller[: difference.index + 1]
                    progress = True
                    break
                if budget <= 0:
                    break
        return sequence


def signature(difference: Difference) -> str:
    """Return a text that is equal for differences that probably have the same cause."""
    lines = "\n".join(sorted(difference.lines))[:300]
    return re.sub(r"[0-9]+|v1alpha3|v1beta[12]|Resource(Claim|Slice)|d[0-9a-f]+-N", "N", lines)
