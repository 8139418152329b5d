"""Validation of PodSchedulingContext (1.31): scheduler and control plane controllers agree on a node for a pod."""

from __future__ import annotations

from collections.abc import Sequence

from understudy.kinds.common.formats import subdomain
from understudy.kinds.resource.common.each import duplicates, validate_list
from understudy.kinds.resource.common.release_rules import POTENTIAL_NODES, ReleaseRules
from understudy.machinery.types import Obj
from understudy.machinery.validation.field import Errors, Path


def validate_spec(spec: Obj, path: Path, rules: ReleaseRules) -> Errors:
    """Check the potential nodes. The selected node is not looked at."""
    return _nodes(spec.get("potentialNodes") or (), path.child("potentialNodes"), rules)


def validate_status(status: Obj, path: Path, rules: ReleaseRules) -> Errors:
    """Check the unsuitable nodes of each claim."""
    claims, where = status.get("resourceClaims") or (), path.child("claims")
    errors: Errors = []
    for i, claim in enumerate(claims):
        errors += _nodes(claim.get("unsuitableNodes") or (), where.index(i).child("unsuitableNodes"), rules)
    return errors + duplicates((claim.get("name", "") for claim in claims), where)


def _nodes(names: Sequence[str], path: Path, rules: ReleaseRules) -> Errors:
    return [*validate_list(names, POTENTIAL_NODES, subdomain, path, rules), *duplicates(names, path)]
