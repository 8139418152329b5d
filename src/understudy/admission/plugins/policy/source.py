"""The policies in force: stored policies that have bindings, as they are until the next write of one of them.

Source: k8s.io/apiserver/pkg/admission/plugin/policy/generic/policy_source.go. There, policies take effect within a
second of their write; here, with it.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import cached_property
from typing import Generic, TypeVar

from understudy.admission.chain import Point
from understudy.admission.matching import rules
from understudy.admission.matching.resources import may_match
from understudy.admission.objects import ObjectInterfaces
from understudy.machinery.types import Obj

GROUP = "admissionregistration.k8s.io"
_CONFIGURATION = frozenset(
    f"{kind}admission{part}" for kind in ("validating", "mutating") for part in ("policies", "policybindings")
)
_EXCLUDED = rules.REVIEWS | {(GROUP, resource) for resource in _CONFIGURATION}

E = TypeVar("E")


class PolicyHook(Generic[E]):
    """A policy with its bindings; `evaluator` is what the policy compiles to, made when it is needed first."""

    def __init__(self, policy: Obj, bindings: tuple[Obj, ...], compile_policy: Callable[[Obj], E]) -> None:
        self.policy = policy
        self.bindings = bindings
        self._compile = compile_policy

    @cached_property
    def evaluator(self) -> E:
        """Return the compiled policy."""
        return self._compile(self.policy)

    @property
    def constraints(self) -> Obj:
        """Return the match constraints of the policy."""
        constraints: Obj = self.policy["spec"]["matchConstraints"]
        return constraints


class PolicySource(Generic[E]):
    """The policies of one kind that have bindings.

    kind     "validating" or "mutating"
    changed  called when other policies are in force than before
    """

    def __init__(self, kind: str, compile_policy: Callable[[Obj], E], objects: ObjectInterfaces) -> None:
        self._policies, self._bindings = f"{kind}admissionpolicies", f"{kind}admissionpolicybindings"
        self._compile = compile_policy
        self._objects = objects
        self._hooks: tuple[PolicyHook[E], ...] | None = None
        self.changed: Callable[[], None] = lambda: None
        for resource in (self._policies, self._bindings):
            objects.on_change(GROUP, resource, self._forget)

    def _forget(self) -> None:
        self._hooks = None
        self.changed()

    def hooks(self) -> tuple[PolicyHook[E], ...]:
        """Return the policies in force, in the order of their names; the real server has them in any order."""
        if self._hooks is None:
            self._hooks = tuple(self._read())
        return self._hooks

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
        if (point.group, point.resource) in _EXCLUDED:
            return False
        return any(may_match(hook.constraints, point) for hook in self.hooks())
