"""Validation of the status of a pod, as kubelets and controllers report it."""

from __future__ import annotations

from collections.abc import Sequence

from understudy.kinds.common import objectmeta
from understudy.kinds.common.compose import since
from understudy.kinds.common.formats import MAX_INT32, choice, invalid_texts, ip, label, qualified
from understudy.kinds.context import Context
from understudy.kinds.core.pods.containers import restarts
from understudy.kinds.core.pods.containers.resources import HUGE_PAGES, is_native
from understudy.kinds.core.pods.containers.security import identifier
from understudy.kinds.core.pods.containers_of import containers
from understudy.kinds.core.pods.pod_options import options
from understudy.kinds.core.pods.volumes import volume_health
from understudy.machinery.golang.netip import parse_ip
from understudy.machinery.quantity import parse
from understudy.machinery.releases import features
from understudy.machinery.releases.version import V1_31, V1_32, V1_33, V1_35, V1_36, V1_37, ByRelease, Version
from understudy.machinery.types import Obj, nested_field
from understudy.machinery.validation.bad_values import Stringer, Typed
from understudy.machinery.validation.field import (
    Errors,
    Path,
    duplicate,
    forbidden,
    internal,
    invalid,
    required,
    too_long,
)
from understudy.machinery.validation.names import size, subdomain_name

_STATUS = Path("status")
_SYSTEM = ("PodScheduled", "Ready", "Initialized")
_CORE = "k8s.io/kubernetes/pkg/apis/core."


def _same_qos_class(pod: Obj, old: Obj, ctx: Context) -> Errors:
    now, before = (nested_field(o, "status", "qosClass", default="") for o in (pod, old))
    return [] if now == before else [invalid(_STATUS.child("qosClass"), now, objectmeta.IMMUTABLE)]


_qos_class_is_immutable = since(V1_32, _same_qos_class)


def validate(pod: Obj, old: Obj, ctx: Context) -> Errors:
    """Check a status that replaces the one of `old` (upstream: `ValidatePodStatusUpdate`)."""
    status, before, spec = pod.get("status") or {}, old.get("status") or {}, old["spec"]
    opts = options(ctx.release, ctx.gates, spec, is_pod=True)
    errors = _conditions(status.get("conditions") or (), ctx.release)
    errors += _nominated_node(status, before, spec, ctx)
    errors += _generation(status, _STATUS)
    errors += _qos_class_is_immutable(pod, old, ctx)
    errors += restarts.transitions(status, before, spec, opts)
    errors += claims(status.get("resourceClaimStatuses") or (), spec.get("resourceClaims") or (), ctx.release)
    errors += _extended_resources(status.get("extendedResourceClaimStatus"), spec, ctx.release)
    errors += _node_allocatable(status, spec, ctx.release)
    errors += volume_health.of_pod(pod)
    errors += _pod_ips(status, before, ctx) + _host_ips(status, before, ctx)
    for kind in ("containerStatuses", "initContainerStatuses", "ephemeralContainerStatuses"):
        errors += _users(status.get(kind) or (), spec, _STATUS.child(kind), ctx.release)
    errors += _allocated(status, spec, "containerStatuses", "containers", ctx.release)
    errors += _allocated(status, spec, "initContainerStatuses", "initContainers", ctx.release)
    text = "must not be specified in container status"
    path = _STATUS.child("ephemeralContainerStatuses")
    errors += [
        forbidden(path.index(i).child("allocatedResourcesStatus"), text)
        for i, container in enumerate(status.get("ephemeralContainerStatuses") or ())
        if container.get("allocatedResourcesStatus")
    ]
    return errors + (_image_volumes(status) if ctx.gates[features.IMAGE_VOLUME_WITH_DIGEST] else [])


_CONDITIONS = ByRelease({V1_33: _STATUS.child("conditions"), V1_31: Path("metadata", "conditions")})


def _conditions(conditions: Sequence[Obj], version: Version) -> Errors:
    errors: Errors = []
    for i, condition in enumerate(conditions):
        kind, path = condition.get("type", ""), _CONDITIONS[version].index(i)
        errors += _generation(condition, path)
        if kind not in _SYSTEM:
            errors += qualified(kind, path.child("Type"))
    return errors


def _generation(observer: Obj, path: Path) -> Errors:
    """Check the generation that a status or a condition is about."""
    generation = observer.get("observedGeneration", 0)
    if generation >= 0:
        return []
    return [invalid(path.child("observedGeneration"), generation, "must be a non-negative integer")]


def _nominated_node(status: Obj, before: Obj, spec: Obj, ctx: Context) -> Errors:
    nominated, path = status.get("nominatedNodeName"), _STATUS.child("nominatedNodeName")
    if not nominated or nominated == before.get("nominatedNodeName"):
        return []
    errors = invalid_texts(subdomain_name(nominated, False), nominated, path)
    if spec.get("nodeName") and ctx.gates[features.CLEARING_NOMINATED_NODE_NAME_AFTER_BINDING]:
        errors.append(forbidden(path, "may not be set on pods that are already bound to a node"))
    return errors


def claims(statuses: Sequence[Obj], pod_claims: Sequence[Obj], version: Version) -> Errors:
    """Check `resourceClaimStatuses`: each is of one of the pod's claims."""
    errors: Errors = []
    names = {claim.get("name", "") for claim in pod_claims}
    seen: set[str] = set()
    for i, status in enumerate(statuses):
        name, claim = status.get("name", ""), status.get("resourceClaimName")
        here = _STATUS.child("resourceClaimStatuses").index(i)
        path = here.child("name")
        if name not in names:
            errors.append(invalid(path, name, "must match the name of an entry in `spec.resourceClaims`"))
        if name in seen:
            errors.append(duplicate(path, name))
        seen.add(name)
        if claim is not None:
            errors += invalid_texts(subdomain_name(claim, False), claim, here.child(_CLAIM_NAME[version]))
    return errors


_CLAIM_NAME = ByRelease({V1_36: "resourceClaimName", V1_31: "name"})


def _extended_resources(status: Obj | None, spec: Obj, version: Version) -> Errors:
    """Check how requests of extended resources map to a claim (upstream: `validatePodExtendedResourceClaimStatus`)."""
    if status is None:
        return []
    path, claim = _STATUS.child("extendedResourceClaimStatus"), status.get("resourceClaimName", "")
    mappings, where = status.get("requestMappings") or (), path.child("requestMappings")
    by_name = {c.get("name", ""): c for c in containers(spec, "initContainers", "containers")}
    errors: Errors = [] if mappings else [required(where, "at least one request mapping is required")]
    seen: set[tuple[str, ...]] = set()
    for i, mapping in enumerate(mappings):
        here, names = where.index(i), [mapping.get(name, "") for name in _MAPPED]
        container = by_name.get(names[0])
        if container is None:
            errors.append(invalid(here.child("containerName"), names[0], f"must match the {_an_entry_in('name')}"))
        elif names[1] not in nested_field(container, "resources", "requests", default=()):
            text = f"must match the extended resource {_an_entry_in('resources.requests')}"
            errors.append(invalid(here.child("resourceName"), names[1], text))
        errors += label(names[2], path.child("requestName"))
        # Before 1.35 a container has each resource from one request only.
        unique = names if version >= V1_35 else names[:2]
        if tuple(unique) in seen:
            errors += [duplicate(here.child(_MAPPED[n]), name) for n, name in enumerate(unique)]
        seen.add(tuple(unique))
    here = path.child("resourceClaimName")
    return errors + (invalid_texts(subdomain_name(claim, False), claim, here) if claim else [required(here)])


_MAPPED = ("containerName", "resourceName", "requestName")


def _an_entry_in(field: str) -> str:
    return f"name of an entry in spec.initContainers.{field} or spec.containers.{field}"


def _mapped(item: Obj, path: Path) -> Errors:
    """Check amounts that a claim stands for, and those that it needs besides."""
    errors: Errors = []
    for kind, amounts in (("mapping", ("quantity",)), ("overhead", ("perPod", "perContainer"))):
        for i, entry in enumerate(item.get(kind) or ()):
            here, name = path.child(kind).index(i), entry.get("name", "")
            if name not in ("cpu", "memory") and not name.startswith(HUGE_PAGES):
                errors.append(invalid(here.child("name"), name, "must be a node allocatable resource name"))
            given = {field: entry[field] for field in amounts if entry.get(field) is not None}
            if kind == "overhead" and not given:
                errors.append(invalid(here, "", "at least one of perPod or perContainer must be set"))
            errors += [
                invalid(here.child(field), str(parse(amount)), "must be non-negative")
                for field, amount in given.items()
                if parse(amount) < 0
            ]
    return errors


def _node_allocatable(status: Obj, spec: Obj, version: Version) -> Errors:
    """Check what claims take from the node (upstream: `validateNodeAllocatableResourceClaimStatus`)."""
    known = {claim.get("resourceClaimName") for claim in spec.get("resourceClaims") or ()}
    known |= {claim.get("resourceClaimName") for claim in status.get("resourceClaimStatuses") or ()}
    errors: Errors = []
    for i, item in enumerate(status.get("nodeAllocatableResourceClaimStatuses") or ()):
        path, claim = _STATUS.child("nodeAllocatableResourceClaimStatuses").index(i), item.get("resourceClaimName", "")
        here, resources = path.child("resourceClaimName"), item.get("resources") or {}
        if version >= V1_37:  # what is missing is found by declared rules
            errors += (
                [invalid(here, claim, "no mapping found in pod reference")] if claim and claim not in known else []
            )
            errors += _mapped(item, path) if claim else []
            continue
        if not claim:
            errors.append(required(here, "must not be empty"))
        if claim not in known:
            errors.append(invalid(here, claim, "no mapping found in pod reference"))
        for name in ("containers", "resources"):
            if not item.get(name):
                errors.append(required(path.child(name), "must not be empty"))
        for name, amount in resources.items():
            where = path.child("resources").key(name)
            if not is_native(name):
                errors.append(invalid(where, Stringer(name, name), "must be a node allocatable resource name"))
            if parse(amount).value < 0:
                errors.append(invalid(where, amount, "must be non-negative"))
    return errors


def _image_volumes(status: Obj) -> Errors:
    """Check which images are mounted as volumes (upstream: `validateVolumeStatus`)."""
    errors: Errors = []
    for kind in ("containerStatuses", "initContainerStatuses", "ephemeralContainerStatuses"):
        for i, container in enumerate(status.get(kind) or ()):
            for j, mount in enumerate(container.get("volumeMounts") or ()):
                image = nested_field(mount, "volumeStatus", "image")
                if image is None:
                    continue
                reference, path = image.get("imageRef", ""), _STATUS.child(kind).index(i).child("volumeMounts").index(j)
                here = path.child("volumeStatus", "imageVolumeStatus", "imageRef")
                if not reference:
                    errors.append(required(here, "imageRef must not be empty"))
                if size(reference) > _MAX_IMAGE_REF:
                    errors.append(too_long(here, _MAX_IMAGE_REF))
    return errors


_MAX_IMAGE_REF = 256
_MAX_MESSAGE = 1024


def _pod_ips(status: Obj, before: Obj, ctx: Context) -> Errors:
    errors = _addresses(status, before, "podIPs", ctx) + _families(status, "podIPs", "PodIP", ctx.release)
    addresses = status.get("podIPs")
    if ctx.release >= V1_37 and bool(addresses) != bool(status.get("podIP")):
        bad_value = Typed(addresses, f"[]{_CORE}PodIP")
        errors.append(
            invalid(_STATUS.child("podIPs"), bad_value, "podIP and podIPs must either both be set or both be unset")
        )
    return errors


def _addresses(status: Obj, before: Obj, field: str, ctx: Context) -> Errors:
    """Check addresses; those that are stored may stay, whatever they are."""
    stored = [item.get("ip", "") for item in before.get(field) or ()] if ctx.release >= V1_33 else ()
    strict, path = ctx.gates[features.STRICT_IP_CIDR_VALIDATION], _STATUS.child(field)
    return [
        error
        for i, item in enumerate(status.get(field) or ())
        for error in ip(item.get("ip", ""), path.index(i), strict=strict, stored=stored)
    ]


def _host_ips(status: Obj, before: Obj, ctx: Context) -> Errors:
    addresses = status.get("hostIPs")
    if not addresses:
        return []
    first, errors = addresses[0].get("ip", ""), _addresses(status, before, "hostIPs", ctx)
    if first != status.get("hostIP", ""):
        here = _STATUS.child("hostIPs").index(0).child("ip")
        errors.insert(0, invalid(here, first, "must be equal to `hostIP`"))
    return errors + _families(status, "hostIPs", "HostIP", ctx.release)


def _families(status: Obj, field: str, kind: str, version: Version) -> Errors:
    """Check that there is at most one address of each family."""
    addresses, path = status.get(field) or [], _STATUS.child(field)
    ips = [item.get("ip", "") for item in addresses]
    errors: Errors = []
    if len(ips) < 2:
        return errors
    wrong = next((i for i, address in enumerate(ips) if parse_ip(address) is None), None)
    if wrong is not None:
        why = f"invalid IP[{wrong}]: {ips[wrong]}"
        errors.append(internal(path, f"failed to check for dual stack with error:{why}"))
    if wrong is not None or len(ips) > 2 or len({":" in address for address in ips}) < 2:
        bad_value = Typed(addresses, f"[]{_CORE}{kind}")
        errors.append(invalid(path, bad_value, "may specify no more than one IP for each IP family"))
    for i, item in enumerate(addresses if version < V1_33 else ()):
        if ips[i] in ips[:i]:
            errors.append(duplicate(path.index(i), Typed(item, _CORE + kind)))
    return errors


_LINUX = ByRelease({V1_33: ("user", "linux"), V1_31: ("linux",)})
_MAX_UID = ByRelease({V1_37: 2**32 - 1, V1_31: MAX_INT32})


def _users(statuses: Sequence[Obj], spec: Obj, path: Path, version: Version) -> Errors:
    system = (spec.get("os") or {}).get("name", "linux")
    errors: Errors = []
    for i, container in enumerate(statuses):
        user, here = (container.get("user") or {}).get("linux"), path.index(i).child(*_LINUX[version])
        if user is None:
            continue
        if system == "windows":
            errors.append(forbidden(here, "cannot be set for a windows pod"))
        elif system == "linux":
            errors += identifier(user.get("uid", 0), here.child("uid"), _MAX_UID[version])
            errors += identifier(user.get("gid", 0), here.child("gid"))
            for j, group in enumerate(user.get("supplementalGroups") or ()):
                errors += identifier(group, here.child("supplementalGroups").index(j))
    return errors


def _allocated(status: Obj, spec: Obj, kind: str, of: str, version: Version) -> Errors:
    """Check the health of the resources that a container was given (`allocatedResourcesStatus`)."""
    by_name = {c.get("name", ""): c for c in reversed(spec.get(of) or [])}
    errors: Errors = []
    for i, container in enumerate(status.get(kind) or ()):
        for j, item in enumerate(container.get("allocatedResourcesStatus") or ()):
            path = _STATUS.child(kind).index(i).child("allocatedResourcesStatus").index(j)
            owner = by_name.get(container.get("name", ""))
            if owner is not None:
                errors += _known_resource(
                    item.get("name", ""), owner.get("resources") or {}, path.child("name"), version
                )
            errors += _health(item.get("resources") or (), path.child("resources"))
    return errors


def _known_resource(name: str, resources: Obj, path: Path, version: Version) -> Errors:
    old = version < V1_32  # claims have no health yet
    if old or not name.startswith("claim:"):
        text = f"must match one of the container's resource {'requirements' if old else 'requests'}"
        return [] if name in (resources.get("requests") or {}) else [invalid(path, Stringer(name, name), text)]
    known = (
        f"claim:{c.get('name', '')}" + (f"/{c['request']}" if c.get("request") else "")
        for c in resources.get("claims") or ()
    )
    return [] if name in known else [invalid(path, Stringer(name, name), _UNKNOWN_CLAIM[version])]


_UNKNOWN_CLAIM = ByRelease(
    {
        V1_37: "must match one of the container's resource claims as 'claim:<claimName>/<requestName>' when "
        "container.resources.claims[*].request is set or 'claim:<claimName>' when it is empty",
        V1_32: "must match one of the container's resource claims in a format 'claim:<claimName>/<request>' "
        "or 'claim:<claimName>' if request is empty",
    }
)


def _health(items: Sequence[Obj], path: Path) -> Errors:
    errors: Errors = []
    seen: set[str] = set()
    for k, item in enumerate(items):
        identity, here = item.get("resourceID", ""), path.index(k)
        errors += choice(item.get("health", ""), ("Healthy", "Unhealthy", "Unknown"), here.child("health"))
        message = item.get("message")
        if message == "":
            errors.append(required(here.child("message"), "must be non-empty if specified"))
        elif message and size(message) > _MAX_MESSAGE:
            errors.append(too_long(here.child("message"), _MAX_MESSAGE))
        if identity in seen:
            errors.append(duplicate(here.child("resourceID"), identity))
        seen.add(identity)
    return errors
