"""Adaptive prediction: which alternative of a decision the coming tokens belong to.

All alternatives are simulated together, token by token. First without regard to where the rule was called from (a rule's
end may be followed by whatever follows it anywhere); if that leaves a conflict, again with the real call stack, where the
lowest alternative wins an ambiguity. The first simulation is more than a speed-up: what it takes for possible decides
which errors are noticed here and which later.
"""

from __future__ import annotations

from collections.abc import Sequence

from understudy.admission.cel.atn import Network, State
from understudy.admission.cel.tokens import EOF, Token

Stack = tuple[State, ...]
Config = tuple[State, int, Stack]
Configs = dict[Config, bool]
"""Configurations (state, alternative, stack of states to return to); True once it has left the rule of the decision."""


class NoViableAlternative(Exception):
    """No alternative fits the tokens up to and including number `index`."""

    def __init__(self, index: int) -> None:
        super().__init__(index)
        self.index = index


class Predictor:
    """Predictions over one list of tokens."""

    def __init__(self, network: Network, tokens: Sequence[Token]) -> None:
        self._network = network
        self._tokens = tokens

    def predict(self, decision: State, index: int, stack: Stack, precedence: int) -> int:
        """The number (from 1) of the alternative of `decision` for the tokens from `index`."""
        alternative = self._simulate(decision, index, None, precedence)
        if alternative == 0:
            alternative = self._simulate(decision, index, stack, precedence)
        return alternative

    def _simulate(self, decision: State, index: int, stack: Stack | None, precedence: int) -> int:
        """One simulation; with `stack` None without context, then 0 means conflict."""
        full = stack is not None
        configs: Configs = {}
        for number, (needed, target) in enumerate(decision.epsilons, 1):
            if not needed or needed >= precedence:
                self._close((target, number, stack or ()), False, configs, full, precedence)
        while True:
            token = self._tokens[min(index, len(self._tokens) - 1)]
            reached: Configs = {}
            for (state, number, returns), left in configs.items():
                for kinds, target in state.tokens:
                    if token.kind in kinds:
                        self._close((target, number, returns), left, reached, full, 0)
            if not reached:
                finished = [number for (state, number, _), left in configs.items() if left or state.stop]
                if finished:
                    return min(finished)
                raise NoViableAlternative(min(index, len(self._tokens) - 1))
            verdict = _settled(reached, full)
            if verdict is not None:
                return verdict
            if token.kind == EOF:
                return min(number for _, number, _ in reached)
            configs = reached
            index += 1

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
