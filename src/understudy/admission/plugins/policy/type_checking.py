"""The type checking of ValidatingAdmissionPolicies: which expressions do not fit the objects that they are about.

A policy is stored whatever its expressions say about objects, which have no types there. Its status warns of those that
do not fit a kind that its constraints name (upstream: plugin/policy/validating/typechecking.go).
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping

from understudy import cel
from understudy.cel.checker.declared_types import DeclaredType, declared_type
from understudy.cel.checker.policy_environments import Composed, type_checking_environment, variable_type
from understudy.cel.compiler import Compiled
from understudy.machinery.releases.version import V1_31, V1_36, ByRelease, Version
from understudy.machinery.types import GroupVersionKind, GroupVersionResource, NamedTuple, Obj, split_api_version

_MOST_TYPES = 10  # of one rule
# Whether there is a variable `params` if nothing is known of the kind of parameters.
_DECLARES_UNKNOWN_PARAMS = ByRelease({V1_36: True, V1_31: False})
_REFERENCE = "#/components/schemas/"


class Types(NamedTuple):
    """The kinds and their schemas, as a type checker finds them.

    kinds    returns the kinds of a resource; the core group stands for any group
    schemas  returns the schemas in the OpenAPI v3 document of a group-version, by name
    """

    kinds: Callable[[GroupVersionResource], list[GroupVersionKind]]
    schemas: Callable[[str, str], Mapping[str, Obj]]


def check(policy: Obj, types: Types, version: Version) -> list[Obj]:
    """Return the warnings about the expressions of a policy, as its status has them (`TypeChecker.Check`)."""
    spec = policy["spec"]
    checked = [(gvk, declared) for gvk in _types_to_check(spec, types) if (declared := _declared(gvk, types, version))]
    params = _params(spec, types, version)
    contexts = [
        _Context(gvk, {"object": declared, "oldObject": declared, **params}, version).with_variables(spec)
        for gvk, declared in checked
    ]
    warnings = []
    for path, expression in _expressions(spec):
        if text := "\n".join(text for context in contexts if (text := context.warning(expression))):
            warnings.append({"fieldRef": path, "warning": text})
    return warnings


def _params(spec: Obj, types: Types, version: Version) -> dict[str, DeclaredType | None]:
    """Return the type of the variable `params`, {} if there is none."""
    kind = spec.get("paramKind")
    if kind is None:
        return {}
    declared = _declared(GroupVersionKind(*split_api_version(kind["apiVersion"]), kind["kind"]), types, version)
    return {} if declared is None and not _DECLARES_UNKNOWN_PARAMS[version] else {"params": declared}


def _expressions(spec: Obj) -> Iterator[tuple[str, str]]:
    """Yield (field path, expression) of what is checked: validations and their messages."""
    for i, validation in enumerate(spec.get("validations") or ()):
        for name in ("expression", "messageExpression"):
            if validation.get(name):
                yield f"spec.validations[{i}].{name}", validation[name]


class _Context(NamedTuple):
    """The types of the variables of expressions that are about one kind of object."""

    kind: GroupVersionKind
    types: Mapping[str, DeclaredType | None]
    version: Version
    composed: Composed = ()

    def with_variables(self, spec: Obj) -> _Context:
        """Return the context with the variables of a policy, each of which may use those before it."""
        context = self
        for variable in spec.get("variables") or ():
            declared = variable_type(context._compile(variable["expression"]).type)
            context = context._replace(composed=(*context.composed, (variable["name"], declared)))
        return context

    def warning(self, expression: str) -> str:
        """Return the error of an expression, "" for a good one."""
        compiled = self._compile(expression)
        if compiled.error_kind != "invalid":
            return ""
        return f"{self.kind.text}: {str(compiled.error).removeprefix('compilation failed: ')}\n"

    def _compile(self, expression: str) -> Compiled:
        return cel.compile(expression, type_checking_environment(self.version, self.types, self.composed))


def _types_to_check(spec: Obj, types: Types) -> list[GroupVersionKind]:
    """Return the kinds that the rules of a policy name, sorted. A rule with a wildcard for group or version names
    none, and with the tenth kind of a rule the search ends."""
    named: set[GroupVersionKind] = set()
    for rule in (spec.get("matchConstraints") or {}).get("resourceRules") or ():
        groups, versions = sorted(rule.get("apiGroups") or ()), sorted(rule.get("apiVersions") or ())
        if any("*" in text for text in (*groups, *versions)):
            continue
        resources = sorted(text for text in rule.get("resources") or () if not set("*/") & set(text))
        in_rule = (GroupVersionResource(g, v, r) for g in groups for v in versions for r in resources)
        kinds = [kind for resource in in_rule for kind in types.kinds(resource)]
        named |= set(kinds[:_MOST_TYPES])
        if len(kinds) >= _MOST_TYPES:
            break
    return sorted(named)


def _declared(kind: GroupVersionKind, types: Types, version: Version) -> DeclaredType | None:
    """Return the type of the objects of a kind, None if no schema is known."""
    schemas = types.schemas(kind.group, kind.version)
    named = {"group": kind.group, "version": kind.version, "kind": kind.kind}
    for name, schema in schemas.items():
        if named in schema.get("x-kubernetes-group-version-kind", ()):
            return declared_type(_populated(schema, schemas, (name,)), version, resource_root=True)
    return None


def _populated(schema: Obj, schemas: Mapping[str, Obj], visited: tuple[str, ...]) -> Obj:
    """Return a schema with those that it refers to in their place (`PopulateRefs`). One that contains itself is an
    object without fields there."""
    reference = _reference_of(schema)
    if reference in visited:
        return {"type": "object"}
    if reference:
        schema, visited = schemas[reference], (*visited, reference)
    out = dict(schema)
    if schema.get("format") == "int-or-string":
        out["x-kubernetes-int-or-string"] = True
    if "properties" in schema:
        out["properties"] = {name: _populated(part, schemas, visited) for name, part in schema["properties"].items()}
    for name in ("items", "additionalProperties"):
        if isinstance(schema.get(name), dict):
            out[name] = _populated(schema[name], schemas, visited)
    return out


def _reference_of(schema: Obj) -> str:
    """Return the name of the schema that a schema refers to, itself or in an `allOf` of it; "" for none."""
    for part in (schema, *schema.get("allOf", ())):
        if "$ref" in part:
            name: str = part["$ref"].removeprefix(_REFERENCE)
            return name
    return ""
