"""Flow schemas and priority levels: kept and shown, without effect on requests."""

from __future__ import annotations

from typing import Any

from understudy.admission.core.pod_defaults import fill, set_absent
from understudy.admission.meta import CORE
from understudy.admission.updates import again
from understudy.apiserver.kind import Context, Rules
from understudy.apiserver.kinds.common import METADATA_RESET, RESET_FOR_STATUS, keep_metadata, main, status
from understudy.apiserver.printing import NONE, age, at, name
from understudy.apiserver.types import Obj

GROUP = "flowcontrol.apiserver.k8s.io"
SHARES = {"exempt": 0, "limited": 30}
QUEUING = {"queues": 64, "handSize": 8, "queueLengthLimit": 50}


def _default_schema(schema: Obj, ctx: Context) -> None:
    fill(schema.setdefault("spec", {}), {"matchingPrecedence": 1000})


def _default_level(level: Obj, ctx: Context) -> None:
    spec = level.setdefault("spec", {})
    for kind, shares in SHARES.items():
        found = spec.get(kind)
        if found is not None:
            set_absent(found, "nominalConcurrencyShares", shares)
            set_absent(found, "lendablePercent", 0)
    queuing = at(spec, "limited", "limitResponse", "queuing")
    if queuing is not None:
        fill(queuing, QUEUING)


def _schema_row(schema: Obj) -> list[Any]:
    spec = schema.get("spec", {})
    dangling = [c for c in at(schema, "status", "conditions", default=[]) if c.get("type") == "Dangling"]
    return [
        name(schema),
        at(spec, "priorityLevelConfiguration", "name", default=""),
        spec.get("matchingPrecedence", 0),
        at(spec, "distinguisherMethod", "type", default=NONE),
        age(schema),
        dangling[0].get("status", "") if dangling else "?",
    ]


def _level_row(level: Obj) -> list[Any]:
    limited = at(level, "spec", "limited")
    queuing = at(limited, "limitResponse", "queuing")
    return [
        name(level),
        at(level, "spec", "type", default=""),
        NONE if limited is None else limited.get("nominalConcurrencyShares", 0),
        *(NONE if queuing is None else queuing.get(key, 0) for key in QUEUING),
        age(level),
    ]


def rules(release: str) -> dict[tuple[str, str], Rules]:
    """By (group, kind)."""
    kept = status(
        keep_metadata("name", "generateName", "deletionGracePeriodSeconds", *RESET_FOR_STATUS),
        reset_fields=METADATA_RESET,
    )
    return {
        (GROUP, "FlowSchema"): Rules(
            defaults=_default_schema,
            strategy=main(GROUP, "v1", "FlowSchema", validate_update=again(CORE.created), generation=True),
            status=kept,
            row=_schema_row,
        ),
        (GROUP, "PriorityLevelConfiguration"): Rules(
            defaults=_default_level,
            strategy=main(
                GROUP, "v1", "PriorityLevelConfiguration", validate_update=again(CORE.created), generation=True
            ),
            status=kept,
            row=_level_row,
        ),
    }
