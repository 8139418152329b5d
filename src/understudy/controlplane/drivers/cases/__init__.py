"""The cases of `understudy drivers test`, in the order in which they run."""

from __future__ import annotations

from understudy.controlplane.drivers.cases import claims, devices, pods, registration, restarts
from understudy.controlplane.drivers.cases.case import Case, case
from understudy.machinery.releases import features
from understudy.machinery.releases.version import V1_32, V1_33, V1_34, V1_35

CASES: tuple[Case, ...] = (
    case(registration.registers, required=True),
    case(registration.publishes, required=True),
    case(registration.leaves_slices_alone),
    case(registration.publishes_again),
    case(claims.prepares),
    case(claims.prepares_again),
    case(claims.prepares_several_claims),
    case(claims.prepares_after_unpreparing),
    case(claims.unprepares_again),
    case(claims.unprepares_deleted_claims),
    case(claims.refuses_other_claims),
    case(claims.survives_timeouts),
    case(pods.runs_a_pod),
    case(pods.shares_a_claim),
    case(pods.grants_admin_access, V1_32, (features.DRA_ADMIN_ACCESS,)),
    case(pods.runs_fifty_pods_at_once),
    case(restarts.survives_a_restart),
    case(restarts.survives_a_crash),
    case(restarts.keeps_pods_running),
    case(restarts.survives_a_kubelet_restart),
    case(restarts.survives_a_reboot),
    case(restarts.is_upgraded_without_a_break, V1_33),
    case(restarts.stops),
    case(devices.gives_up_tainted_devices, V1_35, (features.DRA_DEVICE_TAINTS, features.DRA_DEVICE_TAINT_RULES)),
    case(devices.reports_health, V1_34),
    case(devices.shows_health_of_pods, V1_34, (features.RESOURCE_HEALTH_STATUS,)),
)
