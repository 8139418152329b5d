"""Adaptive prediction: which alternative of a decision the coming tokens belong to.

All alternatives are simulated together, token by token. First without regard to where the rule was called from (a
rule's end may be followed by whatever follows it anywhere); if that leaves a conflict, again with the real call
stack, where the lowest alternative wins an ambiguity. The first simulation is more than a speed-up: what it takes for
possible decides which errors are noticed here and which later.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import cache

from understudy.admission.cel.parser.atn import ATN, ATNState, cel_atn
from understudy.admission.cel.parser.tokens import EOF, Token

ReturnStates = tuple[ATNState, ...]
ATNConfig = tuple[ATNState, int, ReturnStates]
ATNConfigs = dict[ATNConfig, bool]
"""Configurations (state, alternative, stack of states to return to); True once it has left the rule of the decision."""


class NoViableAlternativeError(Exception):
    """No alternative fits the tokens up to and including number `index`."""

    def __init__(self, index: int) -> None:
        super().__init__(index)
        self.index = index


class _DFAState:
    """A point of a simulation without context: such simulations depend on nothing but the tokens, so they are kept."""

    __slots__ = ("configs", "edges", "prediction")

    def __init__(self, configs: ATNConfigs, prediction: int | None) -> None:
        self.configs = configs
        self.prediction = prediction
        self.edges: dict[str, _DFAState | None] = {}


_MAX_DFA_STATES = 20_000


class ParserATNSimulator:
    """Predictions in one network. Safe to share: what threads may lose to each other is only remembered work."""

    def __init__(self, cel_atn: ATN) -> None:
        self._atn = cel_atn
        self._start_states: dict[tuple[ATNState, int], _DFAState] = {}
        self._state_count = 0

    def adaptive_predict(
        self, tokens: Sequence[Token], decision: ATNState, index: int, stack: ReturnStates, precedence: int
    ) -> int:
        """The number (from 1) of the alternative of `decision` for the tokens from `index`."""
        return self._exec_atn(tokens, decision, index, precedence) or self._exec_atn_with_full_context(
            tokens, decision, index, stack, precedence
        )

    def _exec_atn(self, tokens: Sequence[Token], decision: ATNState, index: int, precedence: int) -> int:
        """The alternative, or 0 for a conflict."""
        if self._state_count > _MAX_DFA_STATES:
            self._start_states, self._state_count = {}, 0
        dfa_state = self._start_states.get((decision, precedence))
        if dfa_state is None:
            dfa_state = self._start_states[decision, precedence] = _DFAState(
                self._start_configs(decision, None, precedence), None
            )
        while True:
            kind = tokens[index].kind
            if kind in dfa_state.edges:
                reached = dfa_state.edges[kind]
            else:
                configs = self._reach_set(dfa_state.configs, kind, full=False)
                reached = _DFAState(configs, _resolved_alternative(configs, full=False)) if configs else None
                dfa_state.edges[kind] = reached
                self._state_count += 1
            if reached is None:
                finished = _finished_alternative(dfa_state.configs)
                if finished:
                    return finished
                raise NoViableAlternativeError(index)
            if reached.prediction is not None:
                return reached.prediction
            if kind == EOF:
                return min(number for _, number, _ in reached.configs)
            dfa_state = reached
            index += 1

    def _exec_atn_with_full_context(
        self, tokens: Sequence[Token], decision: ATNState, index: int, stack: ReturnStates, precedence: int
    ) -> int:
        configs = self._start_configs(decision, stack, precedence)
        while True:
            reached = self._reach_set(configs, tokens[index].kind, full=True)
            if not reached:
                # Ambiguous up to here, and the tokens fail all alternatives alike: the fault is found inside.
                return _finished_alternative(configs) or min(number for _, number, _ in configs)
            prediction = _resolved_alternative(reached, full=True)
            if prediction is not None:
                return prediction
            if tokens[index].kind == EOF:
                return min(number for _, number, _ in reached)
            configs = reached
            index += 1

    def _start_configs(self, decision: ATNState, stack: ReturnStates | None, precedence: int) -> ATNConfigs:
        configs: ATNConfigs = {}
        for number, (needed, target) in enumerate(decision.epsilon_transitions, 1):
            if not needed or needed >= precedence:
                self._add_closure((target, number, stack or ()), False, configs, stack is not None, precedence)
        return configs

    def _reach_set(self, configs: ATNConfigs, kind: str, *, full: bool) -> ATNConfigs:
        reached: ATNConfigs = {}
        for (state, number, returns), in_outer_context in configs.items():
            for kinds, target in state.tokens:
                if kind in kinds:
                    self._add_closure((target, number, returns), in_outer_context, reached, full, 0)
        return reached

    def _add_closure(
        self, start: ATNConfig, in_outer_context: bool, into: ATNConfigs, full: bool, precedence: int
    ) -> None:
        """Add all configurations reachable without a token. `precedence` counts only for predicates met at once."""
        pending = [(start, in_outer_context, precedence)]
        while pending:
            config, in_outer_context, limit = pending.pop()
            state, number, returns = config
            if into.get(config, False) or (config in into and not in_outer_context):
                continue
            into[config] = in_outer_context
            if state.stop:
                if returns:
                    pending.append(((returns[-1], number, returns[:-1]), in_outer_context, 0))
                elif not full:
                    pending += [((follow, number, ()), True, 0) for follow in self._atn.follow_states[state.rule]]
            for rule, follow in state.rule_transitions:
                pending.append(((self._atn.rule_start_states[rule], number, (*returns, follow)), in_outer_context, 0))
            for needed, target in state.epsilon_transitions:
                if not (needed and limit and needed < limit):
                    pending.append(((target, number, returns), in_outer_context, limit))


def _finished_alternative(configs: ATNConfigs) -> int:
    """The lowest alternative that had come to the end of its rule, or 0."""
    return min(
        (number for (state, number, _), in_outer_context in configs.items() if in_outer_context or state.stop),
        default=0,
    )


@cache
def atn_simulator() -> ParserATNSimulator:
    """The one predictor of CEL."""
    return ParserATNSimulator(cel_atn())


def _resolved_alternative(configs: ATNConfigs, full: bool) -> int | None:
    """The alternative if it is decided, 0 for a conflict (without context), None to look further."""
    relevant = [config for config in configs if config[0].tokens or config[0].stop]
    numbers = {number for _, number, _ in relevant}
    if len(numbers) == 1:
        return numbers.pop()
    groups: dict[tuple[ATNState, ReturnStates], set[int]] = {}
    states: dict[ATNState, set[int]] = {}
    for state, number, returns in relevant:
        groups.setdefault((state, returns), set()).add(number)
        states.setdefault(state, set()).add(number)
    if full:
        smallest = {min(group) for group in groups.values()}
        return smallest.pop() if len(smallest) == 1 else None
    conflict = any(len(group) > 1 for group in groups.values())
    return 0 if conflict and all(len(group) > 1 for group in states.values()) else None
