"""What the checks of pod security look at, and what they answer."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable
from dataclasses import dataclass
from functools import cached_property
from typing import NamedTuple

from understudy.admission.validation.core.pods.containers_of import containers
from understudy.machinery.types import Obj, at


class Violation(NamedTuple):
    """`reason` is always told, `detail` for a single object."""

    reason: str
    detail: str


@dataclass
class Pod:
    """A pod, or the template of one. `relaxed`: its users are none of the host's, and the gate for that is on."""

    metadata: Obj
    spec: Obj
    relaxed: bool = False

    @property
    def security(self) -> Obj:
        return self.spec.get("securityContext") or {}

    @property
    def annotations(self) -> dict[str, str]:
        return self.metadata.get("annotations") or {}

    @cached_property
    def containers(self) -> list[tuple[str, Obj, Obj]]:
        """(name, container, security context) of each."""
        found = containers(self.spec, "initContainers", "containers", "ephemeralContainers")
        return [(c.get("name", ""), c, c.get("securityContext") or {}) for c in found]

    @property
    def windows(self) -> bool:
        return bool(at(self.spec, "os", "name") == "windows")

    def having(self, bad: Callable[[Obj], object]) -> list[str]:
        """The names of the containers whose security context is bad."""
        return [name for name, _, security in self.containers if bad(security)]

    def setting(self, bad: Callable[[Obj], object]) -> list[str]:
        """Who has a bad security context: the pod, containers."""
        names = self.having(bad)
        return (["pod"] if bad(self.security) else []) + ([named("container", names)] if names else [])

    def values(self, *path: str) -> set[str]:
        """What the pod and its containers have at a path of their security contexts."""
        found = (at(security, *path) for security in (self.security, *(s for *_, s in self.containers)))
        return {value for value in found if value is not None}


Check = Callable[[Pod], Violation | None]


def plural(word: str, of: Collection[object]) -> str:
    return word if len(of) == 1 else f"{word}s"


def quoted(items: Iterable[str]) -> str:
    return ", ".join(f'"{item}"' for item in items)


def named(word: str, names: Collection[str]) -> str:
    """container "a", containers "a", "b"."""
    return f"{plural(word, names)} {quoted(names)}"


def added_capabilities(pod: Pod, allowed: Collection[str]) -> str:
    """Which containers add which capabilities; "" for none."""
    found = {name: set(at(s, "capabilities", "add", default=[])).difference(allowed) for name, _, s in pod.containers}
    names = [name for name, added in found.items() if added]
    added = quoted(sorted(set().union(*found.values())))
    return f"{named('container', names)} must not include {added} in securityContext.capabilities.add" if names else ""
