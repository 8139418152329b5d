"""ValidatingAdmissionPolicy: which requests policies are asked about, what they see, what becomes of their answers."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.admission.plugins.policy.policies import (
    CONFIG_MAPS,
    GROUP,
    RULE,
    config_map,
    constraints,
    create,
    reason,
    store,
    store_policy,
    validations,
)
from tests.http import MERGE_PATCH, send
from understudy import Server
from understudy.machinery.types import Obj

X_IS_1 = "object.data.x == '1'"


@pytest.fixture(scope="module")
def server() -> Iterator[Server]:
    with Server(emulated_version="1.36") as running:
        yield running


def test_a_policy_refuses_what_its_expression_is_not_true_for(server: Server) -> None:
    """A refusal is a 422 that names policy, binding and expression."""
    store_policy(server, "refusal", {"validations": validations(X_IS_1)})
    assert create(server, "refusal", x="1").status == 201
    refused = create(server, "refusal", x="2").json()
    message = (
        "ValidatingAdmissionPolicy 'refusal' with binding 'refusal' denied request: "
        "failed expression: object.data.x == '1'"
    )
    assert refused == {
        "kind": "Status",
        "apiVersion": "v1",
        "metadata": {},
        "status": "Failure",
        "message": f'configmaps "c" is forbidden: {message}',
        "reason": "Invalid",
        "details": {"name": "c", "kind": "configmaps", "causes": [{"message": message}]},
        "code": 422,
    }


def test_lists_that_were_sent_empty_are_no_nulls(server: Server) -> None:
    """An expression sees a list that was sent empty, which is stored and answered as null."""
    rule = {**RULE, "apiGroups": ["rbac.authorization.k8s.io"], "resources": ["clusterroles"]}
    spec = {"matchConstraints": constraints("empty", resourceRules=[rule])}
    store_policy(server, "empty", {**spec, "validations": validations("object.rules.size() == 0")})
    role = {"metadata": {"name": "empty", "labels": {"case": "empty"}}, "rules": []}
    assert send(server, "POST", "/apis/rbac.authorization.k8s.io/v1/clusterroles", role).status == 201


def test_audit_annotations_have_no_authorizer(server: Server) -> None:
    """An audit annotation that asks for rights compiles, but fails, and so refuses the request whatever the action."""
    annotation = {"key": "k", "valueExpression": "authorizer.requestResource.check('list').error()"}
    spec = {"auditAnnotations": [annotation]}
    store_policy(server, "annotated", spec, validationActions=["Audit"])
    expression = annotation["valueExpression"]
    why = f"expression '{expression}' resulted in error: no such attribute(s): authorizer.requestResource"
    assert reason(create(server, "annotated")) == why


def test_a_policy_takes_effect_and_ends_at_once(server: Server) -> None:
    """The first request after a write of a policy or binding knows of it."""
    store_policy(server, "at-once", {"validations": validations("false")})
    policy = f"{GROUP}/v1/validatingadmissionpolicies/at-once"
    assert create(server, "at-once").status == 422
    patch = {"spec": {"validations": validations("true")}}
    assert send(server, "PATCH", policy, patch, MERGE_PATCH).status == 200
    assert create(server, "at-once").status == 201
    patch = {"spec": {"validations": validations("false")}}
    assert send(server, "PATCH", policy, patch, MERGE_PATCH).status == 200
    assert create(server, "at-once").status == 422
    assert send(server, "DELETE", f"{GROUP}/v1/validatingadmissionpolicybindings/at-once").status == 200
    assert create(server, "at-once").status == 201


def test_policies_are_in_force_after_a_reset() -> None:
    """A server that was reset knows of the policies that are stored then, and of no others."""
    with Server(emulated_version="1.36") as running:
        store_policy(running, "reset", {"validations": validations("false")})
        assert create(running, "reset").status == 422
        running.reset()
        assert create(running, "reset").status == 201
        store_policy(running, "reset", {"validations": validations("false")})
        assert create(running, "reset").status == 422


@pytest.mark.parametrize(
    ("spec", "code", "text"),
    [
        ({"validations": [{"expression": "false", "message": "said so"}]}, 422, "said so"),
        ({"validations": [{"expression": "false", "reason": "Forbidden"}]}, 403, "failed expression: false"),
        ({"validations": [{"expression": "false", "messageExpression": "'x is ' + object.data.x"}]}, 422, "x is 2"),
        (
            {"validations": [{"expression": "false", "messageExpression": "string(object.none)", "message": "m"}]},
            422,
            "m",
        ),
        (
            {"validations": [{"expression": "false", "messageExpression": "'two\\nlines'"}]},
            422,
            "failed expression: false",
        ),
        (
            {"validations": validations("object.data.y == '1'")},
            422,
            "expression 'object.data.y == '1'' resulted in error: no such key: y",
        ),
        ({"validations": validations("object.data.y == '1'"), "failurePolicy": "Ignore"}, 201, ""),
        (
            {
                "variables": [{"name": "v", "expression": "object.data.y"}],
                "validations": validations("has(variables.v)"),
            },
            422,
            "expression 'has(variables.v)' resulted in error: "
            'composited variable "v" fails to evaluate: no such key: y',
        ),
        (
            {
                "variables": [{"name": "v", "expression": "object.data.y"}],
                "validations": validations("variables.v == 1"),
            },
            422,
            "expression 'variables.v == 1' resulted in error: "
            'composited variable "v" fails to evaluate: no such key: y',
        ),
        (
            {
                "variables": [
                    {"name": "a", "expression": "object.data.x"},
                    {"name": "b", "expression": "variables.a + '!'"},
                ],
                "validations": validations("variables.b != '2!'"),
            },
            422,
            "failed expression: variables.b != '2!'",
        ),
        (
            {"validations": validations("false"), "matchConditions": [{"name": "c", "expression": X_IS_1}]},
            201,
            "",
        ),
        (
            {"validations": validations("true"), "matchConditions": [{"name": "c", "expression": "object.none == 1"}]},
            422,
            "expression 'object.none == 1' resulted in error: no such key: none",
        ),
        (
            {"auditAnnotations": [{"key": "k", "valueExpression": "object.data.y"}]},
            422,
            "must evaluate to",
        ),
    ],
    ids=range(13),
)
def test_the_answer_of_a_policy(
    server: Server, request: pytest.FixtureRequest, spec: Obj, code: int, text: str
) -> None:
    """Messages, reasons, variables, conditions and failures have the status and the text of the real server."""
    name = f"answer-{request.node.callspec.indices['spec']}"
    if text == "must evaluate to":
        policy = {"metadata": {"name": name}, "spec": {"matchConstraints": constraints(name), **spec}}
        assert text in send(server, "POST", f"{GROUP}/v1/validatingadmissionpolicies", policy).json()["message"]
        return
    store_policy(server, name, spec)
    response = create(server, name, x="2")
    assert (response.status, reason(response)) == (code, text)


def test_actions_of_a_binding(server: Server) -> None:
    """Warn warns and lets pass, once for equal texts; Audit alone does nothing."""
    same = [{"expression": "false", "message": "same"}] * 2
    store_policy(server, "warn", {"validations": same}, validationActions=["Warn", "Audit"])
    warned = create(server, "warn")
    assert warned.status == 201
    assert warned.warnings == ["Validation failed for ValidatingAdmissionPolicy 'warn' with binding 'warn': same"]
    store_policy(server, "audit", {"validations": same}, validationActions=["Audit"])
    audited = create(server, "audit")
    assert (audited.status, audited.warnings) == (201, [])


def test_an_expression_that_costs_too_much(server: Server) -> None:
    """An evaluation beyond its budget is cancelled, and refuses the request."""
    expensive = "object.data.all(a, object.data.all(b, object.data.all(c, object.data.all(d, d != a + b + c))))"
    store_policy(server, "cost", {"validations": validations(expensive)})
    data = {f"k{i}": "v" * 100 for i in range(40)}
    assert reason(create(server, "cost", **data)).endswith("operation cancelled: actual cost limit exceeded")


def test_parameters(server: Server) -> None:
    """A binding names or selects parameters; each is asked about, and none is an error if the binding says so."""
    spec = {
        "paramKind": {"apiVersion": "v1", "kind": "ConfigMap"},
        "validations": [
            {"expression": "object.data.x != params.data.not", "messageExpression": "string(params.metadata.name)"}
        ],
    }
    store_policy(server, "params", spec, paramRef={"name": "limit", "parameterNotFoundAction": "Deny"})
    missing = "failed to configure binding: no params found for policy binding with `Deny` parameterNotFoundAction"
    assert reason(create(server, "params", x="2")) == missing
    limit = {"metadata": {"name": "limit", "labels": {"limits": "x"}}, "data": {"not": "2"}}
    store(server, CONFIG_MAPS, limit)
    assert reason(create(server, "params", x="2")) == "limit"
    assert create(server, "params", x="3").status == 201
    selector = {"matchLabels": {"limits": "x"}}
    store_policy(server, "selected", spec, paramRef={"selector": selector, "parameterNotFoundAction": "Allow"})
    assert reason(create(server, "selected", x="2")) == "limit"
    spec["paramKind"] = {"apiVersion": "v1", "kind": "Nothing"}
    store_policy(server, "unknown", spec, paramRef={"name": "limit", "parameterNotFoundAction": "Deny"})
    text = "failed to configure policy: failed to find resource referenced by paramKind: '/v1, Kind=Nothing'"
    assert reason(create(server, "unknown", x="2")) == text


CLAIMS = {"apiGroups": ["resource.k8s.io"], "operations": ["*"], "resources": ["resourceclaims"]}


@pytest.mark.parametrize(
    ("fields", "refused"),
    [
        ({"resourceRules": [{**RULE, "operations": ["UPDATE"]}]}, False),
        ({"resourceRules": [{**RULE, "resources": ["*"]}]}, True),
        ({"resourceRules": [{**RULE, "resources": ["configmaps/status"]}]}, False),
        ({"resourceRules": [{**RULE, "resourceNames": ["other"]}]}, False),
        ({"resourceRules": [{**RULE, "resourceNames": ["c"]}]}, True),
        ({"resourceRules": [{**RULE, "scope": "Cluster"}]}, False),
        ({"excludeResourceRules": [RULE]}, False),
        ({"namespaceSelector": {"matchLabels": {"kubernetes.io/metadata.name": "default"}}}, True),
        ({"namespaceSelector": {"matchExpressions": [{"key": "no", "operator": "Exists"}]}}, False),
        ({"objectSelector": {"matchExpressions": [{"key": "case", "operator": "NotIn", "values": ["x"]}]}}, True),
    ],
)
def test_match_constraints(server: Server, fields: Obj, refused: bool) -> None:
    """Rules, exclusions and selectors of policy and binding decide whether a policy is asked."""
    for name, policy, binding in (("policy", fields, {}), ("binding", {}, {"resourceRules": [RULE], **fields})):
        matches = constraints("match", **policy)
        store_policy(
            server, name, {"matchConstraints": matches, "validations": validations("false")}, matchResources=binding
        )
        assert (create(server, "match").status == 422) == refused
        for part in ("policies", "policybindings"):
            assert send(server, "DELETE", f"{GROUP}/v1/validatingadmission{part}/{name}").status == 200


def test_a_policy_about_another_version_sees_the_object_in_it(server: Server) -> None:
    """With matchPolicy Equivalent the object is converted to the version of the rule; with Exact it does not match."""
    claim = {
        "metadata": {"name": "c"},
        "spec": {"devices": {"requests": [{"name": "r", "exactly": {"deviceClassName": "x"}}]}},
    }
    spec = {
        "validations": [{"expression": "false", "messageExpression": "object.apiVersion + request.resource.version"}]
    }
    rules = {"resourceRules": [{**CLAIMS, "apiVersions": ["v1beta1"]}]}
    path = "/apis/resource.k8s.io/v1/namespaces/default/resourceclaims?dryRun=All"
    store_policy(server, "exact", {"matchConstraints": {**rules, "matchPolicy": "Exact"}, **spec})
    assert send(server, "POST", path, claim).status == 201
    store_policy(server, "equivalent", {"matchConstraints": rules, **spec})
    assert reason(send(server, "POST", path, claim)) == "resource.k8s.io/v1beta1v1beta1"


def test_what_expressions_see(server: Server) -> None:
    """Expressions see the request, its namespace, its options, and what its user may do."""
    seen = (
        "request.name request.namespace request.operation request.dryRun request.options.kind "
        "namespaceObject.metadata.name namespaceObject.status.phase has(request.subResource) oldObject==null"
    )
    message = " + ' ' + ".join(f"string({expression})" for expression in seen.split())
    store_policy(server, "seen", {"validations": [{"expression": "false", "messageExpression": message}]})
    assert reason(create(server, "seen")) == "c default CREATE true CreateOptions default Active false true"
    allowed = "authorizer.group('').resource('pods').namespace('default').check('create').allowed()"
    store_policy(server, "allowed", {"validations": validations(allowed)})
    assert create(server, "allowed").status == 201


def test_policies_are_not_asked_about_policies(server: Server) -> None:
    """A policy about everything lets policies, bindings and reviews pass, so that it can be deleted again."""
    everything = {"apiGroups": ["*"], "apiVersions": ["*"], "operations": ["*"], "resources": ["*"]}
    spec = {"matchConstraints": {"resourceRules": [everything]}, "validations": validations("false")}
    with Server(emulated_version="1.36") as running:
        store_policy(running, "everything", spec)
        assert send(running, "POST", CONFIG_MAPS, config_map("")).status == 422
        review = {"spec": {"resourceAttributes": {"verb": "get", "resource": "pods"}}}
        assert send(running, "POST", "/apis/authorization.k8s.io/v1/selfsubjectaccessreviews", review).status == 201
        for part in ("policies", "policybindings"):
            assert send(running, "DELETE", f"{GROUP}/v1/validatingadmission{part}/everything").status == 200
        assert send(running, "POST", CONFIG_MAPS, config_map("")).status == 201


def test_tokens_are_refused_only_of_accounts_that_exist(server: Server) -> None:
    """A request for a token is asked about once the account was found, with its uid."""
    rule = {**RULE, "operations": ["CREATE"], "resources": ["serviceaccounts/token"]}
    seen = [{"expression": "false", "messageExpression": "string(has(object.metadata.uid)) + ' ' + request.name"}]
    store_policy(server, "tokens", {"matchConstraints": {"resourceRules": [rule]}, "validations": seen})
    accounts = "/api/v1/namespaces/default/serviceaccounts"
    assert send(server, "POST", f"{accounts}/nobody/token", {"spec": {}}).status == 404
    store(server, accounts, {"metadata": {"name": "robot"}})
    assert reason(send(server, "POST", f"{accounts}/robot/token", {"spec": {}})) == "true robot"


def test_connections_and_deleted_collections(server: Server) -> None:
    """A connection shows its options as the object; the objects of a deleted collection come without a name."""
    spec = {
        "matchConstraints": {"resourceRules": [{**RULE, "operations": ["CONNECT"], "resources": ["pods/exec"]}]},
        "validations": [{"expression": "false", "messageExpression": "object.kind + ' ' + object.command.join(',')"}],
    }
    store_policy(server, "connect", spec)
    pod = {"metadata": {"name": "p"}, "spec": {"containers": [{"name": "c", "image": "i"}]}}
    store(server, "/api/v1/namespaces/default/pods", pod)
    path = "/api/v1/namespaces/default/pods/p/exec?command=ls&command=-l&stdout=1"
    assert reason(send(server, "POST", path)) == "PodExecOptions ls,-l"
    proxies = {"resourceRules": [{**RULE, "operations": ["CONNECT"], "resources": ["services/proxy"]}]}
    shown = [{"expression": "false", "messageExpression": "'path ' + string(object.?path.orValue('none'))"}]
    store_policy(server, "proxies", {"matchConstraints": proxies, "validations": shown})
    services = "/api/v1/namespaces/default/services/kubernetes/proxy"
    paths = {"": "none", "/": "/", "/a/b": "/a/b", "/a/": "/a/"}
    assert {path: reason(send(server, "GET", services + path)) for path in paths} == {
        path: f"path {text}" for path, text in paths.items()
    }
    deletions = {
        "resourceRules": [{**RULE, "operations": ["DELETE"]}],
        "objectSelector": {"matchLabels": {"case": "many"}},
    }
    named = [{"expression": "false", "messageExpression": "string(has(request.name)) + oldObject.metadata.name"}]
    store_policy(server, "deletions", {"matchConstraints": deletions, "validations": named})
    store(server, CONFIG_MAPS, config_map("many", "m"))
    assert reason(send(server, "DELETE", f"{CONFIG_MAPS}?labelSelector=case=many")) == "falsem"
    assert reason(send(server, "DELETE", f"{CONFIG_MAPS}/m")) == "truem"
