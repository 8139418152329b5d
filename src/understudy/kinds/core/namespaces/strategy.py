"""Namespaces: defaults, strategies of the resource, its status and its `finalize` subresource, table cells."""

from __future__ import annotations

from understudy.kinds.common.compose import all_of, as_on_create
from understudy.kinds.common.garbage_collection import FOREGROUND, ORPHAN, set_gc_finalizers
from understudy.kinds.common.objectmeta import CORE, Metadata
from understudy.kinds.common.printers import field, row
from understudy.kinds.context import Context
from understudy.kinds.core.namespaces import validation
from understudy.kinds.declarations.kind import Behavior, Strategy
from understudy.kinds.declarations.strategies import copy_stored, keep_stored, status_strategy
from understudy.machinery.options import DeleteOptions
from understudy.machinery.releases.version import Version
from understudy.machinery.types import Obj, nested_field
from understudy.machinery.validation.names import label_name

NAMESPACE_NAME = "kubernetes.io/metadata.name"


def _name_label(namespace: Obj, ctx: Context) -> None:
    """Set the label with the namespace's name, in place (upstream: `Canonicalize`)."""
    metadata = namespace["metadata"]
    if metadata.get("name"):
        metadata["labels"] = {**(metadata.get("labels") or {}), NAMESPACE_NAME: metadata["name"]}


def _default_namespace(namespace: Obj, ctx: Context) -> None:
    """Set the defaults of a namespace, in place (upstream: `SetDefaults_Namespace`)."""
    _name_label(namespace, ctx)
    namespace.setdefault("status", {}).setdefault("phase", "Active")


def _create_namespace(namespace: Obj, ctx: Context) -> None:
    """Prepare a new namespace: it is active and has the finalizer `kubernetes`."""
    namespace["status"] = {"phase": "Active"}
    spec = namespace.setdefault("spec", {})
    finalizers = spec.get("finalizers") or []
    if "kubernetes" not in finalizers:
        spec["finalizers"] = [*finalizers, "kubernetes"]


def _update_namespace(namespace: Obj, old: Obj, ctx: Context) -> None:
    """Prepare an updated namespace: its status and finalizers stay."""
    copy_stored(namespace, old, "status")
    copy_stored(namespace.setdefault("spec", {}), old.get("spec", {}), "finalizers")


def _terminate(namespace: Obj, options: DeleteOptions, ctx: Context) -> None:
    """Set the phase of a deleted namespace, which stays until the finalizers of its spec are gone.

    Unlike those of other kinds, its dependents are deleted in the foreground if `orphanDependents` is false.
    """
    present = namespace["metadata"].get("finalizers") or []
    if options.orphan_dependents is not None:
        finalizers = [ORPHAN if options.orphan_dependents else FOREGROUND]
    elif options.propagation is not None:
        finalizers = {"Orphan": [ORPHAN], "Foreground": [FOREGROUND]}.get(options.propagation, [])
    else:
        finalizers = [finalizer for finalizer in present if finalizer in (ORPHAN, FOREGROUND)]
    set_gc_finalizers(namespace["metadata"], finalizers)
    namespace["status"] = {**(namespace.get("status") or {}), "phase": "Terminating"}


# The strategy of the `finalize` subresource, which changes the spec's finalizers.
NAMESPACE_FINALIZE = Strategy(
    prepare_for_update=keep_stored("status"),
    validate_update=all_of(CORE.updated, validation.finalize),
    reset_fields={"": (("status",),)},
)
_NAMESPACE = Metadata(name=label_name)
NAMESPACES = Behavior(
    defaults=_default_namespace,
    defaults_labels=True,
    strategy=Strategy(
        prepare_for_create=_create_namespace,
        prepare_for_update=_update_namespace,
        canonicalize=_name_label,
        validate_metadata=_NAMESPACE.created,
        validate=validation.validate,
        validate_update=all_of(as_on_create(_NAMESPACE.created, validation.validate), _NAMESPACE.updated),
        reset_fields={"": (("status",),)},
    ),
    status=status_strategy(validate_update=all_of(CORE.updated, validation.update_status)),
    subresources={"finalize": NAMESPACE_FINALIZE},
    selectable={"status.phase": field("status", "phase")},
    table_row=row(field("status", "phase")),
    delete_returns_object=True,
    begin_termination=_terminate,
    failed_precondition="Precondition failed",
    held_by_spec_finalizers=lambda namespace: bool(nested_field(namespace, "spec", "finalizers")),
)


def behaviors(version: Version) -> dict[tuple[str, str], Behavior]:
    """Return the behavior of the kind by (group, kind)."""
    return {("", "Namespace"): NAMESPACES}
