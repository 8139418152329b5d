"""Roles and role bindings: defaults, strategies, table cells."""

from __future__ import annotations

from typing import Any

from understudy.kinds.common.compose import Check, Update, all_of, as_on_create, until
from understudy.kinds.common.objectmeta import Metadata
from understudy.kinds.common.printers import age, created_at, name
from understudy.kinds.context import Context
from understudy.kinds.declarations.kind import Behavior, Strategy
from understudy.kinds.rbac import validation
from understudy.kinds.rbac.validation import GROUP
from understudy.machinery.releases.version import V1_35, Version
from understudy.machinery.types import Obj
from understudy.machinery.validation.names import path_segment_name


def _default_binding(binding: Obj, ctx: Context) -> None:
    """Set the API groups of a binding's role and subjects, in place."""
    role = binding.setdefault("roleRef", {})
    role["apiGroup"] = role.get("apiGroup") or GROUP
    for subject in binding.get("subjects") or []:
        if subject.get("kind") in ("User", "Group"):
            subject["apiGroup"] = subject.get("apiGroup") or GROUP


def _subjects(binding: Obj, kind: str) -> str:
    """Return the names of a binding's subjects of a kind."""
    subjects = [s for s in binding.get("subjects") or [] if s.get("kind") == kind]
    if kind == "ServiceAccount":
        return ", ".join(f"{s.get('namespace', '')}/{s.get('name', '')}" for s in subjects)
    return ", ".join(s.get("name", "") for s in subjects)


def _binding_row(binding: Obj, now: float) -> list[Any]:
    """Return the cells of a role binding."""
    role = binding.get("roleRef", {})
    kinds = [_subjects(binding, kind) for kind in ("User", "Group", "ServiceAccount")]
    return [name(binding), f"{role.get('kind', '')}/{role.get('name', '')}", age(binding, now), *kinds]


_NAMED = Metadata(name=path_segment_name)


def _strategy(validate: Check, *changes: Update) -> Strategy:
    """Return the strategy of a role or binding; `changes` are checks of an update."""
    whole = as_on_create(_NAMED.created, validate)
    return Strategy(
        validate_metadata=_NAMED.created,
        validate=validate,
        validate_update=all_of(until(V1_35, whole), whole, _NAMED.updated, *changes),
        create_on_update=True,
    )


def _bindings(validate: Check) -> Behavior:
    return Behavior(
        defaults=_default_binding, strategy=_strategy(validate, validation.same_role), table_row=_binding_row
    )


def behaviors(version: Version) -> dict[tuple[str, str], Behavior]:
    """Return the behavior of these kinds by (group, kind)."""
    return {
        (GROUP, "Role"): Behavior(strategy=_strategy(validation.role), table_row=created_at),
        (GROUP, "ClusterRole"): Behavior(strategy=_strategy(validation.cluster_role), table_row=created_at),
        (GROUP, "RoleBinding"): _bindings(validation.BINDING),
        (GROUP, "ClusterRoleBinding"): _bindings(validation.CLUSTER_BINDING),
    }
