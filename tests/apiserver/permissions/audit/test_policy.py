"""Audit policies: what is refused, and which rule decides."""

from __future__ import annotations

import pytest

from understudy.apiserver.permissions.audit.policy import Level, RequestAudit
from understudy.apiserver.permissions.audit.policy_reader import parse_policy
from understudy.machinery.auth.authorization import Attributes
from understudy.machinery.auth.users import User

HEAD = "apiVersion: audit.k8s.io/v1\nkind: Policy\n"
STAGES = "allowed stages are RequestReceived,ResponseStarted,ResponseComplete,Panic"
LEVELS = '"None", "Metadata", "Request", "RequestResponse"'


@pytest.mark.parametrize(
    ("text", "error"),
    [
        (HEAD, "loaded illegal policy with 0 rules"),
        (
            HEAD + "rules: [{level: Metadat}]",
            f'rules[0].level: Unsupported value: "Metadat": supported values: {LEVELS}',
        ),
        (
            HEAD + "omitStages: [A]\nrules: [{}]",
            f'[omitStages[0]: Invalid value: "A": {STAGES}, rules[0].level: Required value]',
        ),
        (
            HEAD + "rules: [{level: None, nonResourceURLs: [/a*b]}]",
            'rules[0].nonResourceURLs[0]: Invalid value: "/a*b": '
            "non-resource URL wildcards '*' must be the final character of the rule",
        ),
        (
            HEAD + "rules: [{level: None, users: ann}]",
            "failed decoding: json: cannot unmarshal string into Go struct field PolicyRule.rules.users of type "
            "[]string",
        ),
        (HEAD + "rules: {level: [}", "failed decoding: yaml: line 2: did not find expected node content"),
        (
            HEAD.replace("v1", "v1beta1") + "rules: [{level: None}]",
            'failed decoding: no kind "Policy" is registered for version "audit.k8s.io/v1beta1" in scheme '
            '"k8s.io/apiserver/pkg/audit/scheme.go:30"',
        ),
        (
            "kind: Policy\nrules: [{level: None}]",
            "unknown group version field audit.k8s.io/__internal, Kind=Policy in policy",
        ),
    ],
)
def test_wrong_policies_are_refused(text: str, error: str) -> None:
    """Errors are those of kube-apiserver 1.37, as it has printed them."""
    with pytest.raises(ValueError, match=r".") as refused:
        parse_policy(text)
    assert str(refused.value) == error


RULES = """
rules:
- {level: None, users: [ann], verbs: [get]}
- {level: Metadata, userGroups: [devs], namespaces: [a]}
- {level: Request, resources: [{group: "", resources: [pods/*], resourceNames: [p]}]}
- {level: Request, resources: [{group: apps}]}
- {level: Metadata, nonResourceURLs: [/healthz*]}
- {level: RequestResponse, resources: [{group: "*", resources: ["*/status"]}]}
"""
POD = Attributes("", "list", True, "", "v1", "a", "pods")


@pytest.mark.parametrize(
    ("user", "action", "level"),
    [
        ("ann", Attributes("/version", "get"), None),
        ("ann", Attributes("/healthz/ping", "head"), Level.METADATA),
        ("bob", POD, Level.METADATA),
        ("bob", Attributes("", "get", True, "", "v1", "b", "pods", "log", "p"), Level.REQUEST),
        ("bob", Attributes("", "get", True, "", "v1", "b", "pods", "log", "q"), None),
        ("bob", Attributes("", "get", True, "apps", "v1", "b", "deployments"), Level.REQUEST),
        ("bob", Attributes("", "get", True, "batch", "v1", "b", "jobs", "status"), Level.REQUEST_RESPONSE),
        ("bob", Attributes("/version", "get"), None),
    ],
)
def test_first_rule_that_matches_decides(user: str, action: Attributes, level: Level | None) -> None:
    """Rules match users, groups, verbs, namespaces, resources with names, and paths; nothing matched is not logged."""
    audit = parse_policy(HEAD + RULES).evaluate(User(user, ["devs"]), action)
    assert (audit and audit.level) == level


def test_rules_add_to_the_policy() -> None:
    """A rule omits the policy's stages and its own, and managed fields as it says itself, else as the policy does."""
    own = "{level: Metadata, users: [ann], omitStages: [Panic], omitManagedFields: false}"
    policy = parse_policy(
        f"{HEAD}omitStages: [RequestReceived]\nomitManagedFields: true\nrules: [{own}, {{level: Metadata}}]"
    )
    of_ann, of_bob = (policy.evaluate(User(name, []), POD) for name in ("ann", "bob"))
    assert of_ann == RequestAudit(Level.METADATA, frozenset({"RequestReceived", "Panic"}), False)
    assert of_bob == RequestAudit(Level.METADATA, frozenset({"RequestReceived"}), True)
