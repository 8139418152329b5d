"""The versions that API services add to those of a release and of definitions."""

from __future__ import annotations

from understudy.apiserver.serving.priorities import Priorities
from understudy.machinery.types import NamedTuple, Obj


class AggregatedVersion(NamedTuple):
    """A version of an API group that is served because there is an API service for it.

    discovered  its resources (APIVersionDiscovery), None for one of which no server has been asked
    """

    group: str
    version: str
    priorities: Priorities
    discovered: Obj | None = None

    @staticmethod
    def of(api_service: Obj) -> AggregatedVersion:
        """Return the version of an API service, of whose resources nothing is known."""
        spec = api_service["spec"]
        return AggregatedVersion(spec.get("group", ""), spec["version"], Priorities.of(spec))
