"""The webhooks or policies that a plugin asks, made of manifests."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Generic, TypeVar

from understudy.admission.manifest.loader import StaticObject

H = TypeVar("H")


class StaticHooks(Generic[H]):
    """Makes the hooks of manifests, and makes them anew when other manifests are in force.

    objects  returns the manifests: the same sequence, until others are in force
    make     returns the hooks of one of them
    """

    def __init__(
        self, objects: Callable[[], Sequence[StaticObject]], make: Callable[[StaticObject], Sequence[H]]
    ) -> None:
        self._objects = objects
        self._make = make
        self._made_of: Sequence[StaticObject] = ()
        self._hooks: Sequence[H] = ()

    def hooks(self) -> Sequence[H]:
        """Return the hooks of the manifests that are in force."""
        objects = self._objects()
        if objects is not self._made_of:
            self._hooks = tuple(hook for obj in objects for hook in self._make(obj))
            self._made_of = objects
        return self._hooks
