"""Validation of ResourcePoolStatusRequest: a question to the control plane, whose answer is the status (KEP-5677).

Upstream has declarative validation for it, generated from the types: on update, fields that are unchanged are not
checked again. From 1.37 on `declared_rules` checks what the types declare, for every kind.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from understudy.kinds.common import conditions
from understudy.kinds.common.equality import semantic_deep_equal
from understudy.kinds.common.formats import invalid_texts
from understudy.kinds.common.objectmeta import IMMUTABLE
from understudy.kinds.resource.common.release_rules import POOL_NAME_LENGTH
from understudy.machinery.releases.version import V1_37, Version
from understudy.machinery.types import Obj
from understudy.machinery.validation.bad_values import Typed
from understudy.machinery.validation.field import Errors, Path, duplicate, invalid, required, too_long, too_many
from understudy.machinery.validation.names import long_name_texts, size

STATUS = "k8s.io/kubernetes/pkg/apis/resource.ResourcePoolStatusRequestStatus"
CONDITION = "k8s.io/apimachinery/pkg/apis/meta/v1.Condition"

POOLS_AT_ONCE = 1000
CONDITIONS = 10
ERROR_LENGTH = 256

# The numbers of a pool that may be missing, with the least that each may be.
_COUNTS = {
    "resourceSliceCount": 1,
    "totalDevices": 0,
    "allocatedDevices": 0,
    "availableDevices": 0,
    "unavailableDevices": 0,
}


def validate_spec(spec: Obj, path: Path) -> Errors:
    """Check the spec of a new request."""
    errors = _driver(spec, path)
    if (pool := spec.get("poolName")) is not None:
        errors += _pool_name(pool, path.child("poolName"))
    limit, where = spec["limit"], path.child("limit")
    if limit > POOLS_AT_ONCE:
        errors.append(invalid(where, limit, f"must be less than or equal to {POOLS_AT_ONCE}"))
    return errors + _at_least(limit, 1, where)


def validate_spec_update(spec: Obj, old: Obj, path: Path) -> Errors:
    """Check that a spec has not changed."""
    return [] if semantic_deep_equal(spec, old) else [invalid(path, None, IMMUTABLE)]


def validate_status(status: Obj | None, old: Obj | None, path: Path, version: Version) -> Errors:
    """Check a status, which cannot be changed once it is set (`old`)."""
    if semantic_deep_equal(status, old):
        return []
    errors: Errors = []
    if old is not None:
        errors.append(invalid(path, Typed(status, STATUS) if status is not None else None, IMMUTABLE))
    if status is None:
        return errors
    if old is None:
        errors += conditions.validate(status.get("conditions") or (), path.child("conditions"))
    if version >= V1_37:  # what the types declare is checked for every kind
        return errors
    for name, check in (("poolCount", _pool_count), ("pools", _pools), ("conditions", _conditions)):
        if old is None or not semantic_deep_equal(status.get(name), old.get(name)):
            errors += check(status.get(name), path.child(name))
    return errors


def _pool_count(count: int | None, path: Path) -> Errors:
    return [required(path)] if count is None else _at_least(count, 0, path)


def _pools(pools: Sequence[Obj] | None, path: Path) -> Errors:
    pools = pools or ()
    if len(pools) > POOLS_AT_ONCE:
        return [too_many(path, len(pools), POOLS_AT_ONCE)]
    return [error for i, pool in enumerate(pools) for error in _pool(pool, path.index(i))]


def _conditions(items: Sequence[Obj] | None, path: Path) -> Errors:
    """Check how many conditions there are, and once more that their types differ."""
    items = items or ()
    if len(items) > CONDITIONS:
        return [too_many(path, len(items), CONDITIONS)]
    kinds = [item.get("type", "") for item in items]
    return [duplicate(path.index(i), Typed(item, CONDITION)) for i, item in enumerate(items) if kinds[i] in kinds[:i]]


def _pool(pool: Obj, path: Path) -> Errors:
    """Check the status of one pool (upstream: `Validate_PoolStatus`)."""
    errors = _driver(pool, path)
    name, where = pool.get("poolName", ""), path.child("poolName")
    errors += _pool_name(name, where) if name else [required(where)]
    generation, where = pool.get("generation", 0), path.child("generation")
    errors += _at_least(generation, 0, where) if generation else [required(where)]
    for count, least in _COUNTS.items():
        if (value := pool.get(count)) is not None:
            errors += _at_least(value, least, path.child(count))
    if (node := pool.get("nodeName")) is not None:
        errors += invalid_texts(long_name_texts(node), node, path.child("nodeName"))
    if size(pool.get("validationError") or "") > ERROR_LENGTH:
        errors.append(too_long(path.child("validationError"), ERROR_LENGTH))
    return errors


def _driver(obj: Obj, path: Path) -> Errors:
    name, where = obj.get("driver", ""), path.child("driver")
    return invalid_texts(long_name_texts(name, any_case=True), name, where) if name else [required(where)]


def _pool_name(name: str, path: Path) -> Errors:
    """Check a pool's name: subdomains with slashes between them (upstream: `ResourcePoolName`)."""
    errors = [too_long(path, POOL_NAME_LENGTH)] if size(name) > POOL_NAME_LENGTH else []
    for i, segment in enumerate(name.split("/")):
        if not segment:
            errors.append(invalid(path, name, f"segment {i}: must not be empty"))
        else:
            errors += [invalid(path, segment, f"segment {i}: {text}") for text in long_name_texts(segment)]
    return errors


def _at_least(value: Any, least: int, path: Path) -> Errors:
    return [] if value >= least else [invalid(path, value, f"must be greater than or equal to {least}")]
