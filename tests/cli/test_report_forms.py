"""The forms in which `understudy validate` reports to machines, and manifests that other programs have rendered."""

from __future__ import annotations

import io
import json
from pathlib import Path
from typing import Any
from xml.etree import ElementTree

import pytest

from understudy.cli import main as cli

BAD = """\
apiVersion: v1
kind: ConfigMap
metadata: {name: "A%,:é"}
"""
GOOD = "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: good}\n"
RENDERED = f"""\
---
# Source: shop/templates/good.yaml
{GOOD}---
# Source: shop/templates/bad one.yaml
{BAD}---
apiVersion: v1
kind: List
items:
- {{apiVersion: v1, kind: Pod, metadata: {{name: p}}, spec: {{containers: 5}}}}
"""


def report(form: str, text: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> str:
    monkeypatch.setattr("sys.stdin", io.StringIO(text))
    assert cli.main(["validate", "--format", form, "-"]) == 1
    return capsys.readouterr().out


def test_templates_of_charts_are_named(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    """A document that Helm has rendered is named by its template; others by their place in what was read."""
    lines = report("text", RENDERED, monkeypatch, capsys).splitlines()
    assert lines[0].startswith("shop/templates/bad one.yaml (-:10): ConfigMap/A%,:é: metadata.name: Invalid value")
    assert lines[1].startswith("-:15: Pod/p: spec.containers: json: cannot unmarshal number")
    assert len(lines) == 2
    first, second = json.loads(report("json", RENDERED, monkeypatch, capsys))
    assert (first["source"], first["line"], "source" in second) == ("shop/templates/bad one.yaml", 10, False)


def test_github_annotations_are_escaped(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    """Workflow commands escape `%`, line breaks and, in properties, `:` and `,`; templates have no line."""
    first, second = report("github", RENDERED, monkeypatch, capsys).splitlines()
    assert first.startswith(
        "::error file=shop/templates/bad one.yaml,title=ConfigMap/A%25%2C%3Aé::metadata.name: Invalid"
    )
    assert 'Invalid value: "A%25,:é"' in first
    assert first.endswith(" (rendered: -:10)")
    assert second.startswith("::error title=Pod/p::spec.containers: json")


def test_sarif(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """A SARIF log has a rule for each reason, a result for each finding, and places that are URIs."""
    (file := tmp_path / "a b.yaml").write_text(BAD)
    (broken := tmp_path / "broken.yaml").write_text("a: [\n")
    assert cli.main(["validate", "-o", "sarif", str(file), str(broken)]) == 2
    log = json.loads(capsys.readouterr().out)
    assert (log["version"], log["$schema"].rpartition("/")[2]) == ("2.1.0", "sarif-2.1.0.json")
    [run] = log["runs"]
    rules = [rule["id"] for rule in run["tool"]["driver"]["rules"]]
    assert all(rules[result["ruleIndex"]] == result["ruleId"] for result in run["results"])
    unreadable, finding = run["results"]
    assert unreadable["ruleId"] == "Unreadable"
    assert finding["ruleId"] == "FieldValueInvalid"
    assert finding["message"]["text"].startswith("ConfigMap/A%,:é: metadata.name: Invalid value")
    [place] = finding["locations"]
    assert place["physicalLocation"]["artifactLocation"]["uri"].endswith("/a%20b.yaml")
    assert place["physicalLocation"]["region"] == {"startLine": 3}


def test_sarif_without_findings(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """A log without results says that all is well."""
    (file := tmp_path / "good.yaml").write_text(GOOD)
    assert cli.main(["validate", "-o", "sarif", str(file)]) == 0
    assert json.loads(capsys.readouterr().out)["runs"][0]["results"] == []


def test_junit(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """A JUnit report has a test for each object, which fails with all that is wrong with it."""
    (file := tmp_path / "a&b.yaml").write_text(f'{BAD}data: {{"x y": "1", "z!": "\\a"}}\n---\n{GOOD}')
    assert cli.main(["validate", "-o", "junit", str(file)]) == 1
    suites: Any = ElementTree.fromstring(capsys.readouterr().out)
    [suite] = suites
    assert (suite.get("name"), suite.get("tests"), suite.get("failures")) == (str(file), "2", "1")
    bad, good = suite
    assert (bad.get("name"), good.get("name"), len(good)) == ("ConfigMap/A%,:é", "ConfigMap/good", 0)
    [failure] = bad
    assert failure.get("type") == "FieldValueInvalid"
    assert [line.partition(": ")[0] for line in failure.text.splitlines()] == [f"{file}:3", f"{file}:4", f"{file}:4"]


def test_junit_of_standard_input(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    """An object on standard input is one test, passed or failed; what fails in a template names no line of it."""
    suites: Any = ElementTree.fromstring(report("junit", RENDERED, monkeypatch, capsys))
    tests = [(suite.get("name"), test.get("name"), [*test]) for suite in suites for test in suite]
    assert [(file, test, len(failures)) for file, test, failures in tests] == [
        ("shop/templates/good.yaml", "ConfigMap/good", 0),
        ("shop/templates/bad one.yaml", "ConfigMap/A%,:é", 1),
        ("-", "Pod/p", 1),
    ]
    texts = [failure.text for _, _, failures in tests for failure in failures]
    assert texts[0].startswith("shop/templates/bad one.yaml: metadata.name: Invalid value")
    assert texts[1].startswith("spec.containers: json: cannot unmarshal number")
