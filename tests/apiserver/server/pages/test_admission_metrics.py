"""The metrics of webhooks and policies, as /metrics shows them."""

from __future__ import annotations

import re
from typing import Any

import pytest

from tests.admission.plugins.policy.policies import create, store_policy
from tests.http import send
from understudy import Server
from understudy.machinery.types import Obj

MAPS = "/api/v1/namespaces/default/configmaps"
CONFIG_MAP = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "a"}, "data": {"a": "1"}}
HOOK = 'name="hook.understudy.test",operation="CREATE"'


def samples(server: Server, prefix: str) -> dict[str, str]:
    """Return the samples of metrics whose names begin with a prefix, without the buckets and sums of durations."""
    lines = send(server, "GET", "/metrics").body.decode().splitlines()
    return dict(
        line.rsplit(" ", 1) for line in lines if line.startswith(prefix) and not re.search("_(bucket|sum){", line)
    )


@pytest.mark.parametrize("mutating", [False, True], ids=["validating", "mutating"])
@pytest.mark.parametrize(
    ("judgement", "policy", "code", "error_type"),
    [
        (True, "Fail", 200, None),
        ("not today", "Fail", 403, "no_error"),
        ({"allowed": False, "status": {"code": 777}}, "Ignore", 600, "no_error"),
        (3, "Ignore", 500, None),
        (3, "Fail", 500, "calling_webhook_error"),
        ({"patchType": "x", "patch": ""}, "Fail", 503, "calling_webhook_error"),
    ],
)
def test_calls_of_webhooks(mutating: bool, judgement: Any, policy: str, code: int, error_type: str | None) -> None:
    """Each call is counted under the code of its answer; what refuses a request, and what is ignored, once more."""
    with Server() as server:

        @server.webhook("configmaps", mutating=mutating, failure_policy=policy)
        def hook(request: Obj) -> Any:
            return judgement

        send(server, "POST", MAPS, CONFIG_MAP)
        counted = samples(server, "apiserver_admission_webhook_")
    kind, rejected = "admit" if mutating else "validating", "false" if error_type is None else "true"
    labels = f'{HOOK},rejected="{rejected}",type="{kind}"'
    expected = {
        f"apiserver_admission_webhook_admission_duration_seconds_count{{{labels}}}": "1",
        f'apiserver_admission_webhook_request_total{{code="{code}",{labels}}}': "1",
    }
    if error_type is not None:
        labels = f'error_type="{error_type}",{HOOK},rejection_code="{code}",type="{kind}"'
        expected[f"apiserver_admission_webhook_rejection_count{{{labels}}}"] = "1"
    elif code != 200:
        labels = f'name="hook.understudy.test",type="{kind}"'
        expected[f"apiserver_admission_webhook_fail_open_count{{{labels}}}"] = "1"
    assert counted == expected


def test_a_server_without_webhooks_has_no_metrics_of_them() -> None:
    """Families without samples are left out."""
    with Server() as server:
        send(server, "POST", MAPS, CONFIG_MAP)
        assert "apiserver_admission_webhook" not in send(server, "GET", "/metrics").body.decode()


@pytest.mark.parametrize(
    ("expression", "policy", "actions", "counted"),
    [
        ("true", "Fail", ["Deny"], []),
        ("false", "Fail", ["Deny"], [("deny", "invalid_error")]),
        ("false", "Ignore", ["Warn", "Audit"], [("audit", "invalid_error"), ("warn", "invalid_error")]),
        ("object.data.x == '1'", "Ignore", ["Deny"], [("allow", "invalid_error")]),
    ],
    ids=range(4),
)
def test_checks_of_validating_policies(
    expression: str, policy: str, actions: list[str], counted: list[tuple[str, str]]
) -> None:
    """Count a failed validation under each action of its binding, and an error that the failure policy ignores."""
    with Server() as server:
        spec = {"validations": [{"expression": expression}], "failurePolicy": policy}
        store_policy(server, "a", spec, validationActions=actions)
        create(server, "a", y="1")
        totals = samples(server, "apiserver_validating_admission_policy_check_total")
        durations = samples(server, "apiserver_validating_admission_policy_check_duration_seconds")
    labels = [
        f'enforcement_action="{action}",error_type="{error}",policy="a",policy_binding="a"' for action, error in counted
    ]
    assert totals == {f"apiserver_validating_admission_policy_check_total{{{text}}}": "1" for text in labels}
    assert list(durations.values()) == ["1"] * len(counted)


@pytest.mark.parametrize(("release", "counts"), [("1.33", False), ("1.34", True)])
def test_checks_of_mutating_policies(release: str, counts: bool) -> None:
    """Mutations are counted by the kind of their error, since 1.34."""
    gates = {"MutatingAdmissionPolicy": True}
    with Server(emulated_version=release, feature_gates=gates) as server:
        for name, text in (("good", 'Object{data: {"y": "2"}}'), ("bad", "Object{data: {'y': object.data.z}}")):
            mutation = {"patchType": "ApplyConfiguration", "applyConfiguration": {"expression": text}}
            spec = {"mutations": [mutation], "failurePolicy": "Ignore"}
            store_policy(server, name, spec, "mutating", version="v1alpha1")
            create(server, name, x="1")
        counted = samples(server, "apiserver_mutating_admission_policy_check_total")
    expected = [("invalid_error", "bad"), ("no_error", "good")] if counts else []
    assert list(counted) == [
        f'apiserver_mutating_admission_policy_check_total{{error_type="{error}",policy="{name}",policy_binding="{name}"}}'
        for error, name in expected
    ]


@pytest.mark.parametrize(("release", "code"), [("1.33", 400), ("1.34", 503)])
def test_calls_without_an_answer(release: str, code: int) -> None:
    """A webhook that cannot be reached counts as one that is not available, before 1.34 as a bad request."""
    with Server(emulated_version=release) as server:
        rule = {"apiGroups": [""], "apiVersions": ["v1"], "operations": ["CREATE"], "resources": ["configmaps"]}
        hook = {"name": "hook.understudy.test", "clientConfig": {"url": "https://127.0.0.1:1/"}, "rules": [rule]}
        server.apply(
            {
                "apiVersion": "admissionregistration.k8s.io/v1",
                "kind": "ValidatingWebhookConfiguration",
                "metadata": {"name": "hook"},
                "webhooks": [{**hook, "sideEffects": "None", "admissionReviewVersions": ["v1"]}],
            }
        )
        assert send(server, "POST", MAPS, CONFIG_MAP).status == 500
        counted = samples(server, "apiserver_admission_webhook_request_total")
    labels = f'code="{code}",{HOOK},rejected="true",type="validating"'
    assert counted == {f"apiserver_admission_webhook_request_total{{{labels}}}": "1"}


@pytest.mark.parametrize(
    ("mutating", "type_", "excluded_as"), [(True, "admit", "admit"), (False, "validating", "validate")]
)
@pytest.mark.parametrize(
    ("expression", "errors", "timed", "excluded"),
    [("true", 0, 0, 0), ("false", 0, 1, 1), ("object.data.x == '1'", 1, 1, 1)],
)
def test_match_conditions(
    expression: str, errors: int, timed: int, excluded: int, mutating: bool, type_: str, excluded_as: str
) -> None:
    """Conditions are timed unless they all are true, errors are counted, and webhooks that are not called for them."""
    conditions = [{"name": "c", "expression": expression}]
    with Server() as server:

        @server.webhook("configmaps", mutating=mutating, failure_policy="Ignore", matchConditions=conditions)
        def hook(request: Obj) -> None:
            return None

        spec = {"validations": [{"expression": "true"}], "failurePolicy": "Ignore", "matchConditions": conditions}
        store_policy(server, "a", spec)
        create(server, "a", y="1")
        counted = samples(server, "apiserver_admission_match_condition_")
    labels = f'kind="webhook",{HOOK},type="{type_}"', 'kind="policy",name="a",operation="CREATE",type="validate"'
    prefix = "apiserver_admission_match_condition"
    expected = {f"{prefix}_evaluation_errors_total{{{text}}}": str(errors) for text in labels if errors}
    expected |= {f"{prefix}_evaluation_seconds_count{{{text}}}": str(timed) for text in labels if timed}
    if excluded:
        expected[f'{prefix}_exclusions_total{{kind="webhook",{HOOK},type="{excluded_as}"}}'] = str(excluded)
    assert counted == expected
