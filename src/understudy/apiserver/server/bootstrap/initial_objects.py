"""The objects that every new server holds: namespaces, its service, priority classes, flow control, API services.

kube-apiserver's post-start hooks write them; what they write is recorded for each release. RBAC's roles are not among
them.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from functools import cache

from understudy.apiserver.controllers import token_tracking
from understudy.apiserver.serving.release import Release
from understudy.machinery.releases import features
from understudy.machinery.releases.features import Gates
from understudy.machinery.releases.recorded import read_release_file
from understudy.machinery.releases.version import Version
from understudy.machinery.types import Obj, split_api_version

# The kinds whose objects are only made while a feature gate is on.
_GATES = {
    "IPAddress": features.MULTI_CIDR_SERVICE_ALLOCATOR,
    "ServiceCIDR": features.MULTI_CIDR_SERVICE_ALLOCATOR,
}


def initial_objects(release: Release, gates: Gates, now: str, port: int) -> Iterator[Obj]:
    """Yield the objects whose kinds are served and whose feature gates are on, without uid.

    now   RFC 3339, for all times in the objects
    port  where the server listens: the target port of the service `kubernetes`
    """
    for obj in _recorded(release.version):
        kind, (group, version) = obj["kind"], split_api_version(obj["apiVersion"])
        served = release.kind(group, kind)
        if served is None or version not in served.versions or (kind in _GATES and not gates[_GATES[kind]]):
            continue
        if kind == "APIService" and not release.serves(obj["spec"].get("group", ""), obj["spec"]["version"]):
            continue
        if kind == "Service":
            https, *others = obj["spec"]["ports"]
            obj = {**obj, "spec": {**obj["spec"], "ports": [{**https, "targetPort": port}, *others]}}
        elif obj["metadata"]["name"] == token_tracking.NAME:
            obj = {**obj, "data": {**obj["data"], token_tracking.SINCE: now[:10]}}
        yield _stamped(obj, now)


@cache
def _recorded(version: Version) -> Sequence[Obj]:
    """Return the objects of a release as they were recorded, read once."""
    objects: list[Obj] = read_release_file(version, "initial_objects.json")
    return objects


def _stamped(obj: Obj, now: str) -> Obj:
    """Return an object with the time at which it was created, and its conditions and owners came to be, set."""
    metadata = {**obj["metadata"], "creationTimestamp": now}
    metadata["managedFields"] = [{**entry, "time": now} for entry in metadata["managedFields"]]
    if conditions := obj.get("status", {}).get("conditions"):
        status = {**obj["status"], "conditions": [{**each, "lastTransitionTime": now} for each in conditions]}
        return {**obj, "metadata": metadata, "status": status}
    return {**obj, "metadata": metadata}
