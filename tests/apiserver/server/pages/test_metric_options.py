"""The options of /metrics: families that are left out or shown, and labels whose values are known."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import pytest

from tests.http import send
from understudy import Server

MAPS = "/api/v1/namespaces/default/configmaps"
KEYS = r"""must have keys with format `metricName,labelName` where metricName matches "[a-zA-Z_:][a-zA-Z0-9_:]*" """
KEYS += r'''and labelName matches "[a-zA-Z_][a-zA-Z0-9_]*"'''
OLD_KEYS = "--allow-metric-labels must have a list of kv pair with format "
OLD_KEYS += "`metricName,labelName=labelValue, labelValue,...`"
BEFORE = "only the previous minor version is allowed"
NAMES = r'must be fully qualified metric names matching "^[a-zA-Z_:][a-zA-Z0-9_:]*$", got "a-b"'
BOTH = "cannot specify both allowListMapping and allowListMappingManifest"


def page(**options: Any) -> str:
    """Return /metrics of a server that has been asked for a list, and that has created an object."""
    with Server(**options) as server:
        for name in ("a", "b"):
            obj = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": name}}
            assert send(server, "POST", MAPS, obj).status == 201
            assert send(server, "GET", f"{MAPS}/{name}").status == 200
        return send(server, "GET", "/metrics").body.decode()


def values(text: str, name: str, label: str) -> set[str]:
    return set(re.findall(rf'^{name}\{{.*\b{label}="(.*?)"', text, re.MULTILINE))


def number(text: str, name: str) -> float:
    found = re.search(rf"^{name}(?:\{{.*\}})? (.*)$", text, re.MULTILINE)
    assert found, name
    return float(found[1])


def test_other_values_of_labels_are_unexpected(tmp_path: Path) -> None:
    """Values that are not listed are "unexpected": their counters and histograms are added up, and they are counted."""
    (tmp_path / "labels.yaml").write_text('"apiserver_request_total,verb": "GET"\n')
    text = page(
        allow_metric_labels='"apiserver_request_total,verb=POST","apiserver_request_duration_seconds,verb=LIST,GET"'
    )
    assert values(text, "apiserver_request_total", "verb") == {"POST", "unexpected"}
    assert values(text, "apiserver_request_duration_seconds_count", "verb") == {"GET", "unexpected"}
    posted = r'apiserver_request_total\{code="201",.*verb="POST",version="v1"\} 2'
    assert len(re.findall(posted, text)) == 1
    assert number(text, "cardinality_enforcement_unexpected_categorizations_total") >= 4
    assert number(text, "disabled_metrics_total") == 0
    from_file = page(allow_metric_labels_manifest=tmp_path / "labels.yaml")
    assert values(from_file, "apiserver_request_total", "verb") == {"GET", "unexpected"}


def test_disabled_metrics_are_left_out() -> None:
    """Metrics that kube-apiserver registers before it reads the flag are written all the same."""
    names = ["apiserver_request_total", "kubernetes_build_info", "authentication_attempts"]
    for release, left in (("1.37", {"kubernetes_build_info"}), ("1.32", {*names[1:]})):
        text = page(emulated_version=release, disabled_metrics=names, token_auth_file=None)
        assert {name for name in names if f"# TYPE {name} " in text} <= left
        assert "# TYPE kubernetes_build_info " in text
        assert number(text, "disabled_metrics_total") == 3


def test_hidden_metrics_are_shown_on_request() -> None:
    """A metric that was deprecated some releases ago is shown for those who name the release before."""
    assert "apiserver_storage_objects" not in page(emulated_version="1.37")
    text = page(emulated_version="1.37", show_hidden_metrics_for_version="1.36")
    assert "# HELP apiserver_storage_objects [STABLE] (Deprecated since 1.34.0) [DEPRECATED, consider using" in text
    assert 'apiserver_storage_objects{resource="configmaps"}' in text


@pytest.mark.parametrize(
    ("release", "options", "message"),
    [
        (
            "1.37",
            {"show_hidden_metrics_for_version": "1.30"},
            "metrics.showHiddenMetricsForVersion: Invalid value: \"1.30\": must be omitted or have the value '1.36'; "
            + BEFORE,
        ),
        (
            "1.37",
            {"allow_metric_labels": "a-b,c=b"},
            f'metrics.allowListMapping: Invalid value: {{"a-b,c":"b"}}: {KEYS}',
        ),
        ("1.37", {"disabled_metrics": "a-b,c"}, f'metrics.disabledMetrics: Invalid value: ["a-b","c"]: {NAMES}'),
        (
            "1.37",
            {"allow_metric_labels_manifest": "/none"},
            'metrics.allowListMappingManifest: Invalid value: "/none": failed to read allow list manifest: '
            "open /none: no such file or directory",
        ),
        (
            "1.37",
            {"allow_metric_labels_manifest": "FILE"},
            'metrics.allowListMappingManifest: Invalid value: "FILE": invalid allow list mapping in manifest: '
            f'[metrics.allowListMappingManifest: Invalid value: {{"a,b":"c","bad":"x"}}: {KEYS}]',
        ),
        (
            "1.37",
            {"allow_metric_labels": "a,c=b", "allow_metric_labels_manifest": "GOOD"},
            'metrics: Invalid value: {"allowListMapping":{"a,c":"b"},"allowListMappingManifest":"GOOD"}: ' + BOTH,
        ),
        (
            "1.32",
            {"show_hidden_metrics_for_version": "1.30"},
            "--show-hidden-metrics-for-version must be omitted or have the value '1.31'. Only the previous minor "
            "version is allowed",
        ),
        ("1.32", {"allow_metric_labels": "a-b,c=b"}, OLD_KEYS),
    ],
)
def test_odd_options_are_refused(release: str, options: dict[str, str], message: str, tmp_path: Path) -> None:
    """Options that make no sense are refused with the texts of kube-apiserver of the release."""
    files = {"FILE": 'a,b: "c"\nbad: x\n', "GOOD": 'a,b: "c"\n'}
    for name, content in files.items():
        (tmp_path / name).write_text(content)
        options = {key: str(tmp_path / name) if value == name else value for key, value in options.items()}
        message = message.replace(name, str(tmp_path / name))
    with pytest.raises(ValueError, match=f"^{re.escape(message)}$"):
        Server(emulated_version=release, **options)  # type: ignore[arg-type]


@pytest.mark.parametrize("options", [{"disabled_metrics": "a-b"}, {"allow_metric_labels_manifest": "/none"}])
def test_older_releases_ignore_odd_names_and_files(options: dict[str, str]) -> None:
    """Before 1.36 names of metrics were not looked at, and a file that could not be read was logged only."""
    with Server(emulated_version="1.32", **options) as server:  # type: ignore[arg-type]
        assert send(server, "GET", "/metrics").status == 200
