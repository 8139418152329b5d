"""Writes the roles and bindings that every server with RBAC begins with, and brings older ones up to date.

What a role or binding of an older policy had goes to those that it was split into: the rules of `view`, say.
Roles and bindings that carry the annotation `rbac.authorization.kubernetes.io/autoupdate: "false"` stay as they are;
others get the rules, subjects, labels and annotations that they lack.

Source: `EnsureRBACPolicy` in k8s.io/kubernetes/pkg/registry/rbac/rest, and
k8s.io/component-helpers/auth/rbac/reconciliation.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from understudy.apiserver.authorization.rbac.bootstrap_policy import bootstrap_policy
from understudy.apiserver.authorization.rbac.rules import Rule, uncovered
from understudy.apiserver.client.loopback import Client
from understudy.apiserver.endpoints.requestinfo import resource_path
from understudy.apiserver.serving.release import Release
from understudy.machinery.errors import StatusError
from understudy.machinery.releases.features import Gates
from understudy.machinery.types import Obj, split_api_version

_COLLECTIONS = "/apis/rbac.authorization.k8s.io/v1"
_SPLIT = {  # {path of a role or binding that may be missing: path of that of which it was a part}
    f"{_COLLECTIONS}/{kind}/{new}": f"{_COLLECTIONS}/{kind}/{old}"
    for kind, new, old in (
        *(("clusterroles", f"system:aggregate-to-{name}", name) for name in ("admin", "edit", "view")),
        ("clusterrolebindings", "system:public-info-viewer", "system:discovery"),
    )
}
AUTO_UPDATE = "rbac.authorization.kubernetes.io/autoupdate"
NOT_FOUND = 404


async def ensure_policy(client: Client, release: Release, gates: Gates) -> None:
    """Create the bootstrap policy of a release, or complete what is there of it."""
    policy = [*bootstrap_policy(release.version, gates)]
    for path, source in _SPLIT.items():
        await _split(client, path, source, policy)
    for expected in policy:
        await _reconcile(client, release, expected)


async def _split(client: Client, path: str, source: str, policy: Sequence[Obj]) -> None:
    """Create a role or binding that is missing with what the one has of which it was a part, if that is as it was then.

    Upstream: `primeAggregatedClusterRoles`, `primeSplitClusterRoleBindings`.
    """
    existing = await client.find(source)
    if existing is None or "aggregationRule" in existing or await client.find(path) is not None:
        return
    collection, _, name = path.rpartition("/")
    obj = {**existing, "metadata": {**existing["metadata"], "name": name}}
    del obj["metadata"]["resourceVersion"]
    if "roleRef" in existing:
        (expected,) = (each for each in policy if (each["kind"], each["metadata"]["name"]) == (existing["kind"], name))
        kept = {key: existing["metadata"][key] for key in ("labels", "annotations") if key in existing["metadata"]}
        obj = {**expected, "metadata": {"name": name, **kept}, "subjects": existing.get("subjects") or []}
    try:
        await client.create(collection, obj)
    except StatusError as error:
        if error.reason != "AlreadyExists":
            raise


async def _reconcile(client: Client, release: Release, expected: Obj) -> None:
    """Create a role or binding, or add what a stored one lacks."""
    group, version = split_api_version(expected["apiVersion"])
    kind = release.kind(group, expected["kind"])
    if kind is None:
        return
    metadata = expected["metadata"]
    collection = resource_path(group, version, kind.resource, metadata.get("namespace", ""))
    path = f"{collection}/{metadata['name']}"
    try:
        existing = await client.get(path)
    except StatusError as error:
        if error.code != NOT_FOUND:
            raise
        await client.create(collection, expected)
        return
    if existing["metadata"].get("annotations", {}).get(AUTO_UPDATE) == "false":
        return
    if existing.get("roleRef") != expected.get("roleRef"):
        await client.delete(path, uid=existing["metadata"]["uid"])
        await client.create(collection, expected)
        return
    completed = _completed(existing, expected)
    if completed != existing:
        await client.update(path, completed)


def _completed(existing: Obj, expected: Obj) -> Obj:
    """Return a stored role or binding with what it lacks of the expected one.

    Upstream: `computeReconciledRole` and `computeReconciledRoleBinding`.
    """
    metadata = dict(existing["metadata"])
    for name in ("annotations", "labels"):
        merged = {**expected["metadata"].get(name, {}), **metadata.get(name, {})}
        if merged:
            metadata[name] = merged
    completed: dict[str, Any] = {**existing, "metadata": metadata}
    _extend(
        completed, "rules", uncovered([Rule(rule) for rule in existing.get("rules") or ()], expected.get("rules") or ())
    )
    subjects = existing.get("subjects") or ()
    _extend(completed, "subjects", [subject for subject in expected.get("subjects") or () if subject not in subjects])
    if "aggregationRule" in expected:
        field = "clusterRoleSelectors"
        rule = dict(existing.get("aggregationRule") or {})
        _extend(rule, field, [each for each in expected["aggregationRule"][field] if each not in rule.get(field, ())])
        completed["aggregationRule"] = rule
    else:
        completed.pop("aggregationRule", None)
    return completed


def _extend(obj: Obj, name: str, values: list[Obj]) -> None:
    """Add values to a list of an object; one without new values stays as it is."""
    if values:
        obj[name] = [*(obj.get(name) or ()), *values]
