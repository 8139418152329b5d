"""The checks of each level, and the minor versions since which they hold.

The restricted level has the checks of the baseline, too, except those that a stricter check replaces.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from functools import cache

from understudy.admission.plugins.pod_security import baseline, restricted
from understudy.admission.plugins.pod_security.levels import BASELINE, PRIVILEGED, Standard
from understudy.admission.plugins.pod_security.pod import Check, Pod, Violation
from understudy.machinery.releases.version import Version
from understudy.machinery.types import dataclass

_SYSCTLS_27 = baseline.SYSCTLS | {"net.ipv4.ip_local_reserved_ports"}
_SYSCTLS_29 = _SYSCTLS_27 | {
    f"net.ipv4.tcp_{name}" for name in ("keepalive_time", "fin_timeout", "keepalive_intvl", "keepalive_probes")
}
_SYSCTLS_32 = _SYSCTLS_29 | {"net.ipv4.tcp_rmem", "net.ipv4.tcp_wmem"}
_SYSCTLS_37 = _SYSCTLS_32 | {"net.ipv4.tcp_slow_start_after_idle", "net.ipv4.tcp_notsent_lowat"}


@dataclass(frozen=True, slots=True)
class Rule:
    """A check by the minor version that introduced or changed it. `replaces` names a weaker check, then left out."""

    versions: Mapping[int, Check]
    replaces: str = ""

    def at(self, minor: int) -> Check | None:
        """Return the check as it is at a minor version, None before it was introduced."""
        return next((check for since, check in sorted(self.versions.items(), reverse=True) if since <= minor), None)


def _of_linux(since: int, check: Check, replaces: str = "") -> Rule:
    """Return a rule that skips Windows pods since 1.25, as its fields mean nothing on Windows."""
    return Rule({since: check, 25: lambda pod: None if pod.windows else check(pod)}, replaces)


def _unless_own_users(check: Check) -> Check:
    """Return a check that skips pods with a user namespace, where root is not root of the node."""
    return lambda pod: None if pod.own_users else check(pod)


# By the identifier of the check, in the order in which violations are reported.
_BASELINE = {
    "appArmorProfile": Rule({0: baseline.app_armor}),
    "capabilities_baseline": Rule({0: baseline.capabilities}),
    "hostNamespaces": Rule({0: baseline.host_namespaces}),
    "hostPathVolumes": Rule({0: baseline.host_paths}),
    "hostPorts": Rule({0: baseline.host_ports}),
    "hostProbesAndHostLifecycle": Rule({34: baseline.probe_hosts}),
    "privileged": Rule({0: baseline.privileged}),
    "procMount": Rule({0: baseline.proc_mount, 35: _unless_own_users(baseline.proc_mount)}),
    "seLinuxOptions": Rule(
        {0: baseline.se_linux(baseline.SE_LINUX), 31: baseline.se_linux(baseline.SE_LINUX | {"container_engine_t"})}
    ),
    "seccompProfile_baseline": Rule({0: baseline.seccomp_annotations, 19: baseline.seccomp}),
    "sysctls": Rule(
        {
            0: baseline.sysctls(baseline.SYSCTLS),
            27: baseline.sysctls(_SYSCTLS_27),
            29: baseline.sysctls(_SYSCTLS_29),
            32: baseline.sysctls(_SYSCTLS_32),
            37: baseline.sysctls(_SYSCTLS_37),
        }
    ),
    "windowsHostProcess": Rule({0: baseline.host_process}),
}
_RESTRICTED = {
    "allowPrivilegeEscalation": _of_linux(8, restricted.escalation),
    "capabilities_restricted": _of_linux(22, restricted.no_capabilities, "capabilities_baseline"),
    "procMount_restricted": Rule({35: baseline.proc_mount}, "procMount"),
    "restrictedVolumes": Rule({0: restricted.volumes}, "hostPathVolumes"),
    "runAsNonRoot": Rule({0: restricted.root, 35: _unless_own_users(restricted.root)}),
    "runAsUser": Rule({23: restricted.root_user, 35: _unless_own_users(restricted.root_user)}),
    "seccompProfile_restricted": _of_linux(19, restricted.needs_seccomp, "seccompProfile_baseline"),
}


def violations(standard: Standard, pod: Pod, version: Version) -> list[Violation]:
    """Return all violations of a standard by a pod. Versions newer than the release count as the release's own."""
    minor = version.minor if standard.minor is None else min(standard.minor, version.minor)
    return [violation for check in _checks(standard.level, minor) if (violation := check(pod))]


@cache
def _checks(level: str, minor: int) -> tuple[Check, ...]:
    return tuple(_applicable(level, minor))


def _applicable(level: str, minor: int) -> Iterator[Check]:
    """Yield the checks of a level at a minor version, without those that a stricter check replaces."""
    if level == PRIVILEGED:
        return
    stricter = {} if level == BASELINE else _RESTRICTED
    replaced = {rule.replaces for rule in stricter.values() if rule.at(minor)}
    for name, rule in {**_BASELINE, **stricter}.items():
        check = rule.at(minor)
        if check and name not in replaced:
            yield check
