"""Validation of the containers of a pod: regular ones, init containers, ephemeral ones."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from understudy.kinds.common.formats import choice, invalid_texts, label, port_name_texts, port_number_texts
from understudy.kinds.core.pods.containers import env, handlers, mounts, resources, restarts, security
from understudy.kinds.core.pods.in_use import is_sidecar
from understudy.kinds.core.pods.pod_options import Options
from understudy.machinery.releases.version import V1_31, V1_36, ByRelease
from understudy.machinery.serializer.json_fast import has_empty_fields
from understudy.machinery.types import Obj, dataclass
from understudy.machinery.validation.bad_values import Stringer, Typed
from understudy.machinery.validation.field import (
    Errors,
    Path,
    duplicate,
    forbidden,
    invalid,
    not_found,
    not_supported,
    required,
)

PULL_POLICIES = ("Always", "IfNotPresent", "Never")
PROTOCOLS = ("SCTP", "TCP", "UDP")
RESIZE_POLICIES = ("NotRequired", "RestartContainer")
_MESSAGE_POLICIES = ("File", "FallbackToLogsOnError")
_PROBES = ("livenessProbe", "readinessProbe", "startupProbe")
# Fields that ephemeral containers cannot have, in the order of the Go type.
_NOT_EPHEMERAL = ("ports", "resources", "resizePolicy", "restartPolicy", "restartPolicyRules", *_PROBES, "lifecycle")


@dataclass(frozen=True, slots=True)
class Surroundings:
    """The parts of a pod that its containers depend on: valid volumes by name, claims, policies, grace period, and the
    name of the operating system, None for a pod without one."""

    volumes: Mapping[str, Obj]
    claims: frozenset[str]
    restart_policy: str
    grace: int | None
    system: str | None
    host_users: bool
    opts: Options


def regular(items: Sequence[Obj], path: Path, pod: Surroundings) -> Errors:
    """Check `containers`, of which there is at least one (upstream: `validateContainers`)."""
    if not items:
        return [required(path)]
    errors: Errors = []
    seen: set[str] = set()
    for i, container in enumerate(items):
        here, name = path.index(i), container.get("name", "")
        errors += _common(container, here, pod)
        if name in seen:
            errors.append(duplicate(here.child("name"), name))
        seen.add(name)
        errors += handlers.lifecycle(container, pod.grace, here.child("lifecycle"), pod.opts, pod.system)
        errors += handlers.probes(container, pod.grace, here, pod.opts)
        errors += restarts.of_regular(container, here, pod.opts)
    return errors + host_ports(items, path)


def initial(items: Sequence[Obj], others: Sequence[Obj], path: Path, pod: Surroundings) -> Errors:
    """Check `initContainers` (upstream: `validateInitContainers`); sidecars may have probes and hooks."""
    errors: Errors = []
    seen = {c.get("name", "") for c in others}
    for i, container in enumerate(items):
        here, name = path.index(i), container.get("name", "")
        errors += _common(container, here, pod)
        errors += restarts.of_init(container, here, pod.opts)
        if name in seen:
            errors.append(duplicate(here.child("name"), name))
        elif name:
            seen.add(name)
        errors += host_ports([container], path)
        errors += _initial_hooks(container, here, pod)
        if container.get("resizePolicy"):
            errors += _resize_of_init(container, here.child("resizePolicy"), pod.opts)
    return errors


def _initial_hooks(container: Obj, path: Path, pod: Surroundings) -> Errors:
    if is_sidecar(container):
        errors = handlers.lifecycle(container, pod.grace, path.child("lifecycle"), pod.opts, pod.system)
        return errors + handlers.probes(container, pod.grace, path, pod.opts)
    text = "may not be set for init containers without restartPolicy=Always"
    return [forbidden(path.child(name), text) for name in ("lifecycle", *_PROBES) if container.get(name) is not None]


def _resize_of_init(container: Obj, path: Path, opts: Options) -> Errors:
    """Check that init containers have resize policies only where they are allowed, and that only sidecars restart."""
    policies = container["resizePolicy"]
    errors: Errors = []
    if not opts.resize_policy_of_init:
        bad_value = Typed(policies, "[]k8s.io/kubernetes/pkg/apis/core.ContainerResizePolicy")
        errors.append(invalid(path, bad_value, "must not be set for init containers"))
    if is_sidecar(container) or opts.restart_container_of_init:
        return errors
    text = "must not be set to 'RestartContainer' for non-sidecar initContainers"
    return errors + [
        invalid(path.index(j).child("restartPolicy"), "RestartContainer", text)
        for j, policy in enumerate(policies)
        if policy.get("restartPolicy") == "RestartContainer"
    ]


def ephemeral(items: Sequence[Obj], others: Sequence[Obj], path: Path, pod: Surroundings) -> Errors:
    """Check `ephemeralContainers`; `others` are all containers of the other kinds."""
    errors: Errors = []
    targets = {c.get("name", "") for c in others}
    seen = set(targets)
    for i, container in enumerate(items):
        here, name, target = path.index(i), container.get("name", ""), container.get("targetContainerName")
        errors += _common(container, here, pod)
        errors += trimmed_image(container, here)
        if name in seen:
            errors.append(duplicate(here.child("name"), name))
        seen.add(name)
        if target and target not in targets:
            errors.append(not_found(here.child("targetContainerName"), target))
        text = "cannot be set for an Ephemeral Container"
        errors += [forbidden(here.child(field), text) for field in _NOT_EPHEMERAL if _is_set(container, field)]
        for j, mount in enumerate(container.get("volumeMounts") or ()):
            where = here.child("volumeMounts").index(j)
            errors += [forbidden(where.child(field), text) for field in ("subPath", "subPathExpr") if mount.get(field)]
    return errors


def _is_set(container: Obj, field: str) -> bool:
    """Report whether Go holds more than a zero value: a list that was sent empty is not nil."""
    if field == "resources":
        return bool(container.get(field)) or has_empty_fields(container.get(field))
    return container.get(field) is not None or field in getattr(container, "empty", ())


def trimmed_image(container: Obj, path: Path) -> Errors:
    """Check that an image has no space around it."""
    image = container.get("image", "")
    if image == image.strip():
        return []
    return [invalid(path.child("image"), image, "must not have leading or trailing whitespace")]


def _common(container: Obj, path: Path, pod: Surroundings) -> Errors:
    name, opts = container.get("name", ""), pod.opts
    errors = label(name, path.child("name")) if name else [required(path.child("name"))]
    if not container.get("image"):
        errors.append(required(path.child("image")))
    policy = container.get("terminationMessagePolicy", "")
    errors += choice(policy, _MESSAGE_POLICIES, path.child("terminationMessagePolicy"), needed=True)
    if ports := container.get("ports"):
        errors += _ports(ports, path.child("ports"))
    if variables := container.get("env"):
        errors += env.variables(variables, path.child("env"), opts)
    if sources := container.get("envFrom"):
        errors += env.sources(sources, path.child("envFrom"), opts)
    if container.get("volumeMounts"):
        errors += mounts.mounts(container, pod.volumes, path.child("volumeMounts"), opts)
    if container.get("volumeDevices"):
        errors += mounts.devices(container, pod.volumes, path.child("volumeDevices"))
    errors += pull_policy(container.get("imagePullPolicy", ""), path.child("imagePullPolicy"))
    if amounts := container.get("resources"):
        errors += resources.requirements(amounts, pod.claims, path.child("resources"))
    if policies := container.get("resizePolicy"):
        errors += _resize(policies, path.child("resizePolicy"), pod)
    if context := container.get("securityContext"):
        errors += security.of_container(context, path.child("securityContext"), pod.host_users, opts)
    return errors


def pull_policy(policy: str, path: Path) -> Errors:
    """Check the policy for pulling an image."""
    return choice(policy, PULL_POLICIES, path, needed=True)


def _ports(items: Sequence[Obj], path: Path) -> Errors:
    errors: Errors = []
    names: set[str] = set()
    for i, port in enumerate(items):
        here, name, number, host = (
            path.index(i),
            port.get("name", ""),
            port.get("containerPort", 0),
            port.get("hostPort"),
        )
        texts = port_name_texts(name) if name else []
        errors += invalid_texts(texts, name, here.child("name"))
        if name in names:
            errors.append(duplicate(here.child("name"), name))
        if name and not texts:
            names.add(name)
        if number:
            errors += invalid_texts(port_number_texts(number), number, here.child("containerPort"))
        else:
            errors.append(required(here.child("containerPort")))
        if host:
            errors += invalid_texts(port_number_texts(host), host, here.child("hostPort"))
        errors += choice(port.get("protocol", ""), PROTOCOLS, here.child("protocol"), needed=True)
    return errors


_NEVER = ByRelease({V1_36: "when pod `restartPolicy`", V1_31: "when `restartPolicy`"})


def _resize(policies: Sequence[Obj], path: Path, pod: Surroundings) -> Errors:
    errors: Errors = []
    seen: set[str] = set()
    for i, item in enumerate(policies):
        resource, policy = item.get("resourceName", ""), item.get("restartPolicy", "")
        if resource in seen:
            errors.append(duplicate(path.index(i), Stringer(resource, resource)))
        seen.add(resource)
        if not resource:
            errors.append(required(path))
        elif resource not in ("cpu", "memory"):
            errors.append(not_supported(path, Stringer(resource, resource), ("cpu", "memory")))
        errors += choice(policy, RESIZE_POLICIES, path, needed=True)
        if pod.restart_policy == "Never" and policy != "NotRequired":
            text = f"must be 'NotRequired' {_NEVER[pod.opts.version]} is 'Never'"
            errors.append(invalid(path, policy, text))
    return errors


def host_ports(items: Sequence[Obj], path: Path) -> Errors:
    """Check that no two containers listen on the same port of the host."""
    errors: Errors = []
    seen: set[str] = set()
    for i, container in enumerate(items):
        for j, port in enumerate(container.get("ports") or ()):
            if not port.get("hostPort"):
                continue
            key = f"{port.get('protocol', '')}/{port.get('hostIP', '')}/{port['hostPort']}"
            if key in seen:
                errors.append(duplicate(path.index(i).child("ports").index(j).child("hostPort"), key))
            seen.add(key)
    return errors
