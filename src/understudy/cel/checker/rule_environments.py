"""The environments of the rules of custom resources, in which a schema gives `self` and `oldSelf` their type.

Source: `prepareEnvSet` and `compileRule` of `k8s.io/apiextensions-apiserver/pkg/apiserver/schema/cel`.
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import lru_cache

from understudy.cel.checker.declarations import Declarations
from understudy.cel.checker.declared_types import DeclaredType
from understudy.cel.checker.environment import Environment, base_libraries, build_declarations
from understudy.cel.types import Type, optional_of
from understudy.machinery.releases.version import V1_31, Version

_SELF_TYPE = "selfType0"  # upstream numbers it by time, so that no expression refers to it


def rule_environment(
    declared: DeclaredType, version: Version, *, stored: bool, optional_old_self: bool, message: bool = False
) -> Environment:
    """Return the environment of a rule, or of the expression of its message.

    stored             whether the rule was stored before: then it may use what CEL of this very release brought
    optional_old_self  whether `oldSelf` is an optional
    """
    return Environment(
        version,
        features=frozenset(),
        stored=stored,
        declarations=_declarations(declared, version, stored, optional_old_self),
        result_error=_message_result_error if message else _result_error,
        estimate_size=declared.estimate_size,
        purpose=("rule", declared, optional_old_self, message),
    )


def _result_error(result: Type) -> str:
    return "" if result.kind == "bool" and not result.nullable else "cel expression must evaluate to a bool"


def _message_result_error(result: Type) -> str:
    return "" if result.kind == "string" and not result.nullable else "must evaluate to a string"


@lru_cache(256)
def _declarations(declared: DeclaredType, version: Version, stored: bool, optional_old_self: bool) -> Declarations:
    messages: dict[str, Mapping[str, Type]] = {}
    own = declared.named(_SELF_TYPE, messages, keywords=(version if stored else version.previous) >= V1_31)
    variables = {"self": own, "oldSelf": optional_of(own) if optional_old_self else own}
    return build_declarations(version, base_libraries(version, stored), variables, messages)
