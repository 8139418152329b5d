"""Puts the objects of worlds into the form of a release: into versions of their API that it serves.

Worlds are written for the newest release. What an older one does not have at all is an error; what it wants in another
form is changed here.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator
from typing import Any

from understudy.apiserver.encoding.conversion import from_internal, to_internal
from understudy.kinds.declarations.kind import Resources
from understudy.machinery.releases.features import Gate, Gates, history_text
from understudy.machinery.releases.version import V1_35, Version
from understudy.machinery.types import Obj, named_kind
from understudy.worlds.catalog import Chosen, chosen
from understudy.worlds.world import WorldError, WorldObject


def read_world(text: str, version: Version, kinds: Resources, gates: Gates) -> Iterator[WorldObject]:
    """Yield the objects of the world that a text names, in versions that are served.

    An object of a kind that is not served is left as it is: the server says so. Raises WorldError for a text that names
    none, and for a feature gate that the world needs and that is off, or not in the release.
    """
    asked = chosen(text)
    _check_needs(asked, version, gates)
    objects: Iterable[WorldObject] = asked.world.make(asked.values)
    if version < V1_35:
        objects = _with_counters_beside_devices([*objects])
    for each in objects:
        yield each._replace(obj=_in_served_version(each.obj, kinds))


def _check_needs(asked: Chosen, version: Version, gates: Gates) -> None:
    for gate in map(Gate, asked.world.needs):
        if not gates.has(gate):
            raise WorldError(
                f"{asked.text}: needs {gate}, which Kubernetes {version} does not have{history_text(gate)}"
            )
        if not gates[gate]:
            switch = f"--feature-gates {gate}=true"
            raise WorldError(f"{asked.text}: needs {gate}, which is off in Kubernetes {version}: {switch}")


def _in_served_version(obj: Obj, kinds: Resources) -> Obj:
    """Return an object in the preferred version of its kind, unless its own version is served."""
    group, version, name = named_kind(obj)
    kind = kinds.kind(group, name)
    if kind is None or version in kind.versions:
        return obj
    return from_internal(kind, kind.versions[0], to_internal(kind, version, obj))


def _with_counters_beside_devices(objects: list[WorldObject]) -> Iterator[WorldObject]:
    """Yield objects with the shared counters of a pool in the slice of its devices, as releases before 1.35 want them.

    Since then a ResourceSlice has either of them.
    """
    counters = {_pool(each.obj): each.obj["spec"] for each in objects if _has_only_counters(each.obj)}
    slices = Counter(_pool(each.obj) for each in objects if each.obj["kind"] == "ResourceSlice")
    for each in objects:
        if each.obj["kind"] != "ResourceSlice" or _pool(each.obj) not in counters:
            yield each
        elif not _has_only_counters(each.obj):
            spec, pool = each.obj["spec"], _pool(each.obj)
            consumed = {use["counterSet"] for device in spec["devices"] for use in device.get("consumesCounters", ())}
            sets = [each for each in counters[pool]["sharedCounters"] if each["name"] in consumed]
            merged = {**spec, "sharedCounters": sets}
            merged["pool"] = {**spec["pool"], "resourceSliceCount": slices[pool] - 1}
            yield each._replace(obj={**each.obj, "spec": merged})


def _has_only_counters(obj: Obj) -> bool:
    return obj["kind"] == "ResourceSlice" and "sharedCounters" in obj["spec"]


def _pool(obj: Obj) -> tuple[Any, Any]:
    """Return the driver and the pool of a slice."""
    spec = obj["spec"] if obj["kind"] == "ResourceSlice" else {}
    return spec.get("driver"), spec.get("pool", {}).get("name")
