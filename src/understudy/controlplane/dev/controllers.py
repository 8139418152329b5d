"""The controllers that `understudy dev` runs: what people expect of a cluster, as far as it is there."""

from __future__ import annotations

from understudy.machinery.releases import features
from understudy.machinery.releases.features import Gates

CONTROLLERS = (
    *("namespace", "garbage-collector", "serviceaccount", "root-ca-certificate-publisher"),
    *("clusterrole-aggregation", "validatingadmissionpolicy-status", "resourceclaim", "scheduler"),
)
DEVICE_TAINT_EVICTION = "device-taint-eviction"
POD_GROUP_PROTECTION = "podgroup-protection"


def controllers_of(gates: Gates, more: list[str]) -> list[str]:
    """Return the controllers that run, those of the command line included. Raises UnknownControllerError."""
    from understudy.controlplane.controllers import short_names  # imports the handlers

    names = [*CONTROLLERS, *more]
    if gates[features.DRA_DEVICE_TAINTS]:
        names.append(DEVICE_TAINT_EVICTION)
    if gates[features.GENERIC_WORKLOAD]:
        names.append(POD_GROUP_PROTECTION)
    return short_names(names)
