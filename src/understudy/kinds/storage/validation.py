"""Validation of the kinds of storage.k8s.io."""

from __future__ import annotations

from typing import Any

from understudy.kinds.common import label_selectors
from understudy.kinds.common.formats import MAX_INT32, choice, invalid_texts, nonnegative, qualified, range_text
from understudy.kinds.common.objectmeta import IMMUTABLE
from understudy.kinds.context import Context
from understudy.kinds.core.pods.volumes import persistent_volumes
from understudy.kinds.core.pods.volumes.volume_sources import csi_driver
from understudy.machinery.quantity import parse
from understudy.machinery.releases import features
from understudy.machinery.releases.version import V1_31, V1_33, V1_36, V1_37, ByRelease
from understudy.machinery.types import Obj
from understudy.machinery.validation.bad_values import Typed
from understudy.machinery.validation.field import Errors, Path, duplicate, forbidden, invalid, required, too_long
from understudy.machinery.validation.names import dns_subdomain_texts, go_lower, size

MOST_PARAMETERS = 512
PARAMETERS_SIZE = ATTACHMENT_SIZE = 256 * 1024
MESSAGE_SIZE = 1024
NODE_ID_LENGTH = 256

SHORTEST_UPDATE_PERIOD = 10  # seconds

_STORAGE = "k8s.io/kubernetes/pkg/apis/storage"
_MODES = ("Persistent", "Ephemeral")
_GROUP_POLICIES = ("File", "None", "ReadWriteOnceWithFSType")
_SPEC, _STATUS = Path("spec"), Path("status")


def storage_class(obj: Obj, ctx: Context) -> Errors:
    """Check a storage class (upstream: `ValidateStorageClass`)."""
    errors = _provisioner(obj.get("provisioner", ""), Path("provisioner"))
    errors += _parameters(obj.get("parameters") or {})
    errors += choice(obj.get("reclaimPolicy") or "Delete", ("Delete", "Retain"), Path("reclaimPolicy"))
    modes = ("Immediate", "WaitForFirstConsumer")
    errors += choice(obj.get("volumeBindingMode", ""), modes, Path("volumeBindingMode"))
    return errors + _topologies(obj.get("allowedTopologies") or [], Path("allowedTopologies"))


def _provisioner(name: str, path: Path) -> Errors:
    return qualified_lower(name, path) if name else [required(path)]


def qualified_lower(value: str, path: Path) -> Errors:
    """Check a qualified name in any case."""
    return qualified(go_lower(value), path)


def _parameters(parameters: dict[str, str]) -> Errors:
    path = Path("parameters")
    if len(parameters) > MOST_PARAMETERS:
        return [too_long(path, MOST_PARAMETERS, in_bytes=True)]
    errors = [invalid(path, key, "field can not be empty.") for key in parameters if not key]
    if sum(size(key) + size(value) for key, value in parameters.items()) > PARAMETERS_SIZE:
        errors.append(too_long(path, PARAMETERS_SIZE, in_bytes=True))
    return errors


def attributes_class(obj: Obj, ctx: Context) -> Errors:
    """Check a VolumeAttributesClass (upstream: `ValidateVolumeAttributesClass`)."""
    parameters = obj.get("parameters") or {}
    errors = _provisioner(obj.get("driverName", ""), Path("driverName")) + _parameters(parameters)
    if not parameters:
        errors.append(required(Path("parameters"), "must contain at least one key/value pair"))
    return errors


def attributes_class_changes(obj: Obj, old: Obj, ctx: Context) -> Errors:
    """Check that a VolumeAttributesClass stays as it is."""
    return _forbidden_updates(obj, old, "driverName", "parameters")


def _forbidden_updates(obj: Obj, old: Obj, *names: str) -> Errors:
    return [
        forbidden(Path(name), f"updates to {name} are forbidden.")
        for name in names
        if _sent(obj, name) != _sent(old, name)
    ]


def _sent(obj: Obj, name: str) -> Any:
    """Return a field's value, where an empty map is not the same as none."""
    return {} if name in getattr(obj, "empty", ()) else obj.get(name) or None


def _topologies(terms: list[Obj], path: Path) -> Errors:
    errors: Errors = []
    seen: list[Any] = [{} for _ in terms]  # upstream compares with as many empty terms, too
    for i, term in enumerate(terms):
        where, chosen = path.index(i).child("matchLabelExpressions"), {}
        for j, item in enumerate(term.get("matchLabelExpressions") or ()):
            key, values = item.get("key", ""), item.get("values") or []
            errors += _expression(values, key, where.index(j))
            if key in chosen:
                errors.append(duplicate(where.index(j).child("key"), key))
            chosen[key] = frozenset(values)
        errors += [duplicate(where, "") for other in seen if other == chosen]
        seen.append(chosen)
    return errors


def _expression(values: list[str], key: str, path: Path) -> Errors:
    errors = [] if values else [required(path.child("values"))]
    for i, value in enumerate(values):
        if value in values[:i]:
            errors.append(duplicate(path.child("values").index(i), value))
    return errors + qualified(key, path.child("key"))


def storage_class_changes(obj: Obj, old: Obj, ctx: Context) -> Errors:
    """Check that a storage class keeps its parameters."""
    if ctx.release >= V1_36:
        changed = (obj.get("parameters") or None) != (old.get("parameters") or None)
        bad_value = Typed.of_field(obj, "parameters", "map[string]string")
        errors = [invalid(Path("parameters"), bad_value, IMMUTABLE)] if changed else []
        return errors + _same(obj, old, Path(), "provisioner", "reclaimPolicy", "volumeBindingMode")
    errors = _forbidden_updates(obj, old, "parameters", "provisioner", "reclaimPolicy")
    return errors + _same(obj, old, Path(), "volumeBindingMode")


def _same(obj: Obj, old: Obj, path: Path, *names: str) -> Errors:
    return [invalid(path.child(n), obj.get(n), IMMUTABLE) for n in names if obj.get(n) != old.get(n)]


def driver(obj: Obj, ctx: Context) -> Errors:
    """Check a CSIDriver (upstream: `ValidateCSIDriver`)."""
    spec = obj["spec"]
    needed = {"attachRequired": "attachedRequired", "podInfoOnMount": "podInfoOnMount"}
    needed["storageCapacity"] = "storageCapacity"
    errors = [required(_SPEC.child(bad_value)) for name, bad_value in needed.items() if spec.get(name) is None]
    policy = spec.get("fsGroupPolicy")
    if policy is not None:
        errors += choice(policy, _GROUP_POLICIES, _SPEC.child("fsGroupPolicy"))
    errors += _tokens(spec.get("tokenRequests") or [], _SPEC.child("tokenRequests"))
    where = _SPEC.child("volumeLifecycleModes")
    for mode in spec.get("volumeLifecycleModes") or ():
        errors += choice(mode, _MODES, where)
    if spec.get("seLinuxMount") is None and ctx.gates[features.SELINUX_MOUNT_READ_WRITE_ONCE_POD]:
        errors.append(required(_SPEC.child("seLinuxMount")))
    seconds, where = spec.get("nodeAllocatableUpdatePeriodSeconds"), _SPEC.child("nodeAllocatableUpdatePeriodSeconds")
    if seconds is not None and seconds < SHORTEST_UPDATE_PERIOD:
        errors.append(invalid(where, seconds, f"must be greater than or equal to {SHORTEST_UPDATE_PERIOD} seconds"))
    in_secrets, where = spec.get("serviceAccountTokenInSecrets"), _SPEC.child("serviceAccountTokenInSecrets")
    if in_secrets is not None and not spec.get("tokenRequests"):
        text = "serviceAccountTokenInSecrets is set but no tokenRequests are specified"
        errors.append(invalid(where, in_secrets, text))
    if spec.get("preventPodSchedulingIfMissing") is None and ctx.gates[features.VOLUME_LIMIT_SCALING]:
        errors.append(required(_SPEC.child("preventPodSchedulingIfMissing")))
    return errors


def _tokens(requests: list[Obj], path: Path) -> Errors:
    errors: Errors = []
    seen: set[str] = set()
    for i, token in enumerate(requests):
        audience, seconds = token.get("audience", ""), token.get("expirationSeconds")
        where = path.index(i).child("expirationSeconds")
        if audience in seen:
            errors.append(duplicate(path.index(i).child("audience"), audience))
            continue
        seen.add(audience)
        if seconds is not None and seconds < 600:
            errors.append(invalid(where, seconds, "may not specify a duration less than 10 minutes"))
        if seconds is not None and seconds > 2**32:
            errors.append(invalid(where, seconds, "may not specify a duration larger than 2^32 seconds"))
    return errors


def driver_changes(obj: Obj, old: Obj, ctx: Context) -> Errors:
    """Check that a CSIDriver keeps what cannot change."""
    spec, before = obj["spec"], old["spec"]
    errors: Errors = []
    if spec.get("attachRequired") != before.get("attachRequired"):
        errors.append(invalid(_SPEC.child("attachedRequired"), spec.get("attachRequired"), IMMUTABLE))
    modes = spec.get("volumeLifecycleModes")
    if modes != before.get("volumeLifecycleModes"):
        bad_value = Typed(modes, f"[]{_STORAGE}.VolumeLifecycleMode")
        errors.append(invalid(_SPEC.child("volumeLifecycleModes"), bad_value, IMMUTABLE))
    return errors


def csi_node(obj: Obj, ctx: Context) -> Errors:
    """Check a CSINode (upstream: `ValidateCSINode`)."""
    errors: Errors = []
    seen: set[str] = set()
    for i, entry in enumerate(obj["spec"].get("drivers") or ()):
        path, name = _SPEC.child("drivers").index(i), entry.get("name", "")
        errors += csi_driver(name, path.child("name"), ctx.release)
        node = entry.get("nodeID", "")
        if not node:
            errors.append(required(path.child("nodeID")))
        if size(node) > NODE_ID_LENGTH:
            errors.append(invalid(path.child("nodeID"), node, f"must be {NODE_ID_LENGTH} characters or less"))
        errors += nonnegative((entry.get("allocatable") or {}).get("count"), path.child("allocatable", "count"))
        if name in seen:
            errors.append(duplicate(path.child("name"), name))
        seen.add(name)
        errors += _topology_keys(entry.get("topologyKeys") or [], path)
    return errors


def _topology_keys(keys: list[str], path: Path) -> Errors:
    errors: Errors = []
    for i, key in enumerate(keys):
        errors += [] if key else [required(path)]
        errors += [duplicate(path, key)] if key in keys[:i] else []
        errors += qualified(key, path)
    return errors


def csi_node_changes(obj: Obj, old: Obj, ctx: Context) -> Errors:
    """Check that the drivers of a CSINode keep their data."""
    fixed = _without_allocatable if ctx.gates[features.MUTABLE_CSI_NODE_ALLOCATABLE_COUNT] else dict
    before = {entry.get("name"): fixed(entry) for entry in old["spec"].get("drivers") or ()}
    drivers = [fixed(entry) for entry in obj["spec"].get("drivers") or ()]
    return [
        invalid(_DRIVERS[ctx.release], Typed(driver, f"{_STORAGE}.CSINodeDriver"), IMMUTABLE)
        for name, entry in before.items()
        for driver in drivers
        if driver.get("name") == name and driver != entry
    ]


_DRIVERS = ByRelease({V1_33: _SPEC.child("drivers"), V1_31: Path("CSINodeDriver")})


def _without_allocatable(entry: Obj) -> Obj:
    return {key: value for key, value in entry.items() if key != "allocatable"}


def capacity(obj: Obj, ctx: Context) -> Errors:
    """Check a CSIStorageCapacity (upstream: `ValidateCSIStorageCapacity`)."""
    errors = label_selectors.validate(obj.get("nodeTopology"), Path("nodeTopology"))
    name, amount = obj.get("storageClassName", ""), obj.get("capacity")
    errors += invalid_texts(dns_subdomain_texts(name), name, Path("storageClassName"))
    if amount is not None and parse(amount) < parse("0"):
        errors.append(invalid(Path("capacity"), amount, "must be greater than or equal to 0"))
    return errors


def capacity_changes(obj: Obj, old: Obj, ctx: Context) -> Errors:
    """Check that a CSIStorageCapacity keeps its topology and class."""
    errors: Errors = []
    topology = obj.get("nodeTopology")
    if topology != old.get("nodeTopology"):
        bad_value = Typed(topology, "k8s.io/apimachinery/pkg/apis/meta/v1.LabelSelector")
        errors.append(invalid(Path("nodeTopology"), bad_value, IMMUTABLE))
    return errors + _same(obj, old, Path(), "storageClassName")


def attachment(obj: Obj, ctx: Context) -> Errors:
    """Check a new attachment, whose names obeyed stricter rules than stored ones before 1.36."""
    if ctx.release >= V1_36:
        return stored_attachment(obj, ctx)
    driver_name = csi_driver(obj["spec"].get("attacher", ""), Path("spec.attacher"), ctx.release)
    return stored_attachment(obj, ctx) + driver_name + _volume_name(obj["spec"])


def _volume_name(spec: Obj) -> Errors:
    volume, path = (spec.get("source") or {}).get("persistentVolumeName"), Path("spec.source.persistentVolumeName")
    return [] if volume is None else invalid_texts(dns_subdomain_texts(volume), volume, path)


def stored_attachment(obj: Obj, ctx: Context) -> Errors:
    """Check an attachment (upstream: `ValidateVolumeAttachment`)."""
    spec, status, where = obj["spec"], obj.get("status") or {}, _SPEC.child("attacher")
    if ctx.release >= V1_36:
        errors = csi_driver(spec.get("attacher", ""), where, ctx.release)
    else:
        errors = [] if spec.get("attacher") else [required(where)]
    errors += _source(spec.get("source") or {}, _SPEC.child("source"), ctx)
    node = spec.get("nodeName", "")
    errors += invalid_texts(dns_subdomain_texts(node), node, _SPEC.child("nodeName"))
    metadata = status.get("attachmentMetadata") or {}
    if sum(size(key) + size(value) for key, value in metadata.items()) > ATTACHMENT_SIZE:
        errors.append(too_long(_STATUS.child("attachmentMetadata"), ATTACHMENT_SIZE, in_bytes=True))
    for name in ("attachError", "detachError"):
        error, path = status.get(name) or {}, _STATUS.child(name)
        if size(error.get("message", "")) > MESSAGE_SIZE:
            limit = MESSAGE_SIZE if ctx.release >= V1_37 else ATTACHMENT_SIZE
            errors.append(too_long(path.child("message"), limit, in_bytes=True))
        if (error.get("errorCode") or 0) < 0:
            errors.append(invalid(path.child("errorCode"), error["errorCode"], range_text(0, MAX_INT32)))
    return errors + (_volume_name(spec) if ctx.release >= V1_36 else [])


def _source(source: Obj, path: Path, ctx: Context) -> Errors:
    volume, inline = source.get("persistentVolumeName"), source.get("inlineVolumeSpec")
    text = "must specify exactly one of inlineVolumeSpec and persistentVolumeName"
    if volume is None and inline is None:
        return [required(path, text)]
    if volume is not None and inline is not None:
        return [forbidden(path, text)]
    if volume == "":
        return [required(path.child("persistentVolumeName"), "must specify non empty persistentVolumeName")]
    return [] if inline is None else persistent_volumes.inline_volume(inline, path.child("inlineVolumeSpec"), ctx)


def attachment_changes(obj: Obj, old: Obj, ctx: Context) -> Errors:
    """Check that an attachment keeps its spec."""
    if obj["spec"] == old["spec"]:
        return []
    bad_value = Typed(obj["spec"], f"{_STORAGE}.VolumeAttachmentSpec")
    return [invalid(_SPEC, bad_value, IMMUTABLE)]
