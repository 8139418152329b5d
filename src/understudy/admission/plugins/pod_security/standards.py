"""Which checks a level has, and since when. The restricted level has those of the baseline, too, but for those whose
place a stricter one takes."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import cache

from understudy.admission.plugins.pod_security import baseline, restricted
from understudy.admission.plugins.pod_security.levels import BASELINE, PRIVILEGED, Standard
from understudy.admission.plugins.pod_security.pod import Check, Pod, Violation
from understudy.machinery.releases.version import Version

_SYSCTLS_27 = baseline.SYSCTLS | {"net.ipv4.ip_local_reserved_ports"}
_SYSCTLS_29 = _SYSCTLS_27 | {
    f"net.ipv4.tcp_{name}" for name in ("keepalive_time", "fin_timeout", "keepalive_intvl", "keepalive_probes")
}


@dataclass(frozen=True, slots=True)
class Rule:
    """A check as of each minor version that changed it; `replaces` is what it takes the place of."""

    versions: Mapping[int, Check]
    replaces: str = ""

    def at(self, minor: int) -> Check | None:
        return next((check for since, check in sorted(self.versions.items(), reverse=True) if since <= minor), None)


def _of_linux(since: int, check: Check, replaces: str = "") -> Rule:
    """Since 1.25 pods of Windows are spared what Windows has not."""
    return Rule({since: check, 25: lambda pod: None if pod.windows else check(pod)}, replaces)


# By identifier, in the order of which violations are told.
_BASELINE = {
    "appArmorProfile": Rule({0: baseline.app_armor}),
    "capabilities_baseline": Rule({0: baseline.capabilities}),
    "hostNamespaces": Rule({0: baseline.host_namespaces}),
    "hostPathVolumes": Rule({0: baseline.host_paths}),
    "hostPorts": Rule({0: baseline.host_ports}),
    "privileged": Rule({0: baseline.privileged}),
    "procMount": Rule({0: baseline.proc_mount}),
    "seLinuxOptions": Rule(
        {0: baseline.se_linux(baseline.SE_LINUX), 31: baseline.se_linux(baseline.SE_LINUX | {"container_engine_t"})}
    ),
    "seccompProfile_baseline": Rule({0: baseline.seccomp_annotations, 19: baseline.seccomp}),
    "sysctls": Rule(
        {
            0: baseline.sysctls(baseline.SYSCTLS),
            27: baseline.sysctls(_SYSCTLS_27),
            29: baseline.sysctls(_SYSCTLS_29),
            32: baseline.sysctls(_SYSCTLS_29 | {"net.ipv4.tcp_rmem", "net.ipv4.tcp_wmem"}),
        }
    ),
    "windowsHostProcess": Rule({0: baseline.host_process}),
}
_RESTRICTED = {
    "allowPrivilegeEscalation": _of_linux(8, restricted.escalation),
    "capabilities_restricted": _of_linux(22, restricted.no_capabilities, "capabilities_baseline"),
    "restrictedVolumes": Rule({0: restricted.volumes}, "hostPathVolumes"),
    "runAsNonRoot": Rule({0: restricted.root}),
    "runAsUser": Rule({23: restricted.root_user}),
    "seccompProfile_restricted": _of_linux(19, restricted.needs_seccomp, "seccompProfile_baseline"),
}


def violations(standard: Standard, pod: Pod, release: Version) -> list[Violation]:
    """Everything that a pod does against a standard. The latest version is the release's own; there is none later."""
    minor = release.minor if standard.minor is None else min(standard.minor, release.minor)
    return [found for check in _checks(standard.level, minor) if (found := check(pod))]


@cache
def _checks(level: str, minor: int) -> tuple[Check, ...]:
    return tuple(_applicable(level, minor))


def _applicable(level: str, minor: int) -> Iterator[Check]:
    if level == PRIVILEGED:
        return
    stricter = {} if level == BASELINE else _RESTRICTED
    replaced = {rule.replaces for rule in stricter.values() if rule.at(minor)}
    for name, rule in {**_BASELINE, **stricter}.items():
        check = rule.at(minor)
        if check and name not in replaced:
            yield check
