"""Parts of a pod spec that many rules go through."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from understudy.machinery.types import Obj, nested_field
from understudy.machinery.validation.field import Path

KINDS_OF_CONTAINERS = ("containers", "initContainers", "ephemeralContainers")


def containers(spec: Obj, *kinds: str) -> Iterable[Obj]:
    """Yield the containers of a pod spec of the given kinds, in this order."""
    for kind in kinds or KINDS_OF_CONTAINERS:
        yield from spec.get(kind) or []


def with_paths(spec: Obj, path: Path) -> Iterator[tuple[Obj, Path]]:
    """Yield every container with its path, init containers first."""
    for kind in ("initContainers", "containers", "ephemeralContainers"):
        for i, container in enumerate(spec.get(kind) or ()):
            yield container, path.child(kind).index(i)


def probes(spec: Obj) -> Iterable[Obj]:
    """Yield every probe of a pod spec."""
    for container in containers(spec):
        for kind in ("livenessProbe", "readinessProbe", "startupProbe"):
            if container.get(kind):
                yield container[kind]


def http_handlers(spec: Obj) -> Iterable[Obj]:
    """Yield every probe and lifecycle hook of a pod spec that sends an HTTP request."""
    yield from (probe for probe in probes(spec) if probe.get("httpGet"))
    for container in containers(spec):
        hooks = container.get("lifecycle") or {}
        yield from (hooks[kind] for kind in ("postStart", "preStop") if (hooks.get(kind) or {}).get("httpGet"))


def affinity_terms(spec: Obj) -> Iterable[Obj]:
    """Yield every term of pod affinity and anti-affinity, required ones and preferred ones."""
    affinity = spec.get("affinity") or {}
    for kind in ("podAffinity", "podAntiAffinity"):
        terms_of_kind = affinity.get(kind) or {}
        yield from terms_of_kind.get("requiredDuringSchedulingIgnoredDuringExecution") or []
        for weighted in terms_of_kind.get("preferredDuringSchedulingIgnoredDuringExecution") or []:
            yield weighted.get("podAffinityTerm") or {}


def template_of(workload: Obj | None) -> Obj | None:
    """Return the pod template of a workload, None if it has none."""
    pod_template: Obj | None = nested_field(workload, "spec", "template")
    return pod_template
