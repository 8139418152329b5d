"""What a case of a driver test is."""

from __future__ import annotations

from collections.abc import Awaitable, Callable

from understudy.controlplane.drivers.node import Node
from understudy.machinery.releases.features import Gate
from understudy.machinery.releases.version import V1_31, Version
from understudy.machinery.types import dataclass

Run = Callable[[Node], Awaitable[None]]


@dataclass(frozen=True)
class Case:
    """A thing that a driver has to stand.

    name      of the case: that of its function, with hyphens
    rule      what the driver has to do: the first line of its docstring
    run       does it, and raises FailedError or SkippedError, whose texts are for the developer of the driver
    since     the first release that has what it needs
    gates     feature gates that are turned on for it, of which the release must have at least the first
    required  whether nothing else can be said about a driver that fails
    """

    name: str
    rule: str
    run: Run
    since: Version = V1_31
    gates: tuple[Gate, ...] = ()
    required: bool = False


def case(run: Run, since: Version = V1_31, gates: tuple[Gate, ...] = (), *, required: bool = False) -> Case:
    """Return the case of a function, whose docstring begins with the rule."""
    rule = (run.__doc__ or "").strip().partition("\n")[0]
    return Case(run.__name__.replace("_", "-"), rule, run, since, gates, required)
