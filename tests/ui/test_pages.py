"""The pages below /ui/ as a client sees them: who gets them, with which headers, and what is kept out."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.http import JSON, send
from understudy import Server
from understudy.ui.assets import SCRIPTS, script

PAGES = ("/ui/", "/ui/app.js", "/ui/style.css", "/ui/data/kinds")


@pytest.fixture(scope="module")
def server() -> Iterator[Server]:
    with Server(ui=True, load=["almost-full"]) as running:
        yield running


@pytest.fixture(scope="module")
def guarded(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    tokens = tmp_path_factory.mktemp("tokens") / "tokens.csv"
    tokens.write_text('admin-token,admin,1,"system:masters"\nann-token,ann,2\n')
    with Server(ui=True, token_auth_file=tokens, authorization_mode=["RBAC"], tls=False) as running:
        yield running


@pytest.mark.parametrize("path", PAGES)
def test_page_loads_nothing_from_elsewhere(server: Server, path: str) -> None:
    """Each page forbids the browser to load or run anything else, and to be shown in another page."""
    answer = send(server, "GET", path)
    assert answer.status == 200
    policy = answer.headers["Content-Security-Policy"]
    assert policy.startswith("default-src 'none'; script-src 'self'; style-src 'self'; connect-src 'self';")
    assert "unsafe" not in policy
    assert "frame-ancestors 'none'" in policy
    assert answer.headers["X-Content-Type-Options"] == "nosniff"


def test_frame_names_no_other_host() -> None:
    """Markup, style and our own modules have no address of another host."""
    from understudy.ui.assets import STYLE, text_of

    texts = [text_of(name) for name in ("index.html", STYLE, *SCRIPTS) if not name.startswith("vendor/")]
    assert [text for text in texts if "://" in text] == []
    assert "export " not in script()


@pytest.mark.parametrize("path", [*PAGES, "/ui"])
def test_page_is_off_by_default(apiserver: Server, path: str) -> None:
    """Without the option nothing is below /ui/."""
    assert send(apiserver, "GET", path).status == 404


@pytest.mark.parametrize(
    ("method", "path", "status"),
    [
        ("GET", "/ui", 301),
        ("HEAD", "/ui/", 200),
        ("GET", "/ui/nothing", 404),
        ("GET", "/ui/../ui/", 404),
        ("GET", "/ui/data/nothing", 404),
        ("POST", "/ui/", 405),
        ("POST", "/ui/data/kinds", 405),
        ("GET", "/ui/data/manifest", 405),
        ("GET", "/uinverse", 404),
    ],
)
def test_status_of_paths(server: Server, method: str, path: str, status: int) -> None:
    assert send(server, method, path).status == status


def test_frame_is_sent_once(server: Server) -> None:
    """A browser that has a file is told that it has not changed."""
    tag = send(server, "GET", "/ui/app.js").headers["ETag"]
    assert send(server, "GET", "/ui/app.js", headers={"If-None-Match": tag}).status == 304


@pytest.mark.parametrize("path", PAGES)
@pytest.mark.parametrize(
    "headers",
    [
        {"Origin": "https://evil.example"},
        {"Sec-Fetch-Site": "cross-site"},
        {"Host": "evil.example"},
        {"Origin": "null"},
    ],
)
def test_pages_of_other_origins_are_kept_out(server: Server, path: str, headers: dict[str, str]) -> None:
    """Refuse what a page of another origin makes a browser ask for, with no answer that lets it read."""
    answer = send(server, "GET", path, headers=headers)
    assert answer.status == 403
    assert "Access-Control-Allow-Origin" not in answer.headers


@pytest.mark.parametrize("headers", [{"Origin": "https://evil.example"}, {"Sec-Fetch-Site": "cross-site"}])
def test_pages_of_other_origins_are_kept_out_where_tokens_are_needed(guarded: Server, headers: dict[str, str]) -> None:
    """A server whose API takes requests of web pages, which know no token, keeps them from its own page."""
    assert send(guarded, "GET", "/ui/", headers=headers).status == 403
    token = {"Authorization": "Bearer admin-token"}
    assert send(guarded, "GET", "/ui/data/kinds", headers={**headers, **token}).status == 403


@pytest.mark.parametrize(("token", "status"), [("", 403), ("wrong", 401), ("ann-token", 403), ("admin-token", 200)])
def test_data_is_behind_authentication(guarded: Server, token: str, status: int) -> None:
    """Everybody gets the frame, which asks for a token; data only those who may."""
    headers = {"Authorization": f"Bearer {token}"} if token else {}
    assert send(guarded, "GET", "/ui/", headers=headers).status == 200
    assert send(guarded, "GET", "/ui/data/kinds", headers=headers).status == status


def test_kinds_have_counts(server: Server) -> None:
    """Each stored kind is there once, with the number of its objects."""
    kinds = send(server, "GET", "/ui/data/kinds").json()["kinds"]
    names = [(kind["group"], kind["resource"]) for kind in kinds]
    assert len(names) == len(set(names))
    counts = {kind["resource"]: kind["count"] for kind in kinds if kind["group"] == "resource.k8s.io"}
    assert (counts["resourceslices"], counts["deviceclasses"]) == (2, 1)


@pytest.mark.parametrize(
    ("text", "answer"),
    [
        (
            "apiVersion: v1\nkind: Pod\nmetadata:\n  name: p\nspec:\n  containers:\n  - {}\n",
            {"apiVersion": "v1", "kind": "Pod", "name": "p", "namespace": "", "lines": [7, 5]},
        ),
        ("a: [", {"problem": "yaml: did not find expected node content", "line": 1}),
        ("", {"problem": "want one object", "line": 1}),
        ("a: 1\n---\nb: 2\n", {"problem": "want one object", "line": 3}),
        ("- a", {"problem": "want one object", "line": 1}),
        ("kind: 3", {"apiVersion": "", "kind": "", "lines": [1, 1]}),
    ],
)
def test_manifest_is_read(server: Server, text: str, answer: object) -> None:
    """A manifest's head is told, and the lines of its fields; of what is none, where it goes wrong."""
    question = {"text": text, "fields": ["spec.containers[0].name", "spec.nodeName"]}
    assert send(server, "POST", "/ui/data/manifest", question, JSON).json() == answer


@pytest.mark.parametrize("question", [{}, [], {"text": 3}, {"text": "", "fields": [3]}, {"text": "", "fields": 3}])
def test_manifest_is_text(server: Server, question: object) -> None:
    assert send(server, "POST", "/ui/data/manifest", question, JSON).status == 400


@pytest.mark.apiserver(ui=True)
def test_owners_are_found_in_both_directions(apiserver: Server) -> None:
    """The objects around one are its owners and what it owns, over several steps, and nothing else."""

    def config_map(name: str, *owners: dict[str, str]) -> dict[str, str]:
        references = [{"apiVersion": "v1", "kind": "ConfigMap", **owner} for owner in owners]
        metadata = {"name": name, "namespace": "default", "ownerReferences": references}
        stored = apiserver.apply({"apiVersion": "v1", "kind": "ConfigMap", "metadata": metadata})[0]
        return {"name": name, "uid": stored["metadata"]["uid"]}

    top = config_map("top")
    middle = config_map("middle", top)
    config_map("sibling", top)
    leaf = config_map("leaf", middle)
    config_map("other")
    answer = send(apiserver, "GET", f"/ui/data/owners?uid={middle['uid']}").json()
    assert {each["name"] for each in answer} == {"top", "middle", "leaf"}
    assert next(each["owners"] for each in answer if each["uid"] == leaf["uid"]) == [middle["uid"]]
    assert send(apiserver, "GET", "/ui/data/owners?uid=none").json() == []


def test_own_requests_are_not_among_those_of_the_server(server: Server) -> None:
    """Leave what the page reads out of the requests that tests look at, but not what it writes."""
    server.request_log.clear()
    page = {"Referer": f"{server.url}/ui/"}
    send(server, "GET", "/ui/data/kinds")
    send(server, "GET", "/api/v1/pods", headers=page)
    send(server, "POST", "/api/v1/namespaces/default/configmaps", {"metadata": {"name": "c"}}, headers=page)
    send(server, "GET", "/api/v1/nodes")
    assert [(request.verb, request.resource) for request in server.requests] == [
        ("create", "configmaps"),
        ("list", "nodes"),
    ]


def test_server_without_a_visitor_imports_nothing_of_the_page() -> None:
    """The modules and files of the page are read when somebody opens it."""
    code = """
import sys
from understudy import Server
with Server(ui=True) as server:
    server.list("pods")
    before = [name for name in sys.modules if name.startswith("understudy.ui")]
    from urllib.request import urlopen
    urlopen(server.url + "/ui/").read()
    print(before, "understudy.ui.assets" in sys.modules)
"""
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, cwd=Path(__file__).parent)
    assert done.stdout == "[] True\n", done.stderr
