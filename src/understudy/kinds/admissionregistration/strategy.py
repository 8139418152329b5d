"""Webhook configurations, admission policies and their bindings: defaults, strategies, table cells."""

from __future__ import annotations

from collections.abc import Mapping
from copy import deepcopy
from typing import Any

from understudy.kinds.admissionregistration import matching, policies, webhooks
from understudy.kinds.common import objectmeta
from understudy.kinds.common.compose import Check, as_on_create
from understudy.kinds.common.objectmeta import PLAIN
from understudy.kinds.common.printers import UNSET, count, field, row
from understudy.kinds.context import Context
from understudy.kinds.declarations.kind import Behavior, Strategy
from understudy.kinds.declarations.strategies import (
    METADATA_RESET,
    RESET_FOR_STATUS,
    keep_metadata,
    resource_strategy,
    status_strategy,
)
from understudy.machinery.releases.version import Version
from understudy.machinery.types import Obj, default_if_nil, nested_field
from understudy.machinery.validation.field import Errors

GROUP = "admissionregistration.k8s.io"
WEBHOOK: dict[str, Any] = {
    "failurePolicy": "Fail",
    "matchPolicy": "Equivalent",
    "namespaceSelector": {},
    "objectSelector": {},
    "timeoutSeconds": 10,
}
MATCH_RESOURCES: dict[str, Any] = {"matchPolicy": "Equivalent", "namespaceSelector": {}, "objectSelector": {}}


def _set_defaults(obj: Obj, defaults: dict[str, Any]) -> None:
    """Set absent fields to copies of their defaults, in place."""
    for key, value in defaults.items():
        default_if_nil(obj, key, deepcopy(value))


def _default_webhooks(configuration: Obj, more: dict[str, Any]) -> None:
    """Set the defaults of the webhooks of a configuration, in place; `more` are defaults of this kind of
    configuration."""
    for webhook in configuration.get("webhooks") or []:
        _set_defaults(webhook, WEBHOOK | more)
        service_port(nested_field(webhook, "clientConfig", "service"))
        for rule in webhook.get("rules") or []:
            default_if_nil(rule, "scope", "*")


def service_port(service: Obj | None) -> None:
    """Set the port of a webhook's service to 443, if it has none."""
    if service is not None:
        default_if_nil(service, "port", 443)


def _default_matches(matches: Obj | None) -> None:
    """Set the defaults of MatchResources, in place."""
    if matches is not None:
        _set_defaults(matches, MATCH_RESOURCES)
        for key in ("resourceRules", "excludeResourceRules"):
            for rule in matches.get(key) or []:
                default_if_nil(rule, "scope", "*")


def _default_policy(policy: Obj, ctx: Context) -> None:
    """Set the defaults of an admission policy, in place."""
    spec = policy.setdefault("spec", {})
    default_if_nil(spec, "failurePolicy", "Fail")
    _default_matches(spec.get("matchConstraints"))


def _default_binding(binding: Obj, ctx: Context) -> None:
    """Set the defaults of a policy binding, in place."""
    param_ref = nested_field(binding, "spec", "paramRef")
    if param_ref is not None and ctx.version == "v1alpha1":
        default_if_nil(param_ref, "parameterNotFoundAction", "Deny")
    _default_matches(nested_field(binding, "spec", "matchResources"))


def _param_kind(policy: Obj) -> str:
    """Return the paramKind cell of a policy: `v1/ConfigMap`."""
    kind = nested_field(policy, "spec", "paramKind")
    return UNSET if kind is None else f"{kind.get('apiVersion', '')}/{kind.get('kind', '')}"


def _param(binding: Obj) -> str:
    """Return the paramRef cell of a binding: `NAMESPACE/NAME`, or its selector."""
    ref = nested_field(binding, "spec", "paramRef")
    if ref is None:
        return UNSET
    if ref.get("name"):
        return f"{ref.get('namespace') or '*'}/{ref['name']}"
    return UNSET if ref.get("selector") is None else _selector_string(ref["selector"])


def _selector_string(selector: Obj) -> str:
    """Return a LabelSelector as its Go method String prints it."""
    chosen = "".join(f"{key}: {value}," for key, value in sorted((selector.get("matchLabels") or {}).items()))
    terms = "".join(
        f"LabelSelectorRequirement{{Key:{e['key']},Operator:{e['operator']},"
        f"Values:[{' '.join(e.get('values') or [])}],}},"
        for e in selector.get("matchExpressions") or []
    )
    expressions = f"MatchExpressions:[]LabelSelectorRequirement{{{terms}}}"
    return f"&LabelSelector{{MatchLabels:map[string]string{{{chosen}}},{expressions},}}"


def _shared(check: Check) -> dict[str, Any]:
    """Return the fields that strategies of these kinds share."""

    def validate(obj: Obj, ctx: Context) -> Errors:
        return check(obj, ctx) + matching.static_name(obj, ctx)

    return {
        "validate_metadata": PLAIN.created,
        "validate": validate,
        "validate_update": as_on_create(PLAIN.created, check),
        "warn_create": matching.warn_of_static_name,
        "warn_update": matching.warn_of_stored_static_name,
        "generation": True,
        "unconditional_update": False,
    }


_CHECKS: Mapping[str, Check] = {
    "ValidatingWebhookConfiguration": webhooks.configuration,
    "MutatingWebhookConfiguration": webhooks.configuration,
    "ValidatingAdmissionPolicy": policies.policy,
    "ValidatingAdmissionPolicyBinding": policies.binding,
    "MutatingAdmissionPolicy": policies.mutating_policy,
    "MutatingAdmissionPolicyBinding": policies.mutating_binding,
}


def validate_manifest(kind: str, obj: Obj, ctx: Context) -> Errors:
    """Check an object of one of these kinds that stands in a file, where it may have a reserved name."""
    metadata = objectmeta.validate(obj["metadata"], namespaced=False, name=objectmeta.PLAIN.name)
    return metadata + _CHECKS[kind](obj, ctx)


def _warn_of_new_webhooks(configuration: Obj, ctx: Context) -> None:
    matching.warn_of_static_name(configuration, ctx)
    matching.warn_of_rules(configuration, ctx)


def _warn_of_webhooks(configuration: Obj, old: Obj, ctx: Context) -> None:
    matching.warn_of_stored_static_name(configuration, old, ctx)
    matching.warn_of_rules(configuration, ctx)


def _rules_of_webhooks(more: dict[str, Any]) -> Behavior:
    return Behavior(
        defaults=lambda configuration, ctx: _default_webhooks(configuration, more),
        strategy=Strategy(
            **_shared(webhooks.configuration)
            | {"warn_create": _warn_of_new_webhooks, "warn_update": _warn_of_webhooks},
            generation_counts_empty=True,
        ),
        table_row=row(count("webhooks")),
    )


def behaviors(version: Version) -> dict[tuple[str, str], Behavior]:
    """Return the behavior of these kinds by (group, kind)."""
    return {
        (GROUP, "ValidatingWebhookConfiguration"): _rules_of_webhooks({}),
        (GROUP, "MutatingWebhookConfiguration"): _rules_of_webhooks({"reinvocationPolicy": "Never"}),
        (GROUP, "ValidatingAdmissionPolicy"): Behavior(
            defaults=_default_policy,
            strategy=resource_strategy(GROUP, "v1", "ValidatingAdmissionPolicy", **_shared(policies.policy)),
            status=status_strategy(
                keep_metadata(*RESET_FOR_STATUS),
                validate_update=policies.status,
                unconditional_update=False,
                reset_fields=METADATA_RESET,
            ),
            table_row=row(count("spec", "validations"), _param_kind),
        ),
        (GROUP, "ValidatingAdmissionPolicyBinding"): Behavior(
            defaults=_default_binding,
            strategy=Strategy(**_shared(policies.binding)),
            table_row=row(field("spec", "policyName"), _param),
        ),
        (GROUP, "MutatingAdmissionPolicy"): Behavior(
            defaults=_default_policy,
            strategy=Strategy(**_shared(policies.mutating_policy)),
            table_row=row(count("spec", "mutations"), _param_kind),
        ),
        (GROUP, "MutatingAdmissionPolicyBinding"): Behavior(
            defaults=_default_binding,
            strategy=Strategy(**_shared(policies.mutating_binding)),
            table_row=row(field("spec", "policyName"), _param),
        ),
    }
