"""The policies to ask about a request: those that match it, by way of their bindings, with their parameters.

Source: k8s.io/apiserver/pkg/admission/plugin/policy/generic/policy_dispatcher.go.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Generic, TypeVar

from understudy.admission.chain import Attributes
from understudy.admission.expressions.activation import Activation
from understudy.admission.expressions.evaluation import Composition
from understudy.admission.matching.conditions import Observed, conditions_match
from understudy.admission.matching.resources import Match, match_resources
from understudy.admission.metrics import AdmissionMetrics
from understudy.admission.objects import ObjectInterfaces
from understudy.admission.plugins.policy.params import ConfigurationError, collect_params, param_mapping
from understudy.admission.plugins.policy.source import PolicyHook
from understudy.cel.compiler import Compiled
from understudy.kinds.admissionregistration.expressions import Expressions
from understudy.kinds.context import Context
from understudy.machinery.auth.authorization import Authorizer
from understudy.machinery.errors import StatusError
from understudy.machinery.releases.version import Version
from understudy.machinery.types import Obj, dataclass

E = TypeVar("E")


@dataclass(frozen=True, slots=True)
class Invocation(Generic[E]):
    """A policy to ask about a request, by way of a binding that matches. `params` are asked about one by one."""

    hook: PolicyHook[E]
    binding: Obj
    match: Match
    params: list[Obj | None]


@dataclass(frozen=True, slots=True)
class Misconfiguration:
    """A policy, or a binding of it (None: the policy itself), that cannot be asked about a request that it matches."""

    policy: Obj
    binding: Obj | None
    why: str

    @property
    def message(self) -> str:
        """Return the error message."""
        return f"failed to configure {'policy' if self.binding is None else 'binding'}: {self.why}"


@dataclass(eq=False)
class RequestDispatcher:
    """Holds one request, and what is needed to ask policies about it."""

    _attributes: Attributes
    _ctx: Context
    _objects: ObjectInterfaces
    _authorizer: Authorizer
    _metrics: AdmissionMetrics


def invocations(
    hooks: Iterable[PolicyHook[E]], attributes: Attributes, ctx: Context, objects: ObjectInterfaces
) -> Iterator[Invocation[E] | Misconfiguration]:
    """Yield the policies to ask about a request, binding by binding, and those that cannot be asked."""
    for hook in hooks:
        try:
            match = match_resources(hook.constraints, attributes, ctx, objects)
            if match is None:
                continue
            mapping = param_mapping(hook.policy, objects)
        except (ConfigurationError, StatusError) as error:
            yield Misconfiguration(hook.policy, None, _text(error))
            continue
        for binding in hook.bindings:
            spec = binding["spec"]
            constraints = spec.get("matchResources")
            try:
                if constraints is None or match_resources(constraints, attributes, ctx, objects) is not None:
                    params = collect_params(mapping, spec.get("paramRef"), attributes.namespace, objects)
                    yield Invocation(hook, binding, match, params)
            except (ConfigurationError, StatusError) as error:
                yield Misconfiguration(hook.policy, binding, _text(error))


def _text(error: ConfigurationError | StatusError) -> str:
    return error.message if isinstance(error, StatusError) else str(error)


@dataclass(frozen=True, slots=True)
class CompiledPolicy:
    """The parts of a policy that both kinds of policies have.

    expressions  the environment of its further expressions
    """

    name: str
    expressions: Expressions
    composition: Composition
    conditions: list[Compiled]
    failure_policy: str

    def conditions_match(self, activation: Activation, operation: str, metrics: AdmissionMetrics) -> bool:
        """Report whether the match conditions are true for a request with this operation. Raises ConditionError."""
        observed = Observed(metrics, "policy", self.name, operation, "validate")  # mutating ones, too
        return conditions_match(self.conditions, self.composition, activation, self.failure_policy, observed)


def compile_policy(policy: Obj, version: Version, *, strict_cost: bool = True) -> CompiledPolicy:
    """Compile the variables and match conditions of a policy.

    strict_cost  whether functions of the Kubernetes libraries have their own costs
    """
    spec = policy["spec"]
    expressions = Expressions(version, params=spec.get("paramKind") is not None, composed=(), strict_cost=strict_cost)
    variables: dict[str, Compiled] = {}
    for variable in spec.get("variables") or ():
        variables[variable["name"]] = expressions.compile(variable["expression"])
        expressions = expressions.with_variable(variable["name"], variable["expression"])
    conditions = [expressions.compile(item["expression"], ("bool",)) for item in spec.get("matchConditions") or ()]
    name, failure_policy = policy["metadata"]["name"], spec.get("failurePolicy") or "Fail"
    return CompiledPolicy(name, expressions, Composition(variables), conditions, failure_policy)
