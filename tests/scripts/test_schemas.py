"""scripts.record schemas: what it makes of a server's answers."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from scripts.record import schemas
from scripts.record.api_server import ApiServer
from understudy.apiserver.serving.release import storage_version_hash
from understudy.machinery.releases.features import FeatureSpec
from understudy.machinery.releases.version import Version
from understudy.machinery.types import GroupVersionKind

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


class RecordedServer(ApiServer):
    """A server with answers of its own."""

    def __init__(self, answers: dict[str, str]) -> None:
        self.answers = answers

    def text(self, path: str, accept: str = "*/*") -> str:
        return self.answers[path]


def resource(name: str, kind: str) -> dict[str, Any]:
    """Return a resource in aggregated discovery."""
    return {"resource": name, "responseKind": {"group": "", "version": "", "kind": kind}, "verbs": ["list"]}


def discovery(groups: dict[str, Any]) -> dict[str, str]:
    """Return the answers of aggregated discovery about groups with their versions."""
    items = [{"metadata": {"name": name}, "versions": versions} for name, versions in groups.items()]
    return {"/api": json.dumps({"items": []}), "/apis": json.dumps({"items": items})}


def test_initial_objects() -> None:
    """Initial objects have no uid and times; those of what is off by default come from the server that serves it."""
    condition = {"type": "Ready", "lastTransitionTime": "2026-01-01T00:00:00Z"}
    owner = {"manager": "kube-apiserver", "time": "2026-01-01T00:00:00Z"}
    metadata = {"name": "a", "uid": "u", "resourceVersion": "1", "creationTimestamp": "x", "managedFields": [owner]}
    stored = json.dumps({"items": [{"metadata": metadata, "status": {"conditions": [condition]}}]})
    other = stored.replace('"a"', '"b"')
    on = {"version": "v1", "resources": [resource("claims", "Claim")]}
    every = {"version": "v1", "resources": [resource("claims", "Claim"), resource("slices", "Slice")]}
    full = RecordedServer({**discovery({"demo.io": [every]}), "/apis/demo.io/v1/slices": other})
    default = RecordedServer({**discovery({"demo.io": [on]}), "/apis/demo.io/v1/claims": stored})
    expected = {"metadata": {"name": "a", "managedFields": [{"manager": "kube-apiserver"}]}}
    expected["status"] = {"conditions": [{"type": "Ready", "lastTransitionTime": None}]}
    claim, slice_ = schemas.initial_objects(full, default)
    assert claim == {"apiVersion": "demo.io/v1", "kind": "Claim", **expected}
    assert (slice_["kind"], slice_["metadata"]["name"]) == ("Slice", "b")


def test_facts() -> None:
    """The facts of a release leave out how the server was built; its checks come from the server with default gates."""
    check = "[+]ping ok\n[-]etcd failed: reason withheld\n[+]poststarthook/a-b ok\nhealthz check failed\n"
    version = {"major": "1", "minor": "33", "emulationMajor": "1", "gitVersion": "v1.33.4", "goVersion": "go1.24"}
    served = {"version": "v1beta1", "resources": [resource("slices", "Slice"), resource("claims", "Claim")]}
    full = RecordedServer({"/version": json.dumps(version), **discovery({"demo.io": [served]})})
    default = RecordedServer({f"/{name}?verbose": check for name in ("healthz", "livez", "readyz")})
    lifecycles = {"demo.io/v1beta1/Slice": ["1.33", "1.36", ""], "demo.io/v1beta1/Claim": ["1.34", "1.37", ""]}
    kinds = dict.fromkeys(("/v1/DeleteOptions", "demo.io/v1/DeleteOptions", "demo.io/__internal/DeleteOptions"), "")
    types = {
        "depends": {"Free": [], "Needy": ["Free"]},
        "deprecated": lifecycles,
        "kinds": {**kinds, "demo.io/v2/Claim": ""},
        "plugins": ["NamespaceLifecycle", "AlwaysDeny"],
        "schemes": {"legacyscheme": "scheme.go:30"},
        "go": "go1.24.5",
    }
    facts = schemas.facts(Version(1, 33), full, default, types)
    assert facts["version"].items() >= {"emulationMajor": "1", "gitVersion": "v1.33.4", "goVersion": "go1.24.5"}.items()
    assert facts["deprecated"] == {"demo.io/v1beta1/Slice": ["1.33", "1.36", ""]}
    assert facts["groupVersions"] == ["/v1", "demo.io/v1"]
    assert facts["admissionPlugins"] == ["NamespaceLifecycle", "AlwaysDeny"]
    assert facts["gateDependencies"] == {"Needy": ["Free"]}
    assert facts["healthChecks"]["livez"] == ["ping", "etcd", "poststarthook/a-b"]


def test_gates_of_previews_go_with_the_release() -> None:
    """The release takes the place of its previews in the table of gates."""
    before, preview, after = (Version.parse(text) for text in ("1.37", "1.38-alpha", "1.38"))
    table = schemas.gates_over_time({}, {before}, before, {"Kept": ALPHA})
    table = schemas.gates_over_time(table, {before}, preview, {"Kept": BETA, "New": ALPHA})
    assert table == {
        "Kept": [("1.37", "ALPHA", False, False), ("1.38-alpha", "BETA", True, False)],
        "New": [("1.38-alpha", "ALPHA", False, False)],
    }
    table = schemas.gates_over_time(table, {before}, after, {"Kept": STABLE})
    assert table == {"Kept": [("1.37", "ALPHA", False, False), ("1.38", "", True, False)]}


def test_initial_objects_stay_in_order(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Objects of a kind, which a server writes in any order, stand as in the release before; new ones come last."""
    monkeypatch.setattr(schemas, "SCHEMAS", tmp_path)
    recorded = [named("APIService", "b"), named("APIService", "a"), named("Namespace", "n")]
    (tmp_path / "1.37").mkdir()
    (tmp_path / "1.37" / "initial_objects.json").write_text(json.dumps(recorded))
    objects = [named("APIService", name) for name in "cab"] + [named("Namespace", "n")]
    ordered = schemas.in_recorded_order(Version.parse("1.38-alpha"), objects)
    assert [obj["metadata"]["name"] for obj in ordered] == ["b", "a", "c", "n"]


def named(kind: str, name: str) -> dict[str, Any]:
    return {"kind": kind, "metadata": {"name": name}}
