"""The policies in force: those that stand in files, and stored ones that have bindings, as they are until they change.

Source: k8s.io/apiserver/pkg/admission/plugin/policy/generic/policy_source.go. There, policies take effect within a
second of their write; here, with it.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import cached_property
from typing import Generic, TypeVar

from understudy.admission.chain import Point
from understudy.admission.manifest.loader import StaticObject
from understudy.admission.manifest.static_hooks import StaticHooks
from understudy.admission.matching.resources import may_match
from understudy.admission.objects import ObjectInterfaces
from understudy.cel.limits.interrupts import evaluated
from understudy.kinds.admissionregistration.matching import EXCLUDED
from understudy.machinery.types import Obj

GROUP = "admissionregistration.k8s.io"
# Stored policies are never asked about these, so that none can keep itself from being mended.
_CONFIGURATION = frozenset(
    (GROUP, f"{kind}admission{part}") for kind in ("validating", "mutating") for part in ("policies", "policybindings")
)

E = TypeVar("E")


class PolicyHook(Generic[E]):
    """A policy with its bindings; `evaluator` is what the policy compiles to, made when it is needed first."""

    def __init__(self, policy: Obj, bindings: Sequence[Obj], compile_policy: Callable[[Obj], E]) -> None:
        self.policy = policy
        self.bindings = bindings
        self._compile = compile_policy

    @cached_property
    def evaluator(self) -> E:
        """Return the compiled policy."""
        return self._compile(self.policy)

    async def compiled(self) -> E:
        """Return the compiled policy; what takes long to compile is compiled beside the request that needs it first."""
        return await evaluated(lambda: self.evaluator)

    @property
    def constraints(self) -> Obj:
        """Return the match constraints of the policy."""
        constraints: Obj = self.policy["spec"]["matchConstraints"]
        return constraints


class PolicySource(Generic[E]):
    """The policies of one kind that are in force.

    kind    "validating" or "mutating"
    static  returns those that stand in files: the same sequence, until others do
    """

    def __init__(
        self,
        kind: str,
        compile_policy: Callable[[Obj], E],
        objects: ObjectInterfaces,
        static: Callable[[], Sequence[StaticObject]],
    ) -> None:
        self._policies, self._bindings = f"{kind}admissionpolicies", f"{kind}admissionpolicybindings"
        self._compile = compile_policy
        self._objects = objects
        self._hooks: tuple[PolicyHook[E], ...] | None = None
        self._static = StaticHooks(static, lambda policy: [PolicyHook(policy.object, policy.bindings, compile_policy)])
        self.on_change(self._forget)

    def on_change(self, call: Callable[[], None]) -> None:
        """Call a function when other stored policies are in force than before, as `ObjectInterfaces.on_change` does."""
        for resource in (self._policies, self._bindings):
            self._objects.on_change(GROUP, resource, call)

    def _forget(self) -> None:
        self._hooks = None

    def hooks(self, point: Point) -> Sequence[PolicyHook[E]]:
        """Return the policies to ask about a kind of request: those that stand in files, then stored ones.

        Either are in the order of their names; the real server has the stored ones in any order.
        """
        resource = (point.group, point.resource)
        if resource in EXCLUDED:
            return ()
        if resource in _CONFIGURATION:
            return self._static.hooks()
        if self._hooks is None:
            self._hooks = tuple(self._read())
        return (*self._static.hooks(), *self._hooks)

    def _read(self) -> list[PolicyHook[E]]:
        bindings: dict[str, list[Obj]] = {}
        for binding in self._objects.stored(GROUP, self._bindings):
            bindings.setdefault(binding["spec"]["policyName"], []).append(binding)
        policies = {policy["metadata"]["name"]: policy for policy in self._objects.stored(GROUP, self._policies)}
        return [
            PolicyHook(policy, tuple(bindings[name]), self._compile)
            for name, policy in policies.items()
            if name in bindings
        ]

    def handles(self, point: Point) -> bool:
        return any(may_match(hook.constraints, point) for hook in self.hooks(point))
