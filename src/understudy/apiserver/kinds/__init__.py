"""What each kind does differently: one small module per family, joined here."""

from __future__ import annotations

from functools import lru_cache

from understudy.apiserver.kind import Rules
from understudy.apiserver.kinds import (
    apps,
    autoscaling,
    batch,
    certificates,
    coordination,
    core,
    events,
    extensions,
    flowcontrol,
    networking,
    nodes,
    pods,
    policy,
    rbac,
    resource,
    scheduling,
    services,
    storage,
    volumes,
    webhooks,
)

FAMILIES = (
    core,
    pods,
    nodes,
    services,
    volumes,
    events,
    apps,
    batch,
    autoscaling,
    policy,
    rbac,
    networking,
    storage,
    scheduling,
    coordination,
    certificates,
    extensions,
    webhooks,
    flowcontrol,
)


@lru_cache
def rules(release: str) -> dict[tuple[str, str], Rules]:
    """The rules of a release's kinds by (group, kind)."""
    found = {("resource.k8s.io", name): rule for name, rule in resource.rules(release).items()}
    for family in FAMILIES:
        found |= family.rules(release)
    return found
