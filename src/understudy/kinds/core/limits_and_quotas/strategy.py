"""Limit ranges and resource quotas: defaults, strategies, table cells."""

from __future__ import annotations

import uuid
from dataclasses import replace
from typing import Any

from understudy.kinds.common.compose import all_of, as_on_create
from understudy.kinds.common.objectmeta import CORE
from understudy.kinds.common.printers import Row, age, created_at, name
from understudy.kinds.context import Context
from understudy.kinds.core import resource_lists
from understudy.kinds.core.limits_and_quotas import validation
from understudy.kinds.declarations.kind import Behavior, Strategy
from understudy.kinds.declarations.strategies import resource_strategy, status_strategy
from understudy.machinery.releases.version import V1_31, V1_33, ByRelease, Version
from understudy.machinery.types import Obj, nested_field


def _quota_cells(quota: Obj) -> list[Any]:
    """Return the requests and the limits of a resource quota, with what is used of them (`printResourceQuota`)."""
    hard, used = nested_field(quota, "status", "hard", default={}), nested_field(quota, "status", "used", default={})
    texts = [(resource, f"{resource}: {used.get(resource, '0')}/{hard[resource]}") for resource in sorted(hard)]
    requests = [text for resource, text in texts if not resource.startswith("limits.")]
    limits = [text for resource, text in texts if resource.startswith("limits.")]
    return [", ".join(requests), ", ".join(limits)]


_QUOTA_ROW: ByRelease[Row] = ByRelease(
    {
        V1_33: lambda quota, now: [name(quota), *_quota_cells(quota), age(quota, now)],
        V1_31: lambda quota, now: [name(quota), age(quota, now), *_quota_cells(quota)],
    }
)


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
        validate=validation.limit_range,
        validate_update=as_on_create(CORE.created, validation.limit_range),
    ),
    table_row=created_at,
)
QUOTAS = Behavior(
    defaults=_default_quota,
    strategy=resource_strategy(
        "",
        "v1",
        "ResourceQuota",
        validate=validation.quota,
        warn_create=validation.warn_of_quota,
        validate_update=all_of(CORE.updated, as_on_create(validation.quota), validation.quota_changes),
    ),
    status=status_strategy(validate_update=all_of(CORE.updated, validation.quota_status_update)),
    delete_returns_object=True,
)


def behaviors(version: Version) -> dict[tuple[str, str], Behavior]:
    """Return the behavior of these kinds by (group, kind)."""
    return {
        ("", "LimitRange"): LIMIT_RANGES,
        ("", "ResourceQuota"): replace(QUOTAS, table_row=_QUOTA_ROW[version]),
    }
