"""The flow schemas and priority levels that must always be there. Upstream: `MandatoryFlowSchemas` and so on."""

from __future__ import annotations

from functools import cache

from understudy.machinery.releases.recorded import read_release_file
from understudy.machinery.releases.version import Version
from understudy.machinery.types import Obj

EXEMPT, CATCH_ALL = "exempt", "catch-all"
MANDATORY = (EXEMPT, CATCH_ALL)  # the server creates them, and their specs cannot change


@cache
def mandatory_objects(version: Version, kind: str) -> dict[str, Obj]:
    """Return the mandatory objects of a kind as they are in a new server, by name."""
    objects = read_release_file(version, "initial_objects.json")
    return {
        obj["metadata"]["name"]: obj for obj in objects if obj["kind"] == kind and obj["metadata"]["name"] in MANDATORY
    }
