"""The rules of custom resources, `x-kubernetes-validations`, compiled (`CompilationResult` of apiextensions)."""

from __future__ import annotations

from understudy.cel.checker.declared_types import DeclaredType
from understudy.cel.checker.rule_environments import rule_environment
from understudy.cel.compiler import Compiled, compile  # noqa: A004 - named as the field names it
from understudy.machinery.releases.version import Version
from understudy.machinery.types import Obj, dataclass

NO_DECLARATION = "failed to convert to declType for CEL validation rules"
"""The error of rules whose values have no type."""


@dataclass(frozen=True, slots=True)
class Rule:
    """A rule of a schema: `source` is its JSON, `compiled` is None if it is blank.

    `message` is the compiled `messageExpression`; None if there is none, or if the rule itself did not compile.
    """

    source: Obj
    compiled: Compiled | None
    message: Compiled | None

    @property
    def uses_old_self(self) -> bool:
        """Report whether it is a transition rule: it compares a value with that before the update."""
        return self.compiled is not None and "oldSelf" in self.compiled.names

    @property
    def message_error(self) -> str:
        """The detail of the error that `messageExpression` has, "" if it has none."""
        error = self.message.error if self.message is not None else None
        return f"messageExpression {error.removeprefix('program ')}" if error is not None else ""


def compile_rule(
    source: Obj, declared: DeclaredType, version: Version, *, stored: bool = True, message_stored: bool = True
) -> Rule:
    """Return a rule compiled for values of a type (`compileRule`).

    stored, message_stored  whether the rule and its messageExpression were stored before: then they may use what CEL
                            of this very release brought
    """
    text, message_text = source.get("rule") or "", source.get("messageExpression") or ""
    if not text.strip():
        return Rule(source, None, None)
    optional = bool(source.get("optionalOldSelf"))
    environment = rule_environment(declared, version, stored=stored, optional_old_self=optional)
    compiled, message = compile(text, environment), None
    if compiled.error is None and message_text:
        environment = rule_environment(
            declared, version, stored=message_stored, optional_old_self=optional, message=True
        )
        message = compile(message_text, environment)
    return Rule(source, compiled, message)
