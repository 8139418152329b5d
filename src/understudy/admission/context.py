"""The context of a request, for the rules that decide on it."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass, field

from understudy.machinery.releases.features import Gates
from understudy.machinery.releases.version import Version
from understudy.machinery.types import Obj


@dataclass(slots=True)
class Context:
    """The parts of a request that rules may know.

    lookup   the object of (group, resource, namespace, name), None where there is none
    listing  every object of (group, resource, namespace), "" being all namespaces

    Both answer at once from the store as it is; without a store there is nothing.
    """

    release: Version
    gates: Gates
    version: str  # the API version of the request
    requester: Obj = field(default_factory=dict)  # as in UserInfo: username, uid, groups, extra
    subresource: str = ""
    dry_run: bool = False
    now: str = ""  # RFC 3339, seconds
    metadata_validated: bool = (
        False  # the registry has found nothing wrong with it; kinds need not look for the same again
    )
    warnings: list[str] = field(default_factory=list)
    lookup: Callable[[str, str, str, str], Obj | None] = lambda group, resource, namespace, name: None
    listing: Callable[[str, str, str], Iterable[Obj]] = lambda group, resource, namespace: ()

    def warn(self, text: str) -> None:
        """Add a warning to the answer (Warning header, code 299), each text once."""
        if text not in self.warnings:
            self.warnings.append(text)
