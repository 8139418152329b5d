"""The authorizer of a server whose decisions may have to be waited for, as a thread asks it."""

from __future__ import annotations

from functools import partial

from understudy.apiserver.authorization.webhook.awaited import decided
from understudy.apiserver.server.worker.loop_from_thread import LoopFromThread
from understudy.machinery.auth.authorization import Attributes, Authorizer, Decision, SubjectRules
from understudy.machinery.auth.users import User
from understudy.machinery.util.deep_recursion import run_to_end


class AuthorizerOnLoop:
    """Asks an authorizer on the event loop, which goes on meanwhile; the thread is blocked until it has decided."""

    def __init__(self, authorizer: Authorizer, loop: LoopFromThread) -> None:
        self._authorizer = authorizer
        self._loop = loop

    def authorize(self, user: User, attributes: Attributes) -> Decision:
        return run_to_end(self._loop.run(decided(partial(self._authorizer.authorize, user, attributes))))

    def rules_for(self, user: User, namespace: str) -> SubjectRules:
        return self._loop.call(self._authorizer.rules_for, user, namespace)
