"""A request that meets a fault."""

from __future__ import annotations

from collections.abc import Awaitable, Callable

from understudy.apiserver.endpoints.request import Request
from understudy.apiserver.endpoints.routing import Answer
from understudy.apiserver.storage.interface import Store
from understudy.machinery.types import NamedTuple


class Meeting(NamedTuple):
    """A request that meets a fault.

    proceed  answers it as if there were no fault; raises StatusError
    behind   answers it as a replica does whose cache is at a revision; raises StatusError
    store    has what is stored
    fire     is called when the fault takes effect
    """

    request: Request
    proceed: Callable[[], Awaitable[Answer]]
    behind: Callable[[int], Awaitable[Answer]]
    store: Store
    fire: Callable[[], None] = lambda: None


Effect = Callable[[Meeting], Awaitable[Answer]]
