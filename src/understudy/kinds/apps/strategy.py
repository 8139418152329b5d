"""Workloads: deployments, replica sets, daemon sets, stateful sets, controller revisions, replication controllers."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from understudy.kinds.apps import common, statuses, workloads
from understudy.kinds.apps.workloads import TEMPLATE_GENERATION
from understudy.kinds.common.disabled_fields import drop_disabled_fields, field_guard
from understudy.kinds.common.objectmeta import Metadata, created_with_declared_name
from understudy.kinds.common.printers import NONE, age, containers, labels, name, selector, selector_text
from understudy.kinds.context import Context
from understudy.kinds.core.persistent_volumes.strategy import default_claim
from understudy.kinds.core.pods import pod_defaults
from understudy.kinds.core.pods.pod_disabled_fields import drop_template_fields, drop_template_fields_on_create
from understudy.kinds.core.pods.volumes.claim_warnings import claim_spec
from understudy.kinds.declarations.kind import Behavior, Strategy
from understudy.kinds.declarations.strategies import (
    create_steps,
    keep_metadata,
    resource_strategy,
    status_strategy,
    update_steps,
)
from understudy.machinery.errors import bad_request
from understudy.machinery.golang.text import parse_int
from understudy.machinery.releases import features
from understudy.machinery.releases.version import V1_33, Version
from understudy.machinery.types import Obj, controller_of, default_if_nil, nested_field, split_api_version
from understudy.machinery.validation.field import Path
from understudy.machinery.validation.names import label_name

# Fields that the strategies of all workloads share.
_SHARED: dict[str, Any] = {"warn_update": common.warn_update}
_WARNED: dict[str, Any] = {**_SHARED, "warn_create": create_steps(common.warn_of_hostname, common.warn_create)}


def _template(workload: Obj) -> Obj:
    spec: Obj = nested_field(workload, "spec", "template", "spec", default={})
    return spec


def _wide(workload: Obj) -> list[Any]:
    """Return the cells of a wide table: containers, images, selector."""
    return [*containers(_template(workload)), selector(nested_field(workload, "spec", "selector"))]


def _status_numbers(workload: Obj, *fields: str) -> list[int]:
    """Return numbers of a workload's status, 0 for missing ones."""
    current_status = workload.get("status") or {}
    return [current_status.get(field, 0) for field in fields]


def _deployment_row(deployment: Obj, now: float) -> list[Any]:
    """Return the cells of a deployment (upstream: `printDeployment`)."""
    ready, updated, available = _status_numbers(deployment, "readyReplicas", "updatedReplicas", "availableReplicas")
    desired = nested_field(deployment, "spec", "replicas", default=0)
    cells = [name(deployment), f"{ready}/{desired}", updated, available, age(deployment, now)]
    return [*cells, *containers(_template(deployment)), selector_text(nested_field(deployment, "spec", "selector"))]


def _replicas_row(workload: Obj, now: float) -> list[Any]:
    """Return the first cells of a replica set or replication controller."""
    desired = nested_field(workload, "spec", "replicas", default=0)
    return [name(workload), desired, *_status_numbers(workload, "replicas", "readyReplicas"), age(workload, now)]


def _replica_set_row(replica_set: Obj, now: float) -> list[Any]:
    """Return the cells of a replica set."""
    return [*_replicas_row(replica_set, now), *_wide(replica_set)]


def _controller_row(controller: Obj, now: float) -> list[Any]:
    """Return the cells of a replication controller."""
    chosen = labels(nested_field(controller, "spec", "selector"))
    return [*_replicas_row(controller, now), *containers(_template(controller)), chosen]


def _daemon_set_row(daemon_set: Obj, now: float) -> list[Any]:
    """Return the cells of a daemon set."""
    numbers = _status_numbers(
        daemon_set,
        "desiredNumberScheduled",
        "currentNumberScheduled",
        "numberReady",
        "updatedNumberScheduled",
        "numberAvailable",
    )
    nodes = labels(_template(daemon_set).get("nodeSelector"))
    return [name(daemon_set), *numbers, nodes, age(daemon_set, now), *_wide(daemon_set)]


def _stateful_set_row(stateful_set: Obj, now: float) -> list[Any]:
    """Return the cells of a stateful set."""
    (ready,) = _status_numbers(stateful_set, "readyReplicas")
    desired = nested_field(stateful_set, "spec", "replicas", default=0)
    return [name(stateful_set), f"{ready}/{desired}", age(stateful_set, now), *containers(_template(stateful_set))]


def _revision_row(revision: Obj, now: float) -> list[Any]:
    """Return the cells of a controller revision."""
    owner = controller_of(revision)
    return [name(revision), NONE if owner is None else _owner(owner), revision.get("revision", 0), age(revision, now)]


def _owner(owner: Obj) -> str:
    """Return an owner as `kind.group/name`."""
    group, _ = split_api_version(owner["apiVersion"])
    kind = f"{owner['kind']}.{group}" if group else owner["kind"]
    return f"{kind.lower()}/{owner['name']}"


def _default_template(workload: Obj, ctx: Context) -> Obj:
    """Set the defaults of a workload's pod template, in place, and return the workload's spec."""
    spec: Obj = workload.setdefault("spec", {})
    pod_defaults.template(spec.get("template"), ctx.gates)
    return spec


def _default_deployment(deployment: Obj, ctx: Context) -> None:
    """Set the defaults of a deployment, in place (upstream: `SetDefaults_Deployment`)."""
    spec = _default_template(deployment, ctx)
    default_if_nil(spec, "replicas", 1)
    default_if_nil(spec, "revisionHistoryLimit", 10)
    default_if_nil(spec, "progressDeadlineSeconds", 600)
    strategy = spec.setdefault("strategy", {})
    strategy["type"] = strategy.get("type") or "RollingUpdate"
    if strategy["type"] == "RollingUpdate":
        _rolling(strategy, maxUnavailable="25%", maxSurge="25%")


def _rolling(strategy: Obj, **defaults: Any) -> None:
    """Set the defaults of a strategy's rollingUpdate, in place."""
    rolling = strategy.get("rollingUpdate")
    strategy["rollingUpdate"] = rolling = {} if rolling is None else rolling
    for key, value in defaults.items():
        default_if_nil(rolling, key, value)


def _default_daemon_set(daemon_set: Obj, ctx: Context) -> None:
    """Set the defaults of a daemon set, in place (upstream: `SetDefaults_DaemonSet`)."""
    spec = _default_template(daemon_set, ctx)
    strategy = spec.setdefault("updateStrategy", {})
    strategy["type"] = strategy.get("type") or "RollingUpdate"
    if strategy["type"] == "RollingUpdate":
        _rolling(strategy, maxUnavailable=1, maxSurge=0)
    elif strategy.get("rollingUpdate") is not None:
        _rolling(strategy, maxUnavailable=0, maxSurge=0)  # not pointers in the internal type
    default_if_nil(spec, "revisionHistoryLimit", 10)
    _annotate(daemon_set, _template_generation(daemon_set))


def _default_stateful_set(stateful_set: Obj, ctx: Context) -> None:
    """Set the defaults of a stateful set, in place (upstream: `SetDefaults_StatefulSet`)."""
    spec = _default_template(stateful_set, ctx)
    spec["podManagementPolicy"] = spec.get("podManagementPolicy") or "OrderedReady"
    strategy = spec.setdefault("updateStrategy", {})
    if not strategy.get("type"):
        strategy["type"] = "RollingUpdate"
        default_if_nil(strategy, "rollingUpdate", {})
    if strategy["type"] == "RollingUpdate" and strategy.get("rollingUpdate") is not None:
        _rolling(strategy, partition=0)
        if ctx.gates[features.MAX_UNAVAILABLE_STATEFUL_SET]:
            _rolling(strategy, maxUnavailable=1)
    if ctx.gates[features.STATEFUL_SET_AUTO_DELETE_PVC]:
        policy = spec.get("persistentVolumeClaimRetentionPolicy") or {}
        defaults = {"whenDeleted": "Retain", "whenScaled": "Retain"}
        spec["persistentVolumeClaimRetentionPolicy"] = defaults | {k: v for k, v in policy.items() if v}
    default_if_nil(spec, "replicas", 1)
    default_if_nil(spec, "revisionHistoryLimit", 10)
    for claim in spec.get("volumeClaimTemplates") or []:
        _default_claim_template(claim, ctx)


def _default_claim_template(claim: Obj, ctx: Context) -> None:
    """Set the defaults of a claim template, and its kind and apiVersion, whatever was sent."""
    claim |= {"kind": "PersistentVolumeClaim", "apiVersion": "v1"}
    default_claim(claim, ctx)


def _default_replica_set(replica_set: Obj, ctx: Context) -> None:
    """Set the defaults of a replica set, in place."""
    default_if_nil(_default_template(replica_set, ctx), "replicas", 1)


def _default_controller(controller: Obj, ctx: Context) -> None:
    """Set the defaults of a replication controller, in place: its selector and labels are those of its template."""
    spec = _default_template(controller, ctx)
    template_labels = nested_field(spec, "template", "metadata", "labels")
    if template_labels:
        spec["selector"] = spec.get("selector") or dict(template_labels)
        controller["metadata"]["labels"] = controller["metadata"].get("labels") or dict(template_labels)
    default_if_nil(spec, "replicas", 1)


def _template_generation(daemon_set: Obj) -> int:
    """Return the template generation, which v1 keeps in an annotation. Raises 400 if it is not an int64."""
    text = nested_field(daemon_set, "metadata", "annotations", default={}).get(TEMPLATE_GENERATION, "0")
    try:
        return parse_int(text)
    except ValueError as error:
        raise bad_request(f'DaemonSet in version "v1" cannot be handled as a DaemonSet: {error}') from error


def _annotate(daemon_set: Obj, generation: int) -> None:
    """Set the annotation with the template generation."""
    annotations = daemon_set["metadata"].get("annotations") or {}
    daemon_set["metadata"]["annotations"] = {**annotations, TEMPLATE_GENERATION: str(generation)}


def _start_template_generation(daemon_set: Obj, ctx: Context) -> None:
    """Prepare a new daemon set: its template generation starts at 1."""
    _annotate(daemon_set, max(1, _template_generation(daemon_set)))


def _count_template_generation(daemon_set: Obj, old: Obj, ctx: Context) -> None:
    """Prepare an updated daemon set: count the template generation if the template has changed."""
    changed = daemon_set["spec"].get("template") != old["spec"].get("template")
    _annotate(daemon_set, _template_generation(old) + changed)


def _keep_template_generation(daemon_set: Obj, old: Obj, ctx: Context) -> None:
    """Keep the stored template generation in an update of the status."""
    _annotate(daemon_set, _template_generation(old))


def _count_generation(deployment: Obj, old: Obj, ctx: Context) -> None:
    """Count the generation of a deployment, also if annotations change: its rollbacks were written there."""
    metadata, before = deployment["metadata"], old["metadata"]
    annotations = (metadata.get("annotations") or {}) != (before.get("annotations") or {})
    if annotations or deployment.get("spec") != old.get("spec"):
        metadata["generation"] = before.get("generation", 0) + 1


def _first_generation(deployment: Obj, ctx: Context) -> None:
    """Start the generation of a new deployment at 1."""
    deployment["metadata"]["generation"] = 1


def _warn_of_claims(stateful_set: Obj, ctx: Context, *names: str) -> None:
    """Warn of doubtful fields of claim templates. `names` go between a template and its fields in the path."""
    for i, claim in enumerate(stateful_set["spec"].get("volumeClaimTemplates") or ()):
        where = Path("spec", "volumeClaimTemplates").index(i)
        for text in claim_spec(claim.get("spec") or {}, where.child(*names) if names else where):
            ctx.warn(text)


def _warn_stateful(stateful_set: Obj, ctx: Context) -> None:
    """Warn of doubtful fields of a new stateful set."""
    common.warn_create(stateful_set, ctx)
    _warn_of_claims(stateful_set, ctx)
    _warn_of_history(stateful_set, ctx)


def _warn_stateful_update(stateful_set: Obj, old: Obj, ctx: Context) -> None:
    """Warn of doubtful fields of an updated stateful set."""
    common.warn_update(stateful_set, old, ctx)
    _warn_of_claims(stateful_set, ctx, "Spec")
    _warn_of_history(stateful_set, ctx)


def _warn_of_history(stateful_set: Obj, ctx: Context) -> None:
    """Warn of a stateful set that keeps all of its revisions."""
    if (stateful_set["spec"].get("revisionHistoryLimit") or 0) < 0 and ctx.release >= V1_33:
        text = "a negative value retains all historical revisions; a value >= 0 is recommended"
        ctx.warn(f"spec.revisionHistoryLimit: {text}")


def _warn_daemons(daemon_set: Obj, old: Obj, ctx: Context) -> None:
    """Warn of doubtful fields of a daemon set whose template has changed."""
    if daemon_set["spec"].get("template") != old["spec"].get("template"):
        common.warn_create(daemon_set, ctx)


def _warn_controllers(controller: Obj, old: Obj, ctx: Context) -> None:
    """Warn of doubtful fields of the stored replication controller: upstream mixes up old and new here."""
    if controller["metadata"].get("generation") != old["metadata"].get("generation"):
        common.warn_create(old, ctx)


def _no_replicas(workload: Obj) -> None:
    """Set the replicas of a workload of which nothing is set."""
    workload["spec"]["replicas"] = 0


def _replicas(workload: Obj) -> str:
    """Return the replicas of the status, the value of a field label."""
    return str(nested_field(workload, "status", "replicas", default=0))


def behaviors(version: Version) -> dict[tuple[str, str], Behavior]:
    """Return the behavior of these kinds by (group, kind)."""
    return {
        ("apps", "Deployment"): _deployments(),
        ("apps", "ReplicaSet"): _replica_sets(),
        ("apps", "DaemonSet"): _daemon_sets(),
        ("apps", "StatefulSet"): _stateful_sets(),
        ("apps", "ControllerRevision"): Behavior(
            strategy=Strategy(validate=workloads.revision, validate_update=workloads.revision_update),
            table_row=_revision_row,
        ),
        ("", "ReplicationController"): _controllers(),
    }


_LABELS_RESET = {"": (("spec",), ("metadata", "labels"))}


def _deployments() -> Behavior:
    return Behavior(
        defaults=_default_deployment,
        strategy=resource_strategy(
            "apps",
            "v1",
            "Deployment",
            _first_generation,
            drop_template_fields_on_create,
            prepare_update=update_steps(drop_template_fields, _count_generation),
            validate=workloads.deployment,
            validate_update=workloads.deployment_update,
            **_WARNED,
        ),
        status=replace(
            _status(statuses.DEPLOYMENT, keep_metadata("labels"), _drop_terminating), reset_fields=_LABELS_RESET
        ),
        table_row=_deployment_row,
        fill_empty=_no_replicas,
    )


def _replica_sets() -> Behavior:
    return Behavior(
        defaults=_default_replica_set,
        strategy=resource_strategy(
            "apps",
            "v1",
            "ReplicaSet",
            drop_template_fields_on_create,
            prepare_update=drop_template_fields,
            validate=workloads.replica_set,
            validate_update=workloads.replica_set_update,
            generation=True,
            **_WARNED,
        ),
        status=_status(statuses.REPLICA_SET, _drop_terminating),
        table_row=_replica_set_row,
        fill_empty=_no_replicas,
    )


def _daemon_sets() -> Behavior:
    return Behavior(
        defaults=_default_daemon_set,
        strategy=resource_strategy(
            "apps",
            "v1",
            "DaemonSet",
            _start_template_generation,
            drop_template_fields_on_create,
            prepare_update=update_steps(drop_template_fields, _count_template_generation),
            validate=workloads.daemon_set,
            validate_update=workloads.daemon_set_update,
            generation=True,
            **{**_SHARED, "warn_create": common.warn_create, "warn_update": _warn_daemons},
        ),
        status=_status(statuses.DAEMON_SET, _keep_template_generation),
        table_row=_daemon_set_row,
        fill_empty=lambda daemon_set: _annotate(daemon_set, 0),
    )


def _stateful_sets() -> Behavior:
    return Behavior(
        defaults=_default_stateful_set,
        strategy=resource_strategy(
            "apps",
            "v1",
            "StatefulSet",
            lambda obj, ctx: _drop_stateful_set_fields(obj, None, ctx),
            prepare_update=_drop_stateful_set_fields,
            validate=workloads.stateful_set,
            validate_update=workloads.stateful_set_update,
            validate_metadata=Metadata(name=label_name).created,
            generation=True,
            **{**_SHARED, "warn_create": _warn_stateful, "warn_update": _warn_stateful_update},
        ),
        status=_status(statuses.STATEFUL_SET),
        table_row=_stateful_set_row,
        fill_empty=_no_replicas,
    )


def _controllers() -> Behavior:
    return Behavior(
        defaults=_default_controller,
        defaults_labels=True,
        strategy=resource_strategy(
            "",
            "v1",
            "ReplicationController",
            drop_template_fields_on_create,
            prepare_update=drop_template_fields,
            validate_metadata=created_with_declared_name,
            validate=workloads.controller,
            validate_update=workloads.controller_update,
            generation=True,
            **{**_WARNED, "warn_update": _warn_controllers},
        ),
        default_gc_policy="Orphan",
        status=_status(statuses.REPLICA_SET),
        selectable={"status.replicas": _replicas},
        table_row=_controller_row,
    )


def _status(counts: statuses.Counts, *prepare: Any) -> Strategy:
    """Return the strategy of a workload's status, whose numbers are checked by `counts`."""
    return status_strategy(*prepare, validate_update=statuses.checked(counts))


_TERMINATING_GUARDS = (
    field_guard(features.DEPLOYMENT_REPLICA_SET_TERMINATING_REPLICAS, "status", "terminatingReplicas"),
)


def _drop_terminating(workload: Obj, old: Obj, ctx: Context) -> None:
    drop_disabled_fields(_TERMINATING_GUARDS, workload, old, ctx.gates)


_STATEFUL_SET_GUARDS = (
    field_guard(features.STATEFUL_SET_AUTO_DELETE_PVC, "spec", "persistentVolumeClaimRetentionPolicy"),
    field_guard(features.STATEFUL_SET_START_ORDINAL, "spec", "ordinals"),
    field_guard(features.MAX_UNAVAILABLE_STATEFUL_SET, "spec", "updateStrategy", "rollingUpdate", "maxUnavailable"),
)


def _drop_stateful_set_fields(stateful_set: Obj, old: Obj | None, ctx: Context) -> None:
    drop_disabled_fields(_STATEFUL_SET_GUARDS, stateful_set, old, ctx.gates)
    drop_template_fields(stateful_set, old, ctx)
