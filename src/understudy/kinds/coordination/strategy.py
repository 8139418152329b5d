"""Leases and the candidates for them: strategies, table cells."""

from __future__ import annotations

from understudy.kinds.common.compose import all_of, as_on_create
from understudy.kinds.common.disabled_fields import drop_disabled_fields, field_guard
from understudy.kinds.common.objectmeta import PLAIN, Metadata
from understudy.kinds.common.printers import field, row
from understudy.kinds.context import Context
from understudy.kinds.coordination import validation
from understudy.kinds.declarations.kind import Behavior, Strategy
from understudy.machinery.releases import features
from understudy.machinery.releases.version import Version
from understudy.machinery.types import Obj

GROUP = "coordination.k8s.io"

_GUARDS = (
    field_guard(features.COORDINATED_LEADER_ELECTION, "spec", "strategy"),
    field_guard(features.COORDINATED_LEADER_ELECTION, "spec", "preferredHolder"),
)


def _drop(lease: Obj, old: Obj | None, ctx: Context) -> None:
    """Drop disabled fields of a lease that the stored one does not have."""
    drop_disabled_fields(_GUARDS, lease, old, ctx.gates)


LEASE = Strategy(
    prepare_for_create=lambda lease, ctx: _drop(lease, None, ctx),
    prepare_for_update=_drop,
    create_on_update=True,
    validate_metadata=PLAIN.created,
    validate=validation.create,
    validate_update=all_of(PLAIN.updated, as_on_create(validation.create)),
    unconditional_update=False,
)


_CANDIDATE_METADATA = Metadata(name=validation.candidate_name, domains=False)
_CANDIDATE = Strategy(
    create_on_update=True,
    validate_metadata=_CANDIDATE_METADATA.created,
    validate=validation.candidate,
    validate_update=all_of(PLAIN.updated, as_on_create(validation.candidate), validation.same_lease),
    unconditional_update=False,
)


def behaviors(version: Version) -> dict[tuple[str, str], Behavior]:
    """Return the behavior of these kinds by (group, kind)."""
    versions = (field("spec", name) for name in ("leaseName", "binaryVersion", "emulationVersion"))
    return {
        (GROUP, "Lease"): Behavior(strategy=LEASE, table_row=row(field("spec", "holderIdentity"))),
        (GROUP, "LeaseCandidate"): Behavior(strategy=_CANDIDATE, table_row=row(*versions)),
    }
