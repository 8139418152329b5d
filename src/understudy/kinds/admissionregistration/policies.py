"""Validation of admission policies, validating and mutating ones, and of their bindings."""

from __future__ import annotations

from dataclasses import replace

from understudy.kinds.admissionregistration import matching
from understudy.kinds.admissionregistration.expressions import Expressions
from understudy.kinds.common import conditions, label_selectors
from understudy.kinds.common.formats import choice, invalid_text, invalid_texts, kind, message, qualified
from understudy.kinds.context import Context
from understudy.machinery.releases.version import V1_31, V1_32, V1_34, ByRelease
from understudy.machinery.types import Obj
from understudy.machinery.util.regex import regex
from understudy.machinery.validation.bad_values import TextByRelease, Typed
from understudy.machinery.validation.field import Errors, Path, duplicate, forbidden, invalid, not_supported, required
from understudy.machinery.validation.names import (
    dns_1035_label_texts,
    dns_subdomain_texts,
    path_segment_name,
    size,
    subdomain_name,
)

MOST_ANNOTATIONS = 20
ANNOTATION_LENGTH = 5 * 1024  # bytes of an expression

_SPEC = Path("spec")
_GO = "k8s.io/kubernetes/pkg/apis/admissionregistration"
_REASONS = ("Forbidden", "Invalid", "RequestEntityTooLarge")
_ACTIONS, _NOT_FOUND_ACTIONS = ("Audit", "Deny", "Warn"), ("Deny", "Allow")
_IDENTIFIER = regex("[_a-zA-Z][_a-zA-Z0-9]*")
_RESERVED = regex(
    "true|false|null|in|as|break|const|continue|else|for|function|if|import|let|loop|package|namespace|return|var|void|"
    "while"
)
_MATCH_RESOURCES = ByRelease({V1_31: "matchResouces", V1_32: "matchResources"})  # misspelt at first, as upstream
_MUTABLE = ("*", "CONNECT", "CREATE", "UPDATE")
_NO_IDENTIFIER = TextByRelease(
    ByRelease({V1_34: "must be a valid CEL identifier", V1_31: "name is not a valid CEL identifier"})
)
_EXCLUSIVE = "name and selector are mutually exclusive"


def policy(obj: Obj, ctx: Context) -> Errors:
    """Check a new or changed ValidatingAdmissionPolicy without its status."""
    errors = _requests(obj["spec"])
    expressions, wrong = _conditions_and_variables(obj["spec"], ctx)
    return errors + wrong + _decisions(obj, expressions)


def mutating_policy(obj: Obj, ctx: Context) -> Errors:
    """Check a new or changed MutatingAdmissionPolicy (upstream: `validateMutatingAdmissionPolicySpec`)."""
    spec = obj["spec"]
    errors = _requests(spec)
    errors += _mutable(spec.get("matchConstraints") or {}, _SPEC.child("matchConstraints"))
    expressions, wrong = _conditions_and_variables(spec, ctx)
    errors += wrong
    mutations, path = spec.get("mutations") or [], _SPEC.child("mutations")
    if not mutations:
        errors.append(required(path, "mutations must contain at least one item"))
    for i, mutation in enumerate(mutations):
        errors += _mutation(mutation, path.index(i), expressions)
    path = _SPEC.child("reinvocationPolicy")
    return errors + choice(spec.get("reinvocationPolicy", ""), matching.REINVOCATIONS, path, needed=True)


def _requests(spec: Obj) -> Errors:
    """Check which requests a policy is about, and what becomes of them if it fails."""
    errors = choice(spec.get("failurePolicy", ""), matching.POLICIES["failurePolicy"], _SPEC.child("failurePolicy"))
    if spec.get("paramKind") is not None:
        errors += _param_kind(spec["paramKind"], _SPEC.child("paramKind"))
    match, where = spec.get("matchConstraints"), _SPEC.child("matchConstraints")
    if match is None:
        return [*errors, required(where)]
    errors += matching.resources(match, where)
    return errors if match.get("resourceRules") else [*errors, required(where.child("resourceRules"))]


def _mutable(match: Obj, path: Path) -> Errors:
    """Check that only requests are meant that can be changed."""
    operations = [operation for rule in match.get("resourceRules") or () for operation in rule.get("operations") or ()]
    where = path.child("resourceRules", "operations")
    return [error for operation in operations for error in choice(operation, _MUTABLE, where)]


def _conditions_and_variables(spec: Obj, ctx: Context) -> tuple[Expressions, Errors]:
    """Return the environment of a policy's further expressions, and what is wrong with its conditions and variables."""
    expressions = Expressions(ctx.release, params=spec.get("paramKind") is not None)
    errors = matching.conditions(spec.get("matchConditions") or [], _SPEC.child("matchConditions"), expressions)
    for i, variable in enumerate(spec.get("variables") or ()):
        expressions, wrong = _variable(variable, _SPEC.child("variables").index(i), expressions)
        errors += wrong
    return expressions, errors


# The field with the expression of a mutation, and the type of its result, by its patch type.
PATCHES = {"ApplyConfiguration": ("applyConfiguration", "Object"), "JSONPatch": ("jsonPatch", "list(JSONPatch)")}


def _mutation(mutation: Obj, path: Path, expressions: Expressions) -> Errors:
    """Check one mutation (upstream: `validateMutation`)."""
    kind = mutation.get("patchType", "")
    errors = choice(kind, tuple(PATCHES), path.child("patchType"), needed=True)
    if errors:
        return errors
    own, result = PATCHES[kind]
    (other,) = (name for name, _ in PATCHES.values() if name != own)
    patch = mutation.get(own)
    if patch is None:
        errors.append(required(path.child(own), f"must be specified when patchType is {kind}"))
    elif not (expression := patch.get("expression", "").strip()):
        errors.append(required(path.child(own, "expression")))
    else:
        errors += expressions.check(expression, path.child(own, "expression"), (result,), patch_types=True)
    if mutation.get(other) is not None:
        text = f"must not be specified when patchType is {kind}"
        errors.append(invalid(path.child(other), f"{{{other}}}", text))
    return errors


def _param_kind(param_kind: Obj, path: Path) -> Errors:
    errors, name = _api_version(param_kind.get("apiVersion", ""), path.child("apiVersion")), param_kind.get("kind", "")
    return errors + (kind(name, path.child("kind")) if name else [required(path.child("kind"))])


def _api_version(text: str, path: Path) -> Errors:
    if not text:
        return [required(path)]
    if text.count("/") > 1:
        return [invalid(path, text, f"unexpected GroupVersion string: {text}")]
    group, _, version = text.rpartition("/")
    errors: Errors = []
    for part, texts in ((group, dns_subdomain_texts), (version, dns_1035_label_texts)):
        errors += invalid_text(texts(part), part, path) if part else []
    return errors if version else [*errors, invalid(path, text, "version must be specified")]


def _variable(variable: Obj, path: Path, expressions: Expressions) -> tuple[Expressions, Errors]:
    """Return the environment for the expressions after a variable, and the errors of the variable."""
    name, expression, errors = variable.get("name", ""), variable.get("expression", ""), []
    if expressions.composed is None:
        expressions = replace(expressions, composed=())
    if not name.strip():
        errors.append(required(path.child("name"), "name is not specified"))
    elif not _IDENTIFIER.fullmatch(name) or _RESERVED.fullmatch(name):
        errors.append(invalid(path.child("name"), name, _NO_IDENTIFIER))
    if not expression.strip():
        return expressions, [*errors, required(path.child("expression"), "expression is not specified")]
    errors += expressions.check(expression, path.child("expression"), ())
    return expressions.with_variable(name, expression), errors


def _decisions(obj: Obj, expressions: Expressions) -> Errors:
    """Check the validations and audit annotations of a policy."""
    validations, annotations = (obj["spec"].get(name) or [] for name in ("validations", "auditAnnotations"))
    if not validations and not annotations:
        text = "validations or auditAnnotations must contain at least one item"
        return [required(_SPEC.child(name), text) for name in ("validations", "auditAnnotations")]
    errors: Errors = []
    for i, validation in enumerate(validations):
        errors += _validation(validation, _SPEC.child("validations").index(i), expressions)
    path = _SPEC.child("auditAnnotations")
    if len(annotations) > MOST_ANNOTATIONS:
        bad_value = Typed(annotations, f"[]{_GO}.AuditAnnotation")
        errors.append(invalid(path, bad_value, f"must not have more than {MOST_ANNOTATIONS} auditAnnotations"))
    keys = [annotation.get("key", "") for annotation in annotations]
    for i, annotation in enumerate(annotations):
        errors += _annotation(annotation, obj["metadata"].get("name", ""), path.index(i), expressions)
        if keys[i] in keys[:i]:
            errors.append(duplicate(path.index(i).child("key"), keys[i]))
    return errors


def _validation(validation: Obj, path: Path, expressions: Expressions) -> Errors:
    expression, message_expression = (validation.get(name, "") for name in ("expression", "messageExpression"))
    where = path.child("expression")
    if expression.strip():
        errors = expressions.check(expression, where)
    else:
        errors = [required(where, "expression is not specified")]
    where = path.child("messageExpression")
    if message_expression.strip():
        errors += expressions.check(message_expression, where, ("string",), authorizer=False)
    elif message_expression:
        errors.append(invalid(where, message_expression, "must be non-empty if specified"))
    errors += message(validation.get("message", ""), path.child("message"))
    reason = validation.get("reason")
    return errors + ([] if reason is None else choice(reason, _REASONS, path.child("reason")))


def _annotation(annotation: Obj, name: str, path: Path, expressions: Expressions) -> Errors:
    key, expression, where = annotation.get("key", ""), annotation.get("valueExpression", ""), path.child("key")
    if name:
        errors = qualified(f"{name}/{key}", where)
    else:
        errors = [invalid(where, key, "requires metadata.name be non-empty")]
    trimmed, where = expression.strip(), path.child("valueExpression")
    if not trimmed:
        return [*errors, required(where, "valueExpression is not specified")]
    if size(trimmed) > ANNOTATION_LENGTH:
        return [*errors, required(where, f"must not exceed {ANNOTATION_LENGTH} bytes in length")]
    return errors + expressions.check(trimmed, where, ("string", "null_type"), original=expression)


def status(obj: Obj, old: Obj, ctx: Context) -> Errors:
    """Check the warnings of the type checker, and conditions."""
    written, path = obj.get("status") or {}, Path("status")
    warnings = (written.get("typeChecking") or {}).get("expressionWarnings") or ()
    errors: Errors = []
    for i, warning in enumerate(warnings):
        where = path.child("typeChecking", "expressionWarnings").index(i)
        errors += [] if warning.get("warning") else [required(where.child("warning"))]
        errors += [] if warning.get("fieldRef", "").strip() else [required(where.child("fieldRef"))]
    return errors + conditions.validate(written.get("conditions") or [], path.child("conditions"))


def binding(obj: Obj, ctx: Context) -> Errors:
    """Check a ValidatingAdmissionPolicyBinding."""
    spec = obj["spec"]
    errors = _bound(spec, _SPEC.child(_MATCH_RESOURCES[ctx.release]))
    return errors + _actions(spec.get("validationActions") or [], _SPEC.child("validationActions"))


def mutating_binding(obj: Obj, ctx: Context) -> Errors:
    """Check a MutatingAdmissionPolicyBinding."""
    spec, path = obj["spec"], _SPEC.child("matchResources")
    return _bound(spec, path) + _mutable(spec.get("matchResources") or {}, path)


def _bound(spec: Obj, match_resources: Path) -> Errors:
    """Check the policy of a binding, its parameters and its resources."""
    name, path = spec.get("policyName", ""), _SPEC.child("policyName")
    errors = invalid_texts(subdomain_name(name, False), name, path) if name else [required(path)]
    if spec.get("paramRef") is not None:
        errors += _param_ref(spec["paramRef"], _SPEC.child("paramRef"))
    return errors + matching.resources(spec.get("matchResources"), match_resources)


def _param_ref(ref: Obj, path: Path) -> Errors:
    name, selector, action = ref.get("name", ""), ref.get("selector"), ref.get("parameterNotFoundAction")
    errors = invalid_texts(path_segment_name(name, False), name, path.child("name")) if name else []
    both = bool(name) and selector is not None
    errors += [forbidden(path.child("name"), _EXCLUSIVE)] if both else []
    errors += label_selectors.validate(selector, path.child("selector"))
    errors += [forbidden(path.child("selector"), _EXCLUSIVE)] if both else []
    if not name and selector is None:
        errors.append(required(path, "one of name or selector must be specified"))
    if not action:
        return [*errors, required(path.child("parameterNotFoundAction"))]
    if action in _NOT_FOUND_ACTIONS:
        return errors
    return [*errors, not_supported(path.child("parameterNotFoundAction"), action, _NOT_FOUND_ACTIONS)]


def _actions(actions: list[str], path: Path) -> Errors:
    errors: Errors = []
    for i, action in enumerate(actions):
        errors += choice(action, _ACTIONS, path.index(i))
        if action in actions[:i]:
            errors.append(duplicate(path.index(i), action))
    if {"Deny", "Warn"} <= set(actions):
        text = (
            "must not contain both Deny and Warn (repeating the same validation failure information in the API "
            "response and headers serves no purpose)"
        )
        errors.append(invalid(path, Typed(actions, f"[]{_GO}.ValidationAction"), text))
    return errors if actions else [*errors, required(path, "at least one validation action is required")]
