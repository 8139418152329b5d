"""Validation of the places where containers mount volumes, as directories or as block devices."""

from __future__ import annotations

from collections.abc import Mapping

from understudy.kinds.common.formats import choice, descending_path, no_backsteps
from understudy.kinds.core.pods.pod_options import Options
from understudy.machinery.releases.version import V1_33
from understudy.machinery.types import Obj
from understudy.machinery.validation.bad_values import Typed
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

_PROPAGATIONS = ("Bidirectional", "HostToContainer", "None")
_BIND_OPTIONS = ("nodev", "noexec", "nosuid")
_RECURSIVE = ("Disabled", "Enabled", "IfPossible")


def mounts(container: Obj, volumes: Mapping[str, Obj], path: Path, opts: Options) -> Errors:
    """Check `volumeMounts`; `volumes` are the pod's valid ones by name (upstream: `ValidateVolumeMounts`)."""
    devices = {d.get("name", ""): d.get("devicePath", "") for d in container.get("volumeDevices") or ()}
    errors: Errors = []
    seen: set[str] = set()
    for i, mount in enumerate(container.get("volumeMounts") or ()):
        here, name, where = path.index(i), mount.get("name", ""), mount.get("mountPath", "")
        if not name:
            errors.append(required(here.child("name")))
        if name not in volumes:
            errors.append(not_found(here.child("name"), name))
        if not where:
            errors.append(required(here.child("mountPath")))
        if where in seen:
            errors.append(invalid(here.child("mountPath"), where, "must be unique"))
        seen.add(where)
        if name in devices:
            errors.append(invalid(here.child("name"), name, "must not already exist in volumeDevices"))
        if where in devices.values():
            text = "must not already exist as a path in volumeDevices"
            errors.append(invalid(here.child("mountPath"), where, text))
        if opts.version < V1_33:
            errors += _image_as_a_whole(mount, volumes.get(name) or {}, here)
        errors += _sub_paths(mount, here, path)
        errors += _propagation(mount, container, path.child("mountPropagation"))
        errors += _recursive(mount, path.child("recursiveReadOnly"))
        errors += _bind_options(mount.get("bindMountOptions") or [], volumes.get(name), here.child("bindMountOptions"))
    return errors


def _image_as_a_whole(mount: Obj, volume: Obj, path: Path) -> Errors:
    if volume.get("image") is None:
        return []
    text = "not allowed in image volume sources"
    return [invalid(path.child(name), mount[name], text) for name in ("subPath", "subPathExpr") if mount.get(name)]


def _sub_paths(mount: Obj, here: Path, path: Path) -> Errors:
    errors: Errors = []
    for name in ("subPath", "subPathExpr"):
        if not mount.get(name):
            continue
        if name == "subPathExpr" and mount.get("subPath"):
            text = "subPathExpr and subPath are mutually exclusive"
            errors.append(invalid(here.child(name), mount[name], text))
        errors += descending_path(mount[name], path.child(name))
    return errors


def _propagation(mount: Obj, container: Obj, path: Path) -> Errors:
    mode = mount.get("mountPropagation")
    if mode is None:
        return []
    errors = choice(mode, _PROPAGATIONS, path)
    if mode == "Bidirectional" and not (container.get("securityContext") or {}).get("privileged"):
        text = "Bidirectional mount propagation is available only to privileged containers"
        errors.append(forbidden(path, text))
    return errors


def _recursive(mount: Obj, path: Path) -> Errors:
    mode = mount.get("recursiveReadOnly")
    if mode in (None, "Disabled"):
        return []
    if mode not in _RECURSIVE:
        return [not_supported(path, mode, _RECURSIVE)]
    errors: Errors = []
    if not mount.get("readOnly"):
        errors.append(forbidden(path, "may only be specified when readOnly is true"))
    if mount.get("mountPropagation") not in (None, "None"):
        errors.append(forbidden(path, "may only be specified when mountPropagation is None or not specified"))
    return errors


def _bind_options(options: list[str], volume: Obj | None, path: Path) -> Errors:
    """Check the options of a bind mount, which images do not have (upstream: `validateBindMountOptions`)."""
    errors: Errors = []
    for i, option in enumerate(options):
        if option not in _BIND_OPTIONS:
            errors.append(not_supported(path.index(i), option, _BIND_OPTIONS))
        if option in options[:i]:
            errors.append(duplicate(path.index(i), option))
    if options and (volume or {}).get("image") is not None:
        bad_value = Typed(options, "[]string")
        errors.append(invalid(path, bad_value, "bindMountOptions may not be used with image volumes"))
    return errors


def devices(container: Obj, volumes: Mapping[str, Obj], path: Path) -> Errors:
    """Check `volumeDevices`, block devices that only claims provide (upstream: `ValidateVolumeDevices`)."""
    mounted = {m.get("name", ""): m.get("mountPath", "") for m in container.get("volumeMounts") or ()}
    errors: Errors = []
    names: set[str] = set()
    paths: set[str] = set()
    for i, device in enumerate(container.get("volumeDevices") or ()):
        here, name, where = path.index(i), device.get("name", ""), device.get("devicePath", "")
        errors += _device_name(name, names, volumes.get(name), here.child("name"))
        if not where:
            errors.append(required(here.child("devicePath")))
        if where in paths:
            errors.append(invalid(here.child("devicePath"), where, "must be unique"))
        if where and no_backsteps(where, path):
            errors.append(invalid(here.child("devicePath"), where, "can not contain backsteps ('..')"))
        else:
            paths.add(where)
        if name in mounted:
            errors.append(invalid(here.child("name"), name, "must not already exist in volumeMounts"))
        if where in mounted.values():
            text = "must not already exist as a path in volumeMounts"
            errors.append(invalid(here.child("devicePath"), where, text))
        if name:
            names.add(name)
    return errors


def _device_name(name: str, seen: set[str], volume: Obj | None, path: Path) -> Errors:
    errors = [] if name else [required(path)]
    if name in seen:
        errors.append(invalid(path, name, "must be unique"))
    if volume is None:
        errors.append(not_found(path, name))
    elif volume.get("persistentVolumeClaim") is None and volume.get("ephemeral") is None:
        text = "can only use volume source type of PersistentVolumeClaim or Ephemeral for block mode"
        errors.append(invalid(path, name, text))
    return errors
