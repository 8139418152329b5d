"""A pod as the checks of PodSecurity read it, and the violations that they return."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable
from functools import cached_property

from understudy.kinds.core.pods.containers_of import containers
from understudy.machinery.types import NamedTuple, Obj, dataclass, nested_field


class Violation(NamedTuple):
    """A violation: `reason` is always in the message, `detail` only in messages about a single object."""

    reason: str
    detail: str


@dataclass
class Pod:
    """A pod, or the template of one.

    relaxed        whether the pod has a user namespace, and a gate relaxes its checks; from 1.35 on the checks do
    allows_images  whether volumes of images are allowed, from 1.33 on
    """

    metadata: Obj
    spec: Obj
    relaxed: bool = False
    allows_images: bool = True

    @property
    def own_users(self) -> bool:
        """Report whether the pod has a user namespace."""
        return self.spec.get("hostUsers") is False

    @property
    def security(self) -> Obj:
        """Return the security context of the pod, {} if it has none."""
        return self.spec.get("securityContext") or {}

    @property
    def annotations(self) -> dict[str, str]:
        """Return the annotations of the pod."""
        return self.metadata.get("annotations") or {}

    @cached_property
    def containers(self) -> list[tuple[str, Obj, Obj]]:
        """Return (name, container, security context) of every container."""
        every = containers(self.spec, "initContainers", "containers", "ephemeralContainers")
        return [(c.get("name", ""), c, c.get("securityContext") or {}) for c in every]

    @property
    def windows(self) -> bool:
        """Report whether the pod states that it runs on Windows."""
        return bool(nested_field(self.spec, "os", "name") == "windows")

    def having(self, bad: Callable[[Obj], object]) -> list[str]:
        """Return the names of the containers whose security context is `bad`."""
        return [name for name, _, security in self.containers if bad(security)]

    def setting(self, bad: Callable[[Obj], object]) -> list[str]:
        """Return the owners of a `bad` security context, as messages name them: ["pod", 'containers "a", "b"']."""
        names = self.having(bad)
        return (["pod"] if bad(self.security) else []) + ([named("container", names)] if names else [])

    def values(self, *path: str) -> set[str]:
        """Return the values that the pod and its containers have at a path of their security contexts."""
        values = (nested_field(security, *path) for security in (self.security, *(s for *_, s in self.containers)))
        return {value for value in values if value is not None}


Check = Callable[[Pod], Violation | None]


def plural(word: str, of: Collection[object]) -> str:
    """Return a word with an "s" unless it stands for one item."""
    return word if len(of) == 1 else f"{word}s"


def quoted(items: Iterable[str]) -> str:
    """Return items in quotes, joined by commas."""
    return ", ".join(f'"{item}"' for item in items)


def named(word: str, names: Collection[str]) -> str:
    """Return a word and the names it stands for: 'container "a"', 'containers "a", "b"'."""
    return f"{plural(word, names)} {quoted(names)}"


def added_capabilities(pod: Pod, allowed: Collection[str]) -> str:
    """Return the error message of containers that add capabilities which are not allowed, "" if there are none."""
    forbidden = {
        name: set(nested_field(s, "capabilities", "add", default=[])).difference(allowed)
        for name, _, s in pod.containers
    }
    names = [name for name, added in forbidden.items() if added]
    added = quoted(sorted(set().union(*forbidden.values())))
    return f"{named('container', names)} must not include {added} in securityContext.capabilities.add" if names else ""
