"""Runtime classes: strategy, table cells."""

from __future__ import annotations

from understudy.kinds.common.compose import all_of, as_on_create
from understudy.kinds.common.objectmeta import PLAIN
from understudy.kinds.common.printers import field, row
from understudy.kinds.declarations.kind import Behavior, Strategy
from understudy.kinds.node import validation
from understudy.machinery.releases.version import Version


def behaviors(version: Version) -> dict[tuple[str, str], Behavior]:
    """Return the behavior of these kinds by (group, kind)."""
    return {
        ("node.k8s.io", "RuntimeClass"): Behavior(
            strategy=Strategy(
                validate_metadata=PLAIN.created,
                validate=validation.create,
                validate_update=all_of(
                    as_on_create(PLAIN.created, validation.create), PLAIN.updated, validation.same_handler
                ),
                create_on_update=True,
                unconditional_update=False,
            ),
            table_row=row(field("handler")),
        ),
    }
