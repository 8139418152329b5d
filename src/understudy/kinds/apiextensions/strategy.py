"""Custom resource definitions and API services: defaults, strategies, table cells."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from understudy.kinds import apiregistration
from understudy.kinds.admissionregistration.strategy import service_port
from understudy.kinds.apiextensions import definitions, schema_warnings
from understudy.kinds.apiextensions.definitions import CLEANUP
from understudy.kinds.apiextensions.stored_definition import STORED_DEFINITION
from understudy.kinds.common.compose import all_of, as_on_create
from understudy.kinds.common.disabled_fields import Guard, drop_disabled_fields, remove_fields
from understudy.kinds.common.objectmeta import PLAIN
from understudy.kinds.common.printers import created_at, row
from understudy.kinds.context import Context
from understudy.kinds.declarations.kind import Behavior, StoredDocument
from understudy.kinds.declarations.strategies import (
    METADATA_RESET,
    SPEC_RESET,
    keep_metadata,
    resource_strategy,
    status_strategy,
)
from understudy.machinery.golang.json_writer import as_read_again
from understudy.machinery.options import DeleteOptions
from understudy.machinery.releases import features
from understudy.machinery.releases.version import V1_31, V1_36, V1_37, ByRelease, Version
from understudy.machinery.types import (
    Obj,
    condition_is_true,
    condition_of,
    default_if_nil,
    nested_field,
    share_equal_parts,
)

CRDS, SERVICES = "apiextensions.k8s.io", "apiregistration.k8s.io"


def _storage_version(definition: Obj) -> list[str]:
    """Return a list of the version that is marked as the storage version, [] if none is."""
    versions = nested_field(definition, "spec", "versions", default=[])
    return [v.get("name", "") for v in versions if v.get("storage")][:1]


def _default_definition(definition: Obj, ctx: Context) -> None:
    """Set the defaults of a custom resource definition, in place (upstream:
    `SetDefaults_CustomResourceDefinitionSpec`)."""
    spec = definition.setdefault("spec", {})
    names = spec.setdefault("names", {})
    kind = names.get("kind", "")
    if not names.get("singular") and kind:
        names["singular"] = kind.lower()
    if not names.get("listKind") and kind:
        names["listKind"] = f"{kind}List"
    default_if_nil(spec, "conversion", {"strategy": "None"})
    service_port(nested_field(spec, "conversion", "webhook", "clientConfig", "service"))
    current_status = definition.setdefault("status", {})
    if not current_status.get("storedVersions") and (version := _storage_version(definition)):
        current_status["storedVersions"] = version


def _schemas_within(schema: Obj) -> Iterator[Obj]:
    """Yield a schema and those of its parts, without those of conditions such as `allOf`."""
    yield schema
    parts = [schema.get("additionalProperties"), schema.get("items"), *(schema.get("properties") or {}).values()]
    for part in parts:
        if isinstance(part, dict):
            yield from _schemas_within(part)


def _rules(definition: Obj) -> Iterator[Obj]:
    """Yield the rules in the schemas of all versions."""
    for version in definition["spec"].get("versions") or ():
        for schema in _schemas_within(nested_field(version, "schema", "openAPIV3Schema", default={})):
            yield from schema.get("x-kubernetes-validations") or ()


def _drop_optional_old_self(definition: Obj) -> None:
    for rule in _rules(definition):
        remove_fields(rule, "optionalOldSelf")


def _drop_selectable_fields(definition: Obj) -> None:
    for version in definition["spec"].get("versions") or ():
        remove_fields(version, "selectableFields")


# What managers of the status do not own: up to 1.35 not even the metadata that they can change.
_RESET_BY_STATUS = ByRelease[Mapping[str, tuple[tuple[str, ...], ...]]]({V1_36: SPEC_RESET, V1_31: METADATA_RESET})

_GUARDS = (
    Guard(
        features.CRD_VALIDATION_RATCHETING,
        lambda definition: any(rule.get("optionalOldSelf") is not None for rule in _rules(definition)),
        _drop_optional_old_self,
    ),
    Guard(
        features.CUSTOM_RESOURCE_FIELD_SELECTORS,
        lambda definition: any(
            version.get("selectableFields") is not None for version in definition["spec"]["versions"]
        ),
        _drop_selectable_fields,
    ),
)


def _prepare(definition: Obj, ctx: Context) -> None:
    _add_stored_version(definition, ctx)
    definition["metadata"]["generation"] = 1
    drop_disabled_fields(_GUARDS, definition, None, ctx.gates)


def _prepare_update(definition: Obj, old: Obj, ctx: Context) -> None:
    """Prepare an update. The generation counts fields that are dropped, too."""
    _add_stored_version(definition, ctx)
    if _without_empty_webhook(definition["spec"]) != old["spec"]:
        definition["metadata"]["generation"] = old["metadata"].get("generation", 0) + 1
    drop_disabled_fields(_GUARDS, definition, old, ctx.gates)


def _add_stored_version(definition: Obj, ctx: Context) -> None:
    """Add the storage version to `status.storedVersions`."""
    current_status = definition["status"]
    stored = current_status.get("storedVersions") or []
    if new := [version for version in _storage_version(definition) if version not in stored]:
        current_status["storedVersions"] = stored + new


def _read_again(definition: Obj, ctx: Context) -> None:
    """Make the definition what is read from the store: whole floats are integers, which validation tells apart, and a
    webhook of which no field is set is none. Equal schemas of fields are kept once."""
    spec = _without_empty_webhook(definition["spec"])
    definition["spec"] = {**spec, "versions": share_equal_parts(as_read_again(spec["versions"]))}


def _without_empty_webhook(spec: Obj) -> Obj:
    webhook = nested_field(spec, "conversion", "webhook")
    if webhook is None or any(webhook.values()):
        return spec
    return {**spec, "conversion": {"strategy": spec["conversion"]["strategy"]}}


def _terminate(definition: Obj, options: DeleteOptions, ctx: Context) -> None:
    """Add the finalizer and the condition Terminating when a definition is deleted: its objects are deleted first."""
    metadata, current_status = definition["metadata"], definition["status"]
    finalizers = metadata.get("finalizers") or []
    metadata["finalizers"] = finalizers if CLEANUP in finalizers else [*finalizers, CLEANUP]
    condition = {
        "type": "Terminating",
        "status": "True",
        "lastTransitionTime": ctx.now,
        "reason": "InstanceDeletionPending",
        "message": "CustomResourceDefinition marked for deletion; CustomResource deletion will begin soon",
    }
    definition["status"] = {**current_status, "conditions": [*(current_status.get("conditions") or ()), condition]}


def _stored_service(api_service: Obj) -> Obj:
    """Return an API service as the real server stores it."""
    fields = {name: value for name, value in api_service.items() if name != "status"}
    kind = {"kind": "APIService", "apiVersion": f"{SERVICES}/v1"}
    return {**kind, **fields, "status": api_service.get("status") or {}}


def _service(api_service: Obj) -> str:
    """Return the service cell of an API service: `NAMESPACE/NAME`, or Local."""
    service = nested_field(api_service, "spec", "service")
    return "Local" if service is None else f"{service.get('namespace', '')}/{service.get('name', '')}"


def _available(api_service: Obj) -> str:
    """Return the availability cell of an API service: `False (Reason)`."""
    condition = condition_of(api_service, "Available")
    status, reason = condition.get("status", ""), condition.get("reason")
    if not condition:
        return "Unknown"
    return f"{status} ({reason})" if status != "True" and reason else status


def _default_service(api_service: Obj, ctx: Context) -> None:
    """Set the defaults of an API service, in place."""
    service_port(nested_field(api_service, "spec", "service"))


def _set_available(api_service: Obj, ctx: Context) -> None:
    """Set the status of a new API service: one without a service is handled locally and available."""
    if nested_field(api_service, "spec", "service") is None:
        condition = {
            "type": "Available",
            "status": "True",
            "lastTransitionTime": ctx.now,
            "reason": "Local",
            "message": "Local APIServices are always available",
        }
        api_service["status"] = {"conditions": [condition]}


def _definition_row(definition: Obj, now: float) -> list[Any]:
    """Return the cells of a definition, since 1.37."""
    spec, metadata = definition.get("spec") or {}, definition["metadata"]  # a bookmark has no spec
    names = spec.get("names") or {}
    served = [version for version in spec.get("versions") or () if version.get("served")]
    versions = [f"{version['name']}(storage)" if version.get("storage") else version["name"] for version in served]
    return [
        metadata.get("name", ""),
        spec.get("scope", ""),
        ",".join(sorted(versions)),
        metadata.get("creationTimestamp") or "0001-01-01T00:00:00Z",
        spec.get("group", ""),
        names.get("kind", ""),
        ",".join(names.get("shortNames") or ()),
        condition_is_true(definition, "Established"),
    ]


_FAILED_PRECONDITION = ByRelease({V1_37: "precondition failed", V1_31: "Precondition failed"})
_ROWS = ByRelease({V1_37: _definition_row, V1_31: created_at})


def behaviors(version: Version) -> dict[tuple[str, str], Behavior]:
    """Return the behavior of these kinds by (group, kind)."""
    return {
        (CRDS, "CustomResourceDefinition"): Behavior(
            defaults=_default_definition,
            strategy=resource_strategy(
                CRDS,
                "v1",
                "CustomResourceDefinition",
                _prepare,
                prepare_update=_prepare_update,
                validate=definitions.create,
                validate_metadata=definitions.metadata,
                validate_update=definitions.UPDATE,
                canonicalize=_read_again,
                warn_create=schema_warnings.warn_create,
                warn_update=schema_warnings.warn_update,
                unconditional_update=False,
            ),
            status=status_strategy(
                validate_update=definitions.status,
                canonicalize=_read_again,
                unconditional_update=False,
                reset_fields=_RESET_BY_STATUS[version],
            ),
            table_row=_ROWS[version],
            begin_termination=_terminate,
            failed_precondition=_FAILED_PRECONDITION[version],
            stored_as_json=STORED_DEFINITION,
        ),
        (SERVICES, "APIService"): Behavior(
            defaults=_default_service,
            strategy=resource_strategy(
                SERVICES,
                "v1",
                "APIService",
                _set_available,
                validate=apiregistration.create,
                validate_metadata=apiregistration.metadata,
                validate_update=all_of(PLAIN.updated, as_on_create(apiregistration.metadata, apiregistration.create)),
                unconditional_update=False,
            ),
            status=status_strategy(
                keep_metadata("labels", "annotations", "finalizers", "ownerReferences"),
                validate_update=all_of(PLAIN.updated, apiregistration.status),
                unconditional_update=False,
                reset_fields=METADATA_RESET,
            ),
            table_row=row(_service, _available),
            stored_as_json=StoredDocument(write=_stored_service),
        ),
    }
