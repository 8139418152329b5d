"""scripts.record release: which modules it builds, and what it reads from sources. Go is not asked."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from scripts.common.commands import UsageError
from scripts.record import release, schemas
from scripts.record.upstream import modules
from scripts.record.upstream.modules import Modules
from understudy.machinery.releases.version import Version

PUBLISHED = {"k8s.io/api": ["v0.37.2", "v0.38.0-alpha.0"], "k8s.io/kube-proxy": ["v0.36.4", "v0.37.2"]}


@pytest.mark.parametrize(
    ("version", "name"), [("v1.37.2", "1.37"), ("v1.38.0-alpha.0", "1.38-alpha"), ("v1.38.0-rc.1", "1.38-rc")]
)
def test_release_of_a_version(version: str, name: str) -> None:
    """A version with a stage is that of a preview."""
    assert Modules(version).release == Version.parse(name)


@pytest.mark.parametrize("version", ["1.37.2", "v1.37", "v1.38.0-beta", "v2.0.0", "main"])
def test_other_texts_are_no_version(version: str) -> None:
    """Only a tag of Kubernetes names its modules."""
    with pytest.raises(UsageError, match="no version of Kubernetes"):
        Modules(version)


def test_modules_that_are_not_published(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A module without the version is taken from the release before; one that was never published is not looked for."""
    parts = [*PUBLISHED, "k8s.io/sample-cli-plugin", "k8s.io/component-base"]
    go_mod = tmp_path / "go.mod"
    go_mod.write_text("".join(f"\t{name} => ./staging/src/{name}\n" for name in parts))

    def go(_home: Path, *arguments: str, alone: bool = False) -> str:
        assert alone
        if "download" in arguments:
            return json.dumps({"GoMod": str(go_mod)})
        if "-versions" in arguments:
            return json.dumps({"Path": arguments[-1], "Versions": PUBLISHED.get(arguments[-1], [])})
        asked = (text.partition("@") for text in arguments if "@" in text)
        answers = [
            {"Path": name} if version in PUBLISHED.get(name, ()) else {"Path": name, "Error": {"Err": "not there"}}
            for name, _, version in asked
        ]
        return "\n".join(json.dumps(answer, indent="\t") for answer in answers)

    monkeypatch.setattr(modules, "go", go)
    replaced = Modules("v1.38.0-alpha.0", {"k8s.io/component-base": "../component-base"}, tmp_path)._replacements()
    assert replaced == {
        "k8s.io/api": "v0.38.0-alpha.0",
        "k8s.io/kube-proxy": "v0.37.2",
        "k8s.io/sample-cli-plugin": "v0.38.0-alpha.0",
        "k8s.io/component-base": "../component-base",
    }


def test_gates_that_the_policy_asks_for(tmp_path: Path) -> None:
    """The gates that the sources name count, without those of tests."""
    (tmp_path / "policy.go").write_text("if Enabled(features.B) || Enabled(features.A) {\n\tuse(features.B)\n}\n")
    (tmp_path / "policy_test.go").write_text("set(features.C)")
    assert release.gates_of_policy(tmp_path) == {"A", "B"}


def test_gates_that_others_need() -> None:
    """A gate is varied with those that it needs, at any depth: else it is never on."""
    assert release.with_needed({"A", "B"}, {"A": ["C"], "C": ["D"], "E": ["F"]}) == ["A", "B", "C", "D"]


def test_preview_keeps_what_differs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A file of a preview that is that of the release before is not written, and an older one of that name goes."""
    monkeypatch.setattr(schemas, "SCHEMAS", tmp_path)
    before, preview = Version.parse("1.37"), Version.parse("1.38-alpha")
    for name in ("same.json", "other.json"):
        assert schemas.write(before, name, f"{name} of 1.37\n")
    assert schemas.write(preview, "same.json", "an older recording\n")
    assert not schemas.write(preview, "same.json", "same.json of 1.37\n")
    assert schemas.write(preview, "other.json", "other.json of 1.38\n")
    assert sorted(path.name for path in (tmp_path / "1.38-alpha").iterdir()) == ["other.json"]


def test_release_removes_its_previews(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Recording a release removes the files of its previews."""
    monkeypatch.setattr(schemas, "SCHEMAS", tmp_path)
    for name in ("1.37", "1.38-alpha", "1.38-rc"):
        (tmp_path / name / "openapi").mkdir(parents=True)
    release.remove_previews(Version.parse("1.38"))
    assert [path.name for path in tmp_path.iterdir()] == ["1.37"]
