"""Validation of the requests that a webhook or policy is about: operations, resources, selectors, CEL conditions."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import product

from understudy.kinds.admissionregistration.expressions import Expressions
from understudy.kinds.common import label_selectors
from understudy.kinds.common.formats import choice, invalid_texts, qualified
from understudy.kinds.context import Context
from understudy.machinery.releases import features
from understudy.machinery.releases.version import V1_36
from understudy.machinery.types import Obj
from understudy.machinery.validation.bad_values import Typed
from understudy.machinery.validation.field import Errors, Path, duplicate, invalid, required, too_many
from understudy.machinery.validation.names import path_segment_name

MOST_CONDITIONS = 64
POLICIES = {"failurePolicy": ("Fail", "Ignore"), "matchPolicy": ("Equivalent", "Exact")}
REINVOCATIONS = ("IfNeeded", "Never")

_OPERATIONS = ("*", "CONNECT", "CREATE", "DELETE", "UPDATE")
_SCOPES = ("*", "Cluster", "Namespaced")
_OPERATION = "k8s.io/kubernetes/pkg/apis/admissionregistration.OperationType"


def resources(match: Obj | None, path: Path) -> Errors:
    """Check the resources of a policy or binding (upstream: `validateMatchResources`)."""
    if match is None:
        return []
    errors = choice(match.get("matchPolicy"), POLICIES["matchPolicy"], path.child("matchPolicy"))
    for name in ("namespaceSelector", "objectSelector"):
        errors += label_selectors.validate(match.get(name), path.child(name))
    for name in ("resourceRules", "excludeResourceRules"):
        for i, item in enumerate(match.get(name) or ()):
            errors += _named(item, path.child(name).index(i))
    return errors


def _named(item: Obj, path: Path) -> Errors:
    """Check a rule that may name objects."""
    names, where = item.get("resourceNames") or [], path.child("resourceNames")
    errors: Errors = []
    for i, name in enumerate(names):
        errors += invalid_texts(path_segment_name(name, False), name, where.index(i))
        if name in names[:i]:
            errors.append(duplicate(where.index(i), name))
    return errors + rule(item, path)


def rule(rule: Obj, path: Path) -> Errors:
    """Check operations on resources (upstream: `validateRuleWithOperations`)."""
    operations, where = rule.get("operations") or [], path.child("operations")
    errors = [] if operations else [required(where)]
    if len(operations) > 1 and "*" in operations:
        bad_value = Typed(operations, f"[]{_OPERATION}")
        errors.append(invalid(where, bad_value, "if '*' is present, must not specify other operations"))
    for i, operation in enumerate(operations):
        errors += choice(operation, _OPERATIONS, where.index(i))
    for name, what in (("apiGroups", "API groups"), ("apiVersions", "API versions")):
        values, where = rule.get(name) or [], path.child(name)
        errors += [] if values else [required(where)]
        if len(values) > 1 and "*" in values:
            bad_value = Typed(values, "[]string")
            errors.append(invalid(where, bad_value, f"if '*' is present, must not specify other {what}"))
    versions = enumerate(rule.get("apiVersions") or ())
    errors += [required(path.child("apiVersions").index(i)) for i, version in versions if not version]
    errors += _resources(rule.get("resources") or [], path.child("resources"))
    return errors + ([] if rule.get("scope") is None else choice(rule["scope"], _SCOPES, path.child("scope")))


def _resources(names: Sequence[str], path: Path) -> Errors:
    errors = [] if names else [required(path)]
    whole: set[str] = set()  # resources all of whose subresources are meant
    everywhere: set[str] = set()  # subresources of all resources
    plain = False
    for i, text in enumerate(names):
        resource, slash, sub = text.partition("/")
        if not text:
            errors.append(required(path.index(i)))
        elif not slash:
            plain = text != "*"
        if not slash:
            continue
        for present, hidden in ((f"{resource}/*", resource in whole), (f"*/{sub}", sub in everywhere)):
            if hidden:
                errors.append(invalid(path.index(i), text, f"if '{present}' is present, must not specify {text}"))
        whole |= {resource} if sub == "*" else set()
        everywhere |= {sub} if resource == "*" else set()
    bad_value = Typed(names, "[]string")
    if len(names) > 1 and "*/*" in names:
        errors.append(invalid(path, bad_value, "if '*/*' is present, must not specify other resources"))
    if "*" in names and plain:
        text = "if '*' is present, must not specify other resources without subresources"
        errors.append(invalid(path, bad_value, text))
    return errors


def conditions(items: Sequence[Obj], path: Path, expressions: Expressions) -> Errors:
    """Check the match conditions of a webhook or policy: named CEL expressions."""
    errors = [too_many(path, len(items), MOST_CONDITIONS)] if len(items) > MOST_CONDITIONS else []
    names: set[str] = set()
    for i, condition in enumerate(items):
        name, where = condition.get("name", ""), path.index(i).child("name")
        expression, inside = condition.get("expression", "").strip(), path.index(i).child("expression")
        errors += expressions.check(expression, inside) if expression else [required(inside)]
        errors += qualified(name, where) if name else [required(where)]
        if name in names:
            errors.append(duplicate(where, name))
        if name:
            names.add(name)
    return errors


# --- resources that policies and webhooks are not asked about

# Resources of requests that are not stored and would lock everybody out if policies or webhooks refused them.
EXCLUDED = frozenset(
    (
        ("authentication.k8s.io", "selfsubjectreviews"),
        ("authentication.k8s.io", "tokenreviews"),
        ("authorization.k8s.io", "localsubjectaccessreviews"),
        ("authorization.k8s.io", "selfsubjectaccessreviews"),
        ("authorization.k8s.io", "selfsubjectrulesreviews"),
        ("authorization.k8s.io", "subjectaccessreviews"),
    )
)


def warn_of_rules(configuration: Obj, ctx: Context) -> None:
    """Warn of rules of webhooks that name resources of which these are not told (upstream:
    `WarningsForValidatingWebhookRules`)."""
    if not ctx.gates[features.EXCLUDE_ADMISSION_WEBHOOK_VIRTUAL_RESOURCES]:
        return
    for number, webhook in enumerate(configuration.get("webhooks") or ()):
        for index, rule in enumerate(webhook.get("rules") or ()):
            path = Path("webhooks").index(number).child("rules").index(index)
            for group, resource in _excluded(rule):
                ctx.warn(
                    f"{path}: {resource}.{group} is excluded from admission webhooks; this rule will have no effect"
                )


def _excluded(rule: Obj) -> dict[tuple[str, str], None]:
    """Return the resources that a rule without wildcards names and webhooks are not told of, in their order."""
    groups, resources = rule.get("apiGroups") or (), rule.get("resources") or ()
    if "*" in groups or "*" in resources:
        return {}
    return dict.fromkeys(pair for pair in product(groups, resources) if pair in EXCLUDED)


# --- names that are kept for policies and webhooks in files

STATIC_SUFFIX = ".static.k8s.io"
_RESERVED = (
    f'names ending with "{STATIC_SUFFIX}" are reserved for static manifest-based configurations and cannot be managed '
    "via the API"
)


def static_name(obj: Obj, ctx: Context) -> Errors:
    """Refuse a reserved name where such files are read (upstream: `ValidateStaticSuffix`)."""
    name = obj["metadata"].get("name", "")
    reserved = ctx.gates[features.MANIFEST_BASED_ADMISSION_CONTROL_CONFIG] and name.endswith(STATIC_SUFFIX)
    return [invalid(Path("metadata", "name"), name, _RESERVED)] if reserved else []


def warn_of_static_name(obj: Obj, ctx: Context) -> None:
    """Warn of a new object with a reserved name that is accepted (upstream: `WarningsForStaticSuffix`)."""
    if not ctx.gates[features.MANIFEST_BASED_ADMISSION_CONTROL_CONFIG]:
        warn_of_stored_static_name(obj, obj, ctx)


def warn_of_stored_static_name(obj: Obj, old: Obj, ctx: Context) -> None:
    """Warn of a changed object with a reserved name."""
    if ctx.release >= V1_36 and obj["metadata"].get("name", "").endswith(STATIC_SUFFIX):
        ctx.warn(f"metadata.name: {_RESERVED}")
