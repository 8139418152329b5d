"""The roles and bindings that a server with RBAC begins with, recorded of each release."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from typing import Any

import pytest

from tests.releases import every_release
from understudy import Server
from understudy.apiserver.authorization.rbac.bootstrap_policy import with_gates
from understudy.apiserver.server.bootstrap.policy import ensure_policy
from understudy.apiserver.serving.release import Release
from understudy.machinery.errors import StatusError
from understudy.machinery.releases.features import Gates
from understudy.machinery.releases.recorded import read_release_file
from understudy.machinery.releases.version import Version
from understudy.machinery.types import Obj


@every_release
def test_policy_is_written_at_the_start(release: Version) -> None:
    """Every release has its policy, written by kube-apiserver and labelled."""
    with Server(emulated_version=str(release), authorization_mode="RBAC") as server:
        objects = [obj for kind in ("ClusterRole", "ClusterRoleBinding") for obj in server.list(kind)]
    assert len(objects) > 100
    assert {obj["metadata"]["managedFields"][0]["manager"] for obj in objects} == {"kube-apiserver"}
    assert {obj["metadata"]["labels"]["kubernetes.io/bootstrapping"] for obj in objects} == {"rbac-defaults"}


def test_counts_with_default_gates() -> None:
    """kube-apiserver 1.36.4 writes so many objects."""
    release = Release.named("1.36")
    recorded = read_release_file(release.version, "bootstrap_policy.json")
    kinds = Counter(obj["kind"] for obj in with_gates(recorded, Gates.of(release.version, {})))
    assert kinds == {"ClusterRole": 69, "ClusterRoleBinding": 50, "Role": 7, "RoleBinding": 7}


def test_gates_choose_objects_and_rules() -> None:
    """A rule or object is there while its feature gates are as it needs them."""
    policy: list[Obj] = [
        {"kind": "A", "gates": {"On": True}},
        {"kind": "B", "rules": [{"verbs": ["get"], "gates": {"On": False}}, {"verbs": ["list"]}]},
    ]
    assert list(with_gates(policy, {"On": False})) == [
        {"kind": "B", "rules": [{"verbs": ["get"]}, {"verbs": ["list"]}]}
    ]
    assert list(with_gates(policy, {"On": True})) == [{"kind": "A"}, {"kind": "B", "rules": [{"verbs": ["list"]}]}]


class Store:
    """Stands in for a client: keeps objects by path."""

    def __init__(self) -> None:
        self.objects: dict[str, Obj] = {}

    async def get(self, path: str) -> Obj:
        if path not in self.objects:
            raise StatusError(404, "NotFound", path)
        return self.objects[path]

    async def find(self, path: str) -> Obj | None:
        return self.objects.get(path)

    async def create(self, path: str, obj: Obj, query: Mapping[str, str] | None = None) -> Obj:
        self.objects[f"{path}/{obj['metadata']['name']}"] = {**obj, "metadata": {**obj["metadata"], "uid": "1"}}
        return obj

    async def update(self, path: str, obj: Obj) -> Obj:
        self.objects[path] = obj
        return obj

    async def delete(self, path: str, *, uid: str = "", propagation: str = "") -> None:
        del self.objects[path]


ROLE = "/apis/rbac.authorization.k8s.io/v1/clusterroles/system:basic-user"
BINDING = "/apis/rbac.authorization.k8s.io/v1/clusterrolebindings/system:basic-user"
OFF = {"rbac.authorization.kubernetes.io/autoupdate": "false"}
OWN = {"verbs": ["get"], "apiGroups": [""], "resources": ["pods"]}


@pytest.mark.parametrize(
    ("path", "change", "restored"),
    [
        (ROLE, {"rules": []}, True),
        (ROLE, {"metadata": {"name": "system:basic-user", "uid": "1", "labels": {"own": "x"}}}, True),
        (ROLE, {"rules": [], "metadata": {"name": "system:basic-user", "uid": "1", "annotations": OFF}}, False),
        (BINDING, {"subjects": []}, True),
        (BINDING, {"roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": "view"}}, True),
    ],
)
async def test_policy_is_completed(path: str, change: dict[str, Any], restored: bool) -> None:
    """Missing rules and subjects are added again, unless the object opts out; those that others added stay."""
    store: Any = Store()
    release = Release.named("1.36")
    gates = Gates.of(release.version, {})
    await ensure_policy(store, release, gates)
    expected = store.objects[path]
    changed = {**expected, **change}
    store.objects[path] = changed
    await ensure_policy(store, release, gates)
    field = next(iter(change))
    if not restored:
        assert store.objects[path] == changed
    elif field == "metadata":
        labels = {**expected["metadata"]["labels"], "own": "x"}
        assert store.objects[path]["metadata"]["labels"] == labels
    elif field == "rules":  # each verb and resource by itself, as kube-apiserver adds them
        assert [(rule["resources"], rule["verbs"]) for rule in store.objects[path]["rules"]] == [
            ([resource], [verb])
            for rule in expected["rules"]
            for resource in rule["resources"]
            for verb in rule["verbs"]
        ]
    else:
        assert store.objects[path][field] == expected[field]


async def test_extra_rules_stay() -> None:
    """Rules that somebody added are kept."""
    store: Any = Store()
    release = Release.named("1.36")
    gates = Gates.of(release.version, {})
    await ensure_policy(store, release, gates)
    rules = store.objects[ROLE]["rules"] = [*store.objects[ROLE]["rules"], OWN]
    await ensure_policy(store, release, gates)
    assert store.objects[ROLE]["rules"] == rules


ROLES, BINDINGS = (f"/apis/rbac.authorization.k8s.io/v1/{kind}" for kind in ("clusterroles", "clusterrolebindings"))


async def test_parts_of_an_older_policy_are_as_the_whole_was() -> None:
    """A binding that was part of another one begins with its subjects, labels and annotations, a role with the rules of
    the one that is aggregated now; parts that are there stay."""
    release = Release.named("1.37")
    gates, before = Gates.of(release.version, {}), Store()
    await ensure_policy(before, release, gates)  # type: ignore[arg-type]
    store: Any = Store()
    binding, admin, view = f"{BINDINGS}/system:discovery", f"{ROLES}/admin", f"{ROLES}/view"
    store.objects = {path: {**before.objects[path], "rules": [OWN]} for path in (admin, view)}
    del store.objects[admin]["aggregationRule"]
    subjects = [{"kind": "Group", "apiGroup": "rbac.authorization.k8s.io", "name": "own"}]
    labels = {"a": "b"}
    metadata = {"name": "system:discovery", "uid": "1", "resourceVersion": "7", "annotations": OFF, "labels": labels}
    store.objects[binding] = {**before.objects[binding], "metadata": metadata, "subjects": subjects}
    for path in (admin, view):
        store.objects[path]["metadata"] = {"name": path.rpartition("/")[2], "uid": "1", "resourceVersion": "7"}
    await ensure_policy(store, release, gates)
    part = store.objects[f"{BINDINGS}/system:public-info-viewer"]
    assert (part["subjects"], part["roleRef"]["name"]) == (subjects, "system:public-info-viewer")
    name = "system:public-info-viewer"
    assert part["metadata"] == {"name": name, "uid": "1", "annotations": OFF, "labels": labels}
    assert OWN in store.objects[f"{ROLES}/system:aggregate-to-admin"]["rules"]
    assert OWN not in store.objects[f"{ROLES}/system:aggregate-to-view"]["rules"]
