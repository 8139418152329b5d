"""The page as one file in a real browser: the views of the page at /ui/, without a server."""

from __future__ import annotations

import base64
import gzip
import json
import re
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from tests.ui.axe import serious_findings
from tests.ui.conftest import NARROW, Open
from tests.ui.worlds import MARKUP, hostile_objects, hostile_thing
from tests.waiting import wait_until
from understudy import Server
from understudy.ui.assets import script

if TYPE_CHECKING:
    from playwright.sync_api import Page

CLAIMS = "#/objects/resource.k8s.io/resourceclaims"
NODE = {"apiVersion": "v1", "kind": "Node", "metadata": {"name": "node-3"}}
LARGEST = 2_000_000  # bytes for a thousand objects


@pytest.fixture(scope="module")
def report(tmp_path_factory: pytest.TempPathFactory) -> str:
    """Return the address of a report; its server is gone."""
    with Server(load=["almost-full", NODE]) as server:
        server.create(
            {"apiVersion": "v1", "kind": "Secret", "metadata": {"name": "s"}, "stringData": {"key": "hidden"}}
        )
        claim = server.get("resourceclaims", "training")
        about = {"kind": "ResourceClaim", "name": "training", "uid": claim["metadata"]["uid"]}
        owned = {"name": "owned", "ownerReferences": [{"apiVersion": "resource.k8s.io/v1", **about}]}
        server.create({"apiVersion": "v1", "kind": "ConfigMap", "metadata": owned})
        involved = {**about, "namespace": "default"}
        event = {"metadata": {"name": "e"}, "involvedObject": involved, "reason": "Trained", "message": "at last"}
        server.create({"apiVersion": "v1", "kind": "Event", **event})
        path = server.report(tmp_path_factory.mktemp("report") / "report.html", title="tests/test_it.py::test_<b>")
    return path.as_uri()


def data_of(path: Path) -> Any:
    """Return the data in a report."""
    found = re.search(r'id="report">([^<]*)<', path.read_text())
    assert found
    return json.loads(gzip.decompress(base64.b64decode(found[1])))


def requests_of(page: Page) -> list[str]:
    """Return the URLs that a page asks for from now on."""
    asked: list[str] = []
    page.on("request", lambda request: asked.append(request.url))
    return asked


def test_objects_of_a_report(report: str, open_page: Open) -> None:
    """Show the tables, objects, managers, owners and events that the server had, and nothing that would change them."""
    page = open_page(report)
    asked = requests_of(page)
    assert "tests/test_it.py::test_<b>, at 20" in page.locator(".head .about").inner_text()
    assert page.locator(".state").inner_text() == "a report"
    page.locator(".cards a", has_text="ResourceClaim").first.click()
    page.locator("td a", has_text="training").click()
    page.wait_for_selector(".lines li")
    assert "deviceClassName: gpu.example.com" in page.locator(".lines").inner_text()
    assert page.locator(".managers button").count() == 2
    tabs = page.locator(".tabs a")
    assert tabs.all_inner_texts() == ["YAML", "Life", "Owners", "Events"]
    tabs.filter(has_text="Events").click()
    page.locator(".events b", has_text="Trained").wait_for()
    tabs.filter(has_text="Owners").click()
    page.locator(".tree a", has_text="default/owned").click()
    page.locator(".tree .here", has_text="default/owned").wait_for()
    assert page.locator(".tree a").all_inner_texts() == ["ResourceClaim default/training"]
    page.goto(f"{report}{CLAIMS}/default/none")
    assert page.locator(".empty").inner_text() == "There is no such object."
    assert page.locator(".danger, a.button").count() == 0
    page.goto(f"{report}#/objects/core/secrets/default/s")
    page.locator(".lines", has_text="(left out)").wait_for()
    assert asked == []


def test_devices_of_a_report(report: str, open_page: Open) -> None:
    """Show who holds each device, and why a claim that waits gets none."""
    page = open_page(report, "#/devices")
    device = page.locator("[data-device='gpu.example.com/node-1/gpu-0']")
    assert "default/training" in device.inner_text()
    device.click()
    page.locator(".detail a", has_text="default/training").wait_for()
    page.locator("summary", has_text="default/two-more").click()
    page.locator("details[open] .stories", has_text="in use by claim default/training").wait_for()


def test_requests_of_a_report(report: str, open_page: Open) -> None:
    """Show what the server was asked, and what that has changed."""
    page = open_page(report, "#/requests?q=training%2Fstatus")
    rows = page.locator(".requests tbody tr")
    wait_until(lambda: rows.count() == 1)
    rows.locator("a").click()
    page.locator(".detail .diff code", has_text="status").first.wait_for()
    assert page.locator(".command").inner_text().startswith("curl")
    assert page.get_by_role("button", name="Hold").count() == 0


def test_report_of_many_devices(many_nodes: Server, open_page: Open, tmp_path: Path) -> None:
    """500 nodes with 5,000 devices, and a thousand objects, are less than 2 MB, which the browser shows."""
    path = many_nodes.report(tmp_path / "report.html")
    data = data_of(path)
    assert sum(len(table["rows"]) for table in data["tables"].values()) > 1000
    assert path.stat().st_size < LARGEST
    page = open_page(path.as_uri(), "#/devices")
    cells = page.locator(".cells .cell")
    wait_until(lambda: cells.count() == 5000)
    page.fill("input[type=search]", "node-499")
    wait_until(lambda: cells.count() == 10)


def test_size_of_many_pods(tmp_path: Path) -> None:
    """Objects with many fields, each with other values, and their managers, take their share of 2 MB at most."""
    with Server() as server:
        for number in range(250):
            server.create(pod(number))
        path = server.report(tmp_path / "report.html")
    assert len(data_of(path)["tables"]["/pods"]["rows"]) == 250
    assert path.stat().st_size < LARGEST / 4


def pod(number: int) -> dict[str, Any]:
    values = [{"name": f"V{each}", "value": f"{hash((number, each)):x}"} for each in range(20)]
    container = {"name": "main", "image": f"example.com/main:{number}", "env": values}
    metadata = {"name": f"pod-{number}", "labels": {f"label-{each}": f"{number}-{each}" for each in range(10)}}
    return {"apiVersion": "v1", "kind": "Pod", "metadata": metadata, "spec": {"containers": [container]}}


def test_hostile_texts_run_nothing_in_a_report(open_page: Open, tmp_path: Path) -> None:
    """Markup in every text that the API lets in, and in the title, is shown as text and ends no script."""
    with Server(load=hostile_objects()) as server:
        server.apply(hostile_thing())
        path = server.report(tmp_path / "report.html", title=f"</script>{MARKUP}")
    page = open_page(path.as_uri())
    assert page.locator(".head .about", has_text="</script><img").count() == 1
    maps, things = "#/objects/core/configmaps", "#/objects/example.com/things"
    places = [maps, f"{maps}/default/hostile", "#/objects/core/events", things, f"{things}/default/hostile",
              f"{CLAIMS}/default/hostile", "#/devices?device=gpu.example.com/node-1/gpu-0",
              "#/objects/<img src=x onerror=window.broken=1>"]  # fmt: skip
    for place in places:
        page.goto(f"{path.as_uri()}{place}")
        page.wait_for_selector("td a, .lines li, .empty, .cell")
    assert page.evaluate("window.broken") is None
    assert page.locator("main img, main script").count() == 0


def test_report_lets_only_its_own_script_run(report: str, open_page: Open) -> None:
    """The policy in the file allows its script and style by their hashes, and neither others nor requests."""
    text = Path(report.removeprefix("file://")).read_text()
    [policy] = re.findall(r'Content-Security-Policy" content="([^"]*)"', text)
    assert policy.startswith("default-src 'none'; script-src 'sha256-")
    assert "connect-src 'none'" in policy
    assert "unsafe" not in policy
    assert not re.search(r"</script|<!--", script())
    assert text.count("<script") == 2
    page = open_page(report)
    with pytest.raises(Exception, match="TrustedHTML"):
        page.evaluate("document.body.innerHTML = '<i>'")


def test_report_is_accessible(report: str, open_page: Open) -> None:
    """axe-core finds nothing serious, and at 360 pixels nothing is wider than the window."""
    for place, scheme in (
        ("", "light"),
        (f"{CLAIMS}/default/training", "dark"),
        ("#/devices", "light"),
        ("#/requests", "dark"),
    ):
        page = open_page(report, place, NARROW, scheme)
        page.wait_for_selector(".cards a, .lines li, .cell, .requests a")
        assert serious_findings(page) == []
        assert page.evaluate("document.documentElement.scrollWidth") <= NARROW[0]


def test_annotation_of_kubectl_does_not_tell_a_secret(tmp_path: Path) -> None:
    """The values of a Secret are not in the report, neither as data nor in what `kubectl apply` notes."""
    annotation = "kubectl.kubernetes.io/last-applied-configuration"
    metadata = {"name": "s", "annotations": {annotation: '{"stringData":{"key":"hidden"}}'}}
    with Server() as server:
        server.create({"apiVersion": "v1", "kind": "Secret", "metadata": metadata, "stringData": {"key": "hidden"}})
        data = data_of(server.report(tmp_path / "report.html"))
    [secret] = [row["object"] for row in data["tables"]["/secrets"]["rows"]]
    assert secret["data"] == {"key": "(left out)"}
    assert secret["metadata"]["annotations"] == {annotation: "(left out)"}
    assert "hidden" not in json.dumps(data)


def test_report_of_older_versions(tmp_path: Path) -> None:
    """A server that serves only older versions of the kinds of claims is reported, but does not say why they wait."""
    request = {"name": "gpu", "exactly": {"deviceClassName": "gpu"}}
    claim = {"apiVersion": "resource.k8s.io/v1beta2", "kind": "ResourceClaim", "metadata": {"name": "c"}}
    with Server(runtime_config={"resource.k8s.io/v1": False}) as server:
        server.create({**claim, "spec": {"devices": {"requests": [request]}}})
        data = data_of(server.report(tmp_path / "report.html"))
    assert len(data["tables"][CLAIMS.removeprefix("#/objects/")]["rows"]) == 1
    assert data["explanations"] == {}
