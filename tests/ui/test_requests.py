"""The view of the requests in a real browser: what was asked, who refused it, what it changed, how to ask it again."""

from __future__ import annotations

import subprocess
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from multidict import CIMultiDict

from tests.http import JSON, send, watch
from tests.releases import NEWEST
from tests.ui.axe import serious_findings
from tests.ui.conftest import NARROW, Open
from tests.ui.worlds import MARKUP
from tests.waiting import wait_until
from understudy import Server, StatusError
from understudy.apiserver.endpoints.request import Request, Response
from understudy.apiserver.endpoints.requestinfo import request_info
from understudy.machinery.options import Query

if TYPE_CHECKING:
    from playwright.sync_api import Page

ROWS = ".requests tbody tr"
MAPS = "/api/v1/namespaces/default/configmaps"
# Shows the words and the input of a command instead of running it.
PRINTED = 'curl() { printf "%s\\0" "$@"; }; kubectl() { printf "%s\\0" "$@"; [[ " $*" != *--filename=-* ]] || cat; }\n'


def config_map(name: str, **data: str) -> dict[str, Any]:
    return {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": name}, "data": data}


@pytest.fixture(scope="module")
def asked() -> Iterator[Server]:
    """Return a server with a visitor, which was asked for this and that."""
    with Server(ui=True) as server:
        send(server, "GET", "/ui/")

        @server.webhook("secrets", name="keeper")
        def refuses(request: dict[str, Any]) -> str:
            return "no secrets here"

        server.create(config_map("a", color="blue"))
        server.patch("configmaps", "a", {"data": {"color": "red"}})
        secret = {"apiVersion": "v1", "kind": "Secret", "metadata": {"name": "s"}, "stringData": {"key": "hidden"}}
        for refused in (secret, config_map("Not_A_Name")):
            with pytest.raises(StatusError):
                server.create(refused)
        yield server


def choose(page: Page, *texts: str) -> None:
    """Choose the newest request with some texts, and wait for what it says."""
    rows = page.locator(ROWS)
    for text in texts:
        rows = rows.filter(has_text=text)
    rows.first.locator("a").click()
    page.locator(".detail .command").wait_for()


def command(page: Page, tool: str) -> list[str]:
    """Return the words of a command of the request that is chosen, as a shell reads them, and what follows them."""
    page.get_by_role("button", name=tool, exact=True).click()
    script = PRINTED + page.locator(".command").inner_text()
    return subprocess.run(["bash", "-c", script], capture_output=True, check=True).stdout.decode().split("\0")


def test_requests_are_listed_as_they_come(asked: Server, open_page: Open, keep_screenshot: Callable[..., None]) -> None:
    """Show each request with who refused it and why, the newest first, and new ones as they come; or hold still."""
    page = open_page(asked, "#/requests")
    page.locator(ROWS).nth(4).wait_for()
    first, second = page.locator(ROWS).all_inner_texts()[:2]
    assert "validation ConfigMap" in first
    assert "webhook keeper.understudy.test admission webhook" in second
    choose(page, "patch", "configmaps")
    keep_screenshot(page, "ui-requests")
    asked.get("configmaps", "a")
    page.locator(f"{ROWS} >> nth=0").filter(has_text="get").wait_for()
    page.get_by_role("button", name="Hold").click()
    count = page.locator(ROWS).count()
    with page.expect_response(lambda response: '"get"' in response.text()):
        asked.get("configmaps", "a")
    assert page.locator(ROWS).count() == count
    page.get_by_role("button", name="Go on").click()
    wait_until(lambda: page.locator(ROWS).count() == count + 1)


def test_requests_are_chosen_by_words_and_fields(asked: Server, open_page: Open) -> None:
    """Filters narrow the requests down, and stand in the address."""
    page = open_page(asked, "#/requests?answer=refused")
    rows = page.locator(ROWS)
    wait_until(lambda: rows.count() == 2)
    page.fill("input[type=search]", "keeper 403")
    wait_until(lambda: rows.count() == 1)
    assert page.url.endswith("#/requests?answer=refused&q=keeper+403")
    page.goto(f"{asked.url}/ui/#/requests?verb=writes&q=configmaps%2Fa")
    wait_until(lambda: rows.count() == 1)
    page.goto(f"{asked.url}/ui/#/requests?verb=delete")
    page.locator(".empty", has_text="No request is like that").wait_for()


def test_request_says_what_it_changed(asked: Server, open_page: Open) -> None:
    """A request is shown with its body, its refusal, and the object before and after; a Secret without its values."""
    page = open_page(asked, "#/requests")
    choose(page, "patch", "configmaps")
    detail = page.locator(".detail")
    assert "data.color" in detail.locator(".diff").inner_text()
    page.get_by_role("button", name="Before").click()
    assert "color: blue" in detail.locator(".text").first.inner_text()
    page.get_by_role("button", name="After").click()
    assert "color: red" in detail.locator(".text").first.inner_text()
    choose(page, "create", "secrets")
    detail.locator(".refusal", has_text="no secrets here").wait_for()
    assert 'key: "(left out)"' in detail.inner_text()
    page.go_back()
    detail.locator(".diff").wait_for()
    page.get_by_role("button", name="Close").click()
    detail.wait_for(state="detached")


def test_request_is_copied_as_a_command(asked: Server, open_page: Open) -> None:
    """A request is there as curl and as kubectl send it."""
    page = open_page(asked, "#/requests")
    choose(page, "patch", "configmaps/a")
    media = "Content-Type: application/strategic-merge-patch+json"
    sent = ["--request", "PATCH", "--header", media, "--data-binary", '{"data":{"color":"red"}}']
    assert command(page, "curl") == [*sent, f"{asked.url}{MAPS}/a?fieldValidation=Strict", ""]
    words = ["patch", "configmaps", "a", "--namespace", "default", "--type=strategic", "--patch"]
    assert command(page, "kubectl") == [*words, '{"data":{"color":"red"}}', ""]
    page.context.grant_permissions(["clipboard-read", "clipboard-write"])
    page.get_by_role("button", name="Copy").click()
    page.get_by_role("button", name="Copied").wait_for()
    assert page.evaluate("navigator.clipboard.readText()") == page.locator(".command").inner_text()
    asked.request_log.clear()


def test_commands_of_kubectl(asked: Server, open_page: Open) -> None:
    """Each verb has its command of kubectl, with selectors, field manager and dry run; others go by their path."""
    asked.request_log.clear()
    place = "--namespace default"
    cases: list[tuple[str, str, dict[str, Any] | None, str]] = [
        ("GET", "/api/v1/nodes?labelSelector=a%3Db", None, "get nodes --all-namespaces --selector=a=b"),
        ("GET", f"{MAPS}/b", None, f"get configmaps b {place} --output=yaml"),
        ("DELETE", f"{MAPS}/b?dryRun=All", None, f"delete configmaps b {place} --dry-run=server --wait=false"),
        ("GET", f"{MAPS}/--token=a", None, f"get --raw={MAPS}/--token=a"),
        ("POST", f"{MAPS}?fieldManager=m", config_map("W_1"), f"create {place} --field-manager=m --filename=-"),
        ("PUT", f"{MAPS}/c", config_map("W_2"), f"replace {place} --filename=-"),
        ("GET", "/version", None, "get --raw=/version"),
    ]
    page = open_page(asked, "#/requests")
    for method, path, body, words in cases:
        send(asked, method, path, body)
        choose(page, path)
        *said, rest = command(page, "kubectl")
        assert said == words.split(" ")
        assert (body is None) == (rest == "")
        assert not body or f"name: {body['metadata']['name']}\n" in rest


def test_hostile_requests_run_nothing(asked: Server, open_page: Open, tmp_path: Path) -> None:
    """Markup in what clients send is shown as text, and their bodies end no word of a command, nor its input."""
    asked.request_log.clear()
    mark = tmp_path / "broken"
    texts = [
        f"'; touch {mark}; '",
        f"x\nEND\ntouch {mark}\n",
        f"\x1b[201~\x03touch {mark}\r",
        f"$(touch {mark})`touch {mark}`",
    ]
    data = {f"k{number}": text for number, text in enumerate([MARKUP, *texts])}
    asked.create({**config_map("hostile"), "data": data})
    agent = {"User-Agent": MARKUP}
    send(asked, "GET", f"{MAPS}/%3Cimg%20src=x%20onerror=window.broken=1%3E?a={texts[0][:2]}", headers=agent)
    for number, text in enumerate(texts):
        send(asked, "POST", f"/api/v1/namespaces/default/pods/p{number}/eviction", text.encode(), JSON)
    page = open_page(asked, "#/requests")
    choose(page, "<img")
    assert command(page, "curl")[-2].startswith(f"{asked.url}{MAPS}/%3Cimg")
    choose(page, "create", "configmaps")
    *_, manifest = command(page, "kubectl")
    assert "touch" in manifest
    for number, text in enumerate(texts):
        choose(page, f"pods/p{number}/eviction")
        assert text in command(page, "curl")
        assert command(page, "kubectl")[-1].rstrip("\n") == text.rstrip("\n")
    assert not mark.exists()
    assert page.evaluate("window.broken") is None
    assert page.locator("main img, main script").count() == 0


def test_many_requests(asked: Server, open_page: Open) -> None:
    """The newest of thousands of requests are shown at first, and all that were sent on demand."""
    asked.request_log.clear()
    for number in range(3_000):
        made = Request("GET", f"/version/{number}", CIMultiDict(), b"", Query(""), NEWEST)
        made.info = request_info("GET", made.path, made.query)
        asked.request_log.note(made, Response(200), 0.5)
    page = open_page(asked, "#/requests")
    rows = page.locator(ROWS)
    wait_until(lambda: rows.count() == 200)
    assert "/version/2999" in rows.first.inner_text()
    page.get_by_role("button", name="Show all 1,000 requests").click()
    wait_until(lambda: rows.count() == 1_000)


def test_requests_about_many_nodes(many_nodes: Server, open_page: Open) -> None:
    """The requests that have made 500 nodes with 5,000 devices are found by words, and new ones are put in front."""
    page = open_page(many_nodes, "#/requests")
    rows = page.locator(ROWS)
    wait_until(lambda: rows.count() == 200)
    page.get_by_role("button", name="Show all").click()
    wait_until(lambda: rows.count() == 1_000)
    many_nodes.patch("nodes", "node-499", {"metadata": {"labels": {"color": "red"}}})
    rows.first.filter(has_text="nodes/node-499").wait_for()
    page.fill("input[type=search]", "node-499")
    wait_until(lambda: rows.count() < 10)
    choose(page, "patch", "nodes/node-499")
    assert "metadata.labels.color" in page.locator(".detail .diff").inner_text()
    many_nodes.patch("nodes", "node-499", {"metadata": {"labels": {"color": None}}})


def test_open_watches_are_listed(asked: Server, open_page: Open, keep_screenshot: Callable[..., None]) -> None:
    """Show the watches of clients as they come and go, those of the server's own controllers on demand."""
    page = open_page(asked, "#/requests")
    page.locator(".tabs a", has_text="Open watches").click()
    page.locator(".empty", has_text="No watch").or_(page.locator(".empty", has_text="Nobody")).wait_for()
    with watch(asked, MAPS, "watch=1"):
        page.locator(ROWS, has_text=f"{MAPS}?watch=1").wait_for()
        assert "up to date" in page.locator(ROWS).inner_text()
        assert serious_findings(page) == []
    page.locator(".empty").wait_for()
    page.go_back()
    page.locator("select").first.wait_for()


def test_view_of_requests_is_accessible(asked: Server, open_page: Open) -> None:
    """axe-core finds nothing serious, and at 360 pixels nothing is wider than the window."""
    asked.request_log.clear()
    asked.patch("configmaps", "a", {"data": {"color": "green"}})
    for scheme in ("light", "dark"):
        page = open_page(asked, "#/requests", NARROW, scheme)
        choose(page, "patch")
        assert serious_findings(page) == []
        assert page.evaluate("document.documentElement.scrollWidth") <= NARROW[0]
