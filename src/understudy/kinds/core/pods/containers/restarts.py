"""Validation of restart policies and restart rules of single containers (KEP-5307, KEP-5532)."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from understudy.kinds.common.formats import choice
from understudy.kinds.core.pods.in_use import is_sidecar, restarts_all
from understudy.kinds.core.pods.pod_options import Options
from understudy.machinery.releases.version import V1_35, V1_36, Version
from understudy.machinery.types import Obj, nested_field
from understudy.machinery.validation.field import Errors, Path, forbidden, not_supported, required, too_long, too_many

POLICIES = ("Always", "Never", "OnFailure")
_ACTIONS = ("Restart", "RestartAllContainers")
_MAX_RULES, _MAX_EXIT_CODES = 20, 255


def of_regular(container: Obj, path: Path, opts: Options) -> Errors:
    """Check the restart policy and rules of a regular container (upstream: `validateContainerRestartPolicy`)."""
    if opts.restart_rules:
        return _validate(container, path, opts)
    if container.get("restartPolicy") is None:
        return []
    return [forbidden(path.child("restartPolicy"), "may not be set for non-init containers")]


def of_init(container: Obj, path: Path, opts: Options) -> Errors:
    """Check the restart policy and rules of an init container (upstream: `validateInitContainerRestartPolicy`)."""
    policy = container.get("restartPolicy")
    if policy is None:
        return _without_policy(container, path) if opts.version >= V1_35 else []
    if not opts.restart_rules:
        return choice(policy, ("Always",), path.child("restartPolicy"))
    if not is_sidecar(container) or opts.restart_of_all:
        return _validate(container, path, opts)
    text = "restartPolicyRules are not allowed for init containers with restart policy Always"
    return [forbidden(path.child("restartPolicyRules"), text)] if container.get("restartPolicyRules") else []


def _without_policy(container: Obj, path: Path) -> Errors:
    text = "must specify restartPolicy when restart rules are used"
    return [required(path.child("restartPolicy"), text)] if container.get("restartPolicyRules") else []


def _validate(container: Obj, path: Path, opts: Options) -> Errors:
    policy, rules, where = (
        container.get("restartPolicy"),
        container.get("restartPolicyRules") or (),
        path.child("restartPolicyRules"),
    )
    if policy is None:
        errors = _without_policy(container, path)
    else:
        errors = choice(policy, POLICIES, path.child("restartPolicy"))
    errors += _too_many(rules, _MAX_RULES, where, opts.version)
    for i, rule in enumerate(rules):
        errors += _rule(rule, where.index(i), opts)
    return errors


def _rule(rule: Obj, path: Path, opts: Options) -> Errors:
    action, codes = rule.get("action", ""), rule.get("exitCodes")
    allowed = _ACTIONS if opts.restart_of_all else _ACTIONS[:1]
    errors: Errors = []
    if action not in allowed:
        # 1.35 does not name the action that came with it.
        named = allowed if opts.version >= V1_36 else _ACTIONS[:1]
        errors.append(not_supported(path.child("action"), action, named))
    here = path.child("exitCodes")
    if codes is None:
        return [*errors, required(here, "must be specified")]
    operator = codes.get("operator", "")
    if operator not in ("In", "NotIn"):
        errors.append(not_supported(here.child("operator"), operator, ("In", "NotIn")))
    return errors + _too_many(codes.get("values") or (), _MAX_EXIT_CODES, here.child("values"), opts.version)


def _too_many(items: Sequence[object], most: int, path: Path, version: Version) -> Errors:
    """Check the length of a list; before 1.36 it is said to be too long as if it were text."""
    if len(items) <= most:
        return []
    return [too_many(path, len(items), most) if version >= V1_36 else too_long(path, most)]


def should_restart(container: Obj, spec: Obj, exit_code: int, opts: Options) -> bool:
    """Report whether a container that ended with an exit code is started again (upstream: `ContainerShouldRestart`)."""
    policy = container.get("restartPolicy")
    if policy is not None and _action(container, exit_code) in (_ACTIONS if opts.restart_of_all else _ACTIONS[:1]):
        return True
    policy = policy if policy in POLICIES else spec.get("restartPolicy")
    return policy not in ("Never", "OnFailure") or (policy == "OnFailure" and exit_code != 0)


_STATUS = Path("status")
_AGAIN = "may not be transitioned to non-terminated state"


def transitions(status: Obj, before: Obj, spec: Obj, opts: Options) -> Errors:
    """Check that containers that ended for good do not run again; `spec` is the stored one.

    Upstream: `ValidateContainerStateTransition`, `ValidateInitContainerStateTransition`.
    """
    if opts.restart_rules and opts.restart_of_all and restarts_all(spec):
        return _run_again(status, before, "ephemeralContainerStatuses", lambda name, exit_code: False)
    policy = spec.get("restartPolicy")
    by_name = {kind: {c.get("name", ""): c for c in spec.get(kind) or ()} for kind in ("containers", "initContainers")}

    def by_rules(kind: str) -> Callable[[str, int], bool]:
        known = by_name[kind]
        return lambda name, exit_code: name in known and should_restart(known[name], spec, exit_code, opts)

    def by_policy(name: str, exit_code: int) -> bool:
        return policy == "Always" or (policy == "OnFailure" and exit_code != 0)

    def of_init(name: str, exit_code: int) -> bool:
        return by_policy(name, exit_code) or is_sidecar(by_name["initContainers"].get(name, {}))

    regular = by_rules("containers") if opts.restart_rules else by_policy
    initial = by_rules("initContainers") if opts.restart_rules and opts.version >= V1_35 else of_init
    return (
        _run_again(status, before, "containerStatuses", regular)
        + _run_again(status, before, "initContainerStatuses", initial)
        + _run_again(status, before, "ephemeralContainerStatuses", lambda name, exit_code: False)
    )


def _run_again(status: Obj, before: Obj, kind: str, may_restart: Callable[[str, int], bool]) -> Errors:
    """Refuse the statuses of containers that had ended, run now, and may not restart after their exit code."""
    running = {c.get("name", "") for c in status.get(kind) or () if nested_field(c, "state", "terminated") is None}
    errors: Errors = []
    for i, container in enumerate(before.get(kind) or ()):
        ended, name = nested_field(container, "state", "terminated"), container.get("name", "")
        if ended is not None and name in running and not may_restart(name, ended.get("exitCode", 0)):
            errors.append(forbidden(_STATUS.child(kind).index(i).child("state"), _AGAIN))
    return errors


def _action(container: Obj, exit_code: int) -> str | None:
    """Return the action of the first rule that fits an exit code, None if none does."""
    for rule in container.get("restartPolicyRules") or ():
        listed = exit_code in nested_field(rule, "exitCodes", "values", default=())
        if rule.get("exitCodes") is not None and listed == (rule["exitCodes"].get("operator") == "In"):
            return str(rule.get("action", ""))
    return None
