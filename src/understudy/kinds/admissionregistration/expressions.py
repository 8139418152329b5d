"""Validation of CEL in admission policies and in the conditions of webhooks."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from dataclasses import replace
from typing import TYPE_CHECKING

from understudy.cel.limits.interrupts import WORK_ON_LOOP, current_meter
from understudy.machinery.releases.version import Version
from understudy.machinery.types import dataclass
from understudy.machinery.validation.field import Errors, Path, internal, invalid

if TYPE_CHECKING:
    from understudy.cel.checker.policy_environments import Composed
    from understudy.cel.compiler import Compiled

# The work of compiling an expression (1 ms, and less the second time), and of importing what does, in units of `Meter`.
_WORK, _FIRST_WORK = 500, WORK_ON_LOOP + 1
_COMPILER = "understudy.cel.checker.policy_environments"


@dataclass(frozen=True)
class Expressions:
    """The variables of expressions: `params`, and a policy's own (None: it has none).

    strict_cost  whether functions of the Kubernetes libraries have their own costs: only by feature gates in 1.31
    """

    version: Version
    params: bool = False
    composed: Composed | None = None
    strict_cost: bool = True

    def check(
        self,
        expression: str,
        path: Path,
        returns: Sequence[str] = ("bool",),
        *,
        authorizer: bool = True,
        original: str | None = None,
        patch_types: bool = False,
    ) -> Errors:
        """Check an expression. The error carries `original`, if any, in the place of the expression."""
        compiled = self.compile(expression, returns, authorizer=authorizer, patch_types=patch_types)
        if compiled.error is None:
            return []
        if compiled.error_kind == "internal":
            return [internal(path, compiled.error)]
        return [invalid(path, expression if original is None else original, compiled.error)]

    def with_variable(self, name: str, expression: str) -> Expressions:
        """Return the environment after a variable, whatever its name."""
        from understudy.cel.checker.policy_environments import variable_type

        value_type = self.compile(expression).type
        return replace(self, composed=(*(self.composed or ()), (name, variable_type(value_type))))

    def compile(
        self, expression: str, returns: Sequence[str] = (), *, authorizer: bool = True, patch_types: bool = False
    ) -> Compiled:
        """Compile an expression.

        returns      names of the types that the result may have; none: any
        authorizer   whether it may ask for rights
        patch_types  whether it may make `Object{…}` and `JSONPatch{…}`
        """
        current_meter().count(_WORK if _COMPILER in sys.modules else _FIRST_WORK)
        from understudy import cel  # here, since most objects have no expressions
        from understudy.cel.checker.policy_environments import policy_environment

        environment = policy_environment(
            self.version,
            returns=tuple(returns),
            params=self.params,
            authorizer=authorizer,
            composed=self.composed,
            patch_types=patch_types,
            strict_cost=self.strict_cost,
        )
        return cel.compile(expression, environment)
