"""Validation of security contexts of pods and containers: users, groups, profiles, sysctls, what Windows allows.

https://kubernetes.io/docs/tasks/configure-pod-container/security-context/
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Any

from understudy.kinds.common.formats import MAX_INT32, choice, descending_path, invalid_texts, range_text
from understudy.kinds.core.pods.pod_options import ALLOW_PRIVILEGED, Options
from understudy.machinery.releases.version import V1_31, V1_34, V1_37, ByRelease, Version
from understudy.machinery.types import Obj
from understudy.machinery.validation.bad_values import Typed
from understudy.machinery.validation.field import Errors, Path, duplicate, forbidden, invalid, required, too_long
from understudy.machinery.validation.names import dns_subdomain_texts, size

CORE = "k8s.io/kubernetes/pkg/apis/core."
_PROFILES = ("Localhost", "RuntimeDefault", "Unconfined")
_SYSCTL_SEGMENT = "[a-z0-9]([-_a-z0-9]*[a-z0-9])?"
_SYSCTL = rf"^({_SYSCTL_SEGMENT}[\./])*{_SYSCTL_SEGMENT}$"
_MAX_SYSCTL = 253
_MAX_PROFILE = 4095  # PATH_MAX less one
_IPC_SYSCTLS = ("kernel.shm", "kernel.msg", "kernel.sem", "fs.mqueue.")


def identifier(value: Any, path: Path, highest: int = MAX_INT32) -> Errors:
    """Check a user or group id (upstream: `IsValidUserID`)."""
    return [] if value is None or 0 <= value <= highest else [invalid(path, value, range_text(0, highest))]


def of_pod(context: Obj | None, spec: Obj, path: Path, opts: Options) -> Errors:
    """Check a PodSecurityContext (upstream: `ValidatePodSecurityContext`)."""
    if not context:  # as it is by default
        return shared_processes(spec, path) if context is not None and opts.version < V1_37 else []
    errors: Errors = []
    for name in ("fsGroup", "runAsUser", "runAsGroup"):
        errors += identifier(context.get(name), path.child(name))
    for i, group in enumerate(context.get("supplementalGroups") or ()):
        errors += identifier(group, path.child("supplementalGroups").index(i))
    if opts.version < V1_37:
        errors += shared_processes(spec, path)
    errors += _sysctls(context.get("sysctls") or (), spec, path.child("sysctls"), opts)
    errors += _chosen(context, "fsGroupChangePolicy", ("Always", "OnRootMismatch"), path)
    errors += _seccomp(context.get("seccompProfile"), path.child("seccompProfile"), opts)
    errors += _windows(context.get("windowsOptions"), path.child("windowsOptions"))
    errors += app_armor(context.get("appArmorProfile"), path.child("appArmorProfile"))
    errors += _chosen(context, "supplementalGroupsPolicy", ("Merge", "Strict"), path)
    policies = ("Recursive",) if opts.only_recursive_selinux else ("MountOption", "Recursive")
    return errors + _chosen(context, "seLinuxChangePolicy", policies, path)


def shared_processes(spec: Obj, path: Path) -> Errors:
    """Check that containers do not share their processes where they have those of the host (upstream:
    `validateShareProcessNamespace`)."""
    if not spec.get("shareProcessNamespace") or not spec.get("hostPID"):
        return []
    text = "ShareProcessNamespace and HostPID cannot both be enabled"
    return [invalid(path.child("shareProcessNamespace"), True, text)]


def _chosen(context: Obj, name: str, allowed: Sequence[str], path: Path) -> Errors:
    value = context.get(name)
    return [] if value is None else choice(value, allowed, path.child(name))


def of_container(context: Obj | None, path: Path, host_users: bool, opts: Options) -> Errors:
    """Check a SecurityContext (upstream: `ValidateSecurityContext`)."""
    if context is None:
        return []
    errors: Errors = []
    if context.get("privileged") and not ALLOW_PRIVILEGED:
        errors.append(forbidden(path.child("privileged"), "disallowed by cluster policy"))
    for name in ("runAsUser", "runAsGroup"):
        errors += identifier(context.get(name), path.child(name))
    mount = context.get("procMount")
    if mount is not None:
        errors += choice(mount, ("Default", "Unmasked"), path.child("procMount"))
        if mount == "Unmasked" and host_users:
            errors.append(invalid(path.child("procMount"), mount, "`hostUsers` must be false to use `Unmasked`"))
    errors += _seccomp(context.get("seccompProfile"), path.child("seccompProfile"), opts)
    errors += _escalation(context, path, opts)
    errors += _windows(context.get("windowsOptions"), path.child("windowsOptions"))
    return errors + app_armor(context.get("appArmorProfile"), path.child("appArmorProfile"))


def _escalation(context: Obj, path: Path, opts: Options) -> Errors:
    if context.get("allowPrivilegeEscalation") is not False:
        return []
    bad_value = Typed(context, f"{CORE}SecurityContext")
    errors: Errors = []
    text = "cannot set `allowPrivilegeEscalation` to false and"
    if context.get("privileged"):
        errors.append(invalid(path, bad_value, f"{text} `privileged` to true"))
    added = (context.get("capabilities") or {}).get("add") or ()
    return errors + [
        invalid(path, bad_value, f"{text} `capabilities.Add` CAP_SYS_ADMIN") for cap in added if cap == "CAP_SYS_ADMIN"
    ]


def _sysctls(sysctls: Sequence[Obj], spec: Obj, path: Path, opts: Options) -> Errors:
    errors: Errors = []
    seen: set[str] = set()
    for i, sysctl in enumerate(sysctls):
        here, name = path.index(i).child("name"), sysctl.get("name", "")
        if not name:
            errors.append(required(here))
        elif len(name) > _MAX_SYSCTL or not re.match(_SYSCTL, name):
            errors.append(invalid(here, name, f"must have at most {_MAX_SYSCTL} characters and match regex {_SYSCTL}"))
        elif name in seen:
            errors.append(duplicate(here, name))
        errors += _of_host(name, spec, here)
        seen.add(name)
    return errors


def _of_host(name: str, spec: Obj, path: Path) -> Errors:
    """Report whether a sysctl is of a namespace that the pod shares with the host."""
    dotted = name.replace("/", ".")
    if spec.get("hostNetwork") and dotted.startswith("net."):
        return [invalid(path, name, "may not be specified when 'hostNetwork' is true")]
    if spec.get("hostIPC") and dotted.startswith(_IPC_SYSCTLS):
        return [invalid(path, name, "may not be specified when 'hostIPC' is true")]
    return []


def _seccomp(profile: Obj | None, path: Path, opts: Options) -> Errors:
    if profile is None:
        return []
    kind, local = profile.get("type", ""), profile.get("localhostProfile")
    if kind:
        errors = choice(kind, _PROFILES, path.child("type"))
    else:
        errors = [required(path.child("type"), "type is required when seccompProfile is set")]
    here = path.child("localhostProfile")
    if kind == "Localhost":
        if local is None:
            return [*errors, required(here, "must be set when seccomp type is Localhost")]
        return errors + descending_path(local, here)
    if local is not None:
        bad_value = Typed(profile, f"{CORE}SeccompProfile")
        errors.append(invalid(here, bad_value, "can only be set when seccomp type is Localhost"))
    return errors


def app_armor(profile: Obj | None, path: Path) -> Errors:
    """Check an AppArmorProfile (upstream: `ValidateAppArmorProfileField`)."""
    if profile is None:
        return []
    kind, local, here = profile.get("type", ""), profile.get("localhostProfile"), path.child("localhostProfile")
    if not kind:
        return [required(path.child("type"), "type is required when appArmorProfile is set")]
    if kind != "Localhost":
        errors = choice(kind, _PROFILES, path.child("type"))
        if not errors and local is not None:
            errors.append(invalid(here, local, "can only be set when AppArmor type is Localhost"))
        return errors
    if not local:
        return [required(here, "must be set when AppArmor type is Localhost")]
    errors = [] if local == local.strip() else [invalid(here, local, "must not be padded with whitespace")]
    return errors + ([too_long(here, _MAX_PROFILE)] if size(local) > _MAX_PROFILE else [])


_USER_DOMAIN = r"[a-zA-Z0-9](?:[a-zA-Z0-9-]{0,61}[a-zA-Z0-9])?"
_NETBIOS = r'[^\\/:\*\?"<>|\.][^\\/:\*\?"<>|]{0,14}'


def _windows(options: Obj | None, path: Path) -> Errors:
    if options is None:
        return []
    errors: Errors = []
    name, credentials, user = (
        options.get(n) for n in ("gmsaCredentialSpecName", "gmsaCredentialSpec", "runAsUserName")
    )
    if name is not None:
        errors += invalid_texts(dns_subdomain_texts(name), name, path.child("gmsaCredentialSpecName"))
    if credentials == "":
        errors.append(invalid(path.child("gmsaCredentialSpec"), "", "gmsaCredentialSpec cannot be an empty string"))
    elif credentials and size(credentials) > 64 * 1024:
        text = "gmsaCredentialSpec size must be under 64 KiB"
        errors.append(invalid(path.child("gmsaCredentialSpec"), credentials, text))
    if user is not None:
        errors += invalid_texts(
            (f"runAsUserName{text}" for text in _windows_user(user)), user, path.child("runAsUserName")
        )
    return errors


def _windows_user(value: str) -> list[str]:
    """Check a user of Windows, [DOMAIN\\]USER."""
    if not value:
        return [" cannot be an empty string"]
    if re.search(r"[\x00-\x1f\x7f]", value):
        return [" cannot contain control characters"]
    if value.count("\\") > 1:
        return [" cannot contain more than one backslash"]
    domain, backslash, user = value.rpartition("\\")
    dns = rf"{_USER_DOMAIN}(?:\.{_USER_DOMAIN})*"
    checks = (
        (len(domain) >= 256, "'s Domain length must be under 256 characters"),
        (
            bool(backslash) and not re.fullmatch(_NETBIOS, domain) and not re.fullmatch(dns, domain),
            "'s Domain doesn't match the NetBios nor the DNS format",
        ),
        (not user, "'s User cannot be empty"),
        (len(user) > 104, "'s User length must not be longer than 104 characters"),
        (bool(re.fullmatch(r"[. ]+", user)), "'s User cannot contain only periods or spaces"),
        (
            bool(re.search(r'["/\\:;|=,+*?<>@\[\]]', user)),
            "'s User cannot contain the following characters: \"/\\:;|=,+*?<>@[]",
        ),
    )
    return [text for wrong, text in checks if wrong]


def host_process(spec: Obj, path: Path) -> Errors:
    """Check host processes of Windows: all containers of a pod or none, and in the host's network."""
    of_pod = _host_process(spec)
    errors: Errors = []
    flags: list[bool] = []
    for kind in ("initContainers", "containers", "ephemeralContainers"):
        for i, container in enumerate(spec.get(kind) or ()):
            own = _host_process(container)
            if own is not None and of_pod is not None and own != of_pod:
                text = f"pod hostProcess value must be identical if both are specified, was {str(of_pod).lower()}"
                here = path.child(kind).index(i).child("securityContext", "windowsOptions", "hostProcess")
                errors.append(invalid(here, own, text))
            flags.append(bool(of_pod if own is None else own))
    if any(flags):
        if not all(flags):
            text = "If pod contains any hostProcess containers then all containers must be HostProcess containers"
            errors.append(invalid(path, "", text))
        if not spec.get("hostNetwork"):
            text = "hostNetwork must be true if pod contains any hostProcess containers"
            errors.append(invalid(path.child("hostNetwork"), False, text))
        if not ALLOW_PRIVILEGED:
            errors.append(forbidden(path, "hostProcess containers are disallowed by cluster policy"))
    return errors


def _host_process(of: Obj) -> bool | None:
    options: Obj = (of.get("securityContext") or {}).get("windowsOptions") or {}
    return options.get("hostProcess")


# Fields that a Windows pod cannot have: in the spec, and in its security context.
_NOT_WINDOWS = (
    ("securityContext", "appArmorProfile"),
    ("securityContext", "seLinuxOptions"),
    ("hostUsers",),
    ("hostPID",),
    ("hostIPC",),
    ("securityContext", "seccompProfile"),
    ("securityContext", "fsGroup"),
    ("securityContext", "fsGroupChangePolicy"),
    ("securityContext", "sysctls"),
    ("shareProcessNamespace",),
    ("securityContext", "runAsUser"),
    ("securityContext", "runAsGroup"),
    ("securityContext", "supplementalGroups"),
    ("securityContext", "supplementalGroupsPolicy"),
    ("securityContext", "seLinuxChangePolicy"),
)
_NOT_WINDOWS_CONTAINERS = (
    "appArmorProfile",
    "seLinuxOptions",
    "seccompProfile",
    "capabilities",
    "readOnlyRootFilesystem",
    "privileged",
    "allowPrivilegeEscalation",
    "procMount",
    "runAsUser",
    "runAsGroup",
)
_OF_HOST = ("hostPID", "hostIPC")


_NO_NAME = ByRelease({V1_34: "", V1_31: "cannot be empty"})


def operating_system(spec: Obj, path: Path, version: Version) -> Errors:
    """Check `os`, and that no field is set that does not fit the operating system."""
    if spec.get("os") is None:
        return []
    name, here = spec["os"].get("name", ""), path.child("os")
    if not name:
        return [required(here.child("name"), _NO_NAME[version])]
    errors = choice(name, ("linux", "windows"), here)
    if errors:
        return errors
    text = f"cannot be set for a {name} pod" if name == "windows" else "windows options cannot be set for a linux pod"
    of_pod = _not_windows(version) if name == "windows" else (("securityContext", "windowsOptions"),)
    of_containers = _NOT_WINDOWS_CONTAINERS if name == "windows" else ("windowsOptions",)
    errors = [forbidden(path.child(*names), text) for names in of_pod if _is_set(spec, names)]
    for kind in ("initContainers", "containers", "ephemeralContainers"):
        for i, container in enumerate(spec.get(kind) or ()):
            context, where = container.get("securityContext") or {}, path.child(kind).index(i).child("securityContext")
            errors += [forbidden(where.child(n), text) for n in of_containers if context.get(n) is not None]
    return errors


def _not_windows(version: Version) -> Sequence[tuple[str, ...]]:
    """Return the fields that a Windows pod cannot have; since 1.37 those of the security context come first."""
    return sorted(_NOT_WINDOWS, key=lambda names: -len(names)) if version >= V1_37 else _NOT_WINDOWS


def _is_set(spec: Obj, names: tuple[str, ...]) -> bool:
    parent = spec if len(names) == 1 else spec.get(names[0]) or {}
    value = parent.get(names[-1])
    return bool(value) if names[-1] in (*_OF_HOST, "sysctls") else value is not None
