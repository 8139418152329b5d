"""Resources as people write them: `pods`, `pods/status`, `deployments.apps`, `deployments.apps/scale`."""

from __future__ import annotations

from understudy.machinery.types import NamedTuple


class ResourceName(NamedTuple):
    """A group and a resource of it, as rules of roles have them: `pods/status` with its subresource."""

    group: str
    resource: str

    @classmethod
    def parse(cls, text: str) -> ResourceName:
        """Return the resource that a text names; the group may come before the subresource or behind it."""
        name, slash, subresource = text.partition("/")
        resource, _, group = name.partition(".")
        subresource, dot, behind = subresource.partition(".")
        return cls(behind if dot else group, f"{resource}{slash}{subresource}")

    def __str__(self) -> str:
        resource, slash, subresource = self.resource.partition("/")
        return f"{resource}.{self.group}{slash}{subresource}" if self.group else self.resource
