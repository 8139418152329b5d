"""The decisions of webhooks, which the event loop waits for, as a thread asks for them."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import TypeVar

from understudy.apiserver.authorization.webhook.awaited import decided
from understudy.apiserver.server.worker.loop_from_thread import LoopFromThread
from understudy.machinery.auth.authorization import Attributes, Authorizer, Decision, SubjectRules
from understudy.machinery.auth.users import User
from understudy.machinery.util.deep_recursion import run_to_end

T = TypeVar("T")


class DeciderOnLoop:
    """Calls functions that may have to ask webhooks on the event loop, which goes on meanwhile; the thread is blocked
    until they have their answers."""

    def __init__(self, loop: LoopFromThread) -> None:
        self._loop = loop

    def __call__(self, check: Callable[[], T], /) -> T:
        return run_to_end(self._loop.run(decided(check)))


class AuthorizerOnLoop:
    """Asks an authorizer on the event loop."""

    def __init__(self, authorizer: Authorizer, decide: DeciderOnLoop) -> None:
        self._authorizer = authorizer
        self._decide = decide

    def authorize(self, user: User, attributes: Attributes) -> Decision:
        return self._decide(partial(self._authorizer.authorize, user, attributes))

    def rules_for(self, user: User, namespace: str) -> SubjectRules:
        return self._decide(partial(self._authorizer.rules_for, user, namespace))
