"""CEL selectors of classes and requests: which devices they match.

What an expression says of a device does not change while the slice stays as it is, so the device keeps the answer.
"""

from __future__ import annotations

from collections.abc import Sequence

from understudy.cel.checker.environment import Environment, derived_attribute_environment, device_environment
from understudy.controlplane.allocator.errors import AllocatorPanicError
from understudy.controlplane.allocator.inventory import Device
from understudy.machinery.releases import features as gates
from understudy.machinery.releases.version import V1_37, Version
from understudy.machinery.types import Obj, dataclass

_CEL_GATES = frozenset({gates.DRA_CONSUMABLE_CAPACITY, gates.DRA_LIST_TYPE_ATTRIBUTES})


def selector_environment(version: Version, features: frozenset[str]) -> Environment:
    """Return the environment of selectors: they may use all that stored expressions may."""
    return device_environment(version, features=features & _CEL_GATES, stored=True)


def attribute_environment(version: Version, features: frozenset[str]) -> Environment:
    """Return the environment of derived attributes."""
    return derived_attribute_environment(version, features=features & _CEL_GATES, stored=True)


class SelectorError(Exception):
    """An expression that does not compile or cannot be evaluated.

    The text is upstream's, without the class or claim that the expression is of.
    """


@dataclass(frozen=True, slots=True)
class Selectors:
    """The expressions of a class or a request; `owner` is `class NAME` or `claim NAMESPACE/NAME`, as errors say it.

    A selector of a class without an expression is None: the real allocator crashes when it comes to it.
    """

    owner: str
    expressions: tuple[str | None, ...]

    @staticmethod
    def of(owner: str, selectors: Sequence[Obj]) -> Selectors:
        """Return the selectors of a class or a request as the API has them."""
        of_cel = (selector.get("cel") for selector in selectors)
        return Selectors(owner, tuple(None if cel is None else cel.get("expression", "") for cel in of_cel))

    def refusing(self, device: Device, environment: Environment) -> int | None:
        """Return the position of the first expression that is false for a device, None if all are true.

        Those after it are neither compiled nor evaluated. Raises SelectorError and AllocatorPanicError.
        """
        for position, expression in enumerate(self.expressions):
            if expression is None:
                raise AllocatorPanicError("runtime error: invalid memory address or nil pointer dereference")
            answer = device.answers.get(expression)
            if answer is None:
                answer = device.answers[expression] = _ask(expression, device, environment)
            if not answer:
                return position
            if answer is not True:
                on_device = f" on device {device.id}" if isinstance(answer, _OnDeviceError) else ""
                raise SelectorError(f"{self.owner}: selector #{position}{on_device}: {answer}")
        return None


class _OnDeviceError(SelectorError):
    """An error of an evaluation, which names the device from 1.37 on."""


_HINT = (
    ". consider using CEL optional chaining (.? followed by orValue())"
    " or guarding the check with has() for optional fields"
)


def _ask(expression: str, device: Device, environment: Environment) -> bool | Exception:
    """Return the result of an expression for a device, or the error that it ends with."""
    from understudy import cel

    compiled = cel.compile(expression, environment)
    if compiled.error is not None:
        return SelectorError(f"CEL compile error: {compiled.error}")
    try:
        return compiled.matches(device.value)
    except cel.EvaluationError as error:
        if environment.version < V1_37:
            return SelectorError(f"CEL runtime error: {error}")
        hint = _HINT if "no such key:" in str(error) else ""
        return _OnDeviceError(f"CEL runtime error: {error}{hint}")
