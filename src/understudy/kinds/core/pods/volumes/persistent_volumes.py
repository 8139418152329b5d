"""Validation of persistent volumes and claims.

https://kubernetes.io/docs/concepts/storage/persistent-volumes/
"""

from __future__ import annotations

from copy import copy, deepcopy
from itertools import count

from understudy.kinds.common import label_selectors, objectmeta
from understudy.kinds.common.formats import choice, invalid_texts, label, qualified, subdomain
from understudy.kinds.context import Context
from understudy.kinds.core import nodeselector
from understudy.kinds.core.pods.containers import resources
from understudy.kinds.core.pods.in_use import invalid_label_values
from understudy.kinds.core.pods.volumes import volume_health
from understudy.kinds.core.pods.volumes.volume_sources import (
    LONG_INTERFACE,
    OF_VOLUMES,
    PATHS,
    csi_driver,
    has_long_interface,
    one_source,
)
from understudy.machinery.quantity import parse
from understudy.machinery.releases import features
from understudy.machinery.releases.version import V1_31, V1_33, V1_34, ByRelease
from understudy.machinery.types import Obj, nested_field
from understudy.machinery.validation.bad_values import Difference, Stringer, Typed
from understudy.machinery.validation.field import Errors, Path, forbidden, invalid, not_supported, required
from understudy.machinery.validation.names import dns_subdomain_texts, label_name, subdomain_name

ACCESS_MODES = ("ReadOnlyMany", "ReadWriteMany", "ReadWriteOnce", "ReadWriteOncePod")
RECLAIM_POLICIES = ("Delete", "Recycle", "Retain")
VOLUME_MODES = ("Block", "Filesystem")
# The sources of a volume in the order of the checks: each one after the first is an error.
_SOURCES = (
    "hostPath",
    "gcePersistentDisk",
    "awsElasticBlockStore",
    "glusterfs",
    "flocker",
    "nfs",
    "rbd",
    "quobyte",
    "cephfs",
    "iscsi",
    "cinder",
    "fc",
    "flexVolume",
    "azureFile",
    "vsphereVolume",
    "photonPersistentDisk",
    "portworxVolume",
    "azureDisk",
    "scaleIO",
    "local",
    "storageos",
    "csi",
)
_SECRETS = ("controllerPublishSecretRef", "controllerExpandSecretRef", "nodePublishSecretRef", "nodeExpandSecretRef")
_CORE = "k8s.io/kubernetes/pkg/apis/core"
_PARENTS = count(0xC000000000, 48)  # addresses: where two errors show some, they are never the same error
_SPEC = Path("spec")
_IMMUTABLE_SPEC = (
    "spec is immutable after creation except resources.requests and volumeAttributesClassName for bound claims\n"
)
CLASS_ANNOTATION = "volume.beta.kubernetes.io/storage-class"


def _modes(modes: list[str], path: Path) -> Errors:
    errors = [not_supported(path, mode, ACCESS_MODES) for mode in modes if mode not in ACCESS_MODES]
    if "ReadWriteOncePod" in modes and any(m in ACCESS_MODES and m != "ReadWriteOncePod" for m in modes):
        errors.append(forbidden(path, "may not use ReadWriteOncePod with other access modes"))
    return errors


def _class(name: str | None, path: Path) -> Errors:
    return invalid_texts(subdomain_name(name, False), name, path) if name else []


def _positive(text: str, path: Path) -> Errors:
    return [] if parse(text).value > 0 else [invalid(path, text, "must be greater than zero")]


def spec(claim_spec: Obj, path: Path) -> Errors:
    """Check the spec of a claim, or of a template of claims (upstream: `ValidatePersistentVolumeClaimSpec`)."""
    modes = claim_spec.get("accessModes") or []
    errors = [] if modes else [required(path.child("accessModes"), "at least 1 access mode is required")]
    errors += label_selectors.validate(claim_spec.get("selector"), path.child("selector"))
    errors += _modes(modes, path.child("accessModes"))
    storage, here = (claim_spec.get("resources") or {}).get("requests", {}).get("storage"), path.child("resources")
    if storage is None:
        errors.append(required(here.key("storage")))
    else:
        errors += _positive(storage, here.key("storage"))
    errors += _class(claim_spec.get("storageClassName"), path.child("storageClassName"))
    if claim_spec.get("volumeMode") is not None:
        errors += choice(claim_spec["volumeMode"], VOLUME_MODES, path.child("volumeMode"))
    errors += _data_sources(claim_spec, path)
    return errors + _class(claim_spec.get("volumeAttributesClassName"), path.child("volumeAttributesClassName"))


def _data_sources(claim_spec: Obj, path: Path) -> Errors:
    old, new = claim_spec.get("dataSource"), claim_spec.get("dataSourceRef")
    errors: Errors = []
    for source, name in ((old, "dataSource"), (new, "dataSourceRef")):
        if source is not None:
            errors += _data_source(source, path.child(name))
    if old is None or new is None:
        return errors
    shown = f'field.Path{{name:"dataSource", index:"", parent:(*field.Path)(0x{next(_PARENTS):x})}}'
    bad_value = Stringer(shown, {})  # upstream shows the path, not a value
    if new.get("namespace"):
        errors.append(invalid(path, bad_value, "may not be specified when dataSourceRef.namespace is specified"))
    elif any(old.get(key) != new.get(key) for key in ("apiGroup", "kind", "name")):
        errors.append(invalid(path, bad_value, "must match dataSourceRef"))
    return errors


def _data_source(source: Obj, path: Path) -> Errors:
    errors = [required(path.child(name)) for name in ("name", "kind") if not source.get(name)]
    group, kind, namespace = source.get("apiGroup") or "", source.get("kind", ""), source.get("namespace")
    if not group and kind != "PersistentVolumeClaim":
        errors.append(invalid(path, kind, "must be 'PersistentVolumeClaim' when referencing the default apiGroup"))
    errors += invalid_texts(dns_subdomain_texts(group) if group else [], group, path.child("apiGroup"))
    return errors + invalid_texts(label_name(namespace, False) if namespace else [], namespace, path.child("namespace"))


def claim(obj: Obj, ctx: Context) -> Errors:
    """Check a PersistentVolumeClaim (upstream: `ValidatePersistentVolumeClaim`)."""
    return spec(obj["spec"], _SPEC)


def class_of(obj: Obj) -> str:
    """Return the class that a claim or a volume names, by the deprecated annotation or by the field; "" for none."""
    annotations = obj["metadata"].get("annotations") or {}
    return str(annotations.get(CLASS_ANNOTATION, obj.get("spec", {}).get("storageClassName")) or "")


def claim_changes(obj: Obj, old: Obj, ctx: Context) -> Errors:
    """Check that a claim's spec stays, apart from its volume and, once it is bound, its size."""
    new, before = deepcopy(obj["spec"]), deepcopy(old["spec"])
    if not before.get("volumeName"):
        before["volumeName"] = new.get("volumeName", "")
        new.setdefault("volumeName", "")
    errors = _class_annotation(obj, old, new, before)
    bound = (obj.get("status") or {}).get("phase") == "Bound"
    if bound and (new.get("resources") or {}).get("requests"):
        new["resources"]["requests"]["storage"] = before["resources"]["requests"]["storage"]
    if bound and (ctx.release >= V1_34 or new.get("volumeAttributesClassName") is not None):
        new["volumeAttributesClassName"] = before.get("volumeAttributesClassName")
    if _without_null(new) != _without_null(before):
        change = Difference(_IMMUTABLE_SPEC, before, new, f"{_CORE}.PersistentVolumeClaimSpec")
        errors.append(forbidden(_SPEC, change))
    errors += _smaller(obj, old, ctx)
    mode, mode_before = obj["spec"].get("volumeMode"), old["spec"].get("volumeMode")
    if mode != mode_before:
        errors.append(invalid(Path("volumeMode"), mode, objectmeta.IMMUTABLE))
    return errors + _attributes_class_of_claim(obj, old, ctx)


_ATTRIBUTES_CLASS = _SPEC.child("volumeAttributesClassName")


def _attributes_class_of_claim(obj: Obj, old: Obj, ctx: Context) -> Errors:
    """Check that a claim keeps a class of attributes that it has got (before 1.34: that it has asked for)."""
    name, before = (of["spec"].get("volumeAttributesClassName") for of in (obj, old))
    if name == before:
        return []
    applied = nested_field(old, "status", "currentVolumeAttributesClassName") if ctx.release >= V1_34 else before
    if applied is None or name:
        return _attributes_class_is_on(ctx)
    if ctx.release >= V1_34:
        what = "to nil" if name is None else "to empty string"
        text = f"update {what} is forbidden when status.currentVolumeAttributesClassName is not nil"
    else:
        text = f"update from non-nil value to {'nil' if name is None else 'an empty string'} is forbidden"
    return [*_attributes_class_is_on(ctx), forbidden(_ATTRIBUTES_CLASS, text)]


def _attributes_class_is_on(ctx: Context) -> Errors:
    if ctx.gates[features.VOLUME_ATTRIBUTES_CLASS]:
        return []
    text = "update is forbidden when the VolumeAttributesClass feature gate is disabled"
    return [forbidden(_ATTRIBUTES_CLASS, text)]


def _without_null(claim_spec: Obj) -> Obj:
    return {key: value for key, value in claim_spec.items() if value is not None}


def _class_annotation(obj: Obj, old: Obj, new: Obj, before: Obj) -> Errors:
    """Check that the class stays, or moves from the deprecated annotation to the field."""
    new_text, old_text = ((o["metadata"].get("annotations") or {}).get(CLASS_ANNOTATION) for o in (obj, old))
    name, name_before = new.get("storageClassName"), before.get("storageClassName")
    if old_text is not None and name_before is None and name == old_text and new_text in (None, old_text):
        new["storageClassName"] = None
        return []
    errors: Errors = []
    if (new_text or "") != (old_text or ""):
        path = Path("metadata", "annotations", CLASS_ANNOTATION)
        errors.append(invalid(path, new_text or "", objectmeta.IMMUTABLE))
    if name is not None and name_before is None and old_text in (None, name):
        new["storageClassName"] = None
    return errors


def _smaller(obj: Obj, old: Obj, ctx: Context) -> Errors:
    new_size, old_size = (parse(_storage(o["spec"])) for o in (obj, old))
    if not new_size < old_size:
        return []
    path = Path("spec", "resources", "requests", "storage")
    if not ctx.gates[features.RECOVER_VOLUME_EXPANSION_FAILURE]:
        return [forbidden(path, "field can not be less than previous value")]
    granted = parse(((old.get("status") or {}).get("capacity") or {}).get("storage", "0"))
    return [forbidden(path, "field can not be less than status.capacity")] if not granted < new_size else []


def _storage(claim_spec: Obj) -> str:
    return str(((claim_spec.get("resources") or {}).get("requests") or {}).get("storage", "0"))


def claim_status_update(obj: Obj, old: Obj, ctx: Context) -> Errors:
    """Check the status of a claim: capacities and the state of a resize."""
    status = obj.get("status") or {}
    errors = [
        error
        for name, text in (status.get("capacity") or {}).items()
        for error in _basic(text, Path("status", "capacity").key(name))
    ]
    errors += volume_health.of_claim(status)
    if ctx.gates[features.RECOVER_VOLUME_EXPANSION_FAILURE]:
        path = Path("status", _RESIZE_STATUSES[ctx.release])
        for name, state in (status.get("allocatedResourceStatuses") or {}).items():
            errors += _resource_key(name, path)
            if state not in _RESIZE_STATES:
                errors.append(not_supported(path, Stringer(name, name), sorted(_RESIZE_STATES)))
        for name, text in (status.get("allocatedResources") or {}).items():
            path = Path("status", "allocatedResources")
            here = path.key(name)
            errors += _resource_key(name, path) or _basic(text, here) or resources.amount("storage", text, here)
    return errors


_RESIZE_STATUSES = ByRelease({V1_34: "allocatedResourceStatuses", V1_31: "allocatedResourceStatus"})
_RESIZE_STATES = (
    "ControllerResizeInProgress",
    "ControllerResizeInfeasible",
    "NodeResizePending",
    "NodeResizeInProgress",
    "NodeResizeInfeasible",
)


def _resource_key(name: str, path: Path) -> Errors:
    """Check the name of a resource that a claim has got; upstream: `validatePersistentVolumeClaimResourceKey`."""
    errors = qualified(name, path)
    if not errors and resources.is_native(name) and name != "storage":
        return [not_supported(path, name, ("storage",))]
    return errors


def _basic(text: str, path: Path) -> Errors:
    value = parse(text).scaled(0)
    return [invalid(path, value, "must be a valid resource quantity")] if value < 0 else []


def volume(obj: Obj, ctx: Context) -> Errors:
    """Check a new PersistentVolume."""
    return changed_volume(obj, {}, ctx)


def changed_volume(obj: Obj, old: Obj, ctx: Context) -> Errors:
    """Check a PersistentVolume that replaces `old`, {} for a new one (upstream: `ValidatePersistentVolume`)."""
    volume_spec = obj["spec"]
    modes = volume_spec.get("accessModes") or []
    errors = [] if modes else [required(_SPEC.child("accessModes"))]
    errors += _modes(modes, _SPEC.child("accessModes"))
    errors += _capacity(volume_spec.get("capacity") or {}, _SPEC.child("capacity"))
    policy = volume_spec.get("persistentVolumeReclaimPolicy")
    if policy:
        errors += choice(policy, RECLAIM_POLICIES, _SPEC.child("persistentVolumeReclaimPolicy"))
    any_values = ctx.release < V1_33 or invalid_label_values(nested_field(old, "spec", "nodeAffinity", "required"))
    errors += _node_affinity(volume_spec.get("nodeAffinity"), _SPEC.child("nodeAffinity"), any_values)
    errors += _volume_sources(volume_spec, _SPEC, ctx, obj["metadata"].get("name", ""))
    errors += _recycled_root(volume_spec, _SPEC)
    errors += _class(volume_spec.get("storageClassName"), _SPEC.child("storageClassName"))
    if volume_spec.get("volumeMode") is not None:
        errors += choice(volume_spec["volumeMode"], VOLUME_MODES, _SPEC.child("volumeMode"))
    return errors + _attributes_class_of_volume(volume_spec)


def inline_volume(volume_spec: Obj, path: Path, ctx: Context) -> Errors:
    """Check the spec of a volume that an attachment has in line, which can only be of CSI."""
    context = "in the context of inline volumes"
    errors: Errors = []
    if volume_spec.get("claimRef") is not None:
        errors.append(forbidden(path.child("claimRef"), f"may not be specified {context}"))
    if volume_spec.get("capacity"):
        errors.append(forbidden(path.child("capacity"), f"may not be specified {context}"))
    if volume_spec.get("csi") is None:
        errors.append(required(path.child("csi"), f"has to be specified {context}"))
    modes = volume_spec.get("accessModes") or []
    errors += _modes(modes, path.child("accessModes")) if modes else [required(path.child("accessModes"))]
    if volume_spec.get("persistentVolumeReclaimPolicy") not in (None, "", "Retain"):
        errors.append(forbidden(path.child("persistentVolumeReclaimPolicy"), f"may only be Retain {context}"))
    if volume_spec.get("nodeAffinity") is not None:
        errors.append(forbidden(path.child("nodeAffinity"), f"may not be specified {context}"))
    errors += _volume_sources({**volume_spec, "nodeAffinity": None}, path, ctx)
    errors += _recycled_root(volume_spec, path)
    if volume_spec.get("storageClassName"):
        errors.append(forbidden(path.child("storageClassName"), f"may not be specified {context}"))
    if volume_spec.get("volumeMode") not in (None, "Filesystem"):
        text = f"may not specify volumeMode other than Filesystem {context}"
        errors.append(forbidden(path.child("volumeMode"), text))
    return errors


def _recycled_root(volume_spec: Obj, path: Path) -> Errors:
    """Check that the root of a host's file system is not to be recycled."""
    host_path = volume_spec.get("hostPath")
    if not host_path or host_path.get("path", "").strip("/."):
        return []
    if volume_spec.get("persistentVolumeReclaimPolicy") != "Recycle":
        return []
    text = "may not be 'recycle' for a hostPath mount of '/'"
    return [forbidden(path.child("persistentVolumeReclaimPolicy"), text)]


def _attributes_class_of_volume(volume_spec: Obj) -> Errors:
    name = volume_spec.get("volumeAttributesClassName")
    if name is None:
        return []
    errors = _class(name, _ATTRIBUTES_CLASS) if name else [required(_ATTRIBUTES_CLASS, "an empty string is disallowed")]
    if volume_spec.get("csi") is None:
        text = "has to be specified when using volumeAttributesClassName"
        errors.append(required(_SPEC.child("csi"), text))
    return errors


def _capacity(capacity: dict[str, str], path: Path) -> Errors:
    errors = [] if capacity else [required(path)]
    if "storage" not in capacity or len(capacity) > 1:
        bad_value = Typed(capacity or None, f"{_CORE}.ResourceList")
        errors.append(not_supported(path, bad_value, ("storage",)))
    for name, text in capacity.items():
        errors += _basic(text, path.key(name)) + _positive(text, path.key(name))
    return errors


def _node_affinity(affinity: Obj | None, path: Path, any_values: bool) -> Errors:
    if affinity is None:
        return []
    if affinity.get("required") is None:
        return [required(path.child("required"), "must specify required node constraints")]
    return nodeselector.validate(affinity["required"], path.child("required"), any_values=any_values)


def _volume_sources(volume_spec: Obj, within: Path, ctx: Context, volume: str = "") -> Errors:
    """Check the source of a volume, whose spec is at `within`, and its name if it is a PersistentVolume."""
    present = [name for name in _SOURCES if volume_spec.get(name) is not None]
    if not present:
        return [required(within, "must specify a volume type")]
    first = present[0]
    path = within.child(PATHS.get(first, first))
    errors = _csi(volume_spec["csi"], path, ctx) if first == "csi" else OF_VOLUMES[first](volume_spec[first], path)
    if first == "iscsi" and has_long_interface(volume_spec["iscsi"], volume):
        portal = volume_spec["iscsi"].get("targetPortal", "")
        errors.insert(0 if portal else 1, invalid(path.child("targetportal"), portal, LONG_INTERFACE))
    if first == "local" and volume_spec.get("nodeAffinity") is None:
        errors.append(required(within.child("nodeAffinity"), "Local volume requires node affinity"))
    if "flexVolume" in present[1:]:  # which is checked, and not refused, besides others
        errors += OF_VOLUMES["flexVolume"](volume_spec["flexVolume"], within.child("flexVolume"))
    return errors + one_source([first, *(name for name in present[1:] if name != "flexVolume")], within)


def _csi(source: Obj, path: Path, ctx: Context) -> Errors:
    errors = csi_driver(source.get("driver", ""), path.child("driver"), ctx.release)
    if not source.get("volumeHandle"):
        errors.append(required(path.child("volumeHandle")))
    for name in _SECRETS:
        if source.get(name) is not None:
            errors += _secret(source[name], path.child(name))
    return errors


def _secret(ref: Obj, path: Path) -> Errors:
    name, namespace = ref.get("name", ""), ref.get("namespace", "")
    errors = subdomain(name, path.child("name")) if name else [required(path.child("name"))]
    return errors + (label(namespace, path.child("namespace")) if namespace else [required(path.child("namespace"))])


def volume_changes(obj: Obj, old: Obj, ctx: Context) -> Errors:
    """Check that the place of a volume's data stays; a secret for its expansion can be added."""
    errors: Errors = []
    new, before = obj["spec"], old["spec"]
    source, stored = ({name: of[name] for name in _SOURCES if of.get(name) is not None} for of in (new, before))
    if "csi" in source and not stored.get("csi", {}).get("controllerExpandSecretRef"):
        source["csi"] = copy(source["csi"])
        source["csi"].pop("controllerExpandSecretRef", None)
    if source != stored:
        text = "spec.persistentvolumesource is immutable after creation\n"
        change = Difference(text, stored, source, f"{_CORE}.PersistentVolumeSource")
        errors.append(forbidden(_SPEC.child("persistentvolumesource"), change))
    if new.get("volumeMode") != before.get("volumeMode"):
        errors.append(invalid(Path("volumeMode"), new.get("volumeMode"), objectmeta.IMMUTABLE))
    affinity, was = new.get("nodeAffinity"), before.get("nodeAffinity")
    is_fixed = was is not None and not ctx.gates[features.MUTABLE_PV_NODE_AFFINITY]
    if is_fixed and not nodeselector.equal_ignoring_beta_labels(affinity, was):
        bad_value = None if affinity is None else Typed(affinity, f"{_CORE}.VolumeNodeAffinity")
        text = f"{objectmeta.IMMUTABLE}, except for updating from beta label to GA"
        errors.append(invalid(Path("nodeAffinity"), bad_value, text))
    name, name_before = (of.get("volumeAttributesClassName") for of in (new, before))
    if name != name_before:
        errors += _attributes_class_is_on(ctx)
        if name is None:
            errors.append(forbidden(_ATTRIBUTES_CLASS, "update from non-nil value to nil is forbidden"))
    return errors
