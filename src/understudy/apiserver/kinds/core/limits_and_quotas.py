"""Limit ranges and resource quotas: defaults, strategies, table cells."""

from __future__ import annotations

import uuid
from typing import Any

from understudy.admission.context import Context
from understudy.admission.validation.compose import all_of, as_on_create
from understudy.admission.validation.core import limits_and_quotas
from understudy.admission.validation.objectmeta import CORE
from understudy.apiserver.kinds.common import resource_strategy, status_strategy
from understudy.apiserver.kinds.core import resource_lists
from understudy.apiserver.kinds.printers import age, created_at, name
from understudy.apiserver.registry.kind import Behavior, Strategy
from understudy.machinery.releases.version import Version
from understudy.machinery.types import Obj, nested_field


def _quota_cells(quota: Obj, now: float) -> list[Any]:
    """Return the cells of a resource quota (upstream: `printResourceQuota`)."""
    hard, used = nested_field(quota, "status", "hard", default={}), nested_field(quota, "status", "used", default={})
    texts = [(resource, f"{resource}: {used.get(resource, '0')}/{hard[resource]}") for resource in sorted(hard)]
    requests = [text for resource, text in texts if not resource.startswith("limits.")]
    limits_and_quotas = [text for resource, text in texts if resource.startswith("limits.")]
    return [name(quota), age(quota, now), ", ".join(requests), ", ".join(limits_and_quotas)]


def _name_limits(obj: Obj, ctx: Context) -> None:
    """Give a limit range without a name a random one."""
    if not obj["metadata"].get("name"):
        obj["metadata"]["name"] = str(uuid.uuid4())


def _default_limits(obj: Obj, ctx: Context) -> None:
    """Set missing limits to the maximum, and missing requests to the limits, then to the minimum, in place."""
    for item in nested_field(obj, "spec", "limits", default=[]):
        if item.get("type") == "Container":
            default = {**(item.get("max") or {}), **(item.get("default") or {})}
            request = {**(item.get("min") or {}), **default, **(item.get("defaultRequest") or {})}
            item.update(
                {key: amounts for key, amounts in (("default", default), ("defaultRequest", request)) if amounts}
            )
        resource_lists.round_up(item, "max", "min", "default", "defaultRequest", "maxLimitRequestRatio")


def _default_quota(obj: Obj, ctx: Context) -> None:
    """Round the amounts of a quota and of its status."""
    resource_lists.round_up(obj.get("spec"), "hard")
    resource_lists.round_up(obj.get("status"), "hard", "used")


LIMIT_RANGES = Behavior(
    defaults=_default_limits,
    strategy=Strategy(
        prepare_for_create=_name_limits,
        create_on_update=True,
        validate=limits_and_quotas.limit_range,
        validate_update=as_on_create(CORE.created, limits_and_quotas.limit_range),
    ),
    table_row=created_at,
)
QUOTAS = Behavior(
    defaults=_default_quota,
    strategy=resource_strategy(
        "",
        "v1",
        "ResourceQuota",
        validate=limits_and_quotas.quota,
        warn_create=limits_and_quotas.warn_of_quota,
        validate_update=all_of(CORE.updated, as_on_create(limits_and_quotas.quota), limits_and_quotas.quota_changes),
    ),
    status=status_strategy(validate_update=all_of(CORE.updated, limits_and_quotas.quota_status_update)),
    table_row=_quota_cells,
    delete_returns_object=True,
)


def behaviors(release: Version) -> dict[tuple[str, str], Behavior]:
    """Return the behavior of these kinds by (group, kind)."""
    return {
        ("", "LimitRange"): LIMIT_RANGES,
        ("", "ResourceQuota"): QUOTAS,
    }
