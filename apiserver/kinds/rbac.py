"""Roles and bindings."""

from __future__ import annotations

from typing import Any

from understudy.apiserver.kind import Context, Rules, Strategy
from understudy.apiserver.printing import age, created_at, name
from understudy.apiserver.types import Obj

GROUP = "rbac.authorization.k8s.io"


def _default_binding(binding: Obj, ctx: Context) -> None:
    role = binding.setdefault("roleRef", {})
    role["apiGroup"] = role.get("apiGroup") or GROUP
    for subject in binding.get("subjects") or []:
        if subject.get("kind") in ("User", "Group"):
            subject["apiGroup"] = subject.get("apiGroup") or GROUP


def _subjects(binding: Obj, kind: str) -> str:
    found = [s for s in binding.get("subjects") or [] if s.get("kind") == kind]
    if kind == "ServiceAccount":
        return ", ".join(f"{s.get('namespace', '')}/{s.get('name', '')}" for s in found)
    return ", ".join(s.get("name", "") for s in found)


def _binding_row(binding: Obj) -> list[Any]:
    role = binding.get("roleRef", {})
    kinds = [_subjects(binding, kind) for kind in ("User", "Group", "ServiceAccount")]
    return [name(binding), f"{role.get('kind', '')}/{role.get('name', '')}", age(binding), *kinds]


ROLES = Rules(strategy=Strategy(create_on_update=True), row=created_at)
BINDINGS = Rules(defaults=_default_binding, strategy=Strategy(create_on_update=True), row=_binding_row)


def rules(release: str) -> dict[tuple[str, str], Rules]:
    """By (group, kind)."""
    return {
        (GROUP, "Role"): ROLES,
        (GROUP, "ClusterRole"): ROLES,
        (GROUP, "RoleBinding"): BINDINGS,
        (GROUP, "ClusterRoleBinding"): BINDINGS,
    }
