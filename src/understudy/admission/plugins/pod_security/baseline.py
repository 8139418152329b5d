"""What pods may not do at the baseline level: each check finds one kind of violation."""

from __future__ import annotations

from understudy.admission.plugins.pod_security.pod import (
    Check,
    Pod,
    Violation,
    added_capabilities,
    named,
    plural,
    quoted,
)
from understudy.admission.validation.core.pods.annotations import APP_ARMOR
from understudy.machinery.golang.text import go_quote
from understudy.machinery.types import Obj, at


def app_armor(pod: Pod) -> Violation | None:
    allowed = ("RuntimeDefault", "Localhost")
    setters = pod.setting(lambda s: at(s, "appArmorProfile") and at(s, "appArmorProfile", "type") not in allowed)
    values = sorted(pod.values("appArmorProfile", "type") - {*allowed})
    annotated = [
        f"{key}={go_quote(value)}"
        for key, value in sorted(pod.annotations.items())
        if key.startswith(APP_ARMOR) and value not in ("", "runtime/default") and not value.startswith("localhost/")
    ]
    if annotated:
        setters, values = [*setters, plural("annotation", annotated)], values + sorted(annotated)
    text = f"{' and '.join(setters)} must not set AppArmor profile type to {quoted(values)}"
    return Violation(plural("forbidden AppArmor profile", values), text) if setters else None


_CAPABILITIES = frozenset(
    (
        "AUDIT_WRITE",
        "CHOWN",
        "DAC_OVERRIDE",
        "FOWNER",
        "FSETID",
        "KILL",
        "MKNOD",
        "NET_BIND_SERVICE",
        "SETFCAP",
        "SETGID",
        "SETPCAP",
        "SETUID",
        "SYS_CHROOT",
    )
)


def capabilities(pod: Pod) -> Violation | None:
    text = added_capabilities(pod, _CAPABILITIES)
    return Violation("non-default capabilities", text) if text else None


def host_namespaces(pod: Pod) -> Violation | None:
    found = [f"{name}=true" for name in ("hostNetwork", "hostPID", "hostIPC") if pod.spec.get(name)]
    return Violation("host namespaces", ", ".join(found)) if found else None


def host_paths(pod: Pod) -> Violation | None:
    names = [v.get("name", "") for v in pod.spec.get("volumes") or [] if v.get("hostPath") is not None]
    return Violation("hostPath volumes", named("volume", names)) if names else None


def host_ports(pod: Pod) -> Violation | None:
    used = {
        name: {str(p["hostPort"]) for p in c.get("ports") or [] if p.get("hostPort")} for name, c, _ in pod.containers
    }
    names = [name for name, ports in used.items() if ports]
    ports = sorted(set().union(*used.values()))
    verb = "uses" if len(names) == 1 else "use"
    text = f"{named('container', names)} {verb} {plural('hostPort', ports)} {', '.join(ports)}"
    return Violation("hostPort", text) if names else None


def privileged(pod: Pod) -> Violation | None:
    names = pod.having(lambda s: s.get("privileged"))
    text = f"{named('container', names)} must not set securityContext.privileged=true"
    return Violation("privileged", text) if names else None


def proc_mount(pod: Pod) -> Violation | None:
    found = {name: s["procMount"] for name, _, s in pod.containers if s.get("procMount") not in (None, "Default")}
    values = quoted(sorted({*found.values()}))
    text = f"{named('container', found)} must not set securityContext.procMount to {values}"
    return Violation("procMount", text) if found and not pod.relaxed else None


SE_LINUX = frozenset(("", "container_t", "container_init_t", "container_kvm_t"))


def se_linux(types: frozenset[str]) -> Check:
    """Only certain types, no user and no role."""

    def bad(security: Obj) -> bool:
        found = security.get("seLinuxOptions") or {}
        return found.get("type", "") not in types or bool(found.get("user") or found.get("role"))

    def check(pod: Pod) -> Violation | None:
        wrong = sorted(pod.values("seLinuxOptions", "type") - types)
        data = [named("type", wrong)] if wrong else []
        data += [f"{name} may not be set" for name in ("user", "role") if pod.values("seLinuxOptions", name) - {""}]
        setters = " and ".join(pod.setting(bad))
        text = f"{setters} set forbidden securityContext.seLinuxOptions: {'; '.join(data)}"
        return Violation("seLinuxOptions", text) if setters else None

    return check


_SECCOMP = ("Localhost", "RuntimeDefault")
_SECCOMP_ANNOTATION = "seccomp.security.alpha.kubernetes.io/pod"


def seccomp_annotations(pod: Pod) -> Violation | None:
    """As it was told before there were fields."""
    keys = {
        _SECCOMP_ANNOTATION,
        *(f"container.seccomp.security.alpha.kubernetes.io/{name}" for name, *_ in pod.containers),
    }
    found = {key: value for key, value in pod.annotations.items() if key in keys and not _seccomp_annotation(value)}
    shown = sorted(f"{key}={go_quote(value)}" for key, value in found.items())
    return Violation("seccompProfile", f"forbidden {plural('annotation', shown)} {', '.join(shown)}") if shown else None


def _seccomp_annotation(value: str) -> bool:
    return value in ("runtime/default", "docker/default") or value.startswith("localhost/")


def seccomp(pod: Pod) -> Violation | None:
    setters = pod.setting(lambda s: at(s, "seccompProfile") and at(s, "seccompProfile", "type") not in _SECCOMP)
    values = quoted(sorted(pod.values("seccompProfile", "type") - {*_SECCOMP}))
    text = f"{' and '.join(setters)} must not set securityContext.seccompProfile.type to {values}"
    return Violation("seccompProfile", text) if setters else None


SYSCTLS = frozenset(
    (
        "kernel.shm_rmid_forced",
        "net.ipv4.ip_local_port_range",
        "net.ipv4.tcp_syncookies",
        "net.ipv4.ping_group_range",
        "net.ipv4.ip_unprivileged_port_start",
    )
)


def sysctls(allowed: frozenset[str]) -> Check:
    """Only those that are safe."""

    def check(pod: Pod) -> Violation | None:
        names = [found.get("name", "") for found in pod.security.get("sysctls") or []]
        forbidden = [name for name in names if name not in allowed]
        return Violation("forbidden sysctls", ", ".join(forbidden)) if forbidden else None

    return check


def host_process(pod: Pod) -> Violation | None:
    setters = pod.setting(lambda s: at(s, "windowsOptions", "hostProcess"))
    text = f"{' and '.join(setters)} must not set securityContext.windowsOptions.hostProcess=true"
    return Violation("hostProcess", text) if setters else None
