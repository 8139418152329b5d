"""Validation of the status of a pod, as kubelets and controllers report it."""

from __future__ import annotations

from collections.abc import Sequence

from understudy.admission.context import Context
from understudy.admission.validation import objectmeta
from understudy.admission.validation.compose import since
from understudy.admission.validation.core.pods.security import identifier
from understudy.admission.validation.formats import choice, invalid_texts, ip, qualified
from understudy.machinery.releases.version import V1_32, Version
from understudy.machinery.types import Obj, nested_field
from understudy.machinery.validation.bad_values import Printed, Typed
from understudy.machinery.validation.field import Errors, Path, duplicate, forbidden, invalid
from understudy.machinery.validation.names import subdomain_name

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
    errors = _conditions(status.get("conditions") or ())
    nominated = status.get("nominatedNodeName")
    if nominated and nominated != before.get("nominatedNodeName"):
        errors += invalid_texts(subdomain_name(nominated, False), nominated, _STATUS.child("nominatedNodeName"))
    errors += _qos_class_is_immutable(pod, old, ctx)
    errors += _restarts(status, before, spec)
    errors += claims(status.get("resourceClaimStatuses") or (), spec.get("resourceClaims") or ())
    errors += _pod_ips(status) + _host_ips(status)
    for kind in ("containerStatuses", "initContainerStatuses", "ephemeralContainerStatuses"):
        errors += _users(status.get(kind) or (), spec, _STATUS.child(kind))
    errors += _allocated(status, spec, "containerStatuses", "containers", ctx.release)
    errors += _allocated(status, spec, "initContainerStatuses", "initContainers", ctx.release)
    text = "must not be specified in container status"
    path = _STATUS.child("ephemeralContainerStatuses")
    return errors + [
        forbidden(path.index(i).child("allocatedResourcesStatus"), text)
        for i, container in enumerate(status.get("ephemeralContainerStatuses") or ())
        if container.get("allocatedResourcesStatus")
    ]


def _conditions(conditions: Sequence[Obj]) -> Errors:
    errors: Errors = []
    for i, condition in enumerate(conditions):
        kind = condition.get("type", "")
        if kind not in _SYSTEM:
            errors += qualified(kind, Path("metadata", "conditions").index(i).child("Type"))
    return errors


def _restarts(status: Obj, before: Obj, spec: Obj) -> Errors:
    """Check that a container that has ended for good does not run again."""
    sidecars = {c.get("name") for c in spec.get("initContainers") or () if c.get("restartPolicy") == "Always"}
    errors: Errors = []
    for kind, policy in (
        ("containerStatuses", spec.get("restartPolicy")),
        ("initContainerStatuses", spec.get("restartPolicy")),
        ("ephemeralContainerStatuses", "Never"),
    ):
        if policy == "Always":
            continue
        for i, container in enumerate(before.get(kind) or ()):
            ended = (container.get("state") or {}).get("terminated")
            if ended is None or (ended.get("exitCode", 0) and policy == "OnFailure"):
                continue
            if kind == "initContainerStatuses" and container.get("name") in sidecars:
                continue
            again = [
                c
                for c in status.get(kind) or ()
                if c.get("name") == container.get("name") and (c.get("state") or {}).get("terminated") is None
            ]
            text = "may not be transitioned to non-terminated state"
            errors += [forbidden(_STATUS.child(kind).index(i).child("state"), text) for _ in again]
    return errors


def claims(statuses: Sequence[Obj], pod_claims: Sequence[Obj]) -> Errors:
    """Check `resourceClaimStatuses`: each is of one of the pod's claims."""
    errors: Errors = []
    names = {claim.get("name", "") for claim in pod_claims}
    seen: set[str] = set()
    for i, status in enumerate(statuses):
        name, claim = status.get("name", ""), status.get("resourceClaimName")
        path = _STATUS.child("resourceClaimStatuses").index(i).child("name")
        if name not in names:
            errors.append(invalid(path, name, "must match the name of an entry in `spec.resourceClaims`"))
        if name in seen:
            errors.append(duplicate(path, name))
        seen.add(name)
        if claim is not None:
            errors += invalid_texts(subdomain_name(claim, False), claim, path)
    return errors


def _pod_ips(status: Obj) -> Errors:
    addresses, path = status.get("podIPs") or [], _STATUS.child("podIPs")
    errors = [error for i, item in enumerate(addresses) for error in ip(item.get("ip", ""), path.index(i))]
    return errors + (_families(addresses, "PodIP", path) if len(addresses) > 1 else [])


def _host_ips(status: Obj) -> Errors:
    addresses, path = status.get("hostIPs") or [], _STATUS.child("hostIPs")
    if not addresses:
        return []
    first = addresses[0].get("ip", "")
    errors = [error for i, item in enumerate(addresses) for error in ip(item.get("ip", ""), path.index(i))]
    if first != status.get("hostIP", ""):
        errors.insert(0, invalid(path.index(0).child("ip"), first, "must be equal to `hostIP`"))
    return errors + (_families(addresses, "HostIP", path) if len(addresses) > 1 else [])


def _families(addresses: Sequence[Obj], kind: str, path: Path) -> Errors:
    """Check that there is at most one address of each family."""
    ips = [item.get("ip", "") for item in addresses]
    errors: Errors = []
    if len(ips) > 2 or len({":" in address for address in ips}) < 2:
        bad_value = Typed(addresses, f"[]{_CORE}{kind}")
        errors.append(invalid(path, bad_value, "may specify no more than one IP for each IP family"))
    for i, item in enumerate(addresses):
        if ips[i] in ips[:i]:
            errors.append(duplicate(path.index(i), Typed(item, _CORE + kind)))
    return errors


def _users(statuses: Sequence[Obj], spec: Obj, path: Path) -> Errors:
    system = (spec.get("os") or {}).get("name", "linux")
    errors: Errors = []
    for i, container in enumerate(statuses):
        user, here = (container.get("user") or {}).get("linux"), path.index(i).child("linux")
        if user is None:
            continue
        if system == "windows":
            errors.append(forbidden(here, "cannot be set for a windows pod"))
        elif system == "linux":
            errors += identifier(user.get("uid", 0), here.child("uid")) + identifier(
                user.get("gid", 0), here.child("gid")
            )
            for j, group in enumerate(user.get("supplementalGroups") or ()):
                errors += identifier(group, here.child("supplementalGroups").index(j))
    return errors


def _allocated(status: Obj, spec: Obj, kind: str, of: str, release: Version) -> Errors:
    """Check the health of the resources that a container was given (`allocatedResourcesStatus`)."""
    by_name = {c.get("name", ""): c for c in reversed(spec.get(of) or [])}
    errors: Errors = []
    for i, container in enumerate(status.get(kind) or ()):
        for j, item in enumerate(container.get("allocatedResourcesStatus") or ()):
            path = _STATUS.child(kind).index(i).child("allocatedResourcesStatus").index(j)
            owner = by_name.get(container.get("name", ""))
            if owner is not None:
                errors += _known_resource(
                    item.get("name", ""), owner.get("resources") or {}, path.child("name"), release
                )
            errors += _health(item.get("resources") or (), path.child("resources"))
    return errors


def _known_resource(name: str, resources: Obj, path: Path, release: Version) -> Errors:
    old = release < V1_32  # claims have no health yet
    if old or not name.startswith("claim:"):
        text = f"must match one of the container's resource {'requirements' if old else 'requests'}"
        return [] if name in (resources.get("requests") or {}) else [invalid(path, Printed(name), text)]
    known = (
        f"claim:{c.get('name', '')}" + (f"/{c['request']}" if c.get("request") else "")
        for c in resources.get("claims") or ()
    )
    text = (
        "must match one of the container's resource claims in a format 'claim:<claimName>/<request>' "
        "or 'claim:<claimName>' if request is empty"
    )
    return [] if name in known else [invalid(path, Printed(name), text)]


def _health(items: Sequence[Obj], path: Path) -> Errors:
    errors: Errors = []
    seen: set[str] = set()
    for k, item in enumerate(items):
        identity, here = item.get("resourceID", ""), path.index(k)
        errors += choice(item.get("health", ""), ("Healthy", "Unhealthy", "Unknown"), here.child("health"))
        if identity in seen:
            errors.append(duplicate(here.child("resourceID"), identity))
        seen.add(identity)
    return errors
