"""Express the feature gates and API versions that a server was started with in terms of another release."""

from __future__ import annotations

from collections.abc import Mapping

from understudy.apiserver.serving.release import Release
from understudy.apiserver.serving.runtime_config import SUFFICIENT_GATES
from understudy.machinery.releases.features import Gates, LockedGateError
from understudy.machinery.releases.version import Version

_OWN_GROUP = "resource.k8s.io"  # which is served in every version, as understudy does


def switches(text: str) -> dict[str, bool]:
    """Return the switches of "A=true,B=false"."""
    pairs = (pair.partition("=") for pair in text.split(",") if pair)
    return {name: value == "true" for name, _, value in pairs}


def written(values: Mapping[str, bool]) -> str:
    """Return "A=true,B=false"."""
    return ",".join(f"{name}={str(on).lower()}" for name, on in values.items())


def gates_of(version: Version, gates: Mapping[str, bool]) -> dict[str, bool]:
    """Return the gates that a release has, and that can be as they are to be."""
    known = Gates.of(version).in_force()
    return {name: on for name, on in gates.items() if name in known and not is_locked(version, name, on)}


def is_locked(version: Version, gate: str, on: bool) -> bool:
    """Report whether a gate of a release is locked to the other value."""
    try:
        Gates.of(version, {gate: on})
    except LockedGateError:
        return True
    except ValueError:
        return False  # it needs others, which are set with it
    return False


def served_of(version: Version, config: Mapping[str, bool], gates: Mapping[str, bool]) -> dict[str, bool]:
    """Return the runtime configuration of a release for that of another, and all of resource.k8s.io.

    All versions of a group stand for one that is gone: what came in its place is off by default, too. Groups that
    understudy serves because of a gate that is on are named: kube-apiserver does not start without some of them.
    """
    release = Release.of(version)
    served: dict[str, bool] = {}
    of_gates = {group: True for (group, _), gate in SUFFICIENT_GATES.items() if gates.get(gate)}
    for name, on in {_OWN_GROUP: True, **of_gates, **config}.items():
        group = release.group(name.partition("/")[0])
        if release.serves(*name.partition("/")[::2]):
            served[name] = on
        elif group is not None:
            served |= {f"{group.name}/{each}": on for each in group.versions}
    return served
