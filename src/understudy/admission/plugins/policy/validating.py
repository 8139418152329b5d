"""ValidatingAdmissionPolicy: refuse requests, or warn of them, as the expressions of policies say.

https://kubernetes.io/docs/reference/access-authn-authz/validating-admission-policy/ (upstream:
k8s.io/apiserver/pkg/admission/plugin/policy/validating).
"""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING

from understudy.admission.chain import Attributes, Point
from understudy.admission.manifest.source import NO_MANIFESTS, StaticManifests
from understudy.admission.metrics import AdmissionMetrics
from understudy.admission.objects import ObjectInterfaces
from understudy.admission.plugins.policy.source import PolicySource
from understudy.kinds.context import Context
from understudy.machinery.auth.authorization import Authorizer
from understudy.machinery.releases import features
from understudy.machinery.releases.features import Gates
from understudy.machinery.releases.version import Version
from understudy.machinery.types import Obj

if TYPE_CHECKING:
    from understudy.admission.plugins.policy.validator import Validator


class ValidatingAdmissionPolicy:
    """Asks the ValidatingAdmissionPolicies that are in force."""

    name = "ValidatingAdmissionPolicy"

    def __init__(
        self,
        objects: ObjectInterfaces,
        authorizer: Authorizer,
        metrics: AdmissionMetrics,
        version: Version,
        gates: Gates,
        manifests: StaticManifests = NO_MANIFESTS,
    ) -> None:
        self.source = PolicySource(
            "validating", partial(_compile, version, gates), objects, partial(manifests.of, self.name)
        )
        self._objects = objects
        self._authorizer = authorizer
        self._metrics = metrics

    def handles(self, point: Point) -> bool:
        return self.source.handles(point)

    async def validate(self, attributes: Attributes, ctx: Context) -> None:
        """Raise the refusal of the first policy that refuses a request, after all of them have warned."""
        from understudy.admission.plugins.policy.validator import Dispatcher  # CEL: most servers have no policies

        dispatcher = Dispatcher(attributes, ctx, self._objects, self._authorizer, self._metrics)
        await dispatcher.dispatch(self.source.hooks(attributes.point))


def _compile(version: Version, gates: Gates, policy: Obj) -> Validator:
    from understudy.admission.plugins.policy.validator import Validator

    return Validator.of(policy, version, strict_cost=gates[features.STRICT_COST_ENFORCEMENT_FOR_VAP])
