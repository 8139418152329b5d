"""Validation of flow schemas and priority levels. The mandatory ones, named "exempt" and "catch-all", are fixed."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence

from understudy.kinds.common.compose import Check
from understudy.kinds.common.formats import invalid_texts
from understudy.kinds.context import Context
from understudy.machinery.releases.version import V1_31, V1_34, V1_36, ByRelease, Version
from understudy.machinery.types import Obj
from understudy.machinery.validation.bad_values import TextByRelease, Typed
from understudy.machinery.validation.field import Errors, Path, duplicate, forbidden, invalid, not_supported, required
from understudy.machinery.validation.names import label_name, subdomain_name

EXEMPT = "exempt"
PRESERVE_ZERO = "flowcontrol.k8s.io/v1beta3-preserve-zero-concurrency-shares"
HIGHEST_PRECEDENCE = 10_000
MOST_QUEUES = 10_000_000
HASH_BITS = 60  # bits of the hash that shuffle sharding deals hands with

_SPEC, _STATUS = Path("spec"), Path("status")
_GO = "k8s.io/kubernetes/pkg/apis/flowcontrol"
_METHODS, _SUBJECTS = ("ByNamespace", "ByUser"), ("Group", "ServiceAccount", "User")
_VERBS = ("create", "delete", "deletecollection", "get", "list", "patch", "proxy", "update", "watch")
_BRANCHES = {"ServiceAccount": "serviceAccount", "User": "user", "Group": "group"}
_POSITIVE, _NOT_NEGATIVE = "must be positive", "must be a non-negative integer"
_EMPTY = TextByRelease(ByRelease({V1_34: "", V1_31: "must not be empty"}))
_ONLY_EXEMPT = TextByRelease(
    ByRelease(
        {
            V1_34: "must be 'Exempt' if and only if `name` is 'exempt'",
            V1_31: "type must be 'Exempt' if and only if name is 'exempt'",
        }
    )
)


def schema(mandatory: Mapping[str, Obj]) -> Check:
    """Make the rule for flow schemas. `mandatory`: the specs that cannot be changed, by name."""

    def validate(obj: Obj, ctx: Context) -> Errors:
        name, spec = obj["metadata"].get("name", ""), obj["spec"]
        errors = _schema(name, spec)
        if name in mandatory and _without_empty(spec) != _without_empty(mandatory[name]):
            bad_value = Typed(spec, f"{_GO}.FlowSchemaSpec")
            errors.append(invalid(_SPEC, bad_value, f"spec of '{name}' must equal the fixed value"))
        return errors + conditions(obj, ctx)

    return validate


def _without_empty(value: object) -> object:
    """Remove empty lists and false values, which compare as absent."""
    if isinstance(value, dict):
        return {key: _without_empty(item) for key, item in value.items() if item not in (None, [], False)}
    return [_without_empty(item) for item in value] if isinstance(value, list) else value


def conditions(obj: Obj, ctx: Context) -> Errors:
    """Check the status of a flow schema or priority level."""
    errors: Errors = []
    types = [condition.get("type", "") for condition in (obj.get("status") or {}).get("conditions") or ()]
    for i, kind in enumerate(types):
        path = _STATUS.child("conditions").index(i).child("type")
        if kind in types[:i]:
            errors.append(duplicate(path, kind))
        if not kind:
            errors.append(required(path, _EMPTY))
    return errors


def _schema(name: str, spec: Obj) -> Errors:
    errors: Errors = []
    precedence, path = spec.get("matchingPrecedence", 0), _SPEC.child("matchingPrecedence")
    checks = (
        (precedence <= 0, "must be a positive value"),
        (precedence > HIGHEST_PRECEDENCE, f"must not be greater than {HIGHEST_PRECEDENCE}"),
        (precedence == 1 and name != EXEMPT, "only the schema named 'exempt' may have matchingPrecedence 1"),
    )
    errors += [invalid(path, precedence, text) for wrong, text in checks if wrong]
    method = spec.get("distinguisherMethod")
    if method is not None and method.get("type") not in _METHODS:
        bad_value = Typed(method, f"{_GO}.FlowDistinguisherMethod")
        errors.append(not_supported(_SPEC.child("distinguisherMethod", "type"), bad_value, _METHODS))
    level, path = (spec.get("priorityLevelConfiguration") or {}).get("name"), _SPEC.child("priorityLevelConfiguration")
    if level:
        errors += invalid_texts(subdomain_name(level, False), level, path.child("name"))
    else:
        errors.append(required(path.child("name"), "must reference a priority level"))
    for i, rule in enumerate(spec.get("rules") or ()):
        errors += _rule(rule, _SPEC.child("rules").index(i))
    return errors


def _rule(rule: Obj, path: Path) -> Errors:
    subjects, where = rule.get("subjects") or [], path.child("subjects")
    errors: Errors = [] if subjects else [required(where, "subjects must contain at least one value")]
    for i, subject in enumerate(subjects):
        errors += _subject(subject, where.index(i))
    if not rule.get("resourceRules") and not rule.get("nonResourceRules"):
        errors.append(required(path, "at least one of resourceRules and nonResourceRules has to be non-empty"))
    for i, part in enumerate(rule.get("resourceRules") or ()):
        errors += _resources(part, path.child("resourceRules").index(i))
    for i, part in enumerate(rule.get("nonResourceRules") or ()):
        errors += _urls(part, path.child("nonResourceRules").index(i))
    return errors


def _subject(subject: Obj, path: Path) -> Errors:
    kind = subject.get("kind", "")
    if kind not in _BRANCHES:
        return [not_supported(path.child("kind"), kind, _SUBJECTS)]
    name = _BRANCHES[kind]
    errors = _named(subject.get(name), kind, path.child(name))
    for other, field in _BRANCHES.items():
        if other != kind and subject.get(field) is not None:
            text = f"{field} is forbidden when subject kind is not '{other}'"
            errors.append(forbidden(path.child(field), text))
    return errors


def _named(subject: Obj | None, kind: str, path: Path) -> Errors:
    if subject is None:
        return [required(path, f"{_BRANCHES[kind]} is required when subject kind is '{kind}'")]
    name, namespace = subject.get("name"), subject.get("namespace")
    errors = [] if name else [required(path.child("name"))]
    if kind != "ServiceAccount":
        return errors
    if name and name != "*":
        errors += invalid_texts(subdomain_name(name, False), name, path.child("name"))
    if not namespace:
        return [*errors, required(path.child("namespace"), "must specify namespace for service account")]
    return errors + invalid_texts(label_name(namespace, False), namespace, path.child("namespace"))


def _alone(values: Sequence[str], what: str, path: Path) -> Errors:
    """Check that "*", which means all, stands for itself."""
    if "*" not in values or len(values) == 1:
        return []
    return [invalid(path, Typed(values, "[]string"), f"if '*' is present, must not specify other {what}")]


def _verbs(rule: Obj, path: Path) -> Errors:
    verbs, path = rule.get("verbs") or [], path.child("verbs")
    if not verbs:
        return [required(path, "verbs must contain at least one value")]
    if "*" in verbs:
        return _alone(verbs, "verbs", path)
    return [] if set(verbs) <= set(_VERBS) else [not_supported(path, Typed(verbs, "[]string"), _VERBS)]


def _resources(rule: Obj, path: Path) -> Errors:
    errors = _verbs(rule, path)
    for name, what in (("apiGroups", "api group"), ("resources", "resource")):
        values = rule.get(name) or []
        if not values:
            errors.append(required(path.child(name), f"resource rules must supply at least one {what}"))
        errors += _alone(values, f"{what}s", path.child(name))
    namespaces, path = rule.get("namespaces") or [], path.child("namespaces")
    if not namespaces and not rule.get("clusterScope"):
        text = "resource rules that are not cluster scoped must supply at least one namespace"
        return [*errors, required(path, text)]
    if "*" in namespaces:
        return errors + _alone(namespaces, "namespaces", path)
    about = "each member of this list must be '*' or a DNS-1123 label; "
    for i, namespace in enumerate(namespaces):
        errors += [invalid(path.index(i), namespace, about + text) for text in label_name(namespace, False)]
    return errors


def _urls(rule: Obj, path: Path) -> Errors:
    errors, urls, path = _verbs(rule, path), rule.get("nonResourceURLs") or [], path.child("nonResourceURLs")
    if not urls:
        return [*errors, required(path, "nonResourceURLs must contain at least one value")]
    if "*" in urls:
        return errors + _alone(urls, "non-resource URLs", path)
    texts = enumerate(map(_wrong_url, urls))
    return errors + [invalid(path.index(i), urls[i], text) for i, text in texts if text]


def _wrong_url(url: str) -> str:
    """Return the error of a path, "" for a good one."""
    checks = (
        (not url, "must not be empty"),
        (not url.startswith("/"), "must start with slash"),
        (" " in url, "must not contain white-space"),
        ("//" in url, "must not contain double slash"),
        ("*" in url.removesuffix("/*"), "wildcard can only do suffix matching"),
    )
    return next((text for wrong, text in checks if wrong), "")


def level(mandatory: Mapping[str, Obj]) -> Check:
    """Make the rule for priority levels. `mandatory`: specs that cannot be changed, by name."""

    def validate(obj: Obj, ctx: Context) -> Errors:
        name, spec = obj["metadata"].get("name", ""), obj["spec"]
        errors: Errors = []
        if PRESERVE_ZERO in (obj["metadata"].get("annotations") or {}):
            text = f"annotation '{PRESERVE_ZERO}' is forbidden"
            errors.append(forbidden(Path("metadata", "annotations"), text))
        errors += _level(name, spec, ctx.release)
        if name in mandatory and not _same_level(name, spec, mandatory[name]):
            but = " except the 'spec.exempt' field" if name == EXEMPT else ""
            bad_value = Typed(spec, f"{_GO}.PriorityLevelConfigurationSpec")
            errors.append(invalid(_SPEC, bad_value, f"spec of '{name}'{but} must equal the fixed value"))
        return errors + conditions(obj, ctx)

    return validate


def _same_level(name: str, spec: Obj, fixed: Obj) -> bool:
    return spec | {"exempt": fixed["exempt"]} == fixed if name == EXEMPT else spec == fixed


def _level(name: str, spec: Obj, version: Version) -> Errors:
    kind, limited, exempt = spec.get("type", ""), spec.get("limited"), spec.get("exempt")
    errors: Errors = []
    if (name == EXEMPT) != (kind == "Exempt"):
        errors.append(invalid(_SPEC.child("type"), kind, _ONLY_EXEMPT))
    if kind == "Exempt":
        if limited is not None:
            errors.append(forbidden(_SPEC.child("limited"), "must be nil if the type is not Limited"))
        return errors + (_shares(exempt, _SPEC.child("exempt")) if exempt is not None else [])
    if kind != "Limited":
        return errors + _unknown(kind, ("Exempt", "Limited"), _SPEC.child("type"), version)
    if exempt is not None:
        errors.append(forbidden(_SPEC.child("exempt"), "must be nil if the type is Limited"))
    if limited is None:
        return [*errors, required(_SPEC.child("limited"), "must not be empty when type is Limited")]
    return errors + _limited(limited, _SPEC.child("limited"), version)


def _shares(shares: Obj, path: Path) -> Errors:
    """Check the shares that a level has and lends."""
    return _number(shares, "nominalConcurrencyShares", path) + _lent(shares, path)


def _number(parent: Obj, name: str, path: Path, text: str = _NOT_NEGATIVE) -> Errors:
    number = parent.get(name)
    return [invalid(path.child(name), number, text)] if number is not None and number < 0 else []


def _lent(shares: Obj, path: Path) -> Errors:
    percent = shares.get("lendablePercent")
    if percent is None or 0 <= percent <= 100:
        return []
    return [invalid(path.child("lendablePercent"), percent, "must be between 0 and 100, inclusive")]


def _unknown(kind: str, known: Sequence[str], path: Path, version: Version) -> Errors:
    """Refuse a type that is not known. One that is empty is missing, since 1.36."""
    return [not_supported(path, kind, known)] if kind or version < V1_36 else [required(path)]


def _limited(limited: Obj, path: Path, version: Version) -> Errors:
    errors = _number(limited, "nominalConcurrencyShares", path)
    errors += _response(limited.get("limitResponse") or {}, path.child("limitResponse"), version)
    errors += _lent(limited, path)
    return errors + _number(limited, "borrowingLimitPercent", path, f"if specified, {_NOT_NEGATIVE}")


def _response(response: Obj, path: Path, version: Version) -> Errors:
    kind, queuing, where = response.get("type", ""), response.get("queuing"), path.child("queuing")
    about = "if limited.limitResponse.type is"
    match kind:
        case "Reject":
            return [] if queuing is None else [forbidden(where, f"must be nil {about} not Limited")]
        case "Queue":
            return _queuing(queuing, where) if queuing else [required(where, f"must not be empty {about} Limited")]
    return _unknown(kind, ("Queue", "Reject"), path.child("type"), version)


def _queuing(queuing: Obj, path: Path) -> Errors:
    queues, hand, most = (queuing.get(name, 0) for name in ("queues", "handSize", "queueLengthLimit"))
    errors = [invalid(path.child("queueLengthLimit"), most, _POSITIVE)] if most <= 0 else []
    if queues <= 0:
        errors.append(invalid(path.child("queues"), queues, _POSITIVE))
    elif queues > MOST_QUEUES:
        errors.append(invalid(path.child("queues"), queues, f"must not be greater than {MOST_QUEUES}"))
    wrong = _wrong_hand(hand, queues)
    return [*errors, invalid(path.child("handSize"), hand, wrong)] if wrong else errors


def _wrong_hand(hand: int, queues: int) -> str:
    if hand <= 0:
        return _POSITIVE
    if hand > queues:
        return f"should not be greater than queues ({queues})"
    if math.ceil(math.log2(queues) * hand) > HASH_BITS:
        about = f"required entropy bits of deckSize {queues} and handSize {hand}"
        return f"{about} should not be greater than {HASH_BITS}"
    return ""
