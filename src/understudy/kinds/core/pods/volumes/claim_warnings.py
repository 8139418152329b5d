"""Warnings about claims and templates of claims (upstream: `GetWarningsForPersistentVolumeClaimSpec`)."""

from __future__ import annotations

from collections.abc import Iterator

from understudy.kinds.core.resource_lists import fractional_bytes
from understudy.machinery.types import Obj, nested_field
from understudy.machinery.validation.field import Path


def claim_spec(spec: Obj, path: Path) -> Iterator[str]:
    """Warn of mistakes in the spec of a claim or of a template of claims."""
    for kind in ("requests", "limits"):
        yield from fractional_bytes(nested_field(spec, "resources", kind), path.child("resources", kind), "storage")
