"""Validation of environment variables, and of the references to fields of the pod that volumes share with them."""

from __future__ import annotations

import re
from collections.abc import Sequence

from understudy.kinds.common.formats import (
    config_key_texts,
    env_name_texts,
    invalid_texts,
    label,
    no_backsteps,
    qualified,
)
from understudy.kinds.core.pods.containers_of import with_paths
from understudy.kinds.core.pods.pod_options import Options
from understudy.machinery.quantity import parse
from understudy.machinery.types import Obj, nested_field
from understudy.machinery.validation.field import Errors, Path, invalid, not_found, not_supported, required
from understudy.machinery.validation.names import go_lower, subdomain_name

ENV_FIELDS = (
    "metadata.name",
    "metadata.namespace",
    "metadata.uid",
    "spec.nodeName",
    "spec.serviceAccountName",
    "status.hostIP",
    "status.hostIPs",
    "status.podIP",
    "status.podIPs",
)
VOLUME_FIELDS = ("metadata.annotations", "metadata.labels", "metadata.name", "metadata.namespace", "metadata.uid")
_CONVERTIBLE = {*ENV_FIELDS, *VOLUME_FIELDS, "spec.restartPolicy", "spec.schedulerName", "status.phase"}

_COMPUTE = ("cpu", "ephemeral-storage", "memory")
RESOURCE_FIELDS = tuple(f"{kind}.{name}" for kind in ("limits", "requests") for name in _COMPUTE)
_PAGES = ("limits.hugepages-", "requests.hugepages-")
_SIZES = ("1", "1k", "1M", "1G", "1T", "1P", "1E", "1Ki", "1Mi", "1Gi", "1Ti", "1Pi", "1Ei")
_SIZES_TEXT = f"only divisor's values {', '.join(_SIZES)} are supported with the {{}} resource"
_DIVISORS = {
    "cpu": (("1m", "1"), "only divisor's values 1m and 1 are supported with the cpu resource"),
    "memory": (_SIZES, _SIZES_TEXT.format("memory")),
    "ephemeral-storage": (_SIZES, _SIZES_TEXT.format("local ephemeral storage")),
}

# How sources of a variable are checked: {field: check}
_SOURCES = ("fieldRef", "resourceFieldRef", "configMapKeyRef", "secretKeyRef", "fileKeyRef")


def variables(items: Sequence[Obj] | None, path: Path, opts: Options) -> Errors:
    """Check `env` of a container (upstream: `ValidateEnv`)."""
    errors: Errors = []
    for i, variable in enumerate(items or ()):
        name = variable.get("name", "")
        if not name:
            errors.append(required(path.index(i).child("name")))
        elif texts := env_name_texts(name, opts.relaxed_env):
            errors += invalid_texts(texts, name, path.index(i).child("name"))
        if variable.get("valueFrom") is not None:
            errors += _value_from(variable, path.index(i).child("valueFrom"), opts)
    return errors


def _value_from(variable: Obj, path: Path, opts: Options) -> Errors:
    source = variable["valueFrom"]
    errors: Errors = []
    present = [name for name in _SOURCES if source.get(name) is not None]
    for name in present:
        here = path.child(name)
        if name == "fieldRef":
            errors += field_ref(source[name], ENV_FIELDS, here)
        elif name == "resourceFieldRef":
            errors += resource_ref(source[name], here)
        elif name == "fileKeyRef":
            errors += _file_ref(source[name], here)
        else:
            errors += _key_ref(source[name], here)
    if not present:
        names = [f"`{name}`" for name in (_SOURCES if opts.env_files else _SOURCES[:-1])]
        errors.append(invalid(path, "", f"must specify one of: {', '.join(names[:-1])} or {names[-1]}"))
    elif variable.get("value"):
        errors.append(invalid(path, "", "may not be specified when `value` is not empty"))
    elif len(present) > 1:
        errors.append(invalid(path, "", "may not have more than one field specified at a time"))
    return errors


def _key_ref(ref: Obj, path: Path) -> Errors:
    name, key = ref.get("name", ""), ref.get("key", "")
    errors = invalid_texts(subdomain_name(name, False), name, path.child("name"))
    if not key:
        return [*errors, required(path.child("key"))]
    return errors + invalid_texts(config_key_texts(key), key, path.child("key"))


def _file_ref(ref: Obj, path: Path) -> Errors:
    """Check a FileKeySelector: a variable in a file of a volume (upstream: `validateFileKeySelector`)."""
    key, volume, file = (ref.get(name, "") for name in ("key", "volumeName", "path"))
    here = path.child("key")
    errors = invalid_texts(env_name_texts(key, True), key, here) if key else [required(here)]
    errors += label(volume, path.child("volumeName")) if volume else [required(path.child("volumeName"))]
    return errors + (no_backsteps(file, path.child("path")) if file else [required(path.child("path"))])


def file_volumes(spec: Obj, path: Path) -> Errors:
    """Check that variables come from files in volumes of the type emptyDir (upstream: `validateFileKeyRefVolumes`)."""
    errors: Errors = []
    for container, here in with_paths(spec, path):
        for i, variable in enumerate(container.get("env") or ()):
            source = nested_field(variable, "valueFrom", "fileKeyRef")
            if source is None:
                continue
            name, where = source.get("volumeName", ""), here.child("env").index(i).child("valueFrom", "fileKeyRef")
            volumes = [volume for volume in spec.get("volumes") or () if volume.get("name", "") == name]
            if not volumes:
                errors.append(not_found(where.child("volumeName"), name))
            elif volumes[-1].get("emptyDir") is None:
                text = "referenced volume must be of type emptyDir"
                errors.append(invalid(where.child("volumeName"), name, text))
    return errors


def sources(items: Sequence[Obj] | None, path: Path, opts: Options) -> Errors:
    """Check `envFrom` of a container (upstream: `ValidateEnvFrom`)."""
    errors: Errors = []
    for i, source in enumerate(items or ()):
        here, prefix = path.index(i), source.get("prefix", "")
        if prefix:
            errors += invalid_texts(env_name_texts(prefix, opts.relaxed_env), prefix, here.child("prefix"))
        present = [name for name in ("configMapRef", "secretRef") if source.get(name) is not None]
        for name in present:
            errors += _ref_name(source[name].get("name", ""), here.child(name, "name"))
        if not present:
            errors.append(invalid(path, "", "must specify one of: `configMapRef` or `secretRef`"))
        elif len(present) > 1:
            errors.append(invalid(path, "", "may not have more than one field specified at a time"))
    return errors


def _ref_name(name: str, path: Path) -> Errors:
    return invalid_texts(subdomain_name(name, True), name, path) if name else [required(path)]


def field_ref(ref: Obj, supported: Sequence[str], path: Path) -> Errors:
    """Check an ObjectFieldSelector: a field of the pod, or one label or annotation."""
    version, field = ref.get("apiVersion", ""), ref.get("fieldPath", "")
    if not version:
        return [required(path.child("apiVersion"))]
    if not field:
        return [required(path.child("fieldPath"))]
    match = re.fullmatch(r"(.+?)\['(.*)'\]", field, re.S)
    why = _inconvertible(version, field, match[1] if match else "")
    if why:
        return [invalid(path.child("fieldPath"), field, f"error converting fieldPath: {why}")]
    if match:
        return qualified(go_lower(match[2]) if match[1] == "metadata.annotations" else match[2], path)
    field = "spec.nodeName" if field == "spec.host" else field
    return [] if field in supported else [not_supported(path.child("fieldPath"), field, supported)]


def _inconvertible(version: str, label: str, subscripted: str) -> str:
    if version != "v1":
        return f"unsupported pod version: {version}"
    if subscripted:
        if subscripted in ("metadata.annotations", "metadata.labels"):
            return ""
        return f"field label does not support subscript: {label}"
    return "" if label in _CONVERTIBLE or label == "spec.host" else f"field label not supported: {label}"


def resource_ref(ref: Obj, path: Path, *, of_volume: bool = False) -> Errors:
    """Check a ResourceFieldSelector: an amount that a container has requested."""
    resource = ref.get("resource", "")
    errors: Errors = []
    if of_volume and not ref.get("containerName"):
        errors.append(required(path.child("containerName")))
    elif not resource:
        errors.append(required(path.child("resource")))
    elif resource not in RESOURCE_FIELDS and not resource.startswith(_PAGES):
        errors.append(not_supported(path.child("resource"), resource, RESOURCE_FIELDS))
    return errors + _divisor(resource, ref.get("divisor") or "0", path)


def _divisor(resource: str, divisor: str, path: Path) -> Errors:
    if parse(divisor).value == 0:
        return []
    allowed, text = _DIVISORS.get(resource.partition(".")[2], ((), ""))
    if resource.startswith(_PAGES):
        allowed, text = _SIZES, _SIZES_TEXT.format("hugepages")
    return [invalid(path.child("divisor"), resource, text)] if text and divisor not in allowed else []
