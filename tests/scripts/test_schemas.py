"""scripts/schemas.py: what it makes of a server's answers."""

from __future__ import annotations

import importlib.util
import json
from pathlib import Path

import pytest

from understudy.apiserver.kinds.release import storage_version_hash
from understudy.machinery.releases.features import FeatureSpec
from understudy.machinery.releases.version import Version
from understudy.machinery.types import GroupVersionKind

SCRIPT = Path(__file__).parents[2] / "scripts" / "schemas.py"
_spec = importlib.util.spec_from_file_location("schemas", SCRIPT)
assert _spec is not None
assert _spec.loader is not None
schemas = importlib.util.module_from_spec(_spec)
_spec.loader.exec_module(schemas)

ALPHA, BETA, STABLE = FeatureSpec("ALPHA", False), FeatureSpec("BETA", True), FeatureSpec("", True)
LOCKED = FeatureSpec("", True, locked=True)
RECORDED = {
    "1.31": {"Kept": BETA, "Graduated": BETA, "Abandoned": ALPHA, "Gone": STABLE},
    "1.32": {"Kept": BETA, "Graduated": LOCKED, "Returned": ALPHA},
    "1.33": {"Kept": BETA, "Graduated": LOCKED, "Returned": ALPHA, "Abandoned": ALPHA},
}
TABLE = {
    "Abandoned": [("1.31", "ALPHA", False, False), ("1.32", "REMOVED", False, True), ("1.33", "ALPHA", False, False)],
    "Gone": [("1.31", "", True, False), ("1.32", "REMOVED", True, True)],
    "Graduated": [("1.31", "BETA", True, False), ("1.32", "", True, True)],
    "Kept": [("1.31", "BETA", True, False)],
    "Returned": [("1.32", "ALPHA", False, False)],
}


def recorded(*releases: str) -> dict[str, list[tuple[str, str, bool, bool]]]:
    table: dict[str, list[tuple[str, str, bool, bool]]] = {}
    known: set[Version] = set()
    for release in releases:
        known.add(Version.parse(release))
        table = schemas.gates_over_time(table, known, Version.parse(release), RECORDED[release])
    return table


def test_gates_over_time() -> None:
    """A gate has an entry for each release that changed it; one that is gone is removed and keeps its default."""
    assert recorded("1.31", "1.32", "1.33") == TABLE


def test_releases_are_recorded_in_any_order() -> None:
    """A release that is recorded late, or again, takes its place among the others."""
    assert recorded("1.33", "1.31", "1.32", "1.33", "1.31") == TABLE


def test_release_may_change_no_gate() -> None:
    """A release that has the gates of the one before keeps them when that one is recorded anew."""
    before, after = Version.parse("1.32"), Version.parse("1.33")
    table = schemas.gates_over_time({"Kept": [("1.32", "BETA", True, False)]}, {before, after}, before, {"Kept": ALPHA})
    assert table == {"Kept": [("1.32", "ALPHA", False, False), ("1.33", "BETA", True, False)]}


@pytest.mark.parametrize(
    "expected",
    [
        GroupVersionKind("apps", "v1", "Scale"),
        GroupVersionKind("", "v1", "Scale"),
        GroupVersionKind("apps", "v1beta1", "Scale"),
    ],
    ids=str,
)
def test_stored_kind_is_found_by_its_hash(expected: GroupVersionKind) -> None:
    """A kind is stored as itself, in another group-version, or as the v1beta1 that is not served any more."""
    kind, group_versions = GroupVersionKind("apps", "v1", "Scale"), [("", "v1"), ("apps", "v1")]
    assert schemas.stored(kind, storage_version_hash(expected), group_versions) == expected


def test_unknown_storage_hash_is_an_error() -> None:
    """A hash of no known group-version stops the recording."""
    with pytest.raises(LookupError, match="AAAA"):
        schemas.stored(GroupVersionKind("apps", "v1", "Scale"), "AAAA", [("", "v1")])


class RecordedServer(schemas.ApiServer):  # type: ignore[misc, name-defined]
    """A server with answers of its own."""

    def __init__(self, answers: dict[str, str]) -> None:
        self.answers = answers

    def text(self, path: str, accept: str = "*/*") -> str:
        return self.answers[path]


def test_facts() -> None:
    """The facts of a release leave out how the server was built; its checks come from the server with default gates."""
    check = "[+]ping ok\n[-]etcd failed: reason withheld\n[+]poststarthook/a-b ok\nhealthz check failed\n"
    version = {"major": "1", "minor": "33", "emulationMajor": "1", "gitVersion": "v1.33.4", "goVersion": "go1.24"}
    service = {"metadata": {"name": "v1.apps"}, "spec": {"group": "apps", "version": "v1"}}
    selector = "kube-aggregator.kubernetes.io/automanaged=onstart"
    full = RecordedServer(
        {
            "/version": json.dumps(version),
            f"/apis/apiregistration.k8s.io/v1/apiservices?labelSelector={selector}": json.dumps({"items": [service]}),
        }
    )
    default = RecordedServer({f"/{name}?verbose": check for name in ("healthz", "livez", "readyz")})
    facts = schemas.facts(full, default, {"depends": {"Free": [], "Needy": ["Free"]}})
    assert facts["version"].items() >= {"emulationMajor": "1", "gitVersion": "v1.33.4", "goVersion": ""}.items()
    assert facts["apiServices"] == {"v1.apps": {"group": "apps", "version": "v1"}}
    assert facts["gateDependencies"] == {"Needy": ["Free"]}
    assert facts["healthChecks"]["livez"] == ["ping", "etcd", "poststarthook/a-b"]
