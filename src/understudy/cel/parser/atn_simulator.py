"""Adaptive prediction: which alternative of a decision the next tokens belong to (`ParserATNSimulator` in ANTLR).

All alternatives are simulated together, token by token (SLL), without regard to where the rule was called from: after a
rule's end the simulation continues wherever any caller of the rule would. If that leaves a conflict, the lowest
alternative wins. ANTLR then simulates once more with the real call stack (full LL), which takes time that grows
exponentially and cannot decide otherwise here: in CEL's grammar the only conflicts are whether "-1" is a number or
negated, whether another sign belongs to the same negation, and whether an operator belongs to a rule or to its caller.
Whatever follows one of them may follow the other.

The alternatives that the simulation leaves open also decide which errors are noticed during prediction and which later.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import cache

from understudy.cel.parser.atn import ATN, ATNState, cel_atn
from understudy.cel.parser.tokens import EOF, Token

ReturnStates = tuple[ATNState, ...]
ATNConfig = tuple[ATNState, int, ReturnStates]
ATNConfigs = dict[ATNConfig, bool]
"""Configurations (state, alternative, stack of return states).

The value is True if the configuration has left the rule of the decision (`reachesIntoOuterContext` in ANTLR).
"""


class NoViableAlternativeError(Exception):
    """No alternative fits the tokens up to and including the one with number `index`."""

    def __init__(self, index: int) -> None:
        super().__init__(index)
        self.index = index


class _DFAState:
    """One step of an SLL simulation, kept because such simulations depend only on the tokens (`DFAState` in ANTLR).

    `prediction` is the alternative if it is decided, None to look further.
    """

    __slots__ = ("configs", "edges", "prediction")

    def __init__(self, configs: ATNConfigs, prediction: int | None) -> None:
        self.configs = configs
        self.prediction = prediction
        self.edges: dict[str, _DFAState | None] = {}


_MAX_DFA_STATES = 20_000


class ParserATNSimulator:
    """Predicts alternatives in one network.

    It may be shared by threads: all they can lose to each other is cached states.
    """

    def __init__(self, atn: ATN) -> None:
        self._atn = atn
        self._start_states: dict[tuple[ATNState, int], _DFAState] = {}
        self._state_count = 0

    def adaptive_predict(self, tokens: Sequence[Token], decision: ATNState, index: int, precedence: int) -> int:
        """Return the number (from 1) of the alternative of `decision` that fits the tokens from `index` on.

        `precedence` is that of the current rule. Raises `NoViableAlternativeError`.
        """
        if self._state_count > _MAX_DFA_STATES:
            self._start_states, self._state_count = {}, 0
        dfa_state = self._start_states.get((decision, precedence))
        if dfa_state is None:
            dfa_state = self._start_states[decision, precedence] = _DFAState(
                self._start_configs(decision, precedence), None
            )
        while True:
            kind = tokens[index].kind
            if kind in dfa_state.edges:
                reached = dfa_state.edges[kind]
            else:
                configs = self._reach_set(dfa_state.configs, kind)
                reached = _DFAState(configs, _resolved_alternative(configs)) if configs else None
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

    def _start_configs(self, decision: ATNState, precedence: int) -> ATNConfigs:
        """Return the configurations before the first token (`computeStartState`)."""
        configs: ATNConfigs = {}
        for number, (needed, target) in enumerate(decision.epsilon_transitions, 1):
            if not needed or needed >= precedence:
                self._add_closure((target, number, ()), False, configs, precedence)
        return configs

    def _reach_set(self, configs: ATNConfigs, kind: str) -> ATNConfigs:
        """Return the configurations after one token (`computeReachSet`)."""
        reached: ATNConfigs = {}
        for (state, number, returns), in_outer_context in configs.items():
            for kinds, target in state.tokens:
                if kind in kinds:
                    self._add_closure((target, number, returns), in_outer_context, reached, 0)
        return reached

    def _add_closure(self, start: ATNConfig, in_outer_context: bool, into: ATNConfigs, precedence: int) -> None:
        """Add all configurations that can be reached without a token (`closure`).

        `precedence` only restricts predicates at the start of the decision.
        """
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
                else:
                    pending += [((follow, number, ()), True, 0) for follow in self._atn.follow_states[state.rule]]
            for rule, follow in state.rule_transitions:
                pending.append(((self._atn.rule_start_states[rule], number, (*returns, follow)), in_outer_context, 0))
            for needed, target in state.epsilon_transitions:
                if not (needed and limit and needed < limit):
                    pending.append(((target, number, returns), in_outer_context, limit))


def _finished_alternative(configs: ATNConfigs) -> int:
    """Return the lowest alternative that has reached the end of its rule, or 0."""
    return min(
        (number for (state, number, _), in_outer_context in configs.items() if in_outer_context or state.stop),
        default=0,
    )


@cache
def atn_simulator(quoted_fields: bool) -> ParserATNSimulator:
    """Return the simulator for CEL's grammar, built at the first call."""
    return ParserATNSimulator(cel_atn(quoted_fields))


def _resolved_alternative(configs: ATNConfigs) -> int | None:
    """Return the alternative if it is decided, the lowest one for a conflict, None to look further."""
    relevant = [config for config in configs if config[0].tokens or config[0].stop]
    numbers = {number for _, number, _ in relevant}
    if len(numbers) == 1:
        return numbers.pop()
    groups: dict[tuple[ATNState, ReturnStates], set[int]] = {}
    states: dict[ATNState, set[int]] = {}
    for state, number, returns in relevant:
        groups.setdefault((state, returns), set()).add(number)
        states.setdefault(state, set()).add(number)
    conflict = any(len(group) > 1 for group in groups.values())
    return min(numbers) if conflict and all(len(group) > 1 for group in states.values()) else None
