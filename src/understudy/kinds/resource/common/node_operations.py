"""Operations of drivers that the kubelet leaves out for devices (`DRAOptionalNodeOperations`, since 1.37)."""

from __future__ import annotations

from collections.abc import Sequence

from understudy.machinery.validation.bad_values import Typed
from understudy.machinery.validation.field import Errors, Path, invalid

_PREPARE, _UNPREPARE, _ALL = "NodePrepareResources", "NodeUnprepareResources", "*"


def validate(operations: Sequence[str] | None, path: Path) -> Errors:
    """Check that what is not prepared is not unprepared either (upstream: `validateSkipNodeOperations`).

    Names and duplicates are checked by declared rules.
    """
    named = operations or ()
    if _PREPARE not in named or _UNPREPARE in named or _ALL in named:
        return []
    text = f"{_PREPARE} cannot be skipped unless {_UNPREPARE} is also skipped"
    return [invalid(path, Typed(operations, "[]string"), text)]
