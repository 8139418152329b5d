"""Warnings about pods and templates that are accepted but most likely a mistake (upstream: `GetWarningsForPod`)."""

from __future__ import annotations

from collections.abc import Callable, Iterator

from understudy.kinds.common.address_warnings import warn_of_ip
from understudy.kinds.context import Context
from understudy.kinds.core.pods.annotations import APP_ARMOR, SECCOMP_CONTAINER, SECCOMP_POD, app_armor_profile
from understudy.kinds.core.pods.containers_of import with_paths
from understudy.kinds.core.pods.volumes.claim_warnings import claim_spec
from understudy.kinds.core.pods.volumes.path_warnings import overlapping
from understudy.kinds.core.resource_lists import fractional_bytes
from understudy.machinery.golang.text import go_quote
from understudy.machinery.releases import features
from understudy.machinery.releases.version import V1_32, V1_33, V1_34, Version
from understudy.machinery.types import Obj, nested_field
from understudy.machinery.validation.field import Path
from understudy.machinery.validation.names import dns_label_texts, label_value_texts

NODE_LABELS = {
    "beta.kubernetes.io/arch": 'deprecated since v1.14; use "kubernetes.io/arch" instead',
    "beta.kubernetes.io/os": 'deprecated since v1.14; use "kubernetes.io/os" instead',
    "failure-domain.beta.kubernetes.io/region": 'deprecated since v1.17; use "topology.kubernetes.io/region" instead',
    "failure-domain.beta.kubernetes.io/zone": 'deprecated since v1.17; use "topology.kubernetes.io/zone" instead',
    "beta.kubernetes.io/instance-type": 'deprecated since v1.17; use "node.kubernetes.io/instance-type" instead',
    "app.kubernetes.io/created-by": "deprecated since v1.9",
    "scheduler.alpha.kubernetes.io/preferAvoidPods": "deprecated since v1.22; use Taints and Tolerations instead",
    "node-role.kubernetes.io/master": 'use "node-role.kubernetes.io/control-plane" instead',
}
ANNOTATIONS = {
    "scheduler.alpha.kubernetes.io/critical-pod": 'non-functional in v1.16+; use the "priorityClassName" field instead',
    "security.alpha.kubernetes.io/sysctls": 'non-functional in v1.11+; use the "sysctls" field instead',
    "security.alpha.kubernetes.io/unsafe-sysctls": 'non-functional in v1.11+; use the "sysctls" field instead',
}
# {source of a volume: (how the path calls it, text)}
VOLUMES = {
    "photonPersistentDisk": ("photonPersistentDisk", "deprecated in v1.11, non-functional in v1.16+"),
    "gitRepo": ("gitRepo", "deprecated in v1.11"),
    "scaleIO": ("scaleIO", "deprecated in v1.16, non-functional in v1.22+"),
    "flocker": ("flocker", "deprecated in v1.22, non-functional in v1.25+"),
    "storageos": ("storageOS", "deprecated in v1.22, non-functional in v1.25+"),
    "quobyte": ("quobyte", "deprecated in v1.22, non-functional in v1.25+"),
    "glusterfs": ("glusterfs", "deprecated in v1.25, non-functional in v1.26+"),
    "cephfs": ("cephfs", "deprecated in v1.28, non-functional in v1.31+"),
    "rbd": ("rbd", "deprecated in v1.28, non-functional in v1.31+"),
}
_REQUIRED, _PREFERRED = (
    "requiredDuringSchedulingIgnoredDuringExecution",
    "preferredDuringSchedulingIgnoredDuringExecution",
)
_SECCOMP = 'non-functional in v1.27+; use the "seccompProfile" field instead'
_NULL_SELECTOR = "a null labelSelector results in matching no pod"
_NEGATIVE = "must be >= 0; negative values are invalid and will be treated as 1"
_BYTES = ("memory", "ephemeral-storage")
_EPHEMERAL = ("ephemeral", "volumeClaimTemplate", "spec")
HOSTNAME = "which can result in surprising behavior; a DNS label is recommended"


def create(pod: Obj, ctx: Context) -> None:
    """Warn of mistakes in a new pod."""
    hostname(pod, ctx, "this is used in the Pod's hostname")
    for text in _all(pod["spec"], pod["metadata"], Path(), ctx, is_template=False):
        ctx.warn(text)
    _addresses(pod["spec"], Path("spec"), ctx)


def template(pod_template: Obj | None, path: Path, ctx: Context) -> None:
    """Warn of mistakes in a pod template."""
    pod_template = pod_template or {}
    spec = pod_template.get("spec") or {}
    for text in _all(spec, pod_template.get("metadata") or {}, path, ctx, is_template=True):
        ctx.warn(text)
    _addresses(spec, path.child("spec"), ctx)


def status(pod: Obj, old: Obj, ctx: Context) -> None:
    """Warn of odd addresses in the status of a pod (upstream: `podStatusStrategy.WarningsOnUpdate`)."""
    for name in ("podIPs", "hostIPs"):
        for i, address in enumerate(nested_field(pod, "status", name, default=())):
            warn_of_ip(address.get("ip", ""), Path("status", name).index(i).child("ip"), ctx)


def _addresses(spec: Obj, path: Path, ctx: Context) -> None:
    for i, server in enumerate(nested_field(spec, "dnsConfig", "nameservers", default=())):
        warn_of_ip(server, path.child("dnsConfig", "nameservers").index(i), ctx)
    for i, alias in enumerate(spec.get("hostAliases") or ()):
        warn_of_ip(alias.get("ip", ""), path.child("hostAliases").index(i).child("ip"), ctx)


def hostname(obj: Obj, ctx: Context, use: str) -> None:
    """Warn of a name that is to become a host name, or a part of one, and is no label."""
    texts = dns_label_texts(obj["metadata"].get("name", ""))
    if texts:
        ctx.warn(f"metadata.name: {use}, {HOSTNAME}: [{' '.join(texts)}]")


def _all(spec: Obj, metadata: Obj, path: Path, ctx: Context, *, is_template: bool) -> Iterator[str]:
    annotations = metadata.get("annotations") or {}
    yield from _nodes(spec, path.child("spec"), ctx.release)
    for key, text in ANNOTATIONS.items():
        if key in annotations:
            yield f"{path.child('metadata', 'annotations').key(key)}: {text}"
    for i, volume in enumerate(spec.get("volumes") or ()):
        for source, (field, text) in VOLUMES.items():
            if volume.get(source) is not None:
                yield f"{path.child('spec', 'volumes').index(i).child(field)}: {text}{_disabled(source, ctx)}"
        claim = nested_field(volume, *_EPHEMERAL, default={})
        yield from claim_spec(claim, path.child("spec", "volumes").index(i).child(*_EPHEMERAL))
    if ctx.release >= V1_32:
        yield from overlapping(spec.get("volumes") or (), ctx.release)
    yield from _names(spec, path.child("spec"))
    yield from fractional_bytes(spec.get("overhead"), path.child("spec", "overhead"), *_BYTES)
    if SECCOMP_POD in annotations and not (spec.get("securityContext") or {}).get("seccompProfile"):
        yield f"{path.child('metadata', 'annotations').key(SECCOMP_POD)}: {_SECCOMP}"
    for container, here in with_paths(spec, path.child("spec")):
        if annotations:
            yield from _profiles(container, spec, annotations, path, is_template, ctx.release)
        if resources := container.get("resources"):
            for resource in _BYTES:
                for kind in ("limits", "requests"):
                    yield from fractional_bytes(resources.get(kind), here.child("resources", kind), resource)
        if variables := container.get("env"):
            yield from _hidden_variables(variables, here.child("env"))
    ports = [
        (here.child("ports").index(i), port)
        for container, here in with_paths(spec, path.child("spec"))
        for i, port in enumerate(container.get("ports") or ())
    ]
    yield from _ports(ports)
    if ctx.release >= V1_33:
        yield from _port_names(ports)
    if (spec.get("terminationGracePeriodSeconds") or 0) < 0:  # of a template: a pod has 1 by now
        yield f"{path.child('spec', 'terminationGracePeriodSeconds')}: {_NEGATIVE}"
    if affinity := spec.get("affinity"):
        yield from _affinity(affinity, path.child("spec", "affinity"))


def _disabled(source: str, ctx: Context) -> str:
    """Return the end of a warning of a volume that nodes do not mount unless a gate is on."""
    is_off = source == "gitRepo" and ctx.release >= V1_33 and not ctx.gates[features.GIT_REPO_VOLUME_DRIVER]
    return ", and disabled by default in v1.33+" if is_off else ""


def _nodes(spec: Obj, path: Path, version: Version) -> Iterator[str]:
    for key in sorted(spec.get("nodeSelector") or ()):
        if key in NODE_LABELS:
            yield f"{path.child('nodeSelector').key(key)}: {NODE_LABELS[key]}"
    affinity = (spec.get("affinity") or {}).get("nodeAffinity") or {}
    here = path.child("affinity", "nodeAffinity")
    terms = here.child(_REQUIRED, "nodeSelectorTerms")
    for i, term in enumerate((affinity.get(_REQUIRED) or {}).get("nodeSelectorTerms") or ()):
        yield from node_term(term, terms.index(i))
    for i, term in enumerate(affinity.get(_PREFERRED) or ()):
        preference, where = term.get("preference") or {}, here.child(_PREFERRED).index(i).child("preference")
        yield from node_term(preference, where, of_values=version >= V1_33)
    for i, item in enumerate(spec.get("topologySpreadConstraints") or ()):
        where, key = path.child("topologySpreadConstraints").index(i), item.get("topologyKey", "")
        if key in NODE_LABELS:
            yield f"{where.child('topologyKey')}: {key} is {NODE_LABELS[key]}"
        if item.get("labelSelector") is None:
            yield f"{where.child('labelSelector')}: {_NULL_SELECTOR}"


def node_term(term: Obj, path: Path, *, of_values: bool = False) -> Iterator[str]:
    """Warn of a deprecated label in a term of a node selector, and `of_values` that no label can have."""
    for i, item in enumerate(term.get("matchExpressions") or ()):
        key = item.get("key", "")
        if key in NODE_LABELS:
            yield f"{path.child('matchExpressions').index(i).child('key')}: {key} is {NODE_LABELS[key]}"
        for j, value in enumerate(item.get("values") or () if of_values else ()):
            where = path.child("matchExpressions").index(i).child("values").index(j)
            yield from (f"{where}: {value} is invalid, {text}" for text in label_value_texts(value))


def _names(spec: Obj, path: Path) -> Iterator[str]:
    yield from _twice(spec.get("hostAliases") or [], "ip", path.child("hostAliases"))
    secrets = spec.get("imagePullSecrets") or []
    yield from _twice(secrets, "name", path.child("imagePullSecrets"))
    for i, secret in enumerate(secrets):
        if not secret.get("name"):
            yield f'{path.child("imagePullSecrets").index(i).child("name")}: invalid empty name ""'


def _twice(items: list[Obj], key: str, path: Path) -> Iterator[str]:
    seen: set[str] = set()
    for i, item in enumerate(items):
        value = item.get(key, "")
        if value in seen:
            yield f"{path.index(i).child(key)}: duplicate {key} {go_quote(value)}"
        seen.add(value)


def _profiles(
    container: Obj, spec: Obj, annotations: Obj, path: Path, is_template: bool, version: Version
) -> Iterator[str]:
    own, of_pod = container.get("securityContext") or {}, spec.get("securityContext") or {}
    where, name = path.child("metadata", "annotations"), container.get("name", "")
    if SECCOMP_CONTAINER + name in annotations and not own.get("seccompProfile"):
        yield f"{where.key(SECCOMP_CONTAINER + name)}: {_SECCOMP}"
    profile, annotation = own.get("appArmorProfile"), annotations.get(APP_ARMOR + name)
    of_pod_profile = of_pod.get("appArmorProfile")
    # From 1.34 on the profile of the pod counts only if it says the same as the annotation.
    same = version < V1_34 or of_pod_profile == app_armor_profile(annotation or "")
    if is_template and annotation is not None and not profile and not (of_pod_profile and same):
        yield f'{where.key(APP_ARMOR + name)}: deprecated since v1.30; use the "appArmorProfile" field instead'


def _hidden_variables(variables: list[Obj], path: Path) -> Iterator[str]:
    seen: set[str] = set()
    for i, variable in enumerate(variables):
        name = variable.get("name", "")
        if name in seen:
            value, ref = variable.get("value", ""), f"$({name})"
            if variable.get("valueFrom") is not None or value == ref or ref not in value:
                text = f"hides previous definition of {go_quote(name)}, which may be dropped when using apply"
                yield f"{path.index(i)}: {text}"
        seen.add(name)


def _ports(ports: list[tuple[Path, Obj]]) -> Iterator[str]:
    seen: dict[str, list[tuple[Path, Obj]]] = {}
    for where, port in ports:
        if port.get("hostIP") and not port.get("hostPort"):
            shown = " ".join(f"{name[0].upper()}{name[1:]}:{port.get(name, zero)}" for name, zero in _PORT.items())
            yield f"{where}: hostIP set without hostPort: {{{shown}}}"
        others = seen.setdefault(f"{port.get('containerPort', 0)}/{port.get('protocol', '')}", [])
        for place, other in others:
            text = _overlap(port, other)
            if text:
                yield f"{where}: {text} port definition with {place}"
        others.append((where, port))


# The fields of a port with their zero values, in Go's order.
_PORT = {"name": "", "hostPort": 0, "containerPort": 0, "protocol": "", "hostIP": ""}


def _port_names(ports: list[tuple[Path, Obj]]) -> Iterator[str]:
    """Warn of names that several ports of the pod have: services find only the first."""
    seen: dict[str, Path] = {}
    for where, port in ports:
        name = port.get("name")
        if name and name in seen:
            other = seen[name]
            text = f"services and probes that select ports by name will use {other}"
            yield f"{where}: duplicate port name {go_quote(name)} with {other}, {text}"
        elif name:
            seen[name] = where


def _overlap(port: Obj, other: Obj) -> str:
    ip, other_ip = port.get("hostIP", ""), other.get("hostIP", "")
    number, other_number = port.get("hostPort", 0), other.get("hostPort", 0)
    if (ip, number) == (other_ip, other_number):
        return "duplicate"
    if not number or not other_number:
        return "overlapping"
    return "dangerously ambiguous" if number == other_number and bool(ip) != bool(other_ip) else ""


def _affinity(affinity: Obj, path: Path) -> Iterator[str]:
    kinds: tuple[tuple[str, Callable[[Obj], Obj], tuple[str, ...]], ...] = (
        (_REQUIRED, lambda term: term, ("labelSelector",)),
        (_PREFERRED, lambda term: term.get("podAffinityTerm") or {}, ("podAffinityTerm", "labelSelector")),
    )
    for name in ("podAffinity", "podAntiAffinity"):
        for kind, inner, names in kinds:
            for i, term in enumerate((affinity.get(name) or {}).get(kind) or ()):
                if inner(term).get("labelSelector") is None:
                    yield f"{path.child(name, kind).index(i).child(*names)}: {_NULL_SELECTOR}"
