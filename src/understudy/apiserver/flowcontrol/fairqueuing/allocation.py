"""Shares the seats of the server among priority levels by what they ask for. Upstream: `computeConcurrencyAllocation`.

Each level gets the same multiple of its target, but no less than its lower and no more than its upper bound.
"""

from __future__ import annotations

from collections.abc import Sequence

from understudy.machinery.types import NamedTuple

_LEAST_TARGET = 0.001


class Claim(NamedTuple):
    """The seats that a level is to have, and the bounds between which it gets them."""

    target: float
    lower: float
    upper: float


def allocate(total: int, claims: Sequence[Claim]) -> tuple[list[float], float]:
    """Share `total` among claims; return the shares, and the multiple of its target that one within its bounds gets."""
    claims = [claim._replace(target=max(claim.target, _LEAST_TARGET)) for claim in claims]
    multiple = _fair_multiple(total, claims)
    return [_within(claim, multiple) for claim in claims], multiple


def _within(claim: Claim, multiple: float) -> float:
    return max(claim.lower, min(claim.upper, multiple * claim.target))


def _fair_multiple(total: int, claims: Sequence[Claim]) -> float:
    """Return the multiple with which the claims get `total` together; that grows with it, bound by bound."""
    bounds = sorted({bound / claim.target for claim in claims for bound in (claim.lower, claim.upper)})
    before = bounds[0]
    for bound in bounds:
        given = sum(_within(claim, bound) for claim in claims)
        if given >= total:
            at_before = sum(_within(claim, before) for claim in claims)
            return (
                bound if given == at_before else before + (total - at_before) * (bound - before) / (given - at_before)
            )
        before = bound
    return before
