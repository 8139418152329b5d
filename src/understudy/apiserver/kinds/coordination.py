"""Leases."""

from __future__ import annotations

from understudy.admission.cluster import leases
from understudy.admission.meta import PLAIN
from understudy.admission.updates import again, in_order
from understudy.apiserver.kind import Context, Rules, Strategy
from understudy.apiserver.printing import at, field, row
from understudy.apiserver.types import Obj

# Fields of coordinated leader election.
GATED = ("strategy", "preferredHolder")


def _drop(lease: Obj, old: Obj | None, ctx: Context) -> None:
    if ctx.gates["CoordinatedLeaderElection"]:
        return
    for key in GATED:
        if at(old, "spec", key) is None:
            lease.get("spec", {}).pop(key, None)


LEASE = Strategy(
    prepare_for_create=lambda lease, ctx: _drop(lease, None, ctx),
    prepare_for_update=_drop,
    create_on_update=True,
    validate_metadata=PLAIN.created,
    validate=leases.create,
    validate_update=in_order(PLAIN.updated, again(leases.create)),
    unconditional_update=False,
)


def rules(release: str) -> dict[tuple[str, str], Rules]:
    """By (group, kind)."""
    return {("coordination.k8s.io", "Lease"): Rules(strategy=LEASE, row=row(field("spec", "holderIdentity")))}
