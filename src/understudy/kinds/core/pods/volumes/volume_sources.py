"""Validation of the volume sources that pods and persistent volumes share, mostly required fields.

`check(kind, source, path)` checks one source; `pod_volumes` and `persistent_volumes` add what is special to them.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from functools import partial

from understudy.kinds.common.formats import choice, label, no_backsteps, range_text, require_fields
from understudy.machinery.releases.version import V1_35, Version
from understudy.machinery.types import Obj
from understudy.machinery.util.regex import regex
from understudy.machinery.validation.bad_values import Typed
from understudy.machinery.validation.field import Errors, Path, forbidden, invalid, not_supported, required, too_long
from understudy.machinery.validation.names import dns_subdomain_texts, label_name, size

HOST_PATH_TYPES = (
    "",
    "BlockDevice",
    "CharDevice",
    "Directory",
    "DirectoryOrCreate",
    "File",
    "FileOrCreate",
    "Socket",
)
_INTERFACE_LENGTH = 64
_INTERFACE = "<volume name>:<iscsi.targetPortal>"
LONG_INTERFACE = f"Total length of {_INTERFACE} must be under 64 characters if iscsi.initiatorName is specified."
PARTITION_TEXT = range_text(1, 255)
_IQN = regex(r"iqn\.\d{4}-\d{2}\.([A-Za-z0-9.-]+)(:[^,;*&$|\s]+)$", re.ASCII)
_EUI = regex(r"^eui.[A-Za-z0-9]{16}$")
_NAA = regex(r"^naa.[A-Za-z0-9]{32}$")
# Sources whose errors are told under another name.
PATHS = {"gcePersistentDisk": "persistentDisk"}
_DISK_URIS = {
    True: "/subscriptions/{sub-id}/resourcegroups/{group-name}/providers/microsoft.compute/disks/{disk-id}",
    False: "https://{account-name}.blob.core.windows.net/{container-name}/{disk-name}.vhd",
}


def csi_driver(name: str, path: Path, version: Version) -> Errors:
    """Check the name of a CSI driver: a subdomain of up to 63 bytes in any case (upstream: `ValidateCSIDriverName`)."""
    if not name and version >= V1_35:
        return [required(path)]
    errors = [] if name else [required(path)]
    if errors and version >= V1_35:
        return errors
    if size(name) > 63:
        errors.append(too_long(path, 63, in_bytes=True))
    return errors + [invalid(path, name, text) for text in dns_subdomain_texts(name.lower())]


def one_source(present: Sequence[str], path: Path) -> Errors:
    """Check that a volume has one source only."""
    text = "may not specify more than 1 volume type"
    return [forbidden(path.child(_SPELLED.get(name, name)), text) for name in present[1:]]


_SPELLED = {"cephfs": "cephFS", "downwardAPI": "downwarAPI"}  # upstream's names of sources in this error


def has_long_interface(iscsi: Obj, volume: str) -> bool:
    """Report whether an initiator of iSCSI would get an interface with too long a name, for the volume of a name."""
    name = f"{volume}:{iscsi.get('targetPortal', '')}"
    return iscsi.get("initiatorName") is not None and size(name) > _INTERFACE_LENGTH


def _glusterfs(source: Obj, path: Path) -> Errors:
    errors, namespace = require_fields(source, path, "endpoints", "path"), source.get("endpointsNamespace")
    if namespace is None:
        return errors
    here, text = path.child("endpointsNamespace"), "if the endpointnamespace is set, it must be a valid namespace name"
    texts = label_name(namespace, False) if namespace else [text]
    return errors + [invalid(here, namespace, text) for text in texts]


def _host_path(source: Obj, path: Path) -> Errors:
    if not source.get("path"):
        return [required(path.child("path"))]
    errors = no_backsteps(source["path"], path.child("path"))
    return errors + choice(source.get("type") or "", HOST_PATH_TYPES, path.child("type"))


def _local(source: Obj, path: Path) -> Errors:
    return no_backsteps(source["path"], path.child("path")) if source.get("path") else [required(path.child("path"))]


def _nfs(source: Obj, path: Path) -> Errors:
    errors = require_fields(source, path, "server", "path")
    where = source.get("path", "")
    return (
        errors if where.startswith("/") else [*errors, invalid(path.child("path"), where, "must be an absolute path")]
    )


def _partitioned(name: str) -> Callable[[Obj, Path], Errors]:
    def check(source: Obj, path: Path) -> Errors:
        errors, partition = require_fields(source, path, name), source.get("partition", 0)
        if not 0 <= partition <= 255:
            errors.append(invalid(path.child("partition"), partition, PARTITION_TEXT))
        return errors

    return check


def _fields(*names: str) -> Callable[[Obj, Path], Errors]:
    return lambda source, path: require_fields(source, path, *names)


_INITIATORS = " starting with iqn, eui, or naa"


def _iscsi(source: Obj, path: Path, *, of_volume: bool = False) -> Errors:
    errors = require_fields(source, path, "targetPortal")
    iqn, initiator, lun = source.get("iqn", ""), source.get("initiatorName"), source.get("lun", 0)
    names = "" if of_volume else _INITIATORS
    if iqn:
        errors += _initiator(iqn, path.child("iqn"), names)
    else:
        errors.append(required(path.child("iqn")))
    if not 0 <= lun <= 255:
        errors.append(invalid(path.child("lun"), lun, range_text(0, 255)))
    if (source.get("chapAuthDiscovery") or source.get("chapAuthSession")) and source.get("secretRef") is None:
        errors.append(required(path.child("secretRef")))
    if of_volume:
        errors += _secret(source, path, "name")
    return errors if initiator is None else errors + _initiator(initiator, path.child("initiatorname"), names)


def _initiator(name: str, path: Path, names: str) -> Errors:
    for prefix, pattern in (("iqn", _IQN), ("eui", _EUI), ("naa", _NAA)):
        if name.startswith(prefix):
            return [] if pattern.search(name) else [invalid(path, name, "must be valid format")]
    return [invalid(path, name, f"must be valid format{names}")]


def _fibre_channel(source: Obj, path: Path) -> Errors:
    names, ids, lun = source.get("targetWWNs"), source.get("wwids"), source.get("lun")
    errors: Errors = []
    if not names and not ids:
        errors.append(required(path.child("targetWWNs"), "must specify either targetWWNs or wwids, but not both"))
    if names and ids:
        text = "targetWWNs and wwids can not be specified simultaneously"
        errors.append(invalid(path.child("targetWWNs"), Typed(names, "[]string"), text))
    if names and lun is None:
        errors.append(required(path.child("lun"), "lun is required if targetWWNs is specified"))
    elif names and not 0 <= (lun or 0) <= 255:
        errors.append(invalid(path.child("lun"), lun, range_text(0, 255)))
    return errors


def _flex(source: Obj, path: Path) -> Errors:
    errors = require_fields(source, path, "driver")
    for key in source.get("options") or ():
        domain = f".{key.partition('/')[0].lower()}"
        if domain.endswith((".kubernetes.io", ".k8s.io")):
            text = "kubernetes.io and k8s.io namespaces are reserved"
            errors.append(invalid(path.child("options").key(key), key, text))
    return errors


def _secret(source: Obj, path: Path, *names: str) -> Errors:
    """Check that the reference of a source to a secret, if there is one, has a name."""
    reference = source.get("secretRef")
    return [] if reference is None else require_fields(reference, path.child("secretRef"), *names)


def _cinder(source: Obj, path: Path, *names: str) -> Errors:
    return require_fields(source, path, "volumeID") + _secret(source, path, "name", *names)


_HOST_PORT = regex(r"(\[[^\[\]]*\]|[^:\[\]]*):[^:\[\]]*")  # as Go's `net.SplitHostPort` splits it


def _quobyte(source: Obj, path: Path) -> Errors:
    text = "must be a host:port pair or multiple pairs separated by commas"
    registry = source.get("registry", "")
    errors: Errors = []
    if not registry:
        errors.append(required(path.child("registry"), text))
    elif len(source.get("tenant", "")) >= 65:
        errors.append(required(path.child("tenant"), "must be a UUID and may not exceed a length of 64 characters"))
    else:
        wrong = (pair for pair in registry.split(",") if not _HOST_PORT.fullmatch(pair))
        errors += [invalid(path.child("registry"), registry, text) for _ in wrong]
    return errors + require_fields(source, path, "volume")


def _flocker(source: Obj, path: Path) -> Errors:
    name, uuid = source.get("datasetName", ""), source.get("datasetUUID", "")
    errors: Errors = []
    if not name and not uuid:
        errors.append(required(path, "one of datasetName and datasetUUID is required"))
    if name and uuid:
        errors.append(invalid(path, "resource", "datasetName and datasetUUID can not be specified simultaneously"))
    if "/" in name:
        errors.append(invalid(path.child("datasetName"), name, "must not contain '/'"))
    return errors


def _azure_file(source: Obj, path: Path) -> Errors:
    errors = require_fields(source, path, "secretName", "shareName")
    return [*errors, required(path.child("secretNamespace"))] if source.get("secretNamespace") == "" else errors


def _azure_disk(source: Obj, path: Path) -> Errors:
    errors = require_fields(source, path, "diskName", "diskURI")
    kind, uri = source.get("kind"), source.get("diskURI", "")
    for name, allowed in (
        ("cachingMode", ("None", "ReadOnly", "ReadWrite")),
        ("kind", ("Dedicated", "Managed", "Shared")),
    ):
        if source.get(name) is not None:
            errors += choice(source[name], allowed, path.child(name))
    managed = kind == "Managed"
    if kind is not None and not uri.startswith("/subscriptions/" if managed else "https://"):
        errors.append(not_supported(path.child("diskURI"), uri, [_DISK_URIS[managed]]))
    return errors


def _storage_os(source: Obj, path: Path, *names: str) -> Errors:
    name, namespace = source.get("volumeName", ""), source.get("volumeNamespace", "")
    errors = label(name, path.child("volumeName")) if name else [required(path.child("volumeName"))]
    if namespace:
        errors += label(namespace, path.child("volumeNamespace"))
    return errors + _secret(source, path, "name", *names)


CHECKS: dict[str, Callable[[Obj, Path], Errors]] = {
    "hostPath": _host_path,
    "local": _local,
    "gcePersistentDisk": _partitioned("pdName"),
    "awsElasticBlockStore": _partitioned("volumeID"),
    "nfs": _nfs,
    "iscsi": _iscsi,
    "glusterfs": _glusterfs,
    "flocker": _flocker,
    "rbd": _fields("monitors", "image"),
    "cinder": _cinder,
    "cephfs": _fields("monitors"),
    "quobyte": _quobyte,
    "fc": _fibre_channel,
    "flexVolume": _flex,
    "azureFile": _fields("secretName", "shareName"),
    "vsphereVolume": _fields("volumePath"),
    "photonPersistentDisk": _fields("pdID"),
    "portworxVolume": _fields("volumeID"),
    "azureDisk": _azure_disk,
    "storageos": _storage_os,
    "scaleIO": _fields("gateway", "system", "volumeName"),
}
# Checks of the sources of PersistentVolumes, whose secrets may be in any namespace.
OF_VOLUMES: dict[str, Callable[[Obj, Path], Errors]] = CHECKS | {
    "iscsi": partial(_iscsi, of_volume=True),
    "cinder": lambda source, path: _cinder(source, path, "namespace"),
    "azureFile": _azure_file,
    "storageos": lambda source, path: _storage_os(source, path, "namespace"),
}
