"""A real browser for tests of the page: $CHROMIUM, or the one on PATH. Tests skip without one, and fail in CI, and skip
without the extra `browser`."""

from __future__ import annotations

import os
import shutil
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from understudy import Server

if TYPE_CHECKING:
    from playwright.sync_api import Browser, Page

REASON = "needs Chromium, on PATH or named by CHROMIUM"
NAMES = ("chromium", "chromium-browser", "google-chrome")
# Nothing but the page: no sandbox, which root may not have, and no requests of the browser's own.
FLAGS = (
    *("--no-sandbox", "--disable-gpu", "--disable-quic", "--no-first-run"),
    *("--disable-background-networking", "--disable-component-update", "--disable-sync"),
)
WIDE, NARROW = (1280, 860), (360, 740)

Open = Callable[..., "Page"]


def refuse(reason: str) -> None:
    """Skip the test; fail it in CI."""
    if os.environ.get("CI"):
        pytest.fail(reason)
    pytest.skip(reason)


@pytest.fixture(scope="module")
def browser() -> Iterator[Browser]:
    """Start a browser for the tests of a module. Its driver holds the event loop of the thread, which others need."""
    api = pytest.importorskip("playwright.sync_api", reason="needs the extra `browser`")
    path = os.environ.get("CHROMIUM") or next(filter(None, map(shutil.which, NAMES)), None)
    if not path:
        refuse(REASON)
    with api.sync_playwright() as driver:
        browser = driver.chromium.launch(executable_path=path, args=FLAGS)
        yield browser
        browser.close()


@pytest.fixture(scope="session")
def many_nodes() -> Iterator[Server]:
    """Run a server with 500 nodes and 5,000 devices, which tests leave as they are."""
    with Server(ui=True, load=["world:nodes?count=500&gpus=10"]) as server:
        yield server


@pytest.fixture
def open_page(browser: Browser) -> Iterator[Open]:
    """Return a function that opens a place of a server's page; the test fails for errors of its script."""
    contexts, wrong = [], []

    def open_page(server: Server | str, place: str = "", size: tuple[int, int] = WIDE, scheme: str = "light") -> Page:
        context = browser.new_context(
            viewport={"width": size[0], "height": size[1]},
            color_scheme="dark" if scheme == "dark" else "light",
            reduced_motion="reduce",
        )
        contexts.append(context)
        page = context.new_page()
        page.set_default_timeout(30_000)
        page.on("pageerror", lambda error: wrong.append(str(error)))
        page.on("console", lambda message: wrong.append(message.text) if "Content Security" in message.text else None)
        page.goto(f"{server.url}/ui/{place}" if isinstance(server, Server) else f"{server}{place}")
        return page

    yield open_page
    for context in contexts:
        context.close()
    assert wrong == []


@pytest.fixture
def keep_screenshot(pytestconfig: pytest.Config) -> Callable[[Page, str], None]:
    """Return a function that keeps a picture of a page in the documentation, with `--redraw`."""
    folder = Path(__file__).parents[2] / "docs" / "images"

    def keep(page: Page, name: str) -> None:
        file = folder / f"{name}.png"
        if pytestconfig.getoption("redraw"):
            page.wait_for_load_state("networkidle") if page.url.startswith("file:") else page.wait_for_timeout(300)
            page.screenshot(path=file)
        assert file.exists(), "pytest tests/ui --redraw"

    return keep
