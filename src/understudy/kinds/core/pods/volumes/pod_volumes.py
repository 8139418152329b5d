"""Validation of the volumes of a pod."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from understudy.kinds.common import label_selectors, objectmeta
from understudy.kinds.common.formats import descending_path, invalid_texts, label, unreserved_path
from understudy.kinds.common.signer_names import bundle_name_texts, is_of_kubernetes, signer_name
from understudy.kinds.core.pods.containers import env
from understudy.kinds.core.pods.containers.containers import pull_policy
from understudy.kinds.core.pods.containers.security import identifier
from understudy.kinds.core.pods.pod_options import Options
from understudy.kinds.core.pods.volumes import persistent_volumes
from understudy.kinds.core.pods.volumes.volume_sources import (
    CHECKS,
    LONG_INTERFACE,
    PATHS,
    csi_driver,
    has_long_interface,
    one_source,
)
from understudy.machinery.quantity import parse
from understudy.machinery.types import Obj
from understudy.machinery.validation.bad_values import Typed
from understudy.machinery.validation.field import (
    Errors,
    Path,
    duplicate,
    forbidden,
    invalid,
    not_supported,
    required,
    too_long,
)
from understudy.machinery.validation.names import (
    dns_subdomain_texts,
    go_lower,
    qualified_name_texts,
    size,
    subdomain_name,
)

MODE_TEXT = "must be a number between 0 and 0777 (octal), both inclusive"
_CONFLICT = "conflicting duplicate paths"
# The sources of a volume in the order of the checks: each one after the first is an error.
_ORDER = (
    "emptyDir",
    "hostPath",
    "gitRepo",
    "gcePersistentDisk",
    "awsElasticBlockStore",
    "secret",
    "nfs",
    "iscsi",
    "glusterfs",
    "flocker",
    "persistentVolumeClaim",
    "rbd",
    "cinder",
    "cephfs",
    "quobyte",
    "downwardAPI",
    "fc",
    "flexVolume",
    "configMap",
    "azureFile",
    "vsphereVolume",
    "photonPersistentDisk",
    "portworxVolume",
    "azureDisk",
    "storageos",
    "projected",
    "scaleIO",
    "csi",
    "ephemeral",
    "image",
)

_DEFAULTS = ("defaultMode", "defaultUser")
SourceRule = Callable[[Obj, Path, Options], Errors]


def validate(volumes: Sequence[Obj], metadata: Obj, path: Path, opts: Options) -> tuple[dict[str, Obj], Errors]:
    """Return the valid volumes by name, and every error (upstream: `ValidateVolumes`)."""
    errors: Errors = []
    valid: dict[str, Obj] = {}
    pod = metadata.get("name", "")
    generated = {f"{pod}-{v.get('name', '')}" for v in volumes if pod and v.get("ephemeral") is not None}
    for i, volume in enumerate(volumes):
        here, name = path.index(i), volume.get("name", "")
        wrong = _sources(volume, pod, here, opts)
        wrong += label(name, here.child("name")) if name else [required(here.child("name"))]
        if name in valid:
            wrong.append(duplicate(here.child("name"), name))
        if wrong:
            errors += wrong
        else:
            valid[name] = volume
        claim = (volume.get("persistentVolumeClaim") or {}).get("claimName")
        if claim in generated:
            text = "must not reference a PVC that gets created for an ephemeral volume"
            errors.append(invalid(here.child("persistentVolumeClaim", "claimName"), claim, text))
    return valid, errors


def _sources(volume: Obj, pod: str, path: Path, opts: Options) -> Errors:
    present = [name for name in _ORDER if volume.get(name) is not None]
    if not present:
        return [required(path, "must specify a volume type")]
    first = present[0]
    errors = _source(first, volume[first], path.child(PATHS.get(first, first)), opts)
    if first == "ephemeral" and pod and volume.get("name"):
        claim = f"{pod}-{volume['name']}"
        texts = (f'PVC name "{claim}": {text}' for text in dns_subdomain_texts(claim))
        errors += invalid_texts(texts, volume["name"], path.child("name"))
    if "iscsi" in present and has_long_interface(volume["iscsi"], volume.get("name", "")):
        errors.append(invalid(path.child("name"), volume.get("name", ""), LONG_INTERFACE))
    return errors + one_source(present, path)


def _source(kind: str, source: Obj, path: Path, opts: Options) -> Errors:
    rule = _OF_PODS.get(kind)
    if rule is not None:
        return rule(source, path, opts)
    check = CHECKS.get(kind)
    return check(source, path) if check else []


def _empty_dir(source: Obj, path: Path, opts: Options) -> Errors:
    errors: Errors = []
    if source.get("sizeLimit") is not None and parse(source["sizeLimit"]).value < 0:
        errors.append(forbidden(path.child("sizeLimit"), "SizeLimit field must be a valid resource quantity"))
    if not 0 <= (source.get("mode") or 0) <= 0o1777:
        text = "must be a number between 0 and 01777 (octal), both inclusive"
        errors.append(invalid(path.child("mode"), source["mode"], text))
    return errors


def _git_repo(source: Obj, path: Path, opts: Options) -> Errors:
    errors = [] if source.get("repository") else [required(path.child("repository"))]
    return errors + descending_path(source.get("directory", ""), path.child("directory"))


def _access(source: Obj, path: Path, mode: str, user: str) -> Errors:
    """Check who may read files: the mode and the owner in fields of these names."""
    bits = source.get(mode)
    errors = [] if bits is None or 0 <= bits <= 0o777 else [invalid(path.child(mode), bits, MODE_TEXT)]
    return errors + identifier(source.get(user), path.child(user))


def _files(name: str) -> SourceRule:
    """Make the check of a secret or config map; `name` is the field that names it."""

    def check(source: Obj, path: Path, opts: Options) -> Errors:
        errors = [] if source.get(name) else [required(path.child(name))]
        errors += _access(source, path, *_DEFAULTS)
        return errors + _items(source, path)

    return check


def _items(source: Obj, path: Path) -> Errors:
    return [
        error
        for i, item in enumerate(source.get("items") or ())
        for error in _key_to_path(item, path.child("items").index(i))
    ]


def _key_to_path(item: Obj, path: Path) -> Errors:
    errors = [required(path.child(name)) for name in ("key", "path") if not item.get(name)]
    errors += unreserved_path(item.get("path", ""), path.child("path"))
    return errors + _access(item, path, "mode", "user")


def _claim(source: Obj, path: Path, opts: Options) -> Errors:
    return [] if source.get("claimName") else [required(path.child("claimName"))]


def _downward(source: Obj, path: Path, opts: Options) -> Errors:
    errors = _access(source, path, *_DEFAULTS)
    return errors + [error for item in source.get("items") or () for error in _downward_file(item, path)]


def _downward_file(item: Obj, path: Path) -> Errors:
    errors = [] if item.get("path") else [required(path.child("path"))]
    errors += unreserved_path(item.get("path", ""), path.child("path"))
    if item.get("fieldRef") is not None:
        errors += env.field_ref(item["fieldRef"], env.VOLUME_FIELDS, path.child("fieldRef"))
        if item.get("resourceFieldRef") is not None:
            text = "fieldRef and resourceFieldRef can not be specified simultaneously"
            errors.append(invalid(path, "resource", text))
    elif item.get("resourceFieldRef") is not None:
        errors += env.resource_ref(item["resourceFieldRef"], path.child("resourceFieldRef"), of_volume=True)
    else:
        errors.append(required(path, "one of fieldRef and resourceFieldRef is required"))
    return errors + _access(item, path, "mode", "user")


def _projected(source: Obj, path: Path, opts: Options) -> Errors:
    errors = _access(source, path, *_DEFAULTS)
    seen: set[str] = set()
    for i, part in enumerate(source.get("sources") or ()):
        here = path.child("sources").index(i)
        present = [name for name in _PROJECTIONS if part.get(name) is not None]
        for name in present:
            errors += _PROJECTIONS[name](part[name], here.child(name), path, seen)
        if len(present) > 1:
            errors.append(forbidden(here, "may not specify more than 1 volume type per source"))
    return errors


def _projected_files(source: Obj, path: Path, volume: Path, seen: set[str]) -> Errors:
    errors = [] if source.get("name") else [required(path.child("name"))]
    for i, item in enumerate(source.get("items") or ()):
        errors += _key_to_path(item, path.child("items").index(i))
        errors += _path_once(item.get("path", ""), source.get("name", ""), volume, seen)
    return errors


def _path_once(key: str, bad_path: str, volume: Path, seen: set[str]) -> Errors:
    if key and key in seen:
        return [invalid(volume, bad_path, _CONFLICT)]
    seen.add(key)
    return []


def _projected_downward(source: Obj, path: Path, volume: Path, seen: set[str]) -> Errors:
    errors: Errors = []
    for item in source.get("items") or ():
        errors += _downward_file(item, path)
        errors += _path_once(item.get("path", ""), item.get("path", ""), volume, seen)
    return errors


def _projected_token(source: Obj, path: Path, volume: Path, seen: set[str]) -> Errors:
    seconds, here = source.get("expirationSeconds", 0), path.child("expirationSeconds")
    errors: Errors = []
    if seconds < 10 * 60:
        errors.append(invalid(here, seconds, "may not specify a duration less than 10 minutes"))
    if seconds > 1 << 32:
        errors.append(invalid(here, seconds, "may not specify a duration larger than 2^32 seconds"))
    if not source.get("path"):
        errors.append(required(volume.child("path")))
    else:
        errors += unreserved_path(source["path"], volume.child("path"))
    return errors + identifier(source.get("user"), path.child("user"))


def _projected_bundle(source: Obj, path: Path, volume: Path, seen: set[str]) -> Errors:
    errors = _bundles(source, path)
    if not source.get("path"):
        errors.append(required(path.child("path")))
    errors += identifier(source.get("user"), path.child("user"))
    errors += unreserved_path(source.get("path", ""), path.child("path"))
    return errors + _path_once(source.get("path", ""), source.get("path", ""), volume, seen)


def _bundles(source: Obj, path: Path) -> Errors:
    """Check which bundles are projected: one by name, or all of a signer that a selector selects."""
    name, signer, selector = (source.get(field) for field in ("name", "signerName", "labelSelector"))
    where = path.child("labelSelector")
    if name is not None and signer is not None:
        bad_value = Typed(source, f"{_CORE}.ClusterTrustBundleProjection")
        return [invalid(path, bad_value, "only one of name and signerName may be used")]
    if name is not None:
        errors = [] if name else [required(path.child("name"), "must be a valid object name")]
        texts = (f"not a valid clustertrustbundlename: {text}" for text in bundle_name_texts(name))
        errors += invalid_texts(texts, name, path.child("name"))
        if selector is not None:
            bad_value = Typed(selector, "k8s.io/apimachinery/pkg/apis/meta/v1.LabelSelector")
            errors.append(invalid(where, bad_value, "labelSelector must be unset if name is specified"))
        return errors
    if signer is None:
        return [required(path, "either name or signerName must be specified")]
    errors = [] if signer else [required(path.child("signerName"), "must be a valid signer name")]
    return errors + signer_name(signer, path.child("signerName")) + label_selectors.validate(selector, where)


_CORE = "k8s.io/kubernetes/pkg/apis/core"
_KEY_TYPES = ("RSA3072", "RSA4096", "ECDSAP256", "ECDSAP384", "ECDSAP521", "ED25519")
_CREDENTIALS = ("credentialBundlePath", "keyPath", "certificateChainPath")
_MIN_LIFE, _MAX_LIFE, _MAX_LIFE_OF_KUBERNETES = 3600, 91 * 86400, 86400


def _projected_certificate(source: Obj, path: Path, volume: Path, seen: set[str]) -> Errors:
    """Check the projection of a certificate and its key (KEP-4317)."""
    signer, key, seconds = source.get("signerName", ""), source.get("keyType", ""), source.get("maxExpirationSeconds")
    errors = signer_name(signer, path.child("signerName"))
    errors += _user_annotations(source.get("userAnnotations") or {}, path.child("userAnnotations"))
    errors += identifier(source.get("user"), path.child("user"))
    if key not in _KEY_TYPES:
        errors.append(not_supported(path.child("keyType"), key, _KEY_TYPES))
    if seconds is not None:
        here = path.child("maxExpirationSeconds")
        most = _MAX_LIFE_OF_KUBERNETES if is_of_kubernetes(signer) else _MAX_LIFE
        if seconds < _MIN_LIFE:
            errors.append(invalid(here, seconds, f"if provided, maxExpirationSeconds must be >= {_MIN_LIFE}"))
        if seconds > most:
            errors.append(invalid(here, seconds, f"if provided, maxExpirationSeconds must be <= {most}"))
    named = [name for name in _CREDENTIALS if source.get(name)]
    for name in named:
        errors += unreserved_path(source[name], path.child(name)) + _path_once(source[name], source[name], volume, seen)
    if named:
        return errors
    return [*errors, required(path, f"specify at least one of {', '.join(_CREDENTIALS[:-1])}, and {_CREDENTIALS[-1]}")]


def _user_annotations(annotations: dict[str, str], path: Path) -> Errors:
    """Check annotations for a signer, whose keys need a domain (upstream: `ValidateUserAnnotations`)."""
    errors: Errors = []
    for key in map(go_lower, annotations):
        texts = qualified_name_texts(key)
        if not texts and "/" not in key:
            texts = ['must be a domain-prefixed key (such as "acme.io/foo")']
        errors += invalid_texts(texts, key, path) if key else [required(path)]
    total = sum(size(key) + size(value) for key, value in annotations.items())
    return errors + ([too_long(path, objectmeta.ANNOTATIONS_SIZE)] if total > objectmeta.ANNOTATIONS_SIZE else [])


_PROJECTIONS: dict[str, Callable[[Obj, Path, Path, set[str]], Errors]] = {
    "secret": _projected_files,
    "configMap": _projected_files,
    "downwardAPI": _projected_downward,
    "serviceAccountToken": _projected_token,
    "clusterTrustBundle": _projected_bundle,
    "podCertificate": _projected_certificate,
}


def _csi(source: Obj, path: Path, opts: Options) -> Errors:
    errors = csi_driver(source.get("driver", ""), path.child("driver"), opts.version)
    secret = source.get("nodePublishSecretRef")
    if secret is None:
        return errors
    if not secret.get("name"):
        return [*errors, required(path.child("nodePublishSecretRef", "name"))]
    return errors + invalid_texts(subdomain_name(secret["name"], False), secret["name"], path.child("name"))


def _ephemeral(source: Obj, path: Path, opts: Options) -> Errors:
    template, here = source.get("volumeClaimTemplate"), path.child("volumeClaimTemplate")
    if template is None:
        return [required(here)]
    errors = objectmeta.validate_template(template.get("metadata", {}), here.child("metadata"))
    return errors + persistent_volumes.spec(template.get("spec") or {}, here.child("spec"))


def _image(source: Obj, path: Path, opts: Options) -> Errors:
    errors = [required(path.child("reference"))] if opts.is_pod and not source.get("reference") else []
    return errors + pull_policy(source.get("pullPolicy", ""), path.child("pullPolicy"))


_OF_PODS: dict[str, SourceRule] = {
    "emptyDir": _empty_dir,
    "gitRepo": _git_repo,
    "secret": _files("secretName"),
    "configMap": _files("name"),
    "persistentVolumeClaim": _claim,
    "downwardAPI": _downward,
    "projected": _projected,
    "csi": _csi,
    "ephemeral": _ephemeral,
    "image": _image,
}
