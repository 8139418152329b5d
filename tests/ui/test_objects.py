"""The view of objects in a real browser: tables, YAML, owners, editing, and what holds for every view."""

from __future__ import annotations

import http.server
import threading
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


@pytest.fixture(scope="module")
def server() -> Iterator[Server]:
    with Server(ui=True, load=["demo", "almost-full"], controllers=["scheduler", "resourceclaim"]) as running:
        yield running


def config_map(name: str, **data: str) -> dict[str, Any]:
    return {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": name, "namespace": "default"}, "data": data}


def cells(page: Page, column: int) -> list[str]:
    return page.locator(f"tbody td:nth-child({column})").all_inner_texts()


def test_table_has_the_columns_of_the_server(
    server: Server, open_page: Open, keep_screenshot: Callable[[Page, str], None]
) -> None:
    """A kind is shown in the columns of `kubectl get`; the filter and the order stand in the address."""
    page = open_page(server)
    page.locator(".cards a", has_text="ResourceClaim").click()
    page.wait_for_selector("tbody tr")
    assert page.locator("th").all_inner_texts() == ["Namespace", "Name", "State", "Age"]
    names = cells(page, 2)
    assert names == sorted(names)
    assert len(names) == 4
    keep_screenshot(page, "ui-objects")
    page.keyboard.press("/")
    page.keyboard.type("tra")
    rows = page.locator("tbody tr")
    wait_until(lambda: rows.count() == 1)
    assert page.url.endswith("?q=tra")
    page.go_back()
    page.wait_for_selector(".cards")
    page.go_forward()
    page.wait_for_selector("tbody tr")
    assert cells(page, 2) == ["training"]
    page.goto(f"{server.url}/ui/{CLAIMS}?sort=-Name")
    wait_until(lambda: rows.count() == 4)
    assert cells(page, 2) == names[::-1]


def test_changes_appear_by_themselves(server: Server, open_page: Open) -> None:
    """Show what others create, change and delete without being asked again."""
    page = open_page(server, MAPS)
    page.wait_for_selector("tbody tr")
    count = page.locator(".kinds a[aria-current] .count")
    before = count.inner_text()
    server.apply(config_map("live", a="1"))
    row = page.locator("tr", has_text="live")
    row.wait_for()
    assert row.locator("td").nth(2).inner_text() == "1"
    server.apply(config_map("live", a="1", b="2"))
    wait_until(lambda: row.locator("td").nth(2).inner_text() == "2")
    server.delete("configmaps", "live", namespace="default")
    row.wait_for(state="detached")
    wait_until(lambda: count.inner_text() == before)


def test_reset_server_is_followed(open_page: Open) -> None:
    """After a reset, which ends all watches, the page shows what the server holds then."""
    with Server(ui=True) as server:
        server.apply(config_map("old"))
        page = open_page(server, MAPS)
        page.locator("td", has_text="old").wait_for()
        server.reset()
        page.locator("td", has_text="old").wait_for(state="detached")
        server.apply(config_map("new"))
        page.locator("td", has_text="new").wait_for()


def test_object_shows_who_manages_its_fields(
    server: Server, open_page: Open, keep_screenshot: Callable[[Page, str], None]
) -> None:
    """The YAML of an object can be narrowed to what one manager has set."""
    page = open_page(server, f"{CLAIMS}/default/training", scheme="dark")
    page.wait_for_selector(".lines li")
    text = page.locator(".lines").inner_text()
    assert "managedFields" not in text
    assert "deviceClassName: gpu.example.com" in text
    managers = page.locator(".managers button")
    assert managers.count() == 2
    keep_screenshot(page, "ui-object-dark")
    managers.filter(has_text="of status").click()
    bright = page.locator(".lines li:not(.dim)").all_inner_texts()
    assert any("device: " in line for line in bright)
    assert not any("deviceClassName" in line for line in bright)


def test_edit_shows_errors_at_their_lines(
    server: Server, open_page: Open, keep_screenshot: Callable[[Page, str], None]
) -> None:
    """The server judges a manifest while it is written; what it refuses stands at its line, what it takes is stored."""
    server.apply(config_map("edited", a="1"))
    page = open_page(server, f"{MAPS}/default/edited?tab=edit")
    page.wait_for_selector(".fine")
    text = page.locator("textarea").input_value()
    page.fill("textarea", text.replace('a: "1"', "a/b: x\n  fine: z"))
    note = page.locator(".notes li")
    note.wait_for()
    line = text.splitlines().index('  a: "1"') + 1
    assert note.all_inner_texts()[0].startswith(f"line {line}")
    assert "data[a/b]" in note.inner_text()
    assert page.locator(".gutter .bad").inner_text() == str(line)
    assert page.locator("button.primary").is_disabled()
    keep_screenshot(page, "ui-edit")
    page.fill("textarea", "a: [")
    page.locator(".notes li", has_text="did not find").wait_for()
    page.fill("textarea", text.replace('a: "1"', "a: changed\nunknown: 1"))
    page.locator(".notes li", has_text='unknown field "unknown"').wait_for()
    page.fill("textarea", text.replace('a: "1"', "a: changed"))
    page.wait_for_selector(".fine")
    page.locator("button.primary").click()
    page.locator(".lines li", has_text="changed").wait_for()
    assert server.get("configmaps", "edited", namespace="default")["data"] == {"a": "changed"}


def test_object_is_applied_and_deleted(server: Server, open_page: Open) -> None:
    """A manifest of any kind can be applied; an object is deleted after a question."""
    page = open_page(server, "#/apply")
    page.locator(".notes li", has_text="metadata.name is missing").wait_for()
    page.fill("textarea", "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: made, namespace: default}\n")
    page.wait_for_selector(".fine")
    page.keyboard.press("Control+Enter")
    page.locator("h1", has_text="made").wait_for()
    page.locator("button.danger").click()
    page.locator("dialog button.danger").click()
    page.locator(".tag", has_text="deleted").wait_for()
    assert [each for each in server.list("configmaps") if each["metadata"]["name"] == "made"] == []


def test_refusal_is_shown(server: Server, open_page: Open) -> None:
    """Say in the words of the server what it does not let happen."""
    page = open_page(server, "#/objects/core/namespaces/-/default")
    page.locator("button.danger").click()
    page.locator("dialog button.danger").click()
    page.locator(".problem", has_text="this namespace may not be deleted").wait_for()
    page.keyboard.press("Escape")
    page.wait_for_selector("dialog", state="detached")


def test_owners_are_a_tree(server: Server, open_page: Open) -> None:
    """Link an object with its owners and with what it owns."""
    owner = server.apply(config_map("owner"))[0]["metadata"]["uid"]
    reference = {"apiVersion": "v1", "kind": "ConfigMap", "name": "owner", "uid": owner}
    owned = config_map("owned")
    owned["metadata"]["ownerReferences"] = [reference]
    server.apply(owned)
    page = open_page(server, f"{MAPS}/default/owned?tab=owners")
    page.locator(".tree a", has_text="default/owner").click()
    page.locator(".tree .here", has_text="default/owner").wait_for()
    assert "default/owned" in page.locator(".tree ul").inner_text()


def test_yaml_of_the_page_is_read_as_the_same_object(server: Server, open_page: Open) -> None:
    """Whatever a text holds, the YAML that the page writes means the same to the server."""
    from understudy.machinery.golang.yaml_reader import load_yaml

    texts = ["", "- a", "a: b", "1", "0x1", "1e3", "1_000", ".5", "1:30", "true", "No", "null", "~", "#", "a #b", "'"]
    texts += ['"', "\\", "\u2028", "\x85", "é", "😀", "2026-01-01", "=", "<<"]
    texts += ["---", "%", "@a", "`", "{", "[]", "!x", "&a", "*a", "?", ":", "a:", " a", " ", "a "]
    texts += ["|", "a\n", "a\nb", "a\n\n", "\n", "\na", " a\nb", "a \nb", "a\tb", "a\n\tb", "a\r\nb", "x" * 300]
    value = {
        "texts": texts,
        "nested": [[texts[:3], []], {"a": {}}, [{"b": "c\nd", "e": 1}]],
        "map": {text: 1 for text in texts if text},
    }
    page = open_page(server)
    page.wait_for_selector(".cards")
    written = page.evaluate("value => modules['yaml.js'].yamlOf(value)", value)
    (document,) = load_yaml(written)
    assert document.value == value


def test_hostile_texts_run_nothing(open_page: Open) -> None:
    """Markup in every text that the API lets in is shown as text."""
    with Server(ui=True, load=hostile_objects()) as server:
        server.apply(hostile_thing())
        page = open_page(server)
        things = "#/objects/example.com/things"
        places = [MAPS, f"{MAPS}/default/hostile", f"{MAPS}/default/hostile?tab=edit", "#/objects/core/events", things,
                  f"{things}/default/hostile", f"{CLAIMS}/default/hostile", "#/objects/core/events/default/hostile",
                  "#/devices", "#/devices?device=gpu.example.com/node-1/gpu-0",
                  "#/objects/<img src=x onerror=window.broken=1>", "#/objects/core/pods/%E0/<script>"]  # fmt: skip
        for place in places:
            page.goto(f"{server.url}/ui/{place}")
            page.wait_for_selector("td a, .lines li, .fine, .empty, .cell")
        assert page.evaluate("window.broken") is None
        assert page.locator("main img, main script").count() == 0


@pytest.mark.parametrize(
    ("place", "scheme"),
    [
        ("", "light"),
        (CLAIMS, "dark"),
        (f"{CLAIMS}/default/training", "light"),
        (f"{CLAIMS}/default/training?tab=edit", "dark"),
    ],
)
def test_page_is_accessible(server: Server, open_page: Open, place: str, scheme: str) -> None:
    """axe-core finds nothing serious, and at 360 pixels nothing is wider than the window."""
    page = open_page(server, place, NARROW, scheme)
    page.wait_for_selector(".cards a, tbody tr, .lines li, .fine, .notes")
    assert serious_findings(page) == []
    assert page.evaluate("document.documentElement.scrollWidth") <= NARROW[0]


def test_token_is_asked_for(open_page: Open, tmp_path: Path) -> None:
    """A server that asks who somebody is gets the token that is typed in; others see nothing."""
    tokens = tmp_path / "tokens.csv"
    tokens.write_text("secret,admin,1\n")
    with Server(ui=True, token_auth_file=tokens, tls=False) as server:
        page = open_page(server, MAPS)
        page.fill("input[type=password]", "wrong")
        page.keyboard.press("Enter")
        page.wait_for_selector(".refused")
        page.fill("input[type=password]", "secret")
        page.keyboard.press("Enter")
        page.locator("h1", has_text="ConfigMap").wait_for()


def test_page_of_another_origin_neither_reads_nor_writes(server: Server, browser: Any) -> None:
    """A page that somebody visits can do nothing with the server: no reads, no writes, no frame around the page."""
    with other_site() as site:
        context = browser.new_context()
        page = context.new_page()
        page.goto(site)
        script = """async (url) => {
            const requests = [
                ["GET", "/ui/data/kinds"], ["GET", "/api/v1/nodes"], ["POST", "/ui/data/manifest"],
                ["POST", "/api/v1/namespaces/default/configmaps"], ["DELETE", "/api/v1/nodes/node-1"],
            ];
            const read = [];
            for (const [method, path] of requests) {
                for (const mode of ["cors", "no-cors"]) {
                    const body = method === "POST" ? '{"metadata": {"name": "foreign"}}' : undefined;
                    try {
                        const response = await fetch(url + path, {method, mode, body});
                        if (response.type !== "opaque") read.push(await response.text());
                    } catch (error) {
                        if (!(error instanceof TypeError)) throw error;
                    }
                }
            }
            const frame = document.createElement("iframe");
            frame.src = url + "/ui/";
            const loaded = new Promise((resolve) => { frame.onload = resolve; });
            document.body.append(frame);
            await loaded;
            return read;
        }"""
        assert page.evaluate(script, server.url) == []
        frame = page.frames[1]
        assert "understudy" not in frame.content()
        context.close()
    assert "foreign" not in [each["metadata"]["name"] for each in server.list("configmaps")]
    assert "node-1" in [each["metadata"]["name"] for each in server.list("nodes")]


def other_site() -> Any:
    """Serve an empty page at an origin of its own, as a context manager."""
    from contextlib import contextmanager

    class Handler(http.server.BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            self.send_response(200)
            self.send_header("Content-Type", "text/html")
            self.end_headers()

        def log_message(self, *_: object) -> None:
            """Print nothing."""

    @contextmanager
    def serve() -> Iterator[str]:
        with http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler) as site:
            thread = threading.Thread(target=site.serve_forever)
            thread.start()
            yield f"http://127.0.0.1:{site.server_port}/"
            site.shutdown()
            thread.join()

    return serve()
