"""The checks of the baseline level: each finds one kind of violation in a pod."""

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
from understudy.kinds.core.pods.annotations import APP_ARMOR
from understudy.machinery.golang.text import go_quote
from understudy.machinery.types import Obj, nested_field


def app_armor(pod: Pod) -> Violation | None:
    """Refuse AppArmor profiles other than RuntimeDefault and Localhost, in fields and annotations."""
    allowed = ("RuntimeDefault", "Localhost")
    setters = pod.setting(
        lambda s: nested_field(s, "appArmorProfile") and nested_field(s, "appArmorProfile", "type") not in allowed
    )
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
    """Refuse added capabilities beyond those that container runtimes grant by default."""
    text = added_capabilities(pod, _CAPABILITIES)
    return Violation("non-default capabilities", text) if text else None


def host_namespaces(pod: Pod) -> Violation | None:
    """Refuse the network, the process IDs and the IPC of the host."""
    fields = [f"{name}=true" for name in ("hostNetwork", "hostPID", "hostIPC") if pod.spec.get(name)]
    return Violation("host namespaces", ", ".join(fields)) if fields else None


def host_paths(pod: Pod) -> Violation | None:
    """Refuse hostPath volumes."""
    names = [v.get("name", "") for v in pod.spec.get("volumes") or [] if v.get("hostPath") is not None]
    return Violation("hostPath volumes", named("volume", names)) if names else None


def host_ports(pod: Pod) -> Violation | None:
    """Refuse host ports."""
    used = {
        name: {str(p["hostPort"]) for p in c.get("ports") or [] if p.get("hostPort")} for name, c, _ in pod.containers
    }
    names = [name for name, ports in used.items() if ports]
    ports = sorted(set().union(*used.values()))
    verb = "uses" if len(names) == 1 else "use"
    text = f"{named('container', names)} {verb} {plural('hostPort', ports)} {', '.join(ports)}"
    return Violation("hostPort", text) if names else None


_ACTIONS = (("httpGet", "host"), ("tcpSocket", "host"))


def probe_hosts(pod: Pod) -> Violation | None:
    """Refuse probes and hooks that ask another host than the pod."""
    hosts = {name: _hosts(container) for name, container, _ in pod.containers}
    names, asked = sorted(name for name, of in hosts.items() if of), sorted(set().union(*hosts.values()))
    what = plural("probe or lifecycle host", asked)
    text = f"{named('container', names)} {'uses' if len(names) == 1 else 'use'} {what} {quoted(asked)}"
    return Violation("probe or lifecycle host", text) if names else None


def _hosts(container: Obj) -> set[str]:
    handlers = [container.get(name) for name in ("livenessProbe", "readinessProbe", "startupProbe")]
    handlers += [nested_field(container, "lifecycle", name) for name in ("postStart", "preStop")]
    return {host for handler in handlers for path in _ACTIONS if (host := nested_field(handler, *path))}


def privileged(pod: Pod) -> Violation | None:
    """Refuse privileged containers."""
    names = pod.having(lambda s: s.get("privileged"))
    text = f"{named('container', names)} must not set securityContext.privileged=true"
    return Violation("privileged", text) if names else None


def proc_mount(pod: Pod) -> Violation | None:
    """Refuse a procMount other than Default; pods in a user namespace may have one if the gate allows it."""
    mounts = {name: s["procMount"] for name, _, s in pod.containers if s.get("procMount") not in (None, "Default")}
    values = quoted(sorted({*mounts.values()}))
    text = f"{named('container', mounts)} must not set securityContext.procMount to {values}"
    return Violation("procMount", text) if mounts and not pod.relaxed else None


SE_LINUX = frozenset(("", "container_t", "container_init_t", "container_kvm_t"))


def se_linux(types: frozenset[str]) -> Check:
    """Return the check that refuses SELinux users, roles, and types that are not among `types`."""

    def bad(security: Obj) -> bool:
        options = security.get("seLinuxOptions") or {}
        return options.get("type", "") not in types or bool(options.get("user") or options.get("role"))

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
    """Refuse seccomp profiles in annotations, which were used before there were fields."""
    keys = {
        _SECCOMP_ANNOTATION,
        *(f"container.seccomp.security.alpha.kubernetes.io/{name}" for name, *_ in pod.containers),
    }
    forbidden = {key: value for key, value in pod.annotations.items() if key in keys and not _is_allowed_seccomp(value)}
    texts = sorted(f"{key}={go_quote(value)}" for key, value in forbidden.items())
    return Violation("seccompProfile", f"forbidden {plural('annotation', texts)} {', '.join(texts)}") if texts else None


def _is_allowed_seccomp(value: str) -> bool:
    """Report whether the baseline level allows a seccomp profile that an annotation names."""
    return value in ("runtime/default", "docker/default") or value.startswith("localhost/")


def seccomp(pod: Pod) -> Violation | None:
    """Refuse seccomp profiles other than RuntimeDefault and Localhost."""
    setters = pod.setting(
        lambda s: nested_field(s, "seccompProfile") and nested_field(s, "seccompProfile", "type") not in _SECCOMP
    )
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
    """Return the check that refuses sysctls that are not among `allowed`."""

    def check(pod: Pod) -> Violation | None:
        names = [sysctl.get("name", "") for sysctl in pod.security.get("sysctls") or []]
        forbidden = [name for name in names if name not in allowed]
        return Violation("forbidden sysctls", ", ".join(forbidden)) if forbidden else None

    return check


def host_process(pod: Pod) -> Violation | None:
    """Refuse HostProcess containers, which have the rights of the Windows host."""
    setters = pod.setting(lambda s: nested_field(s, "windowsOptions", "hostProcess"))
    text = f"{' and '.join(setters)} must not set securityContext.windowsOptions.hostProcess=true"
    return Violation("hostProcess", text) if setters else None
