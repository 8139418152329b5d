"""Decisions that have to be waited for: whoever authorizes on the event loop asks, and tries again with the answer.

    authorize(user, attributes)     raises DecisionAwaitedError: the webhook's answer is not known
    await awaited.ask()             asks the webhook
    authorize(user, attributes)     returns the decision: the answer is known to whoever has asked

So authorizers stay plain functions, which may be asked by several webhooks in a row.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Hashable, MutableMapping
from contextvars import ContextVar
from typing import Any, Protocol, TypeVar

from understudy.admission.webhooks import CallError, LoopWouldWaitError
from understudy.machinery.types import Obj

T = TypeVar("T")
Answer = Obj | CallError
_Change = Callable[[], None]
_changes: ContextVar[list[_Change] | None] = ContextVar("changes", default=None)
_answers: ContextVar[MutableMapping[Hashable, Any] | None] = ContextVar("answers", default=None)


class DecisionAwaitedError(LoopWouldWaitError):
    """A decision for which a webhook has to be asked.

    question  what it is asked, which names its answer
    ask       asks it; returns the status of its review, or the error
    """

    def __init__(self, question: Hashable, ask: Callable[[], Awaitable[Answer]]) -> None:
        super().__init__("a webhook has to be asked")
        self.question = question
        self.ask = ask


class Decide(Protocol):
    """Calls a function that may have to ask webhooks."""

    def __call__(self, check: Callable[[], T], /) -> T:
        """Return the result of the function. Raises as it does."""


def at_once(check: Callable[[], T], /) -> T:
    """Return the result of a function. Raises as it does, DecisionAwaitedError for one."""
    return check()


def answer_to(question: Hashable, ask: Callable[[], Awaitable[Answer]]) -> Answer:
    """Return the answer that was waited for. Raises DecisionAwaitedError, which asks, for one that was not."""
    answers = _answers.get()
    if answers is None or question not in answers:
        raise DecisionAwaitedError(question, ask)
    answer: Answer = answers[question]
    return answer


def once(question: Hashable, decide: Callable[[], T]) -> T:
    """Return the result of a function, which is not called again while the answers of webhooks are waited for."""
    answers = _answers.get()
    if answers is None:
        return decide()
    if question not in answers:
        answers[question] = decide()
    result: T = answers[question]
    return result


def when_decided(change: _Change) -> None:
    """Do something that is done once, when everything is decided: now, if no answers of webhooks are waited for."""
    changes = _changes.get()
    if changes is None:
        change()
    else:
        changes.append(change)


async def decided(check: Callable[[], T]) -> T:
    """Return the result of a function that authorizes, once the answers that it needs are there.

    It is called again after each of them, so that it may change nothing before it has authorized. Raises as it does.
    """
    answers: dict[Hashable, Any] = {}
    while True:
        changes: list[_Change] = []
        token, changing = _answers.set(answers), _changes.set(changes)
        try:
            return check()
        except DecisionAwaitedError as awaited:
            question, ask = awaited.question, awaited.ask
            changes.clear()
        finally:
            _answers.reset(token)
            _changes.reset(changing)
            for change in changes:
                change()
        answers[question] = await ask()
