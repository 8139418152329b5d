"""MutatingAdmissionPolicy: change the objects of requests as the expressions of policies say.

https://kubernetes.io/docs/reference/access-authn-authz/mutating-admission-policy/ (upstream:
k8s.io/apiserver/pkg/admission/plugin/policy/mutating).
"""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING

from understudy.admission.chain import Attributes, Operation, Point
from understudy.admission.manifest.source import NO_MANIFESTS, StaticManifests
from understudy.admission.metrics import AdmissionMetrics
from understudy.admission.objects import ObjectInterfaces
from understudy.admission.plugins.policy.source import PolicySource
from understudy.kinds.context import Context
from understudy.machinery.auth.authorization import Authorizer
from understudy.machinery.releases import features
from understudy.machinery.releases.version import Version
from understudy.machinery.types import Obj

if TYPE_CHECKING:
    from understudy.admission.plugins.policy.mutator import Mutator


class MutatingAdmissionPolicy:
    """Asks the MutatingAdmissionPolicies that have bindings, if the feature gate of that name is on."""

    name = "MutatingAdmissionPolicy"

    def __init__(
        self,
        objects: ObjectInterfaces,
        authorizer: Authorizer,
        metrics: AdmissionMetrics,
        version: Version,
        manifests: StaticManifests = NO_MANIFESTS,
    ) -> None:
        self.source = PolicySource("mutating", partial(_compile, version), objects, partial(manifests.of, self.name))
        self._objects = objects
        self._authorizer = authorizer
        self._metrics = metrics

    def handles(self, point: Point) -> bool:
        """Report whether a policy could be about requests of a kind; nothing is to be changed in a deletion."""
        return point.operation != Operation.DELETE and self.source.handles(point)

    async def admit(self, attributes: Attributes, ctx: Context) -> None:
        """Change the object of a request. Raises StatusError with all policies that failed."""
        if not ctx.gates[features.MUTATING_ADMISSION_POLICY]:
            return
        from understudy.admission.plugins.policy.mutator import Dispatcher  # CEL: most servers have no policies

        dispatcher = Dispatcher(attributes, ctx, self._objects, self._authorizer, self._metrics)
        await dispatcher.dispatch(self.source.hooks(attributes.point))


def _compile(version: Version, policy: Obj) -> Mutator:
    from understudy.admission.plugins.policy.mutator import Mutator

    return Mutator.of(policy, version)
