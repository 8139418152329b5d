"""The behavior of every kind: one entry for each API group, joined here."""

from __future__ import annotations

from functools import lru_cache

from understudy.kinds.admissionregistration import strategy as admissionregistration
from understudy.kinds.apiextensions import strategy as apiextensions
from understudy.kinds.apps import strategy as apps
from understudy.kinds.autoscaling import strategy as autoscaling
from understudy.kinds.batch import strategy as batch
from understudy.kinds.certificates import strategy as certificates
from understudy.kinds.coordination import strategy as coordination
from understudy.kinds.core import component_statuses, service_accounts
from understudy.kinds.core.config_maps_and_secrets import strategy as config_maps_and_secrets
from understudy.kinds.core.endpoints import strategy as endpoints
from understudy.kinds.core.events import strategy as events
from understudy.kinds.core.limits_and_quotas import strategy as limits_and_quotas
from understudy.kinds.core.namespaces import strategy as namespaces
from understudy.kinds.core.nodes import strategy as nodes
from understudy.kinds.core.persistent_volumes import strategy as persistent_volumes
from understudy.kinds.core.pods.strategies import pod_templates, pods
from understudy.kinds.core.services import strategy as services
from understudy.kinds.declarations.kind import Behavior
from understudy.kinds.flowcontrol import strategy as flowcontrol
from understudy.kinds.lifecycle import strategy as lifecycle
from understudy.kinds.networking import strategy as networking
from understudy.kinds.node import strategy as node
from understudy.kinds.policy import strategy as policy
from understudy.kinds.rbac import strategy as rbac
from understudy.kinds.resource import strategy as resource
from understudy.kinds.scheduling import strategy as scheduling
from understudy.kinds.storage import strategy as storage
from understudy.kinds.storage_versions import strategy as storage_versions
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
    persistent_volumes,
    events,
    apps,
    batch,
    autoscaling,
    policy,
    rbac,
    networking,
    node,
    storage,
    storage_versions,
    scheduling,
    coordination,
    certificates,
    apiextensions,
    admissionregistration,
    flowcontrol,
    lifecycle,
)


@lru_cache
def behaviors(version: Version) -> dict[tuple[str, str], Behavior]:
    """Return the behavior of a release's kinds by (group, kind)."""
    out = {("resource.k8s.io", name): rule for name, rule in resource.behaviors(version).items()}
    for family in FAMILIES:
        out |= family.behaviors(version)
    return out
