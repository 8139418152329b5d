"""Controllers that other packages bring, found by name among the entry points of what is installed.

They reach the server over HTTP, as clients do: each is a coroutine function that runs until it is cancelled.

    [project.entry-points."understudy.controllers"]
    resourceclaim = "understudy.controlplane.resourceclaim:run"
"""

from __future__ import annotations

from collections.abc import Callable, Coroutine
from typing import TYPE_CHECKING, Any

from understudy.apiserver.client.connection import Connection
from understudy.machinery.auth.users import User
from understudy.machinery.releases.features import Gates
from understudy.machinery.releases.version import Version
from understudy.machinery.types import dataclass
from understudy.machinery.util.clock import SYSTEM_CLOCK, Clock

if TYPE_CHECKING:
    from importlib.metadata import EntryPoint

ENTRY_POINTS = "understudy.controllers"
# Upstream: `NewControllerDescriptors`, whose `aliases` are these.
_OLDER_NAMES = {
    "garbagecollector": "garbage-collector",
    "nodelifecycle": "node-lifecycle",
    "root-ca-cert-publisher": "root-ca-certificate-publisher",
}


@dataclass(frozen=True)
class ComponentContext:
    """The server that a component works for.

    connection  returns how to reach the server as a user
    version     the release that the component behaves like
    gates       the feature gates in force, which may change while it runs
    clock       by which it waits
    """

    connection: Callable[[User], Connection]
    version: Version
    gates: Gates
    clock: Clock = SYSTEM_CLOCK


# The Leases by which one of several programs is elected that run the same components.
MANAGER_LEASE, SCHEDULER_LEASE = "kube-controller-manager", "kube-scheduler"

Component = Callable[[ComponentContext], Coroutine[Any, Any, None]]


class UnsupportedControllerError(ValueError):
    """A component that a release does not have."""

    def __init__(self, name: str, since: Version, version: Version) -> None:
        super().__init__(f"controller {name!r} came with Kubernetes {since}: {version} has none")


@dataclass(frozen=True)
class ComponentSince:
    """A component that releases before `since` do not have."""

    since: Version
    component: Component

    def __call__(self, context: ComponentContext) -> Coroutine[Any, Any, None]:
        """Return the coroutine that runs the component."""
        return self.component(context)


def component_names() -> list[str]:
    """List the names of all components that are installed, sorted."""
    return sorted({entry.name for entry in _entries()})


def short_name(name: str) -> str:
    """Return "resourceclaim" of upstream's name "resourceclaim-controller", and the like of its older names."""
    short = name.removesuffix("-controller")
    return _OLDER_NAMES.get(short, short)


def lease_of(name: str) -> str:
    """Return the name of the Lease by which the program with a component is elected."""
    return SCHEDULER_LEASE if name == "scheduler" else MANAGER_LEASE


def load_component(name: str, version: Version) -> Component:
    """Import the component with a name.

    Raises KeyError for a name that none has, UnsupportedControllerError for one that came after the release.
    """
    for entry in _entries():
        if entry.name == name:
            component: Component = entry.load()
            if isinstance(component, ComponentSince) and version < component.since:
                raise UnsupportedControllerError(name, component.since, version)
            return component
    raise KeyError(name)


def _entries() -> tuple[EntryPoint, ...]:
    from importlib.metadata import entry_points  # takes its time to import

    return tuple(entry_points(group=ENTRY_POINTS))
