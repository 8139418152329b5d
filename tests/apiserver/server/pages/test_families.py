"""The families of /metrics beside those of kube-apiserver."""

from __future__ import annotations

import re
from fnmatch import fnmatchcase
from itertools import chain
from pathlib import Path
from typing import Any, NamedTuple

import pytest

from tests.apiserver.server.pages.counted_flows import ISSUED, issue_certificates
from tests.http import send
from understudy import Server
from understudy.admission.metrics import AdmissionMetrics
from understudy.apiserver.authentication.counted.token_cache import TokenCache
from understudy.apiserver.extensions.metrics import DocumentMetrics
from understudy.apiserver.server.pages.request_counts import RequestCounts
from understudy.apiserver.serving.monitoring import WatchMetrics
from understudy.kinds.core.services import metrics as service_metrics
from understudy.machinery.releases.version import Version

FOLDER = Path(__file__).parent / "families"  # NAME TYPE LABEL,LABEL HELP of each family, as kube-apiserver has them
LIMITS = Path(__file__).parents[4] / "docs/limits.md"
POLICY = {"omitStages": ["RequestReceived"], "rules": [{"level": "None", "nonResourceURLs": ["/metrics"]},
          {"level": "None", "users": ["system:apiserver"]}, {"level": "Metadata"}]}  # fmt: skip
READ = ("/api/v1/componentstatuses", "/api/v1/events", "/api/v1/pods")
OF_TERMINATED = "apiserver_request_terminations_total"  # not on the page, as no request was


class Family(NamedTuple):
    kind: str
    labels: str
    about: str


def families_of(text: str) -> dict[str, Family]:
    """Return the families of a page by their names; one without samples has no labels."""
    return {
        name: Family(kind, labels_of(name, text), about)
        for name, about, kind in re.findall(r"^# HELP (\w+) (.*)\n# TYPE \w+ (\w+)$", text, re.MULTILINE)
    }


def labels_of(name: str, text: str) -> str:
    sample = re.search(rf"^{name}(?:_bucket)?\{{(.*)\}} ", text, re.MULTILINE)
    labels = re.findall(r'(?:^|,)(\w+)="', sample[1]) if sample else []
    return ",".join(sorted({*labels} - {"le", "quantile"})) or "-"


def recorded(release: str) -> dict[str, Family]:
    lines = (FOLDER / f"{release}.txt").read_text().splitlines()
    return {name: Family(*rest) for name, *rest in (line.split(" ", 3) for line in lines)}


def missing() -> list[str]:
    """Return the names and patterns of the families that the documentation says are missing."""
    section = LIMITS.read_text().partition("## Metrics that are missing")[2].partition("\n## ")[0]
    rows = [line.split("|")[1] for line in section.splitlines() if line.startswith("| `")]
    return [name for row in rows for name in re.findall("`([^`]+)`", row)]


@pytest.fixture(scope="module", params=["1.32", "1.37"])
def release(request: pytest.FixtureRequest) -> str:
    return str(request.param)


@pytest.fixture(scope="module")
def page(release: str, tmp_path_factory: pytest.TempPathFactory) -> str:
    """Return /metrics of a server of the release after requests that leave traces."""
    options: dict[str, Any] = {"audit_policy": POLICY, "enable_priority_and_fairness": True}
    options["storage"] = f"sqlite:{tmp_path_factory.mktemp('page') / 'file'}"
    with Server(emulated_version=release, **options) as server:
        for path, headers in (*((path, {}) for path in READ), (READ[0], {"Impersonate-User": "ann"})):
            send(server, "GET", path, headers=headers)
        issue_certificates(lambda method, path, body: send(server, method, path, body))
        return send(server, "GET", "/metrics").body.decode()


def test_families_are_those_of_the_release(release: str, page: str) -> None:
    """Names, types, labels and help texts are those of kube-apiserver of the release."""
    own, expected = families_of(page), recorded(release)
    compared = {*own} & {*expected}
    assert {name: own[name] for name in compared} == {name: expected[name] for name in compared}
    assert [name for name in own if name not in expected and not name.startswith("understudy_")] == []


def test_missing_families_are_documented(release: str, page: str) -> None:
    """The documentation names all families of kube-apiserver that are missing, and no others."""
    version = Version.parse(release)
    counts = RequestCounts(lambda: 0.0, version).families()
    served = WatchMetrics(version).families, TokenCache().families, DocumentMetrics().families
    allocated = service_metrics.families()
    later = {family.name for family in chain(AdmissionMetrics(version).families, *served, counts, allocated)}
    own, patterns = {*families_of(page), *later, OF_TERMINATED}, missing()
    unlisted = [
        name for name in recorded(release) if (name in own) == any(fnmatchcase(name, pattern) for pattern in patterns)
    ]
    assert unlisted == []


def test_certificates_with_a_duration_are_counted(page: str) -> None:
    """Count certificates whose request asks for a duration, and those that have it, by signer."""
    assert [line for line in page.splitlines() if line.startswith("apiserver_certificates_registry_")] == [
        f'apiserver_certificates_registry_csr_{name}_duration_total{{signerName="{signer}"}} {count}'
        for name, signer, count in (
            ("honored", "kubernetes.io/kube-apiserver-client", 2),
            ("honored", "other", 1),
            ("requested", "kubernetes.io/kube-apiserver-client", 3),
            ("requested", "other", 2),
        )
    ]


def test_audit_events_are_counted(page: str) -> None:
    """Levels are those of requests, "None" included; events are what the backends get, without omitted stages."""
    asked = 1 + len(READ) + 5 * len(ISSUED)
    assert [line for line in page.splitlines() if line.startswith("apiserver_audit_") and "None" not in line] == [
        f"apiserver_audit_event_total {asked}",
        f'apiserver_audit_level_total{{level="Metadata"}} {asked}',
        "apiserver_audit_requests_rejected_total 0",
    ]
    assert 'apiserver_audit_level_total{level="None"} ' in page


@pytest.mark.parametrize(
    ("release", "resources"), [("1.32", ["componentstatuses"]), ("1.37", ["componentstatuses", "endpoints"])]
)
def test_deprecated_apis_that_were_requested(release: str, resources: list[str]) -> None:
    """A version that the release deprecates is named once it was asked for."""
    with Server(emulated_version=release) as server:
        for path in ("componentstatuses", "endpoints", "endpoints", "pods"):
            send(server, "GET", f"/api/v1/{path}")
        lines = send(server, "GET", "/metrics").body.decode().splitlines()
    samples = [line for line in lines if line.startswith("apiserver_requested_deprecated_apis{")]
    named = (
        'apiserver_requested_deprecated_apis{{group="",removed_release="",resource="{}",subresource="",version="v1"}} 1'
    )
    assert samples == [named.format(resource) for resource in resources]


@pytest.mark.parametrize(
    ("release", "samples"),
    [
        ("1.33", ['apiserver_storage_objects{resource="resourceclaims.resource.k8s.io"} 0']),
        ("1.34", ['apiserver_resource_objects{group="resource.k8s.io",resource="resourceclaims"} 0',
                  'apiserver_storage_objects{resource="resourceclaims.resource.k8s.io"} 0']),
        ("1.35", ['apiserver_resource_objects{group="resource.k8s.io",resource="resourceclaims"} 0']),
    ],
)  # fmt: skip
def test_stored_objects_by_release(release: str, samples: list[str]) -> None:
    """1.34 renames the family, and has both."""
    with Server(emulated_version=release) as server:
        lines = send(server, "GET", "/metrics").body.decode().splitlines()
    assert [line for line in lines if "_objects{" in line and "resourceclaims" in line] == samples
