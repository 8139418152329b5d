"""The checks of the Pod Security Standards: violations of a level at a version."""

from __future__ import annotations

from typing import Any

import pytest

from tests.releases import NEWEST
from understudy.admission.plugins.pod_security.levels import BASELINE, PRIVILEGED, RESTRICTED, Standard
from understudy.admission.plugins.pod_security.pod import Pod
from understudy.admission.plugins.pod_security.standards import violations
from understudy.machinery.releases.version import V1_31, V1_36
from understudy.machinery.types import Obj

SECURE = {
    "runAsNonRoot": True,
    "allowPrivilegeEscalation": False,
    "capabilities": {"drop": ["ALL"]},
    "seccompProfile": {"type": "RuntimeDefault"},
}
AA, SECCOMP = "container.apparmor.security.beta.kubernetes.io/", "seccomp.security.alpha.kubernetes.io/pod"


def make_pod(*securities: Obj, security: Obj | None = None, annotations: Obj | None = None, **spec: Any) -> Pod:
    """Return a pod with one container for each security context, named a, b, …."""
    containers = [{"name": name, "securityContext": context} for name, context in zip("abc", securities, strict=False)]
    return Pod({"annotations": annotations}, {"containers": containers, "securityContext": security, **spec})


def violations_of(pod: Pod, level: str = BASELINE, minor: int | None = None) -> list[tuple[str, str]]:
    return [(kind, detail) for kind, detail in violations(Standard(level, minor), pod, NEWEST)]


BAD_PROFILE = "forbidden AppArmor profile"
MUST_NOT = "must not set AppArmor profile type to"


@pytest.mark.parametrize(
    ("pod", "reason", "detail"),
    [
        (
            make_pod({"appArmorProfile": {"type": "Unconfined"}}),
            BAD_PROFILE,
            f'container "a" {MUST_NOT} "Unconfined"',
        ),
        (
            make_pod(
                security={"appArmorProfile": {"type": "Unconfined"}},
                annotations={f"{AA}a": "unconfined", f"{AA}b": "localhost/x"},
            ),
            f"{BAD_PROFILE}s",
            f'pod and annotation {MUST_NOT} "Unconfined", "{AA}a="unconfined""',
        ),
        (
            make_pod({"capabilities": {"add": ["NET_RAW", "CHOWN"]}}, {"capabilities": {"add": ["BPF"]}}),
            "non-default capabilities",
            'containers "a", "b" must not include "BPF", "NET_RAW" in securityContext.capabilities.add',
        ),
        (make_pod(hostNetwork=True, hostIPC=True, hostPID=False), "host namespaces", "hostNetwork=true, hostIPC=true"),
        (
            make_pod(volumes=[{"name": "x", "hostPath": {}}, {"name": "y", "emptyDir": {}}]),
            "hostPath volumes",
            'volume "x"',
        ),
        (
            make_pod(
                initContainers=[{"name": "i", "ports": [{"hostPort": 9}, {"hostPort": 80}, {"containerPort": 1}]}]
            ),
            "hostPort",
            'container "i" uses hostPorts 80, 9',
        ),
        (
            make_pod({"privileged": True}, {"privileged": True}, {"privileged": False}),
            "privileged",
            'containers "a", "b" must not set securityContext.privileged=true',
        ),
        (
            make_pod({"procMount": "Unmasked"}, {"procMount": "Default"}),
            "procMount",
            'container "a" must not set securityContext.procMount to "Unmasked"',
        ),
        (
            make_pod({"seLinuxOptions": {"type": "x", "user": "u"}}, security={"seLinuxOptions": {"role": "r"}}),
            "seLinuxOptions",
            'pod and container "a" set forbidden securityContext.seLinuxOptions: type "x"; user may not be set; '
            "role may not be set",
        ),
        (
            make_pod({"seccompProfile": {"type": "Unconfined"}}),
            "seccompProfile",
            'container "a" must not set securityContext.seccompProfile.type to "Unconfined"',
        ),
        (make_pod(security={"sysctls": [{"name": "b"}, {"name": "a"}]}), "forbidden sysctls", "b, a"),
        (
            make_pod({"windowsOptions": {"hostProcess": True}}, security={"windowsOptions": {"hostProcess": True}}),
            "hostProcess",
            'pod and container "a" must not set securityContext.windowsOptions.hostProcess=true',
        ),
    ],
)
def test_baseline_check_reports_violation(pod: Pod, reason: str, detail: str) -> None:
    """Each check of the baseline level reports its violation; the privileged level accepts everything."""
    assert violations_of(pod) == [(reason, detail)]
    assert violations_of(pod, PRIVILEGED) == []


NONROOT = "runAsNonRoot != true"


@pytest.mark.parametrize(
    ("pod", "reason", "detail"),
    [
        (
            make_pod(SECURE, {**SECURE, "allowPrivilegeEscalation": None}),
            "allowPrivilegeEscalation != false",
            'container "b" must set securityContext.allowPrivilegeEscalation=false',
        ),
        (
            make_pod(
                {**SECURE, "capabilities": {"drop": ["KILL"]}},
                {**SECURE, "capabilities": {"drop": ["ALL"], "add": ["BPF"]}},
            ),
            "unrestricted capabilities",
            'container "a" must set securityContext.capabilities.drop=["ALL"]; '
            'container "b" must not include "BPF" in securityContext.capabilities.add',
        ),
        (
            make_pod(
                volumes=[
                    {"name": "x", "hostPath": {}},
                    {"name": "y", "nfs": {}},
                    {"name": "z"},
                    {"name": "s", "secret": {}},
                ]
            ),
            "restricted volume types",
            'volumes "x", "y", "z" use restricted volume types "hostPath", "nfs", "unknown"',
        ),
        (
            make_pod({**SECURE, "runAsNonRoot": False}, security={"runAsNonRoot": False}),
            NONROOT,
            'pod and container "a" must not set securityContext.runAsNonRoot=false',
        ),
        (
            make_pod({**SECURE, "runAsNonRoot": None}, SECURE),
            NONROOT,
            'pod or container "a" must set securityContext.runAsNonRoot=true',
        ),
        (
            make_pod({**SECURE, "runAsUser": 0}, security={"runAsUser": 1}),
            "runAsUser=0",
            'container "a" must not set runAsUser=0',
        ),
        (
            make_pod({**SECURE, "seccompProfile": None}, SECURE),
            "seccompProfile",
            'pod or container "a" must set securityContext.seccompProfile.type to "RuntimeDefault" or "Localhost"',
        ),
        (
            make_pod({**SECURE, "seccompProfile": {"type": "Unconfined"}}),
            "seccompProfile",
            'container "a" must not set securityContext.seccompProfile.type to "Unconfined"',
        ),
    ],
)
def test_restricted_check_reports_violation(pod: Pod, reason: str, detail: str) -> None:
    """Each check of the restricted level reports its violation, and replaces the baseline check of the same field."""
    assert violations_of(pod, RESTRICTED) == [(reason, detail)]


@pytest.mark.parametrize(
    "pod",
    [
        make_pod(SECURE, SECURE),
        make_pod({**SECURE, "capabilities": {"drop": ["ALL"], "add": ["NET_BIND_SERVICE"]}}),
        make_pod({**SECURE, "runAsNonRoot": None, "seccompProfile": None}, security=SECURE),
        make_pod({"runAsNonRoot": True}, os={"name": "windows"}),
    ],
)
def test_restricted_level_accepts_pod(pod: Pod) -> None:
    """A setting may be made by every container or by the pod; Windows pods need fewer settings."""
    assert violations_of(pod, RESTRICTED) == []


def sysctl(name: str) -> Pod:
    return make_pod(security={"sysctls": [{"name": name}]})


@pytest.mark.parametrize(
    ("pod", "level", "since", "forbidden"),
    [
        (make_pod({**SECURE, "allowPrivilegeEscalation": None}), RESTRICTED, 8, True),
        (make_pod({**SECURE, "capabilities": None}), RESTRICTED, 22, True),
        (make_pod({**SECURE, "runAsUser": 0}), RESTRICTED, 23, True),
        (make_pod({**SECURE, "seccompProfile": None}), RESTRICTED, 19, True),
        (make_pod({**SECURE, "capabilities": None}, os={"name": "windows"}), RESTRICTED, 25, False),
        (make_pod({"seccompProfile": {"type": "Unconfined"}}), BASELINE, 19, True),
        (make_pod(annotations={SECCOMP: "unconfined"}), BASELINE, 19, False),
        (make_pod({"seLinuxOptions": {"type": "container_engine_t"}}), BASELINE, 31, False),
        (sysctl("net.ipv4.ip_local_reserved_ports"), BASELINE, 27, False),
        (sysctl("net.ipv4.tcp_fin_timeout"), BASELINE, 29, False),
        (sysctl("net.ipv4.tcp_rmem"), BASELINE, 32, False),
        (sysctl("net.ipv4.tcp_notsent_lowat"), BASELINE, 37, False),
        (sysctl("net.ipv4.tcp_slow_start_after_idle"), BASELINE, 37, False),
    ],
)
def test_check_depends_on_version(pod: Pod, level: str, since: int, forbidden: bool) -> None:
    """A check applies from one minor version of the standard on, or up to one."""
    assert [bool(violations_of(pod, level, minor)) for minor in (since - 1, since)] == [not forbidden, forbidden]


def handled(**handlers: Obj) -> Pod:
    return Pod({}, {"containers": [{"name": "c", **handlers}, {"name": "d"}]})


HOST = {"httpGet": {"host": "b.c", "port": 80}}


@pytest.mark.parametrize(
    ("pod", "detail"),
    [
        (handled(livenessProbe=HOST), 'container "c" uses probe or lifecycle host "b.c"'),
        (
            handled(readinessProbe=HOST, startupProbe={"tcpSocket": {"host": "a"}}),
            'container "c" uses probe or lifecycle hosts "a", "b.c"',
        ),
        (handled(lifecycle={"preStop": HOST}), 'container "c" uses probe or lifecycle host "b.c"'),
        (handled(lifecycle={"postStart": {"tcpSocket": {"host": ""}}}), ""),
        (handled(lifecycle={"postStart": {"exec": {}}}), ""),
    ],
)
def test_probes_and_hooks_ask_no_other_host(pod: Pod, detail: str) -> None:
    """From 1.34 on probes and hooks must not name a host."""
    found = [[tuple(v) for v in violations(Standard(BASELINE, minor), pod, V1_36)] for minor in (33, 34)]
    assert found == [[], [("probe or lifecycle host", detail)] if detail else []]


@pytest.mark.parametrize(
    ("level", "security", "minors"),
    [
        (RESTRICTED, {"runAsNonRoot": False}, [34]),
        (RESTRICTED, {"runAsUser": 0}, [34]),
        (RESTRICTED, {"procMount": "Unmasked"}, [34, 35]),
        (BASELINE, {"procMount": "Unmasked"}, [34]),
    ],
)
def test_pod_with_own_users_may_run_as_root_from_1_35_on(level: str, security: Obj, minors: list[int]) -> None:
    """From 1.35 on a pod whose users are its own may be root; only the restricted level wants proc masked."""
    pod = make_pod({**SECURE, **security}, hostUsers=False)
    assert [minor for minor in (34, 35) if violations(Standard(level, minor), pod, V1_36)] == minors


def test_images_are_volumes_from_1_33_on() -> None:
    """Volumes of images are allowed by releases from 1.33 on, whatever the version of the standard."""
    pod = make_pod(SECURE, volumes=[{"name": "v", "image": {"reference": "a"}}])
    assert violations(Standard(RESTRICTED, 31), pod, V1_36) == []
    pod.allows_images = False
    assert [v.reason for v in violations(Standard(RESTRICTED, 31), pod, V1_36)] == ["restricted volume types"]


def test_later_versions_count_as_the_release() -> None:
    """`latest` and versions later than the release mean the version of the release."""
    pod = sysctl("net.ipv4.tcp_rmem")
    assert [bool(violations(Standard(BASELINE, minor), pod, V1_31)) for minor in (None, 31, 32)] == [True] * 3


def test_baseline_violations_come_first() -> None:
    """Violations of baseline checks come before those of restricted checks, both sorted by name."""
    pod = make_pod({**SECURE, "runAsUser": 0, "privileged": True, "capabilities": {"add": ["BPF"]}}, hostPID=True)
    reasons = ["host namespaces", "privileged", "unrestricted capabilities", "runAsUser=0"]
    assert [reason for reason, _ in violations_of(pod, RESTRICTED)] == reasons


def test_pod_with_user_namespace_may_run_as_root() -> None:
    """A pod with a user namespace of its own may use root and an unmasked proc mount."""
    pod = make_pod({"procMount": "Unmasked", **SECURE, "runAsUser": 0, "runAsNonRoot": False})
    pod.relaxed = True
    assert violations_of(pod, RESTRICTED) == []
