"""Parts of a pod spec that many rules go through."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence

from understudy.machinery.types import Obj, nested_field
from understudy.machinery.validation.field import Path

KINDS_OF_CONTAINERS = ("containers", "initContainers", "ephemeralContainers")


def containers(spec: Obj, *kinds: str) -> Sequence[Obj]:
    """Return the containers of a pod spec of the given kinds, in this order."""
    return [container for kind in kinds or KINDS_OF_CONTAINERS for container in spec.get(kind) or ()]


def with_paths(spec: Obj, path: Path) -> Iterator[tuple[Obj, Path]]:
    """Yield every container with its path, init containers first."""
    for kind in ("initContainers", "containers", "ephemeralContainers"):
        if items := spec.get(kind):
            here = path.child(kind)
            for i, container in enumerate(items):
                yield container, here.index(i)


def probes(spec: Obj) -> Sequence[Obj]:
    """Return every probe of a pod spec."""
    kinds = ("livenessProbe", "readinessProbe", "startupProbe")
    return [container[kind] for container in containers(spec) for kind in kinds if container.get(kind)]


def http_handlers(spec: Obj) -> Sequence[Obj]:
    """Return every probe and lifecycle hook of a pod spec that sends an HTTP request."""
    hooks = [container["lifecycle"] for container in containers(spec) if container.get("lifecycle")]
    handlers = [of[kind] for of in hooks for kind in ("postStart", "preStop") if of.get(kind)]
    return [handler for handler in (*probes(spec), *handlers) if handler.get("httpGet")]


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
