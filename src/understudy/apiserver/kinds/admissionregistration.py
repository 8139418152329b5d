"""Admission webhooks' configurations, admission policies and their bindings."""

from __future__ import annotations

from copy import deepcopy
from typing import Any

from understudy.admission.context import Context
from understudy.admission.validation.admissionregistration import policies, webhooks
from understudy.admission.validation.compose import Check, as_on_create
from understudy.admission.validation.objectmeta import PLAIN
from understudy.apiserver.kinds.common import METADATA_RESET, RESET_FOR_STATUS, keep_metadata, main, status
from understudy.apiserver.kinds.printers import UNSET, count, field, row
from understudy.apiserver.registry.kind import Behavior, Strategy
from understudy.machinery.releases.version import Version
from understudy.machinery.types import Obj, at, set_absent

GROUP = "admissionregistration.k8s.io"
WEBHOOK: dict[str, Any] = {
    "failurePolicy": "Fail",
    "matchPolicy": "Equivalent",
    "namespaceSelector": {},
    "objectSelector": {},
    "timeoutSeconds": 10,
}
MATCH_RESOURCES: dict[str, Any] = {"matchPolicy": "Equivalent", "namespaceSelector": {}, "objectSelector": {}}


def _fill(obj: Obj, defaults: dict[str, Any]) -> None:
    for key, value in defaults.items():
        set_absent(obj, key, deepcopy(value))


def _default_webhooks(configuration: Obj, more: dict[str, Any]) -> None:
    for webhook in configuration.get("webhooks") or []:
        _fill(webhook, WEBHOOK | more)
        service_port(at(webhook, "clientConfig", "service"))
        for rule in webhook.get("rules") or []:
            set_absent(rule, "scope", "*")


def service_port(service: Obj | None) -> None:
    """A reference to a webhook's service means its HTTPS port."""
    if service is not None:
        set_absent(service, "port", 443)


def _default_matches(matches: Obj | None) -> None:
    if matches is not None:
        _fill(matches, MATCH_RESOURCES)
        for key in ("resourceRules", "excludeResourceRules"):
            for rule in matches.get(key) or []:
                set_absent(rule, "scope", "*")


def _default_policy(policy: Obj, ctx: Context) -> None:
    spec = policy.setdefault("spec", {})
    set_absent(spec, "failurePolicy", "Fail")
    _default_matches(spec.get("matchConstraints"))


def _default_binding(binding: Obj, ctx: Context) -> None:
    _default_matches(at(binding, "spec", "matchResources"))


def _param_kind(policy: Obj) -> str:
    kind = at(policy, "spec", "paramKind")
    return UNSET if kind is None else f"{kind.get('apiVersion', '')}/{kind.get('kind', '')}"


def _param(binding: Obj) -> str:
    ref = at(binding, "spec", "paramRef")
    if ref is None:
        return UNSET
    if ref.get("name"):
        return f"{ref.get('namespace') or '*'}/{ref['name']}"
    return UNSET if ref.get("selector") is None else _printed(ref["selector"])


def _printed(selector: Obj) -> str:
    """A LabelSelector as its String method has it."""
    chosen = "".join(f"{key}: {value}," for key, value in sorted((selector.get("matchLabels") or {}).items()))
    terms = "".join(
        f"LabelSelectorRequirement{{Key:{e['key']},Operator:{e['operator']},"
        f"Values:[{' '.join(e.get('values') or [])}],}},"
        for e in selector.get("matchExpressions") or []
    )
    expressions = f"MatchExpressions:[]LabelSelectorRequirement{{{terms}}}"
    return f"&LabelSelector{{MatchLabels:map[string]string{{{chosen}}},{expressions},}}"


def _rules_of_webhooks(more: dict[str, Any]) -> Behavior:
    return Behavior(
        defaults=lambda configuration, ctx: _default_webhooks(configuration, more),
        strategy=Strategy(
            validate_metadata=PLAIN.created,
            validate=webhooks.configuration,
            validate_update=as_on_create(PLAIN.created, webhooks.configuration),
            generation=True,
            unconditional_update=False,
        ),
        table_row=row(count("webhooks")),
    )


def _shared(check: Check) -> dict[str, Any]:
    """What policies and bindings have in common."""
    return {
        "validate_metadata": PLAIN.created,
        "validate": check,
        "validate_update": as_on_create(PLAIN.created, check),
        "generation": True,
        "unconditional_update": False,
    }


def behaviors(release: Version) -> dict[tuple[str, str], Behavior]:
    """By (group, kind)."""
    return {
        (GROUP, "ValidatingWebhookConfiguration"): _rules_of_webhooks({}),
        (GROUP, "MutatingWebhookConfiguration"): _rules_of_webhooks({"reinvocationPolicy": "Never"}),
        (GROUP, "ValidatingAdmissionPolicy"): Behavior(
            defaults=_default_policy,
            strategy=main(GROUP, "v1", "ValidatingAdmissionPolicy", **_shared(policies.policy)),
            status=status(
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
    }
