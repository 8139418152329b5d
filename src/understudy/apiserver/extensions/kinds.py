"""The kinds that a definition adds: one for each version that it serves."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

from understudy.admission.webhooks import WebhookClient
from understudy.apiserver.extensions.conversion import new_converter
from understudy.apiserver.extensions.definition import Definition
from understudy.apiserver.extensions.fields.printer_columns import column_definitions, parsed_columns, table_row
from understudy.apiserver.extensions.fields.selectable_fields import selectable
from understudy.apiserver.extensions.metrics import ConversionMetrics
from understudy.apiserver.extensions.schemas import Schemas
from understudy.apiserver.extensions.storage import Storage
from understudy.apiserver.extensions.strategies import CustomResource
from understudy.apiserver.extensions.structural_codec import StructuralCodec
from understudy.kinds.apiextensions.custom_resources import CustomResourceRules
from understudy.kinds.declarations.kind import Behavior, Kind, Subresource
from understudy.machinery.releases.version import Version
from understudy.machinery.types import GroupVersionKind, NamedTuple

VERBS = ("delete", "deletecollection", "get", "list", "patch", "create", "update", "watch")
VERBS_WHILE_TERMINATING = ("delete", "deletecollection", "get", "list", "watch")
SUBRESOURCE_VERBS = ("get", "patch", "update")
SCALE = GroupVersionKind("autoscaling", "v1", "Scale")


class Defined(NamedTuple):
    """A definition with its kinds.

    kinds    those that are served, by version, the preferred one first
    storage  that of the version in which objects are stored, which may not be served
    """

    definition: Definition
    kinds: Mapping[str, Kind]
    storage: Kind

    @staticmethod
    def by(
        definition: Definition,
        version: Version,
        webhooks: WebhookClient,
        conversions: ConversionMetrics,
        *,
        keeps_floats: bool = False,
    ) -> Defined:
        """Return a definition with the kinds that it defines. `keeps_floats`: see `Storage`."""
        schemas, converter = Schemas(definition, version), new_converter(definition, webhooks, version, conversions)

        def kind(version: str) -> Kind:
            return _kind(schemas, version, Storage(schemas, version, converter, keeps_floats=keeps_floats))

        kinds = {name: kind(name) for name in definition.served_versions}
        stored = definition.storage_version
        return Defined(definition, kinds, kinds.get(stored) or kind(stored))

    def with_verbs_of(self, definition: Definition) -> Defined:
        """Return the same kinds, with all that was made of their schemas, and the verbs of the same definition, whose
        deletion has begun, for example."""
        kinds = {name: replace(kind, verbs=_verbs(definition)) for name, kind in self.kinds.items()}
        return Defined(definition, kinds, kinds.get(definition.storage_version, self.storage))


def _verbs(definition: Definition) -> tuple[str, ...]:
    return VERBS_WHILE_TERMINATING if definition.is_terminating else VERBS


def _kind(schemas: Schemas, version: str, storage: Storage) -> Kind:
    """Return the kind of a definition's objects in one version."""
    definition = schemas.definition
    gvk = GroupVersionKind(definition.group, version, definition.kind)
    declared = definition.versions[version]
    columns = parsed_columns(declared.get("additionalPrinterColumns") or ())
    return Kind(
        release=schemas.version,
        group=definition.group,
        name=definition.kind,
        resource=definition.plural,
        singular=definition.singular,
        namespaced=definition.namespaced,
        verbs=_verbs(definition),
        versions=(version,),
        stored=gvk._replace(version=definition.storage_version),
        short_names=definition.short_names,
        categories=definition.categories,
        subresources=_subresources(definition, version),
        columns={version: column_definitions(columns, schemas.version)},
        find_behavior=lambda: _behavior(schemas, gvk),
        new_codec=lambda kind, version: StructuralCodec(schemas, version),
        custom=storage,
    )


def _behavior(schemas: Schemas, gvk: GroupVersionKind) -> Behavior:
    """Return the behavior of a definition's objects in one version."""
    definition, version = schemas.definition, gvk.version
    declared = definition.versions[version]
    subresources = definition.subresources(version)
    schema = schemas.of(version)
    rules = CustomResourceRules(gvk, schema, scale=subresources.get("scale"))
    resource = CustomResource(rules, gvk.api_version, with_status=_api_versions_with_status(definition))
    return Behavior(
        defaults=lambda obj, ctx: obj.update(schemas.default(obj)),
        strategy=resource.strategy(),
        status=resource.status_strategy(schemas.version),
        scale_paths=subresources.get("scale"),
        replicas_paths={definition.api_version(name): _replicas_path(definition, name) for name in definition.versions},
        selectable=selectable(declared.get("selectableFields") or ()),
        table_row=table_row(parsed_columns(declared.get("additionalPrinterColumns") or ())),
    )


def _replicas_path(definition: Definition, version: str) -> tuple[str, ...] | None:
    """Return the path of the replicas in a version, None if that has no scale."""
    scale = definition.subresources(version).get("scale")
    return None if scale is None else tuple(scale["specReplicasPath"].removeprefix(".").split("."))


def _api_versions_with_status(definition: Definition) -> list[str]:
    """Return the API versions of a definition, served or not, that have a status subresource."""
    return [
        GroupVersionKind(definition.group, name, definition.kind).api_version
        for name in definition.versions
        if "status" in definition.subresources(name)
    ]


def _subresources(definition: Definition, version: str) -> dict[str, Subresource]:
    """Return the subresources of a version by name."""
    kinds = {"status": GroupVersionKind(definition.group, version, definition.kind), "scale": SCALE}
    declared = definition.subresources(version)
    return {
        name: Subresource(name, kind, SUBRESOURCE_VERBS, foreign=name == "scale")
        for name, kind in kinds.items()
        if name in declared
    }
