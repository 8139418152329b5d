"""Validation of deployments, replica sets, replication controllers, daemon sets, stateful sets, controller revisions.

Updates of replica sets and daemon sets before 1.34, and of replication controllers before 1.35, report what is wrong
with them twice, as upstream did: it validated the new object and then, as an update, the same object again.
"""

from __future__ import annotations

from understudy.kinds.apps import common
from understudy.kinds.apps.common import SPEC, TEMPLATE, amount, count_or_percent, not_more_than_all
from understudy.kinds.common import label_selectors, objectmeta
from understudy.kinds.common.equality import semantic_deep_equal
from understudy.kinds.common.formats import choice, label, nonnegative
from understudy.kinds.common.objectmeta import CORE, IMMUTABLE
from understudy.kinds.context import Context
from understudy.kinds.core.pods import annotations as pod_annotations
from understudy.kinds.core.pods.volumes import persistent_volumes
from understudy.machinery.releases.version import V1_33, V1_34, V1_35, V1_37
from understudy.machinery.types import Obj, nested_field
from understudy.machinery.validation.bad_values import Typed
from understudy.machinery.validation.field import Errors, Path, forbidden, invalid, not_supported, required

# The annotation that stands for the internal field spec.templateGeneration.
TEMPLATE_GENERATION = "deprecated.daemonset.template.generation"

_APPS = "k8s.io/kubernetes/pkg/apis/apps"
_RETENTION = ("Retain", "Delete")
# The fields of a stateful set's spec that an update can change.
_STATEFUL_UPDATES = (
    "replicas",
    "ordinals",
    "template",
    "updateStrategy",
    "persistentVolumeClaimRetentionPolicy",
    "minReadySeconds",
)
_STATEFUL_FORBIDDEN = "updates to statefulset spec for fields other than {} and 'minReadySeconds' are forbidden"
_STATEFUL_OTHERS = "'replicas', 'ordinals', 'template', 'updateStrategy', {}'persistentVolumeClaimRetentionPolicy'"


def deployment(obj: Obj, ctx: Context) -> Errors:
    """Check a new Deployment (upstream: `ValidateDeployment`)."""
    return _deployment(obj["spec"], None, ctx)


def deployment_update(obj: Obj, old: Obj, ctx: Context) -> Errors:
    """Check a changed Deployment (upstream: `ValidateDeploymentUpdate`)."""
    errors = CORE.updated(obj, old, ctx) + _deployment(obj["spec"], old["spec"], ctx)
    return errors + common.same_selector(obj, old, ctx)


def replica_set(obj: Obj, ctx: Context) -> Errors:
    """Check a new ReplicaSet (upstream: `ValidateReplicaSet`)."""
    return _replica_set(obj["spec"], None, ctx)


def replica_set_update(obj: Obj, old: Obj, ctx: Context) -> Errors:
    """Check a changed ReplicaSet (upstream: `ValidateReplicaSetUpdate`)."""
    errors = _replica_set(obj["spec"], old["spec"], ctx)
    errors = [*CORE.updated(obj, old, ctx), *errors] if ctx.release >= V1_34 else _twice(errors, obj, old, ctx)
    return errors + common.same_selector(obj, old, ctx)


def controller(obj: Obj, ctx: Context) -> Errors:
    """Check a new ReplicationController (upstream: `ValidateReplicationController`)."""
    return _controller(obj["spec"], None, ctx)


def controller_update(obj: Obj, old: Obj, ctx: Context) -> Errors:
    """Check a changed ReplicationController (upstream: `ValidateReplicationControllerUpdate`)."""
    errors = _controller(obj["spec"], old["spec"], ctx)
    return [*CORE.updated(obj, old, ctx), *errors] if ctx.release >= V1_35 else _twice(errors, obj, old, ctx)


def daemon_set(obj: Obj, ctx: Context) -> Errors:
    """Check a new DaemonSet (upstream: `ValidateDaemonSet`)."""
    return _daemon_set(obj, None, ctx)


def daemon_set_update(obj: Obj, old: Obj, ctx: Context) -> Errors:
    """Check a changed DaemonSet (upstream: `ValidateDaemonSetUpdate`)."""
    errors, selector = _daemon_set(obj, old["spec"], ctx), common.same_selector(obj, old, ctx)
    if ctx.release >= V1_34:
        return [*CORE.updated(obj, old, ctx), *selector, *errors]
    return _twice(errors, obj, old, ctx) + selector


def stateful_set(obj: Obj, ctx: Context) -> Errors:
    """Check a new StatefulSet (upstream: `ValidateStatefulSet`)."""
    return _stateful_set(obj["spec"], None, ctx)


def stateful_set_update(obj: Obj, old: Obj, ctx: Context) -> Errors:
    """Check a changed StatefulSet (upstream: `ValidateStatefulSetUpdate`)."""
    errors = CORE.updated(obj, old, ctx) + _stateful_set(obj["spec"], old["spec"], ctx)
    if ctx.release >= V1_37:
        return errors + _same_stateful_fields(obj["spec"], old["spec"])
    history = ("revisionHistoryLimit",) if ctx.release >= V1_33 else ()
    mutable, others = {*_STATEFUL_UPDATES, *history}, "".join(f"'{name}', " for name in history)
    kept, before = (
        {k: v for k, v in workload["spec"].items() if k not in mutable and v not in (None, [])}
        for workload in (obj, old)
    )
    text = _STATEFUL_FORBIDDEN.format(_STATEFUL_OTHERS.format(others))
    return errors if kept == before else [*errors, forbidden(SPEC, text)]


def _same_stateful_fields(spec: Obj, old: Obj) -> Errors:
    """Check the fields of a StatefulSet that cannot change."""
    claims = Typed.of_field(spec, "volumeClaimTemplates", "[]k8s.io/kubernetes/pkg/apis/core.PersistentVolumeClaim")
    values = {
        "selector": common.selector_value(spec.get("selector")),
        "volumeClaimTemplates": claims,
        "serviceName": spec.get("serviceName", ""),
        "podManagementPolicy": spec.get("podManagementPolicy", ""),
    }
    return [
        invalid(SPEC.child(name), value, IMMUTABLE)
        for name, value in values.items()
        if not semantic_deep_equal(spec.get(name), old.get(name))
    ]


def _twice(errors: Errors, obj: Obj, old: Obj, ctx: Context) -> Errors:
    """Report the errors of a spec with those of new metadata, and again with those of changed metadata."""
    return [*CORE.created(obj, ctx), *errors, *CORE.updated(obj, old, ctx), *errors]


def _deployment(spec: Obj, old: Obj | None, ctx: Context) -> Errors:
    errors = nonnegative(spec.get("replicas"), SPEC.child("replicas"))
    errors += _chosen_template(spec, old, ctx)
    errors += _deployment_strategy(spec.get("strategy") or {}, SPEC.child("strategy"))
    for name in ("minReadySeconds", "revisionHistoryLimit", "progressDeadlineSeconds"):
        errors += nonnegative(spec.get(name), SPEC.child(name))
    deadline = spec.get("progressDeadlineSeconds")
    if deadline is not None and deadline <= spec.get("minReadySeconds", 0):
        errors.append(invalid(SPEC.child("progressDeadlineSeconds"), deadline, "must be greater than minReadySeconds"))
    return errors


def _replica_set(spec: Obj, old: Obj | None, ctx: Context) -> Errors:
    errors = [e for name in ("replicas", "minReadySeconds") for e in nonnegative(spec.get(name), SPEC.child(name))]
    return errors + _chosen_template(spec, old, ctx)


def _chosen_template(spec: Obj, old: Obj | None, ctx: Context) -> Errors:
    """Check selector and template of a deployment or replica set."""
    chosen = spec.get("selector")
    errors = common.selector(chosen, "deployment")
    if common.unreadable(chosen):
        bad_value = common.selector_value(chosen)
        return [*errors, invalid(SPEC.child("selector"), bad_value, "invalid label selector")]
    return errors + _template(spec, old, ctx, "ReplicaSet")


def _template(spec: Obj, old: Obj | None, ctx: Context, kind: str) -> Errors:
    template, chosen = spec.get("template"), spec.get("selector")
    if template is None:
        return [required(TEMPLATE)]
    errors: Errors = []
    # No selector at all selects nothing: the template cannot match it.
    matching = chosen is not None and label_selectors.matches(
        chosen, nested_field(template, "metadata", "labels", default={})
    )
    if not matching:
        errors += common.mismatch(template, TEMPLATE)
    errors += common.template(template, (old or {}).get("template"), ctx)
    return errors + common.always_restarts(template, TEMPLATE.child("spec"), kind)


def _controller(spec: Obj, old: Obj | None, ctx: Context) -> Errors:
    errors = nonnegative(spec.get("minReadySeconds"), SPEC.child("minReadySeconds"))
    chosen = spec.get("selector") or {}
    if not chosen:
        errors.append(required(SPEC.child("selector")))
    errors += nonnegative(spec.get("replicas"), SPEC.child("replicas"))
    return errors + _template({**spec, "selector": {"matchLabels": chosen}}, old, ctx, "ReplicationController")


def _deployment_strategy(strategy: Obj, path: Path) -> Errors:
    rolling, where = strategy.get("rollingUpdate"), path.child("rollingUpdate")
    match strategy.get("type", ""):
        case "Recreate":
            if rolling is not None:
                return [forbidden(where, "may not be specified when strategy `type` is 'Recreate'")]
            return []
        case "RollingUpdate":
            return _rolling_deployment(rolling or {}, where)
    bad_value = Typed(strategy, f"{_APPS}.DeploymentStrategy")
    return [not_supported(path, bad_value, ["Recreate", "RollingUpdate"])]


def _rolling_deployment(rolling: Obj, path: Path) -> Errors:
    unavailable, surge = rolling.get("maxUnavailable", 0), rolling.get("maxSurge", 0)
    where = path.child("maxUnavailable")
    errors = count_or_percent(unavailable, where) + count_or_percent(surge, path.child("maxSurge"))
    if amount(unavailable) == 0 and amount(surge) == 0:
        bad_value = common.int_or_string(unavailable)
        errors.append(invalid(where, bad_value, "may not be 0 when `maxSurge` is 0"))
    return errors + not_more_than_all(unavailable, where)


def _daemon_set(obj: Obj, old: Obj | None, ctx: Context) -> Errors:
    spec = obj["spec"]
    chosen, template = spec.get("selector"), spec.get("template")
    errors = label_selectors.validate(chosen, SPEC.child("selector"))
    if not errors and not label_selectors.matches(chosen, nested_field(template, "metadata", "labels", default={})):
        errors += common.mismatch(template, TEMPLATE)
    if chosen is not None and label_selectors.empty(chosen):
        bad_value = common.selector_value(chosen)
        errors.append(invalid(SPEC.child("selector"), bad_value, "empty selector is invalid for daemonset"))
    errors += common.template(template, (old or {}).get("template"), ctx)
    errors += common.always_restarts(template, TEMPLATE.child("spec"), "DaemonSet")
    errors += nonnegative(spec.get("minReadySeconds"), SPEC.child("minReadySeconds"))
    generation = int(nested_field(obj, "metadata", "annotations", default={}).get(TEMPLATE_GENERATION, 0))
    errors += nonnegative(generation, SPEC.child("templateGeneration"))
    errors += _daemon_strategy(spec.get("updateStrategy") or {}, SPEC.child("updateStrategy"))
    return errors + nonnegative(spec.get("revisionHistoryLimit"), SPEC.child("revisionHistoryLimit"))


def _daemon_strategy(strategy: Obj, path: Path) -> Errors:
    match strategy.get("type", ""):
        case "OnDelete":
            return []
        case "RollingUpdate":
            return _rolling_daemons(strategy.get("rollingUpdate") or {}, path.child("rollingUpdate"))
    bad_value = Typed(strategy, f"{_APPS}.DaemonSetUpdateStrategy")
    return [not_supported(path, bad_value, ["RollingUpdate", "OnDelete"])]


def _rolling_daemons(rolling: Obj, path: Path) -> Errors:
    values = {name: rolling.get(name, 0) for name in ("maxUnavailable", "maxSurge")}
    errors = [e for n, value in values.items() for e in count_or_percent(value, path.child(n))]
    errors += [e for n, value in values.items() for e in not_more_than_all(value, path.child(n))]
    some = [amount(value) != 0 for value in values.values()]
    if all(some):
        bad_value = common.int_or_string(values["maxSurge"])
        errors.append(invalid(path.child("maxSurge"), bad_value, "may not be set when maxUnavailable is non-zero"))
    elif not any(some):
        errors.append(required(path.child("maxUnavailable"), "cannot be 0 when maxSurge is 0"))
    return errors


def _stateful_set(spec: Obj, old: Obj | None, ctx: Context) -> Errors:
    policy = spec.get("podManagementPolicy", "")
    errors: Errors = []
    if policy not in ("OrderedReady", "Parallel"):
        text = "must be 'OrderedReady' or 'Parallel'"
        errors.append(invalid(SPEC.child("podManagementPolicy"), policy, text))
    errors += _stateful_strategy(spec.get("updateStrategy") or {}, SPEC.child("updateStrategy"))
    retention = spec.get("persistentVolumeClaimRetentionPolicy")
    if retention is not None:
        for name in ("whenDeleted", "whenScaled"):
            where = SPEC.child("persistentVolumeClaimRetentionPolicy", name)
            errors += choice(retention.get(name, ""), _RETENTION, where)
    if old is None and ctx.release >= V1_34:
        for i, claim in enumerate(spec.get("volumeClaimTemplates") or ()):
            where = SPEC.child("volumeClaimTemplates").index(i).child("spec")
            errors += persistent_volumes.spec(claim.get("spec") or {}, where)
    for name in ("replicas", "minReadySeconds"):
        errors += nonnegative(spec.get(name), SPEC.child(name))
    if spec.get("ordinals") is not None:
        errors += nonnegative(spec["ordinals"].get("start"), SPEC.child("ordinals.start"))
    if old is None and ctx.release >= V1_33 and spec.get("serviceName"):
        errors += label(spec["serviceName"], SPEC.child("serviceName"))
    errors += common.selector(spec.get("selector"), "statefulset")
    errors += _stateful_template(spec, old, ctx)
    return errors + common.always_restarts(spec.get("template"), TEMPLATE.child("spec"), "StatefulSet")


def _stateful_strategy(strategy: Obj, path: Path) -> Errors:
    rolling, where = strategy.get("rollingUpdate"), path.child("rollingUpdate")
    match strategy.get("type", ""):
        case "OnDelete":
            if rolling is None:
                return []
            bad_value = Typed(rolling, f"{_APPS}.RollingUpdateStatefulSetStrategy")
            return [invalid(where, bad_value, "only allowed for updateStrategy 'RollingUpdate'")]
        case "RollingUpdate":
            return _rolling_stateful(rolling, where) if rolling is not None else []
    bad_value = Typed(strategy, f"{_APPS}.StatefulSetUpdateStrategy")
    return [invalid(path, bad_value, "must be 'RollingUpdate' or 'OnDelete'")]


def _rolling_stateful(rolling: Obj, path: Path) -> Errors:
    errors = nonnegative(rolling.get("partition"), path.child("partition"))
    most, where = rolling.get("maxUnavailable"), path.child("maxUnavailable")
    if most is None:
        return errors
    errors += count_or_percent(most, where)
    if amount(most) == 0:
        errors.append(invalid(where, common.int_or_string(most), "cannot be 0"))
    return errors + not_more_than_all(most, where)


def _stateful_template(spec: Obj, old: Obj | None, ctx: Context) -> Errors:
    """Check the template of a stateful set. Since 1.34 its pods are checked, too, unless they were wrong before."""
    chosen, template = spec.get("selector"), spec.get("template") or {}
    if common.unreadable(chosen):
        return [invalid(SPEC.child("selector"), common.selector_value(chosen), "")]
    metadata = template.get("metadata") or {}
    errors: Errors = []
    if not label_selectors.matches(chosen, metadata.get("labels") or {}):
        errors += common.mismatch(template, TEMPLATE)
    if ctx.release >= V1_34 and (old is None or not _stateful_pods(old, old, ctx)):
        errors += _stateful_pods(spec, old, ctx)
    errors += objectmeta.label_errors(metadata.get("labels"), TEMPLATE.child("labels"))
    annotations, where = metadata.get("annotations") or {}, TEMPLATE.child("annotations")
    errors += objectmeta.annotation_errors(annotations, where)
    return errors + pod_annotations.validate(annotations, template.get("spec") or {}, where)


def _stateful_pods(spec: Obj, old: Obj | None, ctx: Context) -> Errors:
    """Check the pod template of a stateful set as its controller completes it.

    Claim templates become volumes, and the controller sets the host name and the subdomain.
    """
    template = dict(spec.get("template") or {})
    pod_spec = {k: v for k, v in (template.get("spec") or {}).items() if k not in ("hostname", "subdomain")}
    names = [claim["metadata"].get("name", "") for claim in spec.get("volumeClaimTemplates") or ()]
    if names:
        claims = [{"name": name, "persistentVolumeClaim": {"claimName": name}} for name in dict.fromkeys(names)]
        others = [volume for volume in pod_spec.get("volumes") or () if volume.get("name") not in names]
        pod_spec["volumes"] = claims + others
    return common.template({**template, "spec": pod_spec}, (old or {}).get("template"), ctx)


def revision(obj: Obj, ctx: Context) -> Errors:
    """Check a controller revision (upstream: `ValidateControllerRevision`)."""
    errors, data = _revision_number(obj), obj.get("data")
    if data is None:
        return [*errors, required(Path("data"), "data is mandatory")]
    return errors if isinstance(data, dict) else [*errors, required(Path("data"), "data must be a valid JSON object")]


def revision_update(obj: Obj, old: Obj, ctx: Context) -> Errors:
    """Check a changed ControllerRevision, whose data is immutable (upstream: `ValidateControllerRevisionUpdate`)."""
    errors = CORE.updated(obj, old, ctx) + CORE.created(obj, ctx) + _revision_number(obj)
    if obj.get("data") != old.get("data"):
        bad_value = Typed(obj.get("data"), "k8s.io/apimachinery/pkg/runtime.RawExtension")
        errors.append(invalid(Path("data"), bad_value, objectmeta.IMMUTABLE))
    return errors


def _revision_number(obj: Obj) -> Errors:
    return nonnegative(obj.get("revision"), Path("revision"))
