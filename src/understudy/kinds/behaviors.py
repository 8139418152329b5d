"""The behavior of every kind: one module for each API group, and for each family of kinds of the core group.

A module is imported when the behavior of one of its kinds is first needed: few servers need all of them.
"""

from __future__ import annotations

from functools import lru_cache
from importlib import import_module

from understudy.kinds.declarations.kind import Behavior
from understudy.machinery.releases.version import Version

# The modules with the behavior of a group's kinds, or of one of its kinds. Each has a function `behaviors`.
FAMILIES: dict[str | tuple[str, str], str] = {
    ("", "ComponentStatus"): "understudy.kinds.core.component_statuses",
    ("", "ConfigMap"): "understudy.kinds.core.config_maps_and_secrets.strategy",
    ("", "Endpoints"): "understudy.kinds.core.endpoints.strategy",
    ("", "Event"): "understudy.kinds.core.events.strategy",
    ("", "LimitRange"): "understudy.kinds.core.limits_and_quotas.strategy",
    ("", "Namespace"): "understudy.kinds.core.namespaces.strategy",
    ("", "Node"): "understudy.kinds.core.nodes.strategy",
    ("", "PersistentVolume"): "understudy.kinds.core.persistent_volumes.strategy",
    ("", "PersistentVolumeClaim"): "understudy.kinds.core.persistent_volumes.strategy",
    ("", "Pod"): "understudy.kinds.core.pods.strategies.pods",
    ("", "PodTemplate"): "understudy.kinds.core.pods.strategies.pod_templates",
    ("", "ReplicationController"): "understudy.kinds.apps.strategy",
    ("", "ResourceQuota"): "understudy.kinds.core.limits_and_quotas.strategy",
    ("", "Secret"): "understudy.kinds.core.config_maps_and_secrets.strategy",
    ("", "Service"): "understudy.kinds.core.services.strategy",
    ("", "ServiceAccount"): "understudy.kinds.core.service_accounts",
    "admissionregistration.k8s.io": "understudy.kinds.admissionregistration.strategy",
    "apiextensions.k8s.io": "understudy.kinds.apiextensions.strategy",
    "apiregistration.k8s.io": "understudy.kinds.apiextensions.strategy",
    "apps": "understudy.kinds.apps.strategy",
    "autoscaling": "understudy.kinds.autoscaling.strategy",
    "batch": "understudy.kinds.batch.strategy",
    "certificates.k8s.io": "understudy.kinds.certificates.strategy",
    "coordination.k8s.io": "understudy.kinds.coordination.strategy",
    "discovery.k8s.io": "understudy.kinds.networking.strategy",
    "events.k8s.io": "understudy.kinds.core.events.strategy",
    "flowcontrol.apiserver.k8s.io": "understudy.kinds.flowcontrol.strategy",
    "internal.apiserver.k8s.io": "understudy.kinds.storage_versions.strategy",
    "lifecycle.k8s.io": "understudy.kinds.lifecycle.strategy",
    "networking.k8s.io": "understudy.kinds.networking.strategy",
    "node.k8s.io": "understudy.kinds.node.strategy",
    "policy": "understudy.kinds.policy.strategy",
    "rbac.authorization.k8s.io": "understudy.kinds.rbac.strategy",
    "resource.k8s.io": "understudy.kinds.resource.strategy",
    "scheduling.k8s.io": "understudy.kinds.scheduling.strategy",
    "storage.k8s.io": "understudy.kinds.storage.strategy",
    "storagemigration.k8s.io": "understudy.kinds.storage_versions.strategy",
}


def module_of(group: str, kind: str) -> str | None:
    """Return the name of the module that has the behavior of a kind; None if it has no rules of its own."""
    return FAMILIES.get((group, kind)) or FAMILIES.get(group)


def behavior_of(version: Version, group: str, kind: str) -> Behavior:
    """Return the behavior of a kind in a release."""
    module = module_of(group, kind)
    return Behavior() if module is None else _behaviors(module, version).get((group, kind), Behavior())


@lru_cache
def _behaviors(module: str, version: Version) -> dict[tuple[str, str], Behavior]:
    """Return the behavior of a release's kinds by (group, kind) that a module has."""
    behaviors: dict[tuple[str, str], Behavior] = import_module(module).behaviors(version)
    return behaviors
