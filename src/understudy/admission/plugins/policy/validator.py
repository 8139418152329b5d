"""The evaluation of ValidatingAdmissionPolicies: their decisions, and what becomes of the request."""

from __future__ import annotations

from collections.abc import Iterable
from functools import partial

from understudy.admission.chain import Attributes
from understudy.admission.expressions.activation import Activation, new_activation, request_namespace
from understudy.admission.expressions.evaluation import Result
from understudy.admission.matching.conditions import ConditionError
from understudy.admission.metrics import AdmissionMetrics
from understudy.admission.objects import VersionedAttributes
from understudy.admission.plugins.policy.invocations import (
    CompiledPolicy,
    Invocation,
    Misconfiguration,
    RequestDispatcher,
    compile_policy,
    invocations,
)
from understudy.admission.plugins.policy.source import PolicyHook
from understudy.cel.compiler import Compiled
from understudy.cel.limits.budget import Budget, OutOfBudgetError
from understudy.cel.limits.interrupts import evaluated
from understudy.kinds.context import Context
from understudy.machinery.errors import StatusError, admission_forbidden
from understudy.machinery.golang.json_writer import encode
from understudy.machinery.releases.version import Version
from understudy.machinery.types import GroupVersionKind, NamedTuple, Obj, dataclass

_LONGEST_MESSAGE = 5 * 1024  # bytes
_LONGEST_ANNOTATION = 10 * 1024  # bytes
_MOST_FAILURES = 50  # that the audit log tells of one request
_FAILURES = "validation.policy.admission.k8s.io/validation_failure"
_CODES = {"Forbidden": 403, "Unauthorized": 401, "RequestEntityTooLarge": 413}


class Decision(NamedTuple):
    """A reason to refuse a request, or a value for the audit log.

    always   whether it is refused whatever actions the binding names
    ignored  whether it is not refused, whatever they are: an error that the failure policy ignores
    seconds  how long the expression took
    expression
             the index of the validation
    publishes
             the key of the audit annotation whose value the message is, "" for a reason to refuse
    """

    message: str
    reason: str = ""
    always: bool = False
    ignored: bool = False
    seconds: float = 0.0
    expression: int = 0
    publishes: str = ""


@dataclass(frozen=True, slots=True)
class Validator:
    """A compiled ValidatingAdmissionPolicy."""

    policy: Obj
    common: CompiledPolicy
    validations: list[Compiled]
    messages: list[Compiled | None]
    annotations: list[Compiled]

    @staticmethod
    def of(policy: Obj, version: Version, *, strict_cost: bool = True) -> Validator:
        """Compile a policy. `strict_cost`: whether functions of the Kubernetes libraries have their own costs."""
        spec, common = policy["spec"], compile_policy(policy, version, strict_cost=strict_cost)
        compile_expression = common.expressions.compile
        validations = spec.get("validations") or ()
        return Validator(
            policy,
            common,
            [compile_expression(item["expression"], ("bool",)) for item in validations],
            [
                compile_expression(item["messageExpression"], ("string",), authorizer=False)
                if item.get("messageExpression")
                else None
                for item in validations
            ],
            [
                compile_expression(item["valueExpression"], ("string", "null_type"))
                for item in spec.get("auditAnnotations") or ()
            ],
        )

    def validate(
        self, conditions: Activation, activation: Activation, operation: str, metrics: AdmissionMetrics
    ) -> list[Decision]:
        """Return the reasons to refuse a request with this operation (`validator.Validate`).

        conditions  the variables of match conditions
        activation  those of all others; the authorizer fails in audit annotations, though they compile with it
        """
        common, budget = self.common, Budget()
        try:
            if not common.conditions_match(conditions, operation, metrics):
                return []
            results = common.composition.evaluate(self.validations, activation, budget)
        except (ConditionError, OutOfBudgetError) as error:
            return self._failed(str(error))
        without_authorizer = {name: value for name, value in activation.items() if not name.startswith("authorizer")}
        decisions = self._decisions(results, without_authorizer, budget)
        try:
            annotations = common.composition.evaluate(self.annotations, without_authorizer, Budget())
        except OutOfBudgetError as error:
            return self._failed(str(error))
        if self.common.failure_policy != "Ignore":
            failed = (result for result in annotations if result.error)
            decisions += [Decision(result.error, always=True, seconds=result.seconds) for result in failed]
        for item, result in zip(self.policy["spec"].get("auditAnnotations") or (), annotations, strict=True):
            if isinstance(result.value, str) and (text := result.value.strip()):
                decisions.append(Decision(_cut(text), publishes=item["key"]))
        return decisions

    def _failed(self, text: str, seconds: float = 0.0, index: int = 0) -> list[Decision]:
        """Return the decision about a request of which an expression has failed, as the failure policy says."""
        return [Decision(text, ignored=self.common.failure_policy == "Ignore", seconds=seconds, expression=index)]

    def _decisions(self, results: list[Result], activation: Activation, budget: Budget) -> list[Decision]:
        """Return the reasons to refuse a request, from the results of all validations.

        activation  the variables of message expressions, which may not ask for rights
        """
        messages, failure = [Result(None)] * len(results), ""
        try:
            messages = self.common.composition.evaluate(self.messages, activation, budget)
        except OutOfBudgetError as error:
            failure = f"failed messageExpression: {error}"
        decisions: list[Decision] = []
        validations = self.policy["spec"].get("validations") or ()
        for index, (validation, result, message) in enumerate(zip(validations, results, messages, strict=True)):
            if result.error or failure:
                decisions += self._failed(result.error or failure, result.seconds, index)
            elif result.value is not True:
                reason = validation.get("reason") or "Invalid"
                decisions.append(
                    Decision(_message(validation, message), reason, seconds=result.seconds, expression=index)
                )
        return decisions


def _cut(text: str) -> str:
    """Return the value of an audit annotation, cut to as many bytes as it may have."""
    return text.encode()[:_LONGEST_ANNOTATION].decode(errors="replace")


def _message(validation: Obj, result: Result) -> str:
    """Return the message of a validation that failed: that of its expression, its fixed one, or one about it."""
    text = result.value.strip() if isinstance(result.value, str) else ""
    if len(text.encode()) > _LONGEST_MESSAGE or "\n" in text:
        text = ""
    return text or validation.get("message", "").strip() or f"failed expression: {validation['expression'].strip()}"


class _AuditAnnotations:
    """The annotations that policies set in the audit log for one request."""

    def __init__(self) -> None:
        self._values: dict[str, list[str]] = {}
        self._failures: list[Obj] = []

    def add(self, key: str, value: str) -> None:
        """Add a value of an annotation: bindings may give several, each of which is told of once."""
        values = self._values.setdefault(key, [])
        if value not in values:
            values.append(value)

    def fail(self, policy: Obj, binding: Obj, decision: Decision) -> None:
        """Add a validation that failed (`ValidationFailureValue`)."""
        self._failures.append(
            {
                "message": decision.message,
                "policy": policy["metadata"]["name"],
                "binding": binding["metadata"]["name"],
                "expressionIndex": decision.expression,
                "validationActions": binding["spec"]["validationActions"],
            }
        )

    def publish(self, ctx: Context) -> None:
        """Set the annotations."""
        for key, values in self._values.items():
            ctx.annotate(key, ", ".join(values))
        if self._failures:
            ctx.annotate(_FAILURES, encode(self._failures[:_MOST_FAILURES]).decode())


class Dispatcher(RequestDispatcher):
    """Asks policies about one request."""

    async def dispatch(self, hooks: Iterable[PolicyHook[Validator]]) -> None:
        """Raise the refusal of the first policy that refuses the request, after all of them have warned."""
        denied: list[tuple[Obj, Obj | None, Decision]] = []
        self._audit = _AuditAnnotations()
        versions: dict[GroupVersionKind, VersionedAttributes] = {}
        for item in invocations(hooks, self._attributes, self._ctx, self._objects):
            if isinstance(item, Misconfiguration):
                if item.policy["spec"].get("failurePolicy") != "Ignore":
                    denied.append((item.policy, item.binding, Decision(item.message)))
                continue
            kind = item.match.kind
            if item.params and kind not in versions:
                versions[kind] = VersionedAttributes(self._attributes, kind, self._objects)
            for params in item.params:
                for decision in await self._ask(item, versions[kind], params):
                    denied += self._act(item, decision)
        self._audit.publish(self._ctx)
        if denied:
            raise _refusal(self._attributes, *denied[0])

    async def _ask(
        self, item: Invocation[Validator], versioned: VersionedAttributes, params: Obj | None
    ) -> list[Decision]:
        attributes, validator = self._attributes, await item.hook.compiled()
        activation = new_activation(
            versioned,
            item.match.resource,
            params=params,
            namespace=request_namespace(attributes, self._ctx),
            authorizer=self._authorizer,
        )
        conditions = activation
        if validator.common.conditions:
            conditions = new_activation(versioned, attributes.resource, params=params, authorizer=self._authorizer)
        operation = str(attributes.point.operation)
        return await evaluated(partial(validator.validate, conditions, activation, operation, self._metrics))

    def _act(self, item: Invocation[Validator], decision: Decision) -> list[tuple[Obj, Obj | None, Decision]]:
        """Warn of a decision if the binding says so, and count it; return it with its policy and binding if the request
        is refused."""
        policy, binding = item.hook.policy, item.binding
        if decision.publishes:
            self._audit.add(f"{policy['metadata']['name']}/{decision.publishes}", decision.message)
            return []
        actions: list[str] = binding["spec"]["validationActions"]
        if decision.ignored:
            actions = ["Allow"]
        elif decision.always:
            actions = ["Deny"]
        names = policy["metadata"]["name"], binding["metadata"]["name"]
        for action in actions:
            self._metrics.observe_validation(*names, action.lower(), decision.message, decision.seconds)
        if "Audit" in actions:
            self._audit.fail(policy, binding, decision)
        if "Warn" in actions:
            self._ctx.warn(f"Validation failed for {_names(policy, binding)}: {decision.message}")
        return [(policy, binding, decision)] if "Deny" in actions else []


def _names(policy: Obj, binding: Obj | None) -> str:
    text = f"ValidatingAdmissionPolicy '{policy['metadata']['name']}'"
    return text if binding is None else f"{text} with binding '{binding['metadata']['name']}'"


def _refusal(attributes: Attributes, policy: Obj, binding: Obj | None, decision: Decision) -> StatusError:
    """Return the error with which a policy refuses a request."""
    message = f"{_names(policy, binding)} denied request: {decision.message}"
    point, metadata = attributes.point, (attributes.object or {}).get("metadata") or {}
    named = {"name": attributes.name} if attributes.name else metadata
    error = admission_forbidden(point.group, point.resource, named, message)
    error.reason = decision.reason or "Invalid"
    error.code = _CODES.get(error.reason, 422)
    error.details = {**(error.details or {}), "causes": [{"message": message}]}
    return error.by(f"policy {policy['metadata']['name']}")
