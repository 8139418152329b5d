"""Reads and checks audit policies, with the errors of kube-apiserver.

Upstream: k8s.io/apiserver/pkg/audit/policy (`LoadPolicyFromFile`) and k8s.io/apiserver/pkg/apis/audit/validation.
"""

from __future__ import annotations

import logging
import os
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from understudy.apiserver.permissions.audit.policy import LEVELS, STAGES, Policy, RequestAudit, Rule
from understudy.machinery.golang.text import go_quote
from understudy.machinery.golang.yaml_reader import YAMLError, load_yaml
from understudy.machinery.types import Obj
from understudy.machinery.validation.names import subdomain_name

log = logging.getLogger("understudy")

API_VERSION = "audit.k8s.io/v1"
BOTH = "rules cannot apply to both regular resources and non-resource URLs"


def load_policy(path: Path) -> Policy:
    """Read a policy. Raises ValueError with the text of kube-apiserver."""
    prefix = "loading audit policy file"
    try:
        text = path.read_text()
    except OSError as why:
        reason = (why.strerror or str(why)).lower()
        raise ValueError(f'{prefix}: failed to read file path "{path}": open {path}: {reason}') from None
    try:
        return parse_policy(text)
    except ValueError as why:
        raise ValueError(f"{prefix}: {why}: from file {path}") from None


def policy_of(given: str | os.PathLike[str] | Obj) -> Policy:
    """Return the policy of a file, of a level for every request ("Metadata"), or of an object, which need not say that
    it is a Policy. Raises ValueError, for fields that it does not know as well."""
    if isinstance(given, str) and given in LEVELS:
        given = {"rules": [{"level": given}]}
    if not isinstance(given, Mapping):
        return load_policy(Path(given))
    policy = {"apiVersion": API_VERSION, "kind": "Policy", **given}
    _check_type(policy)
    if unknown := [*_unknown_fields(policy)]:
        raise ValueError(", ".join(unknown))
    return _checked(policy)


def parse_policy(text: str) -> Policy:
    """Parse a policy (`LoadPolicyFromBytes`). Raises ValueError; a field that is unknown or twice there is told of."""
    return _checked(_decoded(text))


def _checked(policy: Obj) -> Policy:
    """Return the policy of an object whose values have the right types. Raises ValueError."""
    if problems := [*_problems(policy)]:
        raise ValueError(problems[0] if len(problems) == 1 else f"[{', '.join(problems)}]")
    if not policy.get("rules"):
        raise ValueError("loaded illegal policy with 0 rules")
    omitted, without_fields = policy.get("omitStages") or (), bool(policy.get("omitManagedFields"))
    return Policy([_rule(rule, omitted, without_fields) for rule in policy["rules"]])


def _decoded(text: str) -> Obj:
    try:
        document = next(iter(load_yaml(text)), None)
    except YAMLError as why:
        raise ValueError(f"failed decoding: {why}") from None
    policy = document.value if document is not None else None
    if not isinstance(policy, dict) or not policy.get("kind"):
        raise ValueError(f"failed decoding: Object 'Kind' is missing in '{text}'")
    if not policy.get("apiVersion"):
        raise ValueError(f"unknown group version field audit.k8s.io/__internal, Kind={policy['kind']} in policy")
    _check_type(policy)
    strict = [*(document.duplicates if document else ()), *_unknown_fields(policy)]
    if strict:
        log.warning(
            "Audit policy contains errors, falling back to lenient decoding: strict decoding error: %s",
            ", ".join(strict),
        )
    return policy


def _check_type(policy: Obj) -> None:
    """Raise ValueError for an object that is no policy, or has values of wrong types."""
    kind, version = policy["kind"], policy["apiVersion"]
    if (version, kind) != (API_VERSION, "Policy"):
        scheme = 'in scheme "k8s.io/apiserver/pkg/audit/scheme.go:30"'
        raise ValueError(f'failed decoding: no kind "{kind}" is registered for version "{version}" {scheme}')
    if wrong := _misplaced(policy):
        raise ValueError(f"failed decoding: {wrong}")


_RULE: dict[str, type] = {
    "level": str,
    "users": list,
    "userGroups": list,
    "verbs": list,
    "resources": list,
    "namespaces": list,
    "nonResourceURLs": list,
    "omitStages": list,
    "omitManagedFields": bool,
}
_POLICY: dict[str, type] = {
    "kind": str,
    "apiVersion": str,
    "metadata": dict,
    "rules": list,
    "omitStages": list,
    "omitManagedFields": bool,
}
_RESOURCES: dict[str, type] = {"group": str, "resources": list, "resourceNames": list}
_GO = {str: "string", list: "[]string", bool: "bool", dict: "v1.ObjectMeta"}


def _parts(policy: Obj) -> Iterator[tuple[str, str, Any, dict[str, type]]]:
    """Yield the structs of a policy: path, Go's name, value and fields."""
    yield "", "Policy", policy, _POLICY
    rules = policy.get("rules")
    for number, rule in enumerate(rules if isinstance(rules, list) else ()):
        yield f"rules[{number}].", "PolicyRule.rules", rule, _RULE
        inner = rule.get("resources") if isinstance(rule, dict) else None
        for index, resources in enumerate(inner if isinstance(inner, list) else ()):
            yield f"rules[{number}].resources[{index}].", "GroupResources.rules.resources", resources, _RESOURCES


def _misplaced(policy: Obj) -> str:
    """Return Go's error about the first value of a wrong type, "" without one."""
    for _, name, struct, fields in _parts(policy):
        struct_name, _, place = name.partition(".")
        if not isinstance(struct, dict):
            return f"json: cannot unmarshal {_json_type(struct)} into Go struct field .{place} of type v1.{struct_name}"
        for field, value in struct.items():
            expected = fields.get(field)
            if expected is None or value is None or isinstance(value, expected):
                continue
            path = ".".join(filter(None, (place, field)))
            kind = {"rules": "[]v1.PolicyRule", "resources": "[]v1.GroupResources"}.get(field, _GO[expected])
            if name.startswith("GroupResources"):
                kind = _GO[expected]
            return (
                f"json: cannot unmarshal {_json_type(value)} into Go struct field {struct_name}.{path} of type {kind}"
            )
    return ""


def _json_type(value: object) -> str:
    for type_, name in ((bool, "bool"), (str, "string"), (dict, "object"), (list, "array")):
        if isinstance(value, type_):
            return name
    return "number"


def _unknown_fields(policy: Obj) -> Iterator[str]:
    for path, _, struct, fields in _parts(policy):
        yield from (f'unknown field "{path}{field}"' for field in struct if field not in fields)


def _rule(rule: Obj, omitted: Sequence[str], without_fields: bool) -> Rule:
    own = rule.get("omitManagedFields")
    stages = frozenset((*omitted, *(rule.get("omitStages") or ())))
    return Rule(
        RequestAudit(LEVELS[rule["level"]], stages, without_fields if own is None else own),
        rule.get("users") or (),
        rule.get("userGroups") or (),
        rule.get("verbs") or (),
        rule.get("resources") or (),
        rule.get("namespaces") or (),
        rule.get("nonResourceURLs") or (),
    )


def _problems(policy: Obj) -> Iterator[str]:
    """Yield the errors of a policy (`ValidatePolicy`)."""
    yield from _stage_problems(policy.get("omitStages") or (), "omitStages")
    for number, rule in enumerate(policy.get("rules") or ()):
        yield from _rule_problems(rule, f"rules[{number}]")


def _rule_problems(rule: Obj, path: str) -> Iterator[str]:
    level = rule.get("level") or ""
    if not level:
        yield f"{path}.level: Required value"
    elif level not in LEVELS:
        supported = ", ".join(f'"{name}"' for name in LEVELS)
        yield f"{path}.level: Unsupported value: {go_quote(level)}: supported values: {supported}"
    urls = rule.get("nonResourceURLs") or ()
    for index, url in enumerate(urls):
        place = f"{path}.nonResourceURLs[{index}]: Invalid value: {go_quote(url)}"
        if url != "*" and not url.startswith("/"):
            yield f"{place}: non-resource URL rules must begin with a '/' character"
        if "*" in url[:-1]:
            yield f"{place}: non-resource URL wildcards '*' must be the final character of the rule"
    yield from _resource_problems(rule.get("resources") or (), f"{path}.resources")
    yield from _stage_problems(rule.get("omitStages") or (), f"{path}.omitStages")
    if urls and (rule.get("resources") or rule.get("namespaces")):
        yield f"{path}.nonResourceURLs: Invalid value: {_go_list(urls)}: {BOTH}"


def _resource_problems(resources: Sequence[Obj], path: str) -> Iterator[str]:
    for each in resources:
        group = each.get("group") or ""
        if group not in ("", "*") and (problems := subdomain_name(group, False)):
            yield f"{path}.group: Invalid value: {go_quote(group)}: {','.join(problems)}"
        if each.get("resourceNames") and not each.get("resources"):
            names = _go_list(each["resourceNames"])
            yield f"{path}.resourceNames: Invalid value: {names}: using resourceNames requires at least one resource"


def _stage_problems(stages: Sequence[str], path: str) -> Iterator[str]:
    for index, stage in enumerate(stages):
        if stage not in STAGES:
            allowed = f"allowed stages are {','.join(STAGES)}"
            yield f"{path}[{index}]: Invalid value: {go_quote(stage)}: {allowed}"


def _go_list(texts: Sequence[str]) -> str:
    return f"[{','.join(map(go_quote, texts))}]"
