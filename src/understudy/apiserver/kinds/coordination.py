"""Leases."""

from __future__ import annotations

from understudy.admission.context import Context
from understudy.admission.validation import coordination
from understudy.admission.validation.compose import again, in_order
from understudy.admission.validation.objectmeta import PLAIN
from understudy.apiserver.kinds.printers import field, row
from understudy.apiserver.registry.kind import Rules, Strategy
from understudy.machinery.releases import features
from understudy.machinery.releases.version import Version
from understudy.machinery.types import Obj, at

# Fields of coordinated leader election.
GATED = ("strategy", "preferredHolder")


def _drop(lease: Obj, old: Obj | None, ctx: Context) -> None:
    if ctx.gates[features.COORDINATED_LEADER_ELECTION]:
        return
    for key in GATED:
        if at(old, "spec", key) is None:
            lease.get("spec", {}).pop(key, None)


LEASE = Strategy(
    prepare_for_create=lambda lease, ctx: _drop(lease, None, ctx),
    prepare_for_update=_drop,
    create_on_update=True,
    validate_metadata=PLAIN.created,
    validate=coordination.create,
    validate_update=in_order(PLAIN.updated, again(coordination.create)),
    unconditional_update=False,
)


def rules(release: Version) -> dict[tuple[str, str], Rules]:
    """By (group, kind)."""
    return {("coordination.k8s.io", "Lease"): Rules(strategy=LEASE, row=row(field("spec", "holderIdentity")))}
