"""The match conditions of webhooks, which are expressions in CEL."""

from __future__ import annotations

from functools import lru_cache

from understudy.admission.expressions.activation import new_activation
from understudy.admission.expressions.evaluation import Composition
from understudy.admission.matching.conditions import ConditionError, Observed, conditions_match
from understudy.admission.objects import VersionedAttributes
from understudy.cel.compiler import Compiled
from understudy.cel.limits.interrupts import evaluated
from understudy.kinds.admissionregistration.expressions import Expressions
from understudy.kinds.context import Context
from understudy.machinery import errors
from understudy.machinery.auth.authorization import Authorizer
from understudy.machinery.releases import features
from understudy.machinery.releases.version import Version

_NO_VARIABLES = Composition({})


@lru_cache(256)
def _compiled(conditions: tuple[str, ...], version: Version, strict_cost: bool) -> list[Compiled]:
    return [Expressions(version, strict_cost=strict_cost).compile(expression, ("bool",)) for expression in conditions]


async def conditions_hold(
    conditions: tuple[str, ...],
    failure_policy: str,
    versioned: VersionedAttributes,
    ctx: Context,
    authorizer: Authorizer,
    observed: Observed,
) -> bool:
    """Report whether all match conditions of a webhook are true for a request. Raises 403 if they fail."""
    attributes, strict_cost = versioned.attributes, ctx.gates[features.STRICT_COST_ENFORCEMENT_FOR_WEBHOOKS]
    activation = new_activation(versioned, attributes.resource, authorizer=authorizer)

    def hold() -> bool:
        compiled = _compiled(conditions, ctx.release, strict_cost)
        return conditions_match(compiled, _NO_VARIABLES, activation, failure_policy, observed)

    try:
        return await evaluated(hold)
    except ConditionError as error:
        point = attributes.point
        raise errors.forbidden(point.group, point.resource, attributes.name, str(error)) from None
