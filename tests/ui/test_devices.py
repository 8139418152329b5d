"""The view of devices in a real browser: who holds which, what is left of counters, and why claims wait."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING

import pytest

from tests.http import send
from tests.ui.axe import serious_findings
from tests.ui.conftest import NARROW, Open
from tests.waiting import wait_until
from understudy import Server

if TYPE_CHECKING:
    from playwright.sync_api import Page

DEVICES = "#/devices"


@pytest.fixture(scope="module")
def server() -> Iterator[Server]:
    with Server(ui=True, load=["almost-full"]) as running:
        yield running


def cell(page: Page, device: str) -> str:
    return page.locator(f"[data-device='{device}']").inner_text()


def test_devices_show_their_holders(
    server: Server, open_page: Open, keep_screenshot: Callable[[Page, str], None]
) -> None:
    """Each device names the claim that holds it; one that is chosen tells all about it, under its own address."""
    page = open_page(server, DEVICES)
    page.wait_for_selector(".cell")
    device = "gpu.example.com/node-1/gpu-0"
    assert cell(page, device) == "gpu-0\ndefault/training"
    assert cell(page, "gpu.example.com/node-2/gpu-1") == "gpu-1\nfree"
    page.locator(f"[data-device='{device}']").click()
    page.locator(".detail a", has_text="default/training").wait_for()
    assert "device=gpu.example.com%2Fnode-1%2Fgpu-0" in page.url
    keep_screenshot(page, "ui-devices")
    page.locator(".detail button").click()
    page.wait_for_selector(".detail", state="detached")
    page.keyboard.press("/")
    page.keyboard.type("inference")
    cells = page.locator(".cells .cell")
    wait_until(lambda: cells.count() == 1)


def test_partitions_stand_under_what_they_share(open_page: Open, keep_screenshot: Callable[[Page, str], None]) -> None:
    """A partition that is held takes of the counters that it shares; what no longer fits is said not to."""
    with Server(ui=True, load=["partitions"]) as server:
        page = open_page(server, DEVICES)
        page.wait_for_selector(".shared .bar")
        claim = server.get("resourceclaims", "half")
        result = {"request": "partition", "driver": "gpu.example.com", "pool": "node-1", "device": "gpu-0-half-0"}
        claim["status"] = {"allocation": {"devices": {"results": [result]}}}
        server.update(claim, subresource="status")
        page.locator("[data-device='gpu.example.com/node-1/gpu-0-half-0'].held").wait_for()
        page.locator("[data-device='gpu.example.com/node-1/gpu-0'].blocked").wait_for()
        used = page.locator(".shared meter").evaluate_all("meters => meters.map(each => each.value)")
        assert used == [50, 100, 100, 0, 0]
        names = page.locator(".shared .cell b").all_inner_texts()
        assert names[:3] == ["gpu-0", "gpu-0-half-0", "gpu-0-half-2"]
        keep_screenshot(page, "ui-partitions")


def test_claim_that_waits_says_why(
    server: Server, open_page: Open, keep_screenshot: Callable[[Page, str], None]
) -> None:
    """A claim without devices tells per node which rule each device fails, as `understudy explain-allocation` does."""
    page = open_page(server, DEVICES, scheme="dark")
    page.locator("summary", has_text="default/two-more").click()
    page.locator(".stories li", has_text="node-1").first.wait_for()
    story = page.locator("details[open] .stories").inner_text()
    assert "in use by claim default/training" in story
    assert "1 of 2 found" in story
    keep_screenshot(page, "ui-why-not-dark")


def test_explanation_of_an_unknown_claim(server: Server) -> None:
    assert send(server, "GET", "/ui/data/explanation?claim=default/none").status == 404


def test_taints_and_releases_follow(open_page: Open) -> None:
    """A device that is tainted, and a claim that loses its devices, change their colors."""
    with Server(ui=True, load=["almost-full"]) as server:
        page = open_page(server, DEVICES)
        free = page.locator("[data-device='gpu.example.com/node-2/gpu-1']")
        free.wait_for()
        slice_ = server.get("resourceslices", "node-2-gpu.example.com")
        slice_["spec"]["devices"][1]["taints"] = [{"key": "example.com/broken", "effect": "NoSchedule"}]
        send(
            server, "PUT", "/apis/resource.k8s.io/v1/resourceslices/node-2-gpu.example.com", slice_, "application/json"
        )
        wait_until(lambda: "tainted" in (free.get_attribute("class") or ""))
        server.delete("resourceclaims", "training", namespace="default")
        page.locator("[data-device='gpu.example.com/node-1/gpu-0'].free").wait_for()


def test_many_nodes_are_shown(
    many_nodes: Server, open_page: Open, keep_screenshot: Callable[[Page, str], None]
) -> None:
    """5,000 devices of 500 nodes are all there, also at an earlier revision, and take less than 200 MB of the browser's
    memory."""
    page = open_page(many_nodes, DEVICES)
    cells = page.locator(".cells .cell")
    wait_until(lambda: cells.count() == 5000)
    keep_screenshot(page, "ui-many-devices")
    assert page.evaluate("performance.memory.usedJSHeapSize") < 200e6
    page.keyboard.press("/")
    page.keyboard.type("node-499")
    wait_until(lambda: cells.count() == 10)
    pool = {"name": "more", "generation": 1, "resourceSliceCount": 1}
    spec = {"driver": "more.example.com", "nodeName": "node-499", "pool": pool, "devices": [{"name": "one"}]}
    metadata = {"name": "more"}
    many_nodes.create({"apiVersion": "resource.k8s.io/v1", "kind": "ResourceSlice", "metadata": metadata, "spec": spec})
    wait_until(lambda: cells.count() == 11)
    page.goto(f"{many_nodes.url}/ui/{DEVICES}?q=node-499&at={many_nodes.state.registry.store.revision - 1}")
    wait_until(lambda: cells.count() == 10)
    many_nodes.delete("resourceslices", "more")


def test_devices_are_accessible(server: Server, open_page: Open) -> None:
    """axe-core finds nothing serious, and at 360 pixels nothing is wider than the window."""
    for scheme in ("light", "dark"):
        page = open_page(server, f"{DEVICES}?device=gpu.example.com/node-1/gpu-0", NARROW, scheme)
        page.wait_for_selector(".detail")
        assert serious_findings(page) == []
        assert page.evaluate("document.documentElement.scrollWidth") <= NARROW[0]
