"""The life of objects in a real browser: time lines, what becomes of a claim, and the page at an earlier revision."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from tests.ui.axe import serious_findings
from tests.ui.conftest import NARROW, Open
from tests.ui.worlds import hostile_objects, hostile_thing
from tests.waiting import wait_until
from understudy import Server

if TYPE_CHECKING:
    from playwright.sync_api import Page

CLAIMS = "#/objects/resource.k8s.io/resourceclaims"
MAPS = "#/objects/core/configmaps"
TEMPLATE = {
    "apiVersion": "resource.k8s.io/v1",
    "kind": "ResourceClaimTemplate",
    "metadata": {"name": "one-gpu"},
    "spec": {"spec": {"devices": {"requests": [{"name": "gpu", "exactly": {"deviceClassName": "gpu.example.com"}}]}}},
}
POD = {
    "apiVersion": "v1",
    "kind": "Pod",
    "metadata": {"name": "job"},
    "spec": {
        "containers": [{"name": "main", "image": "job", "resources": {"claims": [{"name": "gpu"}]}}],
        "resourceClaims": [{"name": "gpu", "resourceClaimTemplateName": "one-gpu"}],
    },
}


def config_map(name: str, **data: str) -> dict[str, Any]:
    return {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": name, "namespace": "default"}, "data": data}


def revision_of(obj: Any) -> int:
    return int(obj["metadata"]["resourceVersion"])


def run_job(server: Server) -> str:
    """Run a pod with a claim as the scheduler and a kubelet do; return the name of the claim."""
    server.create(TEMPLATE)
    server.create(POD)
    pod = wait_until(lambda: server.get("pods", "job"), lambda pod: pod["spec"].get("nodeName"))
    pod["status"] |= {"phase": "Running"}
    pod["status"]["conditions"].append({"type": "PodReadyToStartContainers", "status": "True"})
    server.update(pod, subresource="status")
    return str(pod["status"]["resourceClaimStatuses"][0]["resourceClaimName"])


@pytest.fixture(scope="module")
def server() -> Iterator[Server]:
    """Run a server with one map that has changed, one that is gone, and a claim that was prepared."""
    with Server(ui=True, load=["almost-full"], controllers=["scheduler", "resourceclaim"]) as running:
        running.apply(config_map("changed", color="red"), field_manager="ann")
        running.apply(config_map("changed", color="green"), field_manager="ann")
        running.apply(config_map("gone", a="b"))
        running.delete("configmaps", "gone")
        run_job(running)
        yield running


@pytest.fixture(scope="module")
def claim(server: Server) -> str:
    return str(server.get("pods", "job")["status"]["resourceClaimStatuses"][0]["resourceClaimName"])


@pytest.fixture(scope="module")
def report(server: Server, tmp_path_factory: pytest.TempPathFactory) -> str:
    file = tmp_path_factory.mktemp("life") / "report.html"
    return server.report(file, title="tests/test_jobs.py::test_job_gets_a_gpu").as_uri()


def titles(page: Page) -> list[str]:
    return page.locator(".life .what > p > b").all_inner_texts()


@pytest.fixture(params=["server", "report"])
def place(request: pytest.FixtureRequest, server: Server, report: str) -> str:
    """Return the address of the page that a server sends, and of the one in a file."""
    return report if request.param == "report" else f"{server.url}/ui/"


def test_changes_are_told_with_their_managers(place: str, server: Server, open_page: Open) -> None:
    """Each write says who has set which fields to what, and leads to the object as it was then, and back."""
    page = open_page(place, f"{MAPS}/default/changed?tab=life")
    page.wait_for_selector(".diff")
    assert titles(page) == ["changed", "created"]
    entry = page.locator(".life .write").first
    assert "by ann (Apply) patch of system:apiserver" in entry.inner_text()
    assert (entry.locator("code").inner_text(), entry.locator("del").inner_text(), entry.locator("ins").inner_text()) \
        == ("data.color", "red", "green")  # fmt: skip
    page.locator(".life .when a").last.click()
    page.locator(".lines", has_text="color: red").wait_for()
    created = page.url.rpartition("at=")[2]
    assert int(created) == revision_of(server.get("configmaps", "changed")) - 1
    assert page.locator(".danger").count() == 0
    page.locator("[aria-label='One revision later']").click()
    page.locator(".lines", has_text="color: green").wait_for()
    page.locator(".timebar a").click()
    page.locator(".timebar").wait_for(state="detached")
    page.go_back()
    page.wait_for_selector(".timebar")


def test_claim_tells_how_far_it_has_come(
    place: str, claim: str, open_page: Open, keep_screenshot: Callable[[Page, str], None]
) -> None:
    """A claim names its template, pod and devices; what its pod and events say stands between its own changes."""
    page = open_page(place, f"{CLAIMS}/default/{claim}?tab=life")
    page.locator(".stages .done", has_text="Prepared").wait_for()
    stages = [text.split()[:2] for text in page.locator(".stages li").all_inner_texts()]
    device = "gpu.example.com/node-2/gpu-1"
    assert stages == [["Template", "one-gpu"], ["Created", "job"], ["Allocated", device], ["Reserved", "job"],
                      ["Prepared", "job"]]  # fmt: skip
    text = page.locator(".life").inner_text()
    assert "by kube-scheduler (Update of status)" in text
    assert "PodReadyToStartContainers: True" in text
    assert f"device: {device.rpartition('/')[2]}" in text
    if not place.startswith("file:"):
        keep_screenshot(page, "ui-life")
    page.locator(".stages a", has_text="one-gpu").click()
    page.locator("h1", has_text="one-gpu").wait_for()


def test_deleted_object_is_remembered(place: str, open_page: Open) -> None:
    """An object that is gone has a life, and is in its collection as it was before."""
    page = open_page(place, f"{MAPS}/default/gone?tab=life")
    page.wait_for_selector(".life")
    assert titles(page) == ["deleted", "created"]
    page.locator(".life a", has_text="revision").first.click()
    page.locator(".lines", has_text="a: b").wait_for()
    page.locator(".path a", has_text="ConfigMap").click()
    page.locator("td a", has_text="gone").wait_for()
    page.locator(".timebar a").click()
    page.locator("td a", has_text="gone").wait_for(state="detached")


def test_whole_page_goes_back(
    place: str, server: Server, open_page: Open, keep_screenshot: Callable[[Page, str], None]
) -> None:
    """Numbers of objects, tables and devices are those of the revision; links stay there."""
    before = revision_of(server.get("configmaps", "changed")) - 2
    page = open_page(place, f"#/objects?at={before}")
    page.locator(".cards a", has_text="ResourceClaim").first.wait_for()
    assert page.locator(".cards a", has_text="Pod").count() == 0
    page.locator(".top a", has_text="Devices").click()
    page.locator("[data-device='gpu.example.com/node-2/gpu-1'].free").wait_for()
    assert page.url.endswith(f"at={before}")
    if not place.startswith("file:"):
        keep_screenshot(page, "ui-past")
    page.locator(".timebar a").click()
    page.locator("[data-device='gpu.example.com/node-2/gpu-1'].held").wait_for()
    if place.startswith("file:"):
        page.locator(".top a", has_text="Objects").click()
        page.locator(".head .about", has_text="test_job_gets_a_gpu").wait_for()
        keep_screenshot(page, "ui-report")


def test_why_a_claim_waited_is_not_known(place: str, server: Server, open_page: Open) -> None:
    """At an earlier revision a claim without devices says that the reasons are known of now only, and leads there."""
    page = open_page(place, f"#/devices?at={revision_of(server.get('configmaps', 'changed'))}")
    page.locator("summary", has_text="default/two-more").click()
    page.locator("details[open] p", has_text="known of now only").get_by_role("link", name="Back to now").click()
    page.locator(".timebar").wait_for(state="detached")
    assert page.url.endswith("#/devices")


def test_life_goes_on(open_page: Open) -> None:
    """A change and the end of an object appear in its life by themselves."""
    with Server(ui=True) as server:
        server.apply(config_map("live", a="1"))
        page = open_page(server, f"{MAPS}/default/live?tab=life")
        page.locator(".life b", has_text="created").wait_for()
        server.apply(config_map("live", a="2"))
        page.locator(".diff ins", has_text="2").wait_for()
        server.delete("configmaps", "live")
        page.locator(".life b", has_text="deleted").wait_for()


def test_forgotten_revision_is_said_to_be(open_page: Open) -> None:
    """The server says that it does not know a revision any more, and the way back to now is there."""
    with Server(ui=True) as server:
        server.apply(config_map("kept", a="1"))
        server.compact()
        page = open_page(server, f"{MAPS}?at=5")
        page.locator("main .wait", has_text="too old").wait_for()
        page.locator(".timebar a").click()
        page.locator("td a", has_text="kept").click()
        page.locator(".tabs a", has_text="Life").click()
        page.locator(".life b", has_text="as it was first known").wait_for()


def test_hostile_texts_run_nothing_in_lives(open_page: Open, tmp_path: Path) -> None:
    """Markup in every text, before and after a change, is shown as text."""
    objects = hostile_objects()
    with Server(ui=True, load=objects) as server:
        server.apply(hostile_thing())
        for each in [*objects, hostile_thing()]:
            changed = server.get(each["kind"], each["metadata"]["name"])
            texts = [changed.get("data", {}), changed["metadata"].setdefault("annotations", {})]
            for text in texts:
                text |= dict.fromkeys(text, "<img src=x onerror=window.broken=1>")
            server.update(changed)
        file = server.report(tmp_path / "report.html").as_uri()
        places = [f"{MAPS}/default/hostile", "#/objects/core/nodes/-/node-1", "#/objects/core/events/default/hostile",
                  "#/objects/example.com/things/default/hostile", f"{CLAIMS}/default/hostile"]  # fmt: skip
        for root in (f"{server.url}/ui/", file):
            page = open_page(root)
            for place in places:
                page.goto(f"{root}{place}?tab=life")
                page.wait_for_selector(".life li")
            assert page.evaluate("window.broken") is None
            assert page.locator("main img, main script").count() == 0


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_lives_are_accessible(server: Server, claim: str, open_page: Open, scheme: str) -> None:
    """axe-core finds nothing serious, and at 360 pixels nothing is wider than the window."""
    at = server.get("resourceclaims", claim)["metadata"]["resourceVersion"]
    page = open_page(server, f"{CLAIMS}/default/{claim}?tab=life&at={at}", NARROW, scheme)
    page.locator(".stages .done", has_text="Prepared").wait_for()
    assert serious_findings(page) == []
    assert page.evaluate("document.documentElement.scrollWidth") <= NARROW[0]


def test_fields_of_lists_are_told_apart(server: Server, open_page: Open) -> None:
    """Items of lists are compared by what names them, and fields in the order in which they stand."""
    before = {"a": [{"name": "x", "v": 1}, {"name": "y", "v": 2}], "b": [1, 2], "c": {"d.e/f": "g"}, "h": 1}
    after = {
        "a": [{"name": "y", "v": 3}, {"name": "z"}],
        "b": [2],
        "c": {"d.e/f": "i"},
        "metadata": {"generation": 2},
    }
    page = open_page(server)
    found = page.evaluate(
        "([a, b]) => { const {fieldChanges, pathText} = modules['changes.js'];"
        "return fieldChanges(a, b).map((each) => [pathText(each.path), each.before ?? null, each.after ?? null]); }",
        [before, after],
    )
    assert found == [
        ["a[name=x]", {"name": "x", "v": 1}, None],
        ["a[name=y].v", 2, 3],
        ["a[name=z]", None, {"name": "z"}],
        ["b", [1, 2], [2]],
        ['c["d.e/f"]', "g", "i"],
        ["h", 1, None],
        ["metadata", None, {"generation": 2}],
    ]
