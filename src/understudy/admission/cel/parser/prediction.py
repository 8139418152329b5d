"""Adaptive prediction: which alternative of a decision the coming tokens belong to.

All alternatives are simulated together, token by token. First without regard to where the rule was called from (a
rule's end may be followed by whatever follows it anywhere); if that leaves a conflict, again with the real call
stack, where the lowest alternative wins an ambiguity. The first simulation is more than a speed-up: what it takes for
possible decides which errors are noticed here and which later.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import cache

from understudy.admission.cel.parser.atn import Network, State, network
from understudy.admission.cel.parser.tokens import EOF, Token

Stack = tuple[State, ...]
Config = tuple[State, int, Stack]
Configs = dict[Config, bool]
"""Configurations (state, alternative, stack of states to return to); True once it has left the rule of the decision."""


class NoViableAlternativeError(Exception):
    """No alternative fits the tokens up to and including number `index`."""

    def __init__(self, index: int) -> None:
        super().__init__(index)
        self.index = index


class _Step:
    """A point of a simulation without context: such simulations depend on nothing but the tokens, so they are kept."""

    __slots__ = ("configs", "next", "verdict")

    def __init__(self, configs: Configs, verdict: int | None) -> None:
        self.configs = configs
        self.verdict = verdict
        self.next: dict[str, _Step | None] = {}


_MAX_STEPS = 20_000


class Predictor:
    """Predictions in one network. Safe to share: what threads may lose to each other is only remembered work."""

    def __init__(self, network: Network) -> None:
        self._network = network
        self._starts: dict[tuple[State, int], _Step] = {}
        self._steps = 0

    def predict(self, tokens: Sequence[Token], decision: State, index: int, stack: Stack, precedence: int) -> int:
        """The number (from 1) of the alternative of `decision` for the tokens from `index`."""
        return self._without_context(tokens, decision, index, precedence) or self._in_context(
            tokens, decision, index, stack, precedence
        )

    def _without_context(self, tokens: Sequence[Token], decision: State, index: int, precedence: int) -> int:
        """The alternative, or 0 for a conflict."""
        if self._steps > _MAX_STEPS:
            self._starts, self._steps = {}, 0
        step = self._starts.get((decision, precedence))
        if step is None:
            step = self._starts[decision, precedence] = _Step(self._start(decision, None, precedence), None)
        while True:
            kind = tokens[index].kind
            if kind in step.next:
                reached = step.next[kind]
            else:
                configs = self._reach(step.configs, kind, full=False)
                reached = _Step(configs, _settled(configs, full=False)) if configs else None
                step.next[kind] = reached
                self._steps += 1
            if reached is None:
                finished = _finished(step.configs)
                if finished:
                    return finished
                raise NoViableAlternativeError(index)
            if reached.verdict is not None:
                return reached.verdict
            if kind == EOF:
                return min(number for _, number, _ in reached.configs)
            step = reached
            index += 1

    def _in_context(self, tokens: Sequence[Token], decision: State, index: int, stack: Stack, precedence: int) -> int:
        configs = self._start(decision, stack, precedence)
        while True:
            reached = self._reach(configs, tokens[index].kind, full=True)
            if not reached:
                # Ambiguous up to here, and the tokens fail all alternatives alike: the fault is found inside.
                return _finished(configs) or min(number for _, number, _ in configs)
            verdict = _settled(reached, full=True)
            if verdict is not None:
                return verdict
            if tokens[index].kind == EOF:
                return min(number for _, number, _ in reached)
            configs = reached
            index += 1

    def _start(self, decision: State, stack: Stack | None, precedence: int) -> Configs:
        configs: Configs = {}
        for number, (needed, target) in enumerate(decision.epsilons, 1):
            if not needed or needed >= precedence:
                self._close((target, number, stack or ()), False, configs, stack is not None, precedence)
        return configs

    def _reach(self, configs: Configs, kind: str, *, full: bool) -> Configs:
        reached: Configs = {}
        for (state, number, returns), left in configs.items():
            for kinds, target in state.tokens:
                if kind in kinds:
                    self._close((target, number, returns), left, reached, full, 0)
        return reached

    def _close(self, start: Config, left: bool, into: Configs, full: bool, precedence: int) -> None:
        """Add all configurations reachable without a token. `precedence` counts only for predicates met at once."""
        pending = [(start, left, precedence)]
        while pending:
            config, gone, limit = pending.pop()
            state, number, returns = config
            if into.get(config, False) or (config in into and not gone):
                continue
            into[config] = gone
            if state.stop:
                if returns:
                    pending.append(((returns[-1], number, returns[:-1]), gone, 0))
                elif not full:
                    pending += [((follow, number, ()), True, 0) for follow in self._network.follows[state.rule]]
            for rule, follow in state.calls:
                pending.append(((self._network.starts[rule], number, (*returns, follow)), gone, 0))
            for needed, target in state.epsilons:
                if not (needed and limit and needed < limit):
                    pending.append(((target, number, returns), gone, limit))


def _finished(configs: Configs) -> int:
    """The lowest alternative that had come to the end of its rule, or 0."""
    return min((number for (state, number, _), left in configs.items() if left or state.stop), default=0)


@cache
def predictor() -> Predictor:
    """The one predictor of CEL."""
    return Predictor(network())


def _settled(configs: Configs, full: bool) -> int | None:
    """The alternative if it is decided, 0 for a conflict (without context), None to look further."""
    relevant = [config for config in configs if config[0].tokens or config[0].stop]
    numbers = {number for _, number, _ in relevant}
    if len(numbers) == 1:
        return numbers.pop()
    groups: dict[tuple[State, Stack], set[int]] = {}
    states: dict[State, set[int]] = {}
    for state, number, returns in relevant:
        groups.setdefault((state, returns), set()).add(number)
        states.setdefault(state, set()).add(number)
    if full:
        smallest = {min(group) for group in groups.values()}
        return smallest.pop() if len(smallest) == 1 else None
    conflict = any(len(group) > 1 for group in groups.values())
    return 0 if conflict and all(len(group) > 1 for group in states.values()) else None
