"""The kinds that a definition adds: one for each version that it serves."""

from __future__ import annotations

from understudy.admission.validation.custom_resources import CustomResourceRules
from understudy.apiserver.extensions.definition import Definition
from understudy.apiserver.extensions.schemas import Schemas
from understudy.apiserver.extensions.storage import Storage
from understudy.apiserver.extensions.strategies import CustomResource
from understudy.apiserver.extensions.structural_codec import StructuralCodec
from understudy.apiserver.registry.kind import Behavior, Kind, Subresource
from understudy.machinery.releases.version import Version
from understudy.machinery.types import GroupVersionKind, Obj

VERBS = ("delete", "deletecollection", "get", "list", "patch", "create", "update", "watch")
VERBS_WHILE_TERMINATING = ("delete", "deletecollection", "get", "list", "watch")
SUBRESOURCE_VERBS = ("get", "patch", "update")
SCALE = GroupVersionKind("autoscaling", "v1", "Scale")
_NAME_COLUMN: Obj = {
    "name": "Name",
    "type": "string",
    "format": "name",
    "description": "Name must be unique within a namespace. Is required when creating resources, although some "
    "resources may allow a client to request the generation of an appropriate name automatically. Name is primarily "
    "intended for creation idempotence and configuration definition. Cannot be updated. More info: "
    "https://kubernetes.io/docs/concepts/overview/working-with-objects/names#names",
    "priority": 0,
}


def kinds_of(definition: Definition, release: Version) -> dict[str, Kind]:
    """Return the kinds of a definition by version, the preferred one first."""
    schemas = Schemas(definition, release)
    return {version: _kind(schemas, version, release) for version in definition.served_versions}


def _kind(schemas: Schemas, version: str, release: Version) -> Kind:
    """Return the kind of a definition's objects in one version."""
    definition = schemas.definition
    gvk = GroupVersionKind(definition.group, version, definition.kind)
    subresources = definition.subresources(version)
    rules = CustomResourceRules(gvk, schemas.of(version), scale=subresources.get("scale"))
    resource = CustomResource(rules, has_status="status" in subresources)
    return Kind(
        release=release,
        group=definition.group,
        name=definition.kind,
        resource=definition.plural,
        singular=definition.singular,
        namespaced=definition.namespaced,
        verbs=VERBS_WHILE_TERMINATING if definition.is_terminating else VERBS,
        versions=(version,),
        stored=gvk._replace(version=definition.storage_version),
        short_names=definition.short_names,
        categories=definition.categories,
        subresources=_subresources(definition, version),
        columns={version: [_NAME_COLUMN]},
        find_behavior=lambda: Behavior(strategy=resource.strategy(), status=resource.status_strategy()),
        new_codec=lambda kind, version: StructuralCodec(schemas, version),
        custom=Storage(schemas, version),
    )


def _subresources(definition: Definition, version: str) -> dict[str, Subresource]:
    """Return the subresources of a version by name."""
    kinds = {"status": GroupVersionKind(definition.group, version, definition.kind), "scale": SCALE}
    declared = definition.subresources(version)
    return {
        name: Subresource(name, kind, SUBRESOURCE_VERBS, foreign=name == "scale")
        for name, kind in kinds.items()
        if name in declared
    }
