"""The behaviour of every kind: one module per API group, joined here."""

from __future__ import annotations

from functools import lru_cache

from understudy.apiserver.kinds import (
    admissionregistration,
    apiextensions,
    apps,
    batch,
    certificates,
    coordination,
    networking,
    policy,
    rbac,
    scheduling,
    storage,
)
from understudy.apiserver.kinds.autoscaling import v2
from understudy.apiserver.kinds.core import events, nodes, pods, services, small_kinds, volumes
from understudy.apiserver.kinds.flowcontrol import flowcontrol
from understudy.apiserver.kinds.resource import resource
from understudy.apiserver.registry.kind import Behavior
from understudy.machinery.releases.version import Version

FAMILIES = (
    small_kinds,
    pods,
    nodes,
    services,
    volumes,
    events,
    apps,
    batch,
    v2,
    policy,
    rbac,
    networking,
    storage,
    scheduling,
    coordination,
    certificates,
    apiextensions,
    admissionregistration,
    flowcontrol,
)


@lru_cache
def behaviors(release: Version) -> dict[tuple[str, str], Behavior]:
    """Return the behaviour of a release's kinds by (group, kind)."""
    out = {("resource.k8s.io", name): rule for name, rule in resource.behaviors(release).items()}
    for family in FAMILIES:
        out |= family.behaviors(release)
    return out
