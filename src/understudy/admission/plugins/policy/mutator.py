"""The evaluation of MutatingAdmissionPolicies: what they make of the object of a request."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import field
from functools import partial
from time import perf_counter

from understudy.admission.chain import Attributes, Invoked
from understudy.admission.expressions.activation import Activation, new_activation, request_namespace
from understudy.admission.matching.conditions import ConditionError
from understudy.admission.objects import ObjectInterfaces, OtherKindError, VersionedAttributes, loses_times
from understudy.admission.plugins.policy.invocations import (
    CompiledPolicy,
    Invocation,
    Misconfiguration,
    RequestDispatcher,
    compile_policy,
    invocations,
)
from understudy.admission.plugins.policy.patchers import PatchError, apply_configuration, apply_json_patch
from understudy.admission.plugins.policy.source import PolicyHook
from understudy.cel.compiler import Compiled
from understudy.cel.limits.budget import Budget, CostLimitError, OutOfBudgetError
from understudy.cel.limits.interrupts import evaluated
from understudy.cel.values import Value, count_values
from understudy.kinds.admissionregistration.policies import PATCHES
from understudy.machinery.errors import StatusError, admission_forbidden, internal_error
from understudy.machinery.golang.text import go_quote
from understudy.machinery.releases.version import Version
from understudy.machinery.types import GroupVersionKind, NamedTuple, Obj, dataclass, deep_copy, named_kind

# Applies the value of an expression to the object of a request. Raises PatchError and StatusError.
Patcher = Callable[[Value, VersionedAttributes, ObjectInterfaces, Version], Obj]
_PATCHERS: dict[str, Patcher] = {"ApplyConfiguration": apply_configuration, "JSONPatch": apply_json_patch}


class Mutation(NamedTuple):
    """A compiled mutation."""

    expression: Compiled
    patch: Patcher


@dataclass(frozen=True, slots=True)
class Mutator:
    """A compiled MutatingAdmissionPolicy."""

    common: CompiledPolicy
    mutations: list[Mutation]

    @staticmethod
    def of(policy: Obj, version: Version) -> Mutator:
        """Compile a policy."""
        common = compile_policy(policy, version)
        mutations = []
        for mutation in policy["spec"]["mutations"]:
            name, result = PATCHES[mutation["patchType"]]
            compiled = common.expressions.compile(mutation[name]["expression"], (result,), patch_types=True)
            mutations.append(Mutation(compiled, _PATCHERS[mutation["patchType"]]))
        return Mutator(common, mutations)


class PolicyError(NamedTuple):
    """A policy, or a binding of it (None: the policy itself), that could not change a request."""

    policy: Obj
    binding: Obj | None
    why: str
    reason: str = ""

    @property
    def message(self) -> str:
        """Return the error message."""
        name = self.policy["metadata"]["name"]
        if self.binding is None:
            return f'policy "{name}" denied request: {self.why}'
        return f"policy '{name}' with binding '{self.binding['metadata']['name']}' denied request: {self.why}"


_LARGEST_PATCH = 2_000_000  # values, which are more than any object that can be stored has
_SCHEME = "k8s.io/kubernetes/pkg/api/legacyscheme/scheme.go:30"

# Policy, binding, and namespace and name of the parameter.
_Key = tuple[str, str, str, str]


@dataclass(eq=False)
class Dispatcher(RequestDispatcher):
    """Lets policies change the object of one request, each what the ones before have left."""

    _state: Invoked = field(default_factory=Invoked, init=False)
    _versions: dict[GroupVersionKind, VersionedAttributes] = field(default_factory=dict, init=False)
    _last: VersionedAttributes | None = field(default=None, init=False)

    async def dispatch(self, hooks: Iterable[PolicyHook[Mutator]]) -> None:
        """Change the object of the request. Raises StatusError with all policies that failed."""
        asked: list[Invocation[Mutator]] = []
        errors: list[PolicyError] = []
        for item in invocations(hooks, self._attributes, self._ctx, self._objects):
            if isinstance(item, Misconfiguration):
                errors.append(PolicyError(item.policy, item.binding, item.message))
            elif item.params:
                asked.append(item)
        if asked:
            errors += await self._mutate(asked)
        errors = [error for error in errors if error.policy["spec"].get("failurePolicy") != "Ignore"]
        if errors:
            raise _refusal(self._attributes, errors)

    async def _mutate(self, asked: Sequence[Invocation[Mutator]]) -> list[PolicyError]:
        """Let policies change the object; return the errors of those that could not (`dispatchInvocations`)."""
        attributes = self._attributes
        state = self._state = attributes.reinvocation.of("MutatingAdmissionPolicy", attributes.object)
        errors = [
            error
            for item in asked
            for params in item.params
            for error in await self._invoke(item, None if params is None else self._without_type(params))
        ]
        self._finish()
        state.output = deep_copy(attributes.object)
        return errors

    async def _invoke(self, item: Invocation[Mutator], params: Obj | None) -> list[PolicyError]:
        """Apply all mutations of a policy; return the errors of those that could not be applied."""
        state, mutator = self._state, await item.hook.compiled()
        common = mutator.common
        versioned = self._versioned(item.match.kind)
        conditions = new_activation(versioned, self._attributes.resource, params=params, authorizer=self._authorizer)
        try:
            operation = str(self._attributes.point.operation)
            if not await evaluated(partial(common.conditions_match, conditions, operation, self._metrics)):
                return []
        except ConditionError as error:
            return [PolicyError(item.hook.policy, item.binding, str(error), "Invalid")]
        key = _key(item, params)
        if self._attributes.reinvocation.begun and key not in state.again:
            return []
        before, errors = versioned.object, []
        for mutation in mutator.mutations:
            self._last = versioned
            if versioned.object is None:
                continue
            started, why = perf_counter(), ""
            try:
                await self._apply(mutation, item, versioned, params)
            except (PatchError, OutOfBudgetError, StatusError) as error:
                why = str(error)
                if isinstance(error, StatusError):
                    raise
                errors.append(PolicyError(item.hook.policy, item.binding, why, "Invalid"))
            finally:
                self._metrics.observe_mutation(*key[:2], why, perf_counter() - started)
        was_patched = versioned.object is not before
        if versioned.object != before or (was_patched and loses_times(self._attributes, self._objects, self._ctx.now)):
            state.require()
            self._attributes.reinvocation.needed = True
        if item.hook.policy["spec"].get("reinvocationPolicy") == "IfNeeded":
            state.invoked.add(key)
        return errors

    async def _apply(
        self, mutation: Mutation, item: Invocation[Mutator], versioned: VersionedAttributes, params: Obj | None
    ) -> None:
        """Apply a mutation to the object of a version. Raises PatchError, OutOfBudgetError, StatusError."""
        if mutation.expression.error is not None:
            raise PatchError(mutation.expression.error)
        activation = new_activation(
            versioned,
            item.match.resource,
            params=params,
            namespace=request_namespace(self._attributes, self._ctx),
            authorizer=self._authorizer,
        )
        versioned.replace(await evaluated(partial(self._patched, mutation, item, versioned, activation)))

    def _patched(
        self, mutation: Mutation, item: Invocation[Mutator], versioned: VersionedAttributes, activation: Activation
    ) -> Obj:
        """Return the object of a version with a mutation applied. Raises PatchError, OutOfBudgetError, StatusError."""
        (result,) = item.hook.evaluator.common.composition.evaluate([mutation.expression], activation, Budget())
        if result.error:
            raise PatchError(result.error)
        if count_values(result.value, _LARGEST_PATCH) > _LARGEST_PATCH:
            raise PatchError(str(CostLimitError()))
        try:
            patched = self._objects.to_kind(
                mutation.patch(result.value, versioned, self._objects, self._ctx.release), versioned.kind
            )
        except OtherKindError as error:
            if not self._objects.is_custom(versioned.kind):
                self._check_version(error.kind)
            raise internal_error(f"failed to convert object: {error}") from None
        self._check_version(versioned.kind)
        self._objects.set_defaults(patched, versioned.kind, self._ctx)
        return patched

    def _without_type(self, params: Obj) -> Obj:
        """Return a parameter of a built-in kind without kind and apiVersion, which upstream's cache does not have."""
        if self._objects.is_custom(named_kind(params)):
            return params
        return {name: value for name, value in params.items() if name not in ("kind", "apiVersion")}

    def _check_version(self, kind: GroupVersionKind) -> None:
        """Raise PatchError for an object in another version than the request's, to which upstream converts none."""
        expected = self._attributes.kind
        if kind.api_version == expected.api_version or self._objects.is_custom(kind):
            return
        name = f"{kind.version}.{kind.kind}"
        if kind.group == expected.group:
            raise PatchError(f"converting ({name}) to ({expected.version}.{kind.kind}): unknown conversion")
        text = f"is not suitable for converting to {go_quote(expected.api_version)} in scheme {go_quote(_SCHEME)}"
        raise PatchError(f"{name} {text}")

    def _versioned(self, kind: GroupVersionKind) -> VersionedAttributes:
        versioned = self._versions.get(kind)
        if versioned is None:
            versioned = self._versions[kind] = VersionedAttributes(self._attributes, kind, self._objects)
        return versioned

    def _finish(self) -> None:
        """Take over the object of the version that was asked about last."""
        last = self._last
        if last is not None and last.object is not None and last.dirty:
            self._state.require()
            self._attributes.reinvocation.needed = True
            attributes = self._attributes
            attributes.object = self._objects.into_internal(last.object, last.kind, attributes.kind, attributes.new)


def _key(item: Invocation[Mutator], params: Obj | None) -> _Key:
    metadata = {} if params is None else params["metadata"]
    return (
        item.hook.policy["metadata"]["name"],
        item.binding["metadata"]["name"],
        metadata.get("namespace", ""),
        metadata.get("name", ""),
    )


def _refusal(attributes: Attributes, errors: Sequence[PolicyError]) -> StatusError:
    """Return the error with which policies refuse a request: a 403 with the reason of the first of them."""
    point, metadata = attributes.point, (attributes.object or {}).get("metadata") or {}
    named = {"name": attributes.name} if attributes.name else metadata
    refusal = admission_forbidden(point.group, point.resource, named, "")
    refusal.message, refusal.reason = errors[0].message, errors[0].reason or refusal.reason
    refusal.details = {**(refusal.details or {}), "causes": [{"message": error.message} for error in errors]}
    return refusal.by(f"policy {errors[0].policy['metadata']['name']}")
