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
    storage_versions,
)
from understudy.apiserver.kinds.autoscaling import v2
from understudy.apiserver.kinds.core import (
    component_statuses,
    config_maps_and_secrets,
    events,
    limits_and_quotas,
    namespaces,
    nodes,
    service_accounts,
    volumes,
)
from understudy.apiserver.kinds.core.pods import pod_templates, pods
from understudy.apiserver.kinds.core.services import endpoints, services
from understudy.apiserver.kinds.flowcontrol import flowcontrol
from understudy.apiserver.kinds.resource import resource
from understudy.apiserver.registry.kind import Behavior
from understudy.machinery.releases.version import Version

FAMILIES = (
    namespaces,
    config_maps_and_secrets,
    service_accounts,
    endpoints,
    limits_and_quotas,
    component_statuses,
    pod_templates,
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
    storage_versions,
    scheduling,
    coordination,
    certificates,
    apiextensions,
    admissionregistration,
    flowcontrol,
)


@lru_cache
def behaviors(release: Version) -> dict[tuple[str, str], Behavior]:
    """Return the behavior of a release's kinds by (group, kind)."""
    out = {("resource.k8s.io", name): rule for name, rule in resource.behaviors(release).items()}
    for family in FAMILIES:
        out |= family.behaviors(release)
    return out
