"""What a rule of a role allows, and which rules cover others."""

from __future__ import annotations

from typing import Any

import pytest

from understudy.apiserver.authorization.rbac.rules import Rule, compact, compact_string, uncovered
from understudy.machinery.auth.authorization import Attributes


def on(verb: str, resource: str, group: str = "", name: str = "") -> Attributes:
    """Return the attributes of a request for a resource, or for a subresource such as "pods/log"."""
    main, _, subresource = resource.partition("/")
    return Attributes("", verb, True, group, "v1", "ns", main, subresource, name)


def rule(verbs: str, resources: str = "", groups: str = ",", names: str = "", urls: str = "") -> dict[str, Any]:
    """Return a rule of comma-separated texts; the API group "" is written ","."""
    lists = {"verbs": verbs, "resources": resources, "resourceNames": names, "nonResourceURLs": urls}
    fields = {name: text.split(",") for name, text in lists.items() if text}
    return {**fields, **({} if urls else {"apiGroups": [""] if groups == "," else groups.split(",")})}


@pytest.mark.parametrize(
    ("held", "asked", "allowed"),
    [
        (rule("get", "pods"), on("get", "pods"), True),
        (rule("get", "pods"), on("list", "pods"), False),
        (rule("*", "pods"), on("anything", "pods"), True),
        (rule("get", "pods"), on("get", "pods", "apps"), False),
        (rule("get", "pods", "*"), on("get", "pods", "apps"), True),
        (rule("get", "pods"), on("get", "pods/log"), False),
        (rule("get", "pods/log"), on("get", "pods/log"), True),
        (rule("get", "pods/log"), on("get", "pods"), False),
        (rule("get", "*/log"), on("get", "pods/log"), True),
        (rule("get", "pods/*"), on("get", "pods/log"), False),
        (rule("get", "*"), on("get", "pods/log"), True),
        (rule("get", "pods", names="a,b"), on("get", "pods", name="b"), True),
        (rule("get", "pods", names="a,b"), on("get", "pods", name="c"), False),
        (rule("create", "pods", names="a"), on("create", "pods"), False),
        (rule("get", urls="/healthz"), Attributes("/healthz", "get"), True),
        (rule("get", urls="/healthz"), Attributes("/healthz/ping", "get"), False),
        (rule("get", urls="/healthz/*"), Attributes("/healthz/ping", "get"), True),
        (rule("get", urls="/healthz/*"), Attributes("/healthz", "get"), False),
        (rule("get", urls="*"), Attributes("/any/path", "get"), True),
        (rule("get", urls="*"), on("get", "pods"), False),
        (rule("get", "*", "*"), Attributes("/healthz", "get"), False),
    ],
)
def test_rule_allows(held: dict[str, Any], asked: Attributes, allowed: bool) -> None:
    """Verb, API group, resource and name have to match; stars stand for everything."""
    assert Rule(held).allows(asked) is allowed


PODS = '{APIGroups:[""], Resources:["pods"]'


@pytest.mark.parametrize(
    ("held", "granted", "missing"),
    [
        ([rule("get", "pods")], [rule("get", "pods")], []),
        ([rule("get", "pods"), rule("list", "pods")], [rule("get,list", "pods")], []),
        ([rule("get", "pods")], [rule("get,list,watch", "pods")], [f'{PODS}, Verbs:["list" "watch"]}}']),
        ([rule("get", "pods", names="a")], [rule("get", "pods")], [f'{PODS}, Verbs:["get"]}}']),
        ([rule("get", "pods")], [rule("get", "pods", names="a")], []),
        (
            [rule("get", "pods", names="a")],
            [rule("get", "pods", names="a,b")],
            [f'{PODS}, ResourceNames:["b"], Verbs:["get"]}}'],
        ),
        ([rule("get", "*/log")], [rule("get", "pods/log")], []),
        ([rule("get", "pods")], [rule("get", "pods/")], ['{APIGroups:[""], Resources:["pods/"], Verbs:["get"]}']),
        ([rule("*", "*", "*")], [rule("get", urls="/x")], ['{NonResourceURLs:["/x"], Verbs:["get"]}']),
        ([rule("*", urls="/a/*")], [rule("get", urls="/a/b,/a/*")], []),
    ],
)
def test_uncovered_rules(held: list[dict[str, Any]], granted: list[dict[str, Any]], missing: list[str]) -> None:
    """Each verb of each resource has to be covered by a rule; what is not is listed with its verbs together."""
    parts = compact(uncovered(list(map(Rule, held)), granted))
    assert list(map(compact_string, parts)) == missing
