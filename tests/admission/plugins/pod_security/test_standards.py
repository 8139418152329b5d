"""PodSecurity: what pods do against a level at a version."""

from __future__ import annotations

from typing import Any

import pytest

from understudy.admission.plugins.pod_security.levels import BASELINE, PRIVILEGED, RESTRICTED, Standard
from understudy.admission.plugins.pod_security.pod import Pod
from understudy.admission.plugins.pod_security.standards import violations
from understudy.machinery.releases.version import V1_31, V1_32

Obj = dict[str, Any]
FINE = {
    "runAsNonRoot": True,
    "allowPrivilegeEscalation": False,
    "capabilities": {"drop": ["ALL"]},
    "seccompProfile": {"type": "RuntimeDefault"},
}
AA, SECCOMP = "container.apparmor.security.beta.kubernetes.io/", "seccomp.security.alpha.kubernetes.io/pod"


def pod(*securities: Obj, security: Obj | None = None, annotations: Obj | None = None, **spec: Any) -> Pod:
    """A pod with a container for each security context: a, b, …"""
    containers = [{"name": name, "securityContext": found} for name, found in zip("abc", securities, strict=False)]
    return Pod({"annotations": annotations}, {"containers": containers, "securityContext": security, **spec})


def found(of: Pod, level: str = BASELINE, minor: int | None = None) -> list[tuple[str, str]]:
    return [tuple(violation) for violation in violations(Standard(level, minor), of, V1_32)]


BAD_PROFILE = "forbidden AppArmor profile"
MUST_NOT = "must not set AppArmor profile type to"


@pytest.mark.parametrize(
    ("of", "reason", "detail"),
    [
        (
            pod({"appArmorProfile": {"type": "Unconfined"}}),
            BAD_PROFILE,
            f'container "a" {MUST_NOT} "Unconfined"',
        ),
        (
            pod(
                security={"appArmorProfile": {"type": "Unconfined"}},
                annotations={f"{AA}a": "unconfined", f"{AA}b": "localhost/x"},
            ),
            f"{BAD_PROFILE}s",
            f'pod and annotation {MUST_NOT} "Unconfined", "{AA}a="unconfined""',
        ),
        (
            pod({"capabilities": {"add": ["NET_RAW", "CHOWN"]}}, {"capabilities": {"add": ["BPF"]}}),
            "non-default capabilities",
            'containers "a", "b" must not include "BPF", "NET_RAW" in securityContext.capabilities.add',
        ),
        (pod(hostNetwork=True, hostIPC=True, hostPID=False), "host namespaces", "hostNetwork=true, hostIPC=true"),
        (
            pod(volumes=[{"name": "x", "hostPath": {}}, {"name": "y", "emptyDir": {}}]),
            "hostPath volumes",
            'volume "x"',
        ),
        (
            pod(initContainers=[{"name": "i", "ports": [{"hostPort": 9}, {"hostPort": 80}, {"containerPort": 1}]}]),
            "hostPort",
            'container "i" uses hostPorts 80, 9',
        ),
        (
            pod({"privileged": True}, {"privileged": True}, {"privileged": False}),
            "privileged",
            'containers "a", "b" must not set securityContext.privileged=true',
        ),
        (
            pod({"procMount": "Unmasked"}, {"procMount": "Default"}),
            "procMount",
            'container "a" must not set securityContext.procMount to "Unmasked"',
        ),
        (
            pod({"seLinuxOptions": {"type": "x", "user": "u"}}, security={"seLinuxOptions": {"role": "r"}}),
            "seLinuxOptions",
            'pod and container "a" set forbidden securityContext.seLinuxOptions: type "x"; user may not be set; '
            "role may not be set",
        ),
        (
            pod({"seccompProfile": {"type": "Unconfined"}}),
            "seccompProfile",
            'container "a" must not set securityContext.seccompProfile.type to "Unconfined"',
        ),
        (pod(security={"sysctls": [{"name": "b"}, {"name": "a"}]}), "forbidden sysctls", "b, a"),
        (
            pod({"windowsOptions": {"hostProcess": True}}, security={"windowsOptions": {"hostProcess": True}}),
            "hostProcess",
            'pod and container "a" must not set securityContext.windowsOptions.hostProcess=true',
        ),
    ],
)
def test_baseline(of: Pod, reason: str, detail: str) -> None:
    """Each check of the baseline; a privileged namespace takes everything."""
    assert found(of) == [(reason, detail)]
    assert found(of, PRIVILEGED) == []


NONROOT = "runAsNonRoot != true"


@pytest.mark.parametrize(
    ("of", "reason", "detail"),
    [
        (
            pod(FINE, {**FINE, "allowPrivilegeEscalation": None}),
            "allowPrivilegeEscalation != false",
            'container "b" must set securityContext.allowPrivilegeEscalation=false',
        ),
        (
            pod(
                {**FINE, "capabilities": {"drop": ["KILL"]}},
                {**FINE, "capabilities": {"drop": ["ALL"], "add": ["BPF"]}},
            ),
            "unrestricted capabilities",
            'container "a" must set securityContext.capabilities.drop=["ALL"]; '
            'container "b" must not include "BPF" in securityContext.capabilities.add',
        ),
        (
            pod(
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
            pod({**FINE, "runAsNonRoot": False}, security={"runAsNonRoot": False}),
            NONROOT,
            'pod and container "a" must not set securityContext.runAsNonRoot=false',
        ),
        (
            pod({**FINE, "runAsNonRoot": None}, FINE),
            NONROOT,
            'pod or container "a" must set securityContext.runAsNonRoot=true',
        ),
        (
            pod({**FINE, "runAsUser": 0}, security={"runAsUser": 1}),
            "runAsUser=0",
            'container "a" must not set runAsUser=0',
        ),
        (
            pod({**FINE, "seccompProfile": None}, FINE),
            "seccompProfile",
            'pod or container "a" must set securityContext.seccompProfile.type to "RuntimeDefault" or "Localhost"',
        ),
        (
            pod({**FINE, "seccompProfile": {"type": "Unconfined"}}),
            "seccompProfile",
            'container "a" must not set securityContext.seccompProfile.type to "Unconfined"',
        ),
    ],
)
def test_restricted(of: Pod, reason: str, detail: str) -> None:
    """Each check of the restricted level, which takes the place of the baseline's."""
    assert found(of, RESTRICTED) == [(reason, detail)]


@pytest.mark.parametrize(
    "of",
    [
        pod(FINE, FINE),
        pod({**FINE, "capabilities": {"drop": ["ALL"], "add": ["NET_BIND_SERVICE"]}}),
        pod({**FINE, "runAsNonRoot": None, "seccompProfile": None}, security=FINE),
        pod({"runAsNonRoot": True}, os={"name": "windows"}),
    ],
)
def test_what_is_restricted_enough(of: Pod) -> None:
    """Every container says so, or the pod for all; pods of Windows need no more than another user."""
    assert found(of, RESTRICTED) == []


def sysctl(name: str) -> Pod:
    return pod(security={"sysctls": [{"name": name}]})


@pytest.mark.parametrize(
    ("of", "level", "since", "forbidden"),
    [
        (pod({**FINE, "allowPrivilegeEscalation": None}), RESTRICTED, 8, True),
        (pod({**FINE, "capabilities": None}), RESTRICTED, 22, True),
        (pod({**FINE, "runAsUser": 0}), RESTRICTED, 23, True),
        (pod({**FINE, "seccompProfile": None}), RESTRICTED, 19, True),
        (pod({**FINE, "capabilities": None}, os={"name": "windows"}), RESTRICTED, 25, False),
        (pod({"seccompProfile": {"type": "Unconfined"}}), BASELINE, 19, True),
        (pod(annotations={SECCOMP: "unconfined"}), BASELINE, 19, False),
        (pod({"seLinuxOptions": {"type": "container_engine_t"}}), BASELINE, 31, False),
        (sysctl("net.ipv4.ip_local_reserved_ports"), BASELINE, 27, False),
        (sysctl("net.ipv4.tcp_fin_timeout"), BASELINE, 29, False),
        (sysctl("net.ipv4.tcp_rmem"), BASELINE, 32, False),
    ],
)
def test_versions(of: Pod, level: str, since: int, forbidden: bool) -> None:
    """What a level forbids depends on its version."""
    assert [bool(found(of, level, minor)) for minor in (since - 1, since)] == [not forbidden, forbidden]


def test_no_version_is_later_than_the_release() -> None:
    """The latest, and versions to come, are what the release knows."""
    of = sysctl("net.ipv4.tcp_rmem")
    assert [bool(violations(Standard(BASELINE, minor), of, V1_31)) for minor in (None, 31, 32)] == [True] * 3


def test_order() -> None:
    """Violations of the baseline are told before those of the restricted level, both by name."""
    of = pod({**FINE, "runAsUser": 0, "privileged": True, "capabilities": {"add": ["BPF"]}}, hostPID=True)
    reasons = ["host namespaces", "privileged", "unrestricted capabilities", "runAsUser=0"]
    assert [reason for reason, _ in found(of, RESTRICTED)] == reasons


def test_users_of_their_own() -> None:
    """Pods whose users are none of the host's may be root in them."""
    of = pod({"procMount": "Unmasked", **FINE, "runAsUser": 0, "runAsNonRoot": False})
    of.relaxed = True
    assert found(of, RESTRICTED) == []
