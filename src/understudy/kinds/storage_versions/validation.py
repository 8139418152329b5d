"""Validation of StorageVersions, and of migrations of stored objects to a new version."""

from __future__ import annotations

from collections.abc import Sequence

from understudy.kinds.common import conditions
from understudy.kinds.common.compose import all_of
from understudy.kinds.common.formats import invalid_text, invalid_texts, label_1035, qualified
from understudy.kinds.common.objectmeta import CORE, IMMUTABLE
from understudy.kinds.context import Context
from understudy.machinery.golang.text import parse_int
from understudy.machinery.releases.version import V1_31, V1_34, V1_35, V1_36, ByRelease
from understudy.machinery.types import Obj
from understudy.machinery.validation.bad_values import TextByRelease, Typed
from understudy.machinery.validation.field import Errors, Path, duplicate, invalid, required
from understudy.machinery.validation.names import dns_1035_label_texts, dns_subdomain_texts

_STATUS = Path("status")
_RESOURCE, _CONDITIONS, _VERSION = (
    Path("spec", "resource"),
    _STATUS.child("conditions"),
    _STATUS.child("resourceVersion"),
)
_COMMON = _STATUS.child("commonEncodingVersion")


# --- StorageVersion ---------------------------------------------------------------------------------------------------


def storage_version_name(name: str, prefix: bool) -> list[str]:
    """Check the name of a StorageVersion, `GROUP.RESOURCE` (upstream: `ValidateStorageVersionName`)."""
    group, dot, resource = name.rpartition(".")
    if not dot:
        return ["name must be in the form of <group>.<resource>"]
    texts = [f"the group segment {text}" for text in dns_subdomain_texts(group)]
    return texts + [f"the resource segment {text}" for text in dns_1035_label_texts(resource)]


def storage_version_status(obj: Obj, old: Obj, ctx: Context) -> Errors:
    """Check the status of a StorageVersion (upstream: `validateStorageVersionStatus`)."""
    status = obj.get("status") or {}
    servers = status.get("storageVersions") or []
    errors: Errors = []
    ids = [server.get("apiServerID", "") for server in servers]
    for i, server in enumerate(servers):
        path = _STATUS.child("storageVersions").index(i)
        if ids[i] in ids[:i]:
            errors.append(duplicate(path.child("apiServerID"), ids[i]))
        errors += _server(server, path)
    errors += _common_version(status.get("commonEncodingVersion"), servers)
    return errors + _storage_version_conditions(status.get("conditions") or [])


def _server(server: Obj, path: Path) -> Errors:
    server_id, encoding = server.get("apiServerID", ""), server.get("encodingVersion", "")
    decodable, served = server.get("decodableVersions"), server.get("servedVersions") or ()
    errors = invalid_texts(dns_subdomain_texts(server_id), server_id, path.child("apiServerID"))
    errors += invalid_text(_api_version_texts(encoding), encoding, path.child("encodingVersion"))
    where = path.child("decodableVersions")
    for i, version in enumerate(decodable or ()):
        errors += invalid_text(_api_version_texts(version), version, where.index(i))
    if encoding not in (decodable or ()):
        text = f"decodableVersions must include encodingVersion {encoding}"
        errors.append(invalid(where, Typed.of_field(server, "decodableVersions", "[]string"), text))
    for i, version in enumerate(served):
        where = path.child("servedVersions").index(i)
        errors += invalid_text(_api_version_texts(version), version, where)
        if version not in (decodable or ()):
            listed = f"[{' '.join(decodable or ())}]"
            text = f"individual served version : {version} must be included in decodableVersions : {listed}"
            errors.append(invalid(where, version, text))
    return errors


def _common_version(common: str | None, servers: Sequence[Obj]) -> Errors:
    encodings = {server.get("encodingVersion", "") for server in servers}
    if len(encodings) != 1:
        text = (
            "should be nil if servers do not agree on the same encoding version, or if there is no server reporting "
            "the supported versions yet"
        )
        return [] if common is None else [invalid(_COMMON, common, text)]
    (encoding,) = encodings
    if common is None:
        return [invalid(_COMMON, None, f"the common encoding version is {encoding}")]
    return [] if common == encoding else [invalid(_COMMON, common, f"the actual common encoding version is {encoding}")]


_NO_REASON = TextByRelease(ByRelease({V1_34: "", V1_31: "reason cannot be empty"}))
_NO_MESSAGE = TextByRelease(ByRelease({V1_34: "", V1_31: "message cannot be empty"}))


def _storage_version_conditions(items: Sequence[Obj]) -> Errors:
    errors: Errors = []
    first: dict[str, int] = {}
    for i, condition in enumerate(items):
        kind, path = condition.get("type", ""), _STATUS.index(i)
        if kind in first:
            text = f"the type of the condition is not unique, it also appears in conditions[{first[kind]}]"
            errors.append(invalid(path.child("type"), kind, text))
        first[kind] = i
        errors += qualified(kind, path.child("type")) + qualified(condition.get("status", ""), path.child("status"))
        for name, detail in (("reason", _NO_REASON), ("message", _NO_MESSAGE)):
            errors += [] if condition.get(name) else [required(path.child(name), detail)]
    return errors


def _api_version_texts(value: str) -> list[str]:
    """Check an API version such as "apps/v1" (upstream: `isValidAPIVersion`)."""
    if value.count("/") > 1:
        return [
            "an apiVersion is a DNS-1035 label, which must consist of lower case alphanumeric characters or '-', start "
            "with an alphabetic character, and end with an alphanumeric character (e.g. 'my-name',  or 'abc-123', "
            "regex used for validation is '[a-z]([-a-z0-9]*[a-z0-9])?') with an optional DNS subdomain prefix and '/' "
            "(e.g. 'example.com/MyVersion')"
        ]
    group, slash, version = value.rpartition("/")
    texts: list[str] = []
    if slash:
        wrong = dns_subdomain_texts(group) if group else ["must be non-empty"]
        texts += [f"group part: {text}" for text in wrong]
    wrong = dns_1035_label_texts(version) if version else ["must be non-empty"]
    return texts + [f"version part: {text}" for text in wrong]


# --- StorageVersionMigration ------------------------------------------------------------------------------------------


def migration(obj: Obj, ctx: Context) -> Errors:
    """Check a migration (upstream: `ValidateStorageVersionMigration`)."""
    return _MIGRATED[ctx.release]((obj.get("spec") or {}).get("resource") or {})


def _group_resource(resource: Obj) -> Errors:
    name, group = resource.get("resource", ""), resource.get("group", "")
    where = _RESOURCE.child("resource")
    errors = label_1035(name, where) if name else [required(where, "resource is required to be set")]
    return errors + (invalid_text(dns_subdomain_texts(group), group, _RESOURCE.child("group")) if group else [])


def _group_version_resource(resource: Obj) -> Errors:
    names = ("resource", "version")
    return [required(_RESOURCE.child(name), f"{name} is required") for name in names if not resource.get(name)]


_MIGRATED = ByRelease({V1_35: _group_resource, V1_31: _group_version_resource})


def same_migration(obj: Obj, old: Obj, ctx: Context) -> Errors:
    """Check that a migration keeps what it migrates (upstream: `ValidateStorageVersionMigrationUpdate`)."""
    return _SAME_MIGRATION[ctx.release](obj.get("spec") or {}, old.get("spec") or {})


def _same_spec(spec: Obj, old: Obj) -> Errors:
    bad_value = Typed(spec, "k8s.io/kubernetes/pkg/apis/storagemigration.StorageVersionMigrationSpec")
    return [] if spec == old else [invalid(Path("spec"), bad_value, IMMUTABLE)]


def _same_group_version_resource(spec: Obj, old: Obj) -> Errors:
    resource, before = spec.get("resource") or {}, old.get("resource") or {}
    return [
        invalid(Path(name), resource.get(name, ""), IMMUTABLE)
        for name in ("group", "version", "resource")
        if resource.get(name, "") != before.get(name, "")
    ]


_SAME_MIGRATION = ByRelease({V1_35: _same_spec, V1_31: _same_group_version_resource})


def _status(obj: Obj, old: Obj, ctx: Context) -> Errors:
    status, before = obj.get("status") or {}, old.get("status") or {}
    version, stored = status.get("resourceVersion", ""), before.get("resourceVersion", "")
    items = status.get("conditions") or []
    newest = ctx.release >= V1_35
    errors = _VERSION_RULE[ctx.release](version)
    errors += conditions.validate(items, _CONDITIONS) if newest else _migration_conditions(items)
    if stored and stored != version:
        errors.append(invalid(_VERSION, version, _VERSION_STAYS))
    succeeded, failed, running = (_is_true(items, kind) for kind in ("Succeeded", "Failed", "Running"))
    wrong = (
        (succeeded and failed, "Both success and failed conditions cannot be true at the same time"),
        (not newest and succeeded and running, "Running condition cannot be true when success condition is true"),
        (not newest and failed and running, "Running condition cannot be true when failed condition is true"),
        (_was(before, "Succeeded") and not succeeded, "Success condition cannot be set to false once it is true"),
        (_was(before, "Failed") and not failed, "Failed condition cannot be set to false once it is true"),
    )
    bad_value = Typed(items or None, _CONDITION_TYPES[ctx.release])
    return errors + [invalid(_CONDITIONS, bad_value, text) for is_wrong, text in wrong if is_wrong]


migration_status = all_of(CORE.updated, _status)
_VERSION_STAYS = TextByRelease(ByRelease({V1_35: IMMUTABLE, V1_31: "resourceVersion cannot be updated"}))
_CONDITION_TYPES = ByRelease(
    {
        V1_35: "[]k8s.io/apimachinery/pkg/apis/meta/v1.Condition",
        V1_31: "[]k8s.io/kubernetes/pkg/apis/storagemigration.MigrationCondition",
    }
)


def _is_true(items: Sequence[Obj], kind: str) -> bool:
    """Report whether the first condition of a type is true."""
    return next((item.get("status") == "True" for item in items if item.get("type") == kind), False)


def _was(status: Obj, kind: str) -> bool:
    return _is_true(status.get("conditions") or [], kind)


def _resource_version_if_any(version: str) -> Errors:
    return _resource_version(version) if version else []


def _resource_version(version: str) -> Errors:
    if version.isdecimal() and version.isascii() and version[0] != "0":
        return []
    return [invalid(_VERSION, version, f"resource version is not well formed: {version}")]


def _number_of_version(version: str) -> Errors:
    if not version:
        return []
    try:
        number = parse_int(version)
    except ValueError as error:
        return [invalid(_VERSION, version, f'failed to parse resource version "{version}": {error}')]
    return [invalid(_VERSION, number, "must be greater than or equal to 0")] if number < 0 else []


_VERSION_RULE = ByRelease({V1_36: _resource_version_if_any, V1_35: _resource_version, V1_31: _number_of_version})


def _migration_conditions(items: Sequence[Obj]) -> Errors:
    """Check conditions of the kind's own type, which has another name for the time of the last change."""
    common = [{**item, "lastTransitionTime": item.get("lastUpdateTime")} for item in items]
    return conditions.validate(common, _CONDITIONS, missing="must be set")
