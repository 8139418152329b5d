"""The OpenAPI documents of the servers behind API services, as they were when these were last asked."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from understudy.machinery.types import NamedTuple, Obj


class AggregatedSpec(NamedTuple):
    """The documents of the server behind an API service. Upstream: `openAPISpecInfo`.

    path      begin of the paths that belong to the API service: those of its group-version
    group     its API group
    priority  that of the group
    urls      those of its v3 documents, by name, such as `apis/wardle.example.com/v1alpha1`
    etag      the version of its v2 document, "" if it has none
    v2        the paths of the group-version in it, with what they refer to, in JSON
    is_legacy whether the server has no v3 documents
    v3        its v2 document as v3, in JSON, if it has no other
    v3_hash   the version of that (upstream: `computeETag`)
    """

    path: str
    group: str
    priority: int
    urls: Mapping[str, str] = {}
    etag: str = ""
    v2: bytes = b""
    is_legacy: bool = False
    v3: bytes = b""
    v3_hash: str = ""

    @property
    def name(self) -> str:
        """Return the name of the v3 document of the group-version."""
        return self.path.strip("/")

    @staticmethod
    def of(api_service: Obj, path: str) -> AggregatedSpec:
        """Return the documents of an API service, whose server has not been asked."""
        spec = api_service["spec"]
        return AggregatedSpec(path, spec.get("group", ""), spec["groupPriorityMinimum"])


Specs = Mapping[str, AggregatedSpec]  # by the names of API services
NO_SPECS: Specs = {}


def with_v2(specs: Specs) -> Sequence[AggregatedSpec]:
    """Return those that have a v2 document in the order in which these are merged: by the priorities of their groups,
    then by the names of API services. Upstream: `sortByPriority`."""
    groups: dict[str, int] = {}
    for spec in specs.values():
        groups[spec.group] = max(spec.priority, groups.get(spec.group, 0))
    in_order = sorted(specs.items(), key=lambda item: (-groups[item[1].group], item[0]))
    return [spec for _, spec in in_order if spec.v2]
