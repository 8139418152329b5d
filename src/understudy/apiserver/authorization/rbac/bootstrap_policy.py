"""The roles and bindings that a release begins with, by feature gates: `schemas/RELEASE/bootstrap_policy.json`.

Source: k8s.io/kubernetes/plugin/pkg/auth/authorizer/rbac/bootstrappolicy.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping

from understudy.apiserver.authorization.rbac.rules import Rule
from understudy.machinery.releases.features import Gates
from understudy.machinery.releases.recorded import read_release_file
from understudy.machinery.releases.version import Version
from understudy.machinery.types import Obj


def bootstrap_policy(version: Version, gates: Gates) -> Iterator[Obj]:
    """Yield the roles and bindings of a release with these gates."""
    return with_gates(read_release_file(version, "bootstrap_policy.json"), gates)


def node_rules(version: Version, gates: Gates) -> list[Rule]:
    """Return the rules of the cluster role `system:node`. Upstream: `NodeRules`."""
    roles = (obj for obj in bootstrap_policy(version, gates) if obj["kind"] == "ClusterRole")
    return [Rule(rule) for role in roles if role["metadata"]["name"] == "system:node" for rule in role["rules"]]


def with_gates(policy: Iterable[Obj], gates: Mapping[str, bool] | Gates) -> Iterator[Obj]:
    """Yield the objects of a recorded policy, with the rules, whose feature gates are as they need them."""

    def chosen(values: Iterable[Obj]) -> Iterator[Obj]:
        for value in values:
            if all(gates[name] == on for name, on in value.get("gates", {}).items()):
                yield {name: part for name, part in value.items() if name != "gates"}

    for obj in chosen(policy):
        yield {**obj, "rules": list(chosen(obj["rules"]))} if obj.get("rules") else obj
