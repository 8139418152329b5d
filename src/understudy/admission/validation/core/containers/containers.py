"""Validation of the containers of a pod: regular ones, init containers, ephemeral ones."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from understudy.admission.validation.core.containers import env, handlers, mounts, resources
from understudy.admission.validation.core.pods import security
from understudy.admission.validation.core.pods.pod_options import Options
from understudy.admission.validation.formats import choice, invalid_texts, label, port_name_texts, port_number_texts
from understudy.machinery.types import Obj
from understudy.machinery.validation.bad_values import Printed, Typed
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
_NOT_EPHEMERAL = ("ports", "resources", "resizePolicy", "restartPolicy", *_PROBES, "lifecycle")


@dataclass(frozen=True, slots=True)
class Surroundings:
    """The parts of a pod that its containers depend on: valid volumes by name, claims, policies, grace period."""

    volumes: Mapping[str, Obj]
    claims: frozenset[str]
    restart_policy: str
    grace: int | None
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
        errors += handlers.lifecycle(container, pod.grace, here.child("lifecycle"), pod.opts)
        errors += handlers.probes(container, pod.grace, here, pod.opts)
        if container.get("restartPolicy") is not None:
            errors.append(forbidden(here.child("restartPolicy"), "may not be set for non-init containers"))
    return errors + host_ports(items, path)


def initial(items: Sequence[Obj], others: Sequence[Obj], path: Path, pod: Surroundings) -> Errors:
    """Check `initContainers` (upstream: `validateInitContainers`); sidecars may have probes and hooks."""
    errors: Errors = []
    seen = {c.get("name", "") for c in others}
    for i, container in enumerate(items):
        here, name, policy = path.index(i), container.get("name", ""), container.get("restartPolicy")
        errors += _common(container, here, pod)
        if policy is not None:
            errors += choice(policy, ("Always",), here.child("restartPolicy"))
        if name in seen:
            errors.append(duplicate(here.child("name"), name))
        elif name:
            seen.add(name)
        errors += host_ports([container], path)
        errors += _initial_hooks(container, here, pod)
        if container.get("resizePolicy") and not pod.opts.sidecar_resize:
            errors.append(_no_resize(container, here, pod.opts))
    return errors


def _initial_hooks(container: Obj, path: Path, pod: Surroundings) -> Errors:
    if container.get("restartPolicy") == "Always":
        errors = handlers.lifecycle(container, pod.grace, path.child("lifecycle"), pod.opts)
        return errors + handlers.probes(container, pod.grace, path, pod.opts)
    text = "may not be set for init containers without restartPolicy=Always"
    return [forbidden(path.child(name), text) for name in ("lifecycle", *_PROBES) if container.get(name) is not None]


def _no_resize(container: Obj, path: Path, opts: Options) -> Any:
    name = "k8s.io/kubernetes/pkg/apis/core.ContainerResizePolicy"
    bad_value = Typed(container["resizePolicy"], f"[]{name}")
    return invalid(path.child("resizePolicy"), bad_value, "must not be set for init containers")


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
        errors += [forbidden(here.child(field), text) for field in _NOT_EPHEMERAL if container.get(field)]
        for j, mount in enumerate(container.get("volumeMounts") or ()):
            where = here.child("volumeMounts").index(j)
            errors += [forbidden(where.child(field), text) for field in ("subPath", "subPathExpr") if mount.get(field)]
    return errors


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
    return [
        *errors,
        *_ports(container.get("ports") or (), path.child("ports")),
        *env.variables(container.get("env"), path.child("env"), opts),
        *env.sources(container.get("envFrom"), path.child("envFrom"), opts),
        *mounts.mounts(container, pod.volumes, path.child("volumeMounts")),
        *mounts.devices(container, pod.volumes, path.child("volumeDevices")),
        *pull_policy(container.get("imagePullPolicy", ""), path.child("imagePullPolicy")),
        *resources.requirements(
            container.get("resources"), pod.claims, path.child("resources"), any_pages=opts.any_pages
        ),
        *_resize(container.get("resizePolicy") or (), path.child("resizePolicy"), pod.restart_policy),
        *security.of_container(container.get("securityContext"), path.child("securityContext"), pod.host_users, opts),
    ]


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


def _resize(policies: Sequence[Obj], path: Path, restart_policy: str) -> Errors:
    errors: Errors = []
    seen: set[str] = set()
    for i, item in enumerate(policies):
        resource, policy = item.get("resourceName", ""), item.get("restartPolicy", "")
        if resource in seen:
            errors.append(duplicate(path.index(i), Printed(resource)))
        seen.add(resource)
        if not resource:
            errors.append(required(path))
        elif resource not in ("cpu", "memory"):
            errors.append(not_supported(path, Printed(resource), ("cpu", "memory")))
        errors += choice(policy, RESIZE_POLICIES, path, needed=True)
        if restart_policy == "Never" and policy != "NotRequired":
            errors.append(invalid(path, policy, "must be 'NotRequired' when `restartPolicy` is 'Never'"))
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
