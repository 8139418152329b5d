"""What the server tells of the past: lives of objects, kinds and owners at a revision; and what reports keep of it."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any
from urllib.parse import quote

import pytest

from tests.http import send
from tests.ui.test_report import data_of, pod
from understudy import Server
from understudy.ui import assets, past
from understudy.ui.data import life

MAP = "/api/v1/namespaces/default/configmaps/a"
SECRET = "/api/v1/namespaces/default/secrets/s"


def config_map(**data: str) -> dict[str, Any]:
    return {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "a"}, "data": data}


@pytest.fixture
def server() -> Iterator[Server]:
    with Server(ui=True) as running:
        yield running


def life_of(server: Server, path: str) -> Any:
    return send(server, "GET", f"/ui/data/life?path={quote(path)}").json()


def revision_of(server: Server) -> int:
    return int(send(server, "GET", "/ui/data/kinds").json()["revision"])


def told(answer: Any) -> list[tuple[bool, Any]]:
    return [(each["deleted"], each["object"]["data"]) for each in answer["versions"]]


def test_life_has_all_revisions(server: Server) -> None:
    """An object's writes are told in their order, a deletion and a second object of the name too, others' are not."""
    server.apply(config_map(x="1"))
    server.apply({**config_map(x="1"), "metadata": {"name": "a-b"}})
    server.apply(config_map(x="2"))
    server.delete("configmaps", "a")
    server.apply(config_map(x="3"))
    answer = life_of(server, MAP)
    assert told(answer) == [(False, {"x": "1"}), (False, {"x": "2"}), (True, {"x": "2"}), (False, {"x": "3"})]
    revisions = [each["revision"] for each in answer["versions"]]
    assert [int(each["object"]["metadata"]["resourceVersion"]) for each in answer["versions"]] == revisions
    assert answer["since"] == 1
    assert answer["versions"][0]["object"]["kind"] == "ConfigMap"
    assert life_of(server, f"{MAP}-none") == {"since": 1, "versions": []}


def test_life_begins_where_history_does(server: Server) -> None:
    """After a compaction a life begins with the object as it was then, and says since when it is whole."""
    server.apply(config_map(x="1"))
    server.apply(config_map(x="2"))
    server.compact()
    revision = revision_of(server)
    answer = life_of(server, MAP)
    assert (told(answer), answer["since"]) == ([(False, {"x": "2"})], revision)
    server.apply(config_map(x="3"))
    answer = life_of(server, MAP)
    assert (told(answer), answer["since"]) == ([(False, {"x": "2"}), (False, {"x": "3"})], revision)


def test_long_life_is_cut(server: Server, monkeypatch: pytest.MonkeyPatch) -> None:
    """The newest revisions are told, and from where on they are whole."""
    for number in range(5):
        server.apply(config_map(x=str(number) * 1000))
    monkeypatch.setattr(life, "MOST_BYTES", 3500)
    answer = life_of(server, MAP)
    assert [data["x"][0] for _, data in told(answer)] == ["3", "4"]
    assert answer["since"] == answer["versions"][0]["revision"]


def test_life_names_the_requests_that_have_written(server: Server, tmp_path: Path) -> None:
    """A revision tells who has asked for it, as far as the request is kept; reports tell it of all revisions."""
    send(server, "GET", "/ui/data/kinds")  # since when requests of everybody are kept
    server.apply(config_map(x="1"))
    server.patch("configmaps", "a", {"data": {"x": "2"}})
    server.delete("configmaps", "a")
    versions = life_of(server, MAP)["versions"]
    asked = [(each["request"]["verb"], each["request"]["user"]) for each in versions]
    assert asked == [(verb, "system:apiserver") for verb in ("patch", "patch", "delete")]
    numbers = [each["request"]["number"] for each in versions]
    assert numbers == sorted(set(numbers))
    reported = data_of(server.report(tmp_path / "report.html"))["past"]["requests"]
    assert [reported[str(each["revision"])] for each in versions] == [each["request"] for each in versions]
    server.request_log.clear()
    assert [each["request"] for each in life_of(server, MAP)["versions"]] == [None, None, None]


@pytest.mark.parametrize(
    ("path", "status"),
    [
        ("", 400),
        ("/api/v1/namespaces/default/configmaps", 400),
        (f"{MAP}/status", 400),
        ("/api/v1/proxy", 400),
        ("/version", 400),
        ("/api/v1/namespaces/default/nothings/a", 404),
        ("/apis/no.example.com/v1/things/a", 404),
        ("/apis/authorization.k8s.io/v1/subjectaccessreviews/a", 404),
    ],
)
def test_life_of_no_object(server: Server, path: str, status: int) -> None:
    assert send(server, "GET", f"/ui/data/life?path={quote(path)}").status == status


def test_life_is_for_those_who_may_get_the_object(tmp_path: Path) -> None:
    """The past of an object is refused in the same words as the object, and told with the same right."""
    tokens = tmp_path / "tokens.csv"
    tokens.write_text('admin-token,admin,1,"system:masters"\nann-token,ann,2\n')
    with Server(ui=True, token_auth_file=tokens, authorization_mode=["RBAC"], tls=False) as server:
        secret = {"apiVersion": "v1", "kind": "Secret", "metadata": {"name": "s"}, "stringData": {"key": "hidden"}}
        server.create(secret)
        server.delete("secrets", "s")
        server.allow("ann", "get", "/ui/data/*")
        headers = {"Authorization": "Bearer ann-token"}
        path = f"/ui/data/life?path={SECRET}"
        refused, plain = (send(server, "GET", each, headers=headers) for each in (path, SECRET))
        assert (refused.status, refused.json()) == (403, plain.json())
        server.allow("ann", "get", "secrets", namespace="default")
        assert send(server, "GET", path, headers=headers).json()["versions"][-1]["deleted"] is True


def test_kinds_and_owners_of_a_revision(server: Server) -> None:
    """Numbers and owners are those of the revision that is asked for; a forgotten one is 410, a future one 400."""
    server.apply(config_map())
    at = revision_of(server)
    owner = server.get("configmaps", "a")["metadata"]
    reference = {"apiVersion": "v1", "kind": "ConfigMap", "name": "a", "uid": owner["uid"]}
    owned = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "b", "ownerReferences": [reference]}}
    server.apply(owned)

    def seen(at: object) -> tuple[int, int]:
        kinds = send(server, "GET", f"/ui/data/kinds?at={at}").json()["kinds"]
        around = send(server, "GET", f"/ui/data/owners?uid={owner['uid']}&at={at}").json()
        return next(each["count"] for each in kinds if each["resource"] == "configmaps"), len(around)

    now = seen("")
    assert seen(at) == (now[0] - 1, 1)
    assert now[1] == 2
    server.compact()
    statuses = [
        send(server, "GET", f"/ui/data/kinds?at={each}").status for each in (at, revision_of(server) + 1, "x", "")
    ]
    assert statuses == [410, 400, 400, 200]
    assert send(server, "GET", "/ui/data/kinds").json()["oldest"] == revision_of(server)


def test_report_masks_the_past(server: Server, tmp_path: Path) -> None:
    """The values that a Secret had, and those of one that is gone, are not in a report."""
    for name in ("s", "gone"):
        secret = {"apiVersion": "v1", "kind": "Secret", "metadata": {"name": name}, "stringData": {"key": "hidden"}}
        server.create(secret)
        server.update({**secret, "stringData": {"key": "other"}})
    server.delete("secrets", "gone")
    data = data_of(server.report(tmp_path / "report.html"))
    table = data["past"]["tables"]["/secrets"]
    assert [row["object"]["data"] for row in table["rows"]] == [{"key": "(left out)"}] * 3
    assert table["deleted"] == [[revision_of(server), "default", "gone"]]


def test_report_keeps_the_newest_part_of_the_past(
    server: Server, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A report has the newest of what was replaced, as far as there is room, and says since when it is whole."""
    for number in range(5):
        server.apply(config_map(x=str(number) * 1000))
    monkeypatch.setattr(past, "MOST_BYTES", 4500)
    data = data_of(server.report(tmp_path / "report.html"))
    assert [row["object"]["data"]["x"][0] for row in data["past"]["tables"]["/configmaps"]["rows"]] == ["2", "3"]
    assert data["oldest"] == data["past"]["since"] == revision_of(server) - 2


def test_size_of_a_long_past(server: Server, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The past of objects, four revisions of each, takes less room in a report than the objects themselves."""
    for change in range(4):
        for number in range(40):
            labels = {"label-0": f"changed-{change}"}
            changed = pod(number)
            server.apply({**changed, "metadata": {**changed["metadata"], "labels": labels}})
    whole = server.report(tmp_path / "report.html")
    assert len(data_of(whole)["past"]["tables"]["/pods"]["rows"]) == 120
    monkeypatch.setattr(past, "MOST_BYTES", 0)
    without = server.report(tmp_path / "without.html")
    frame = len(assets.report(""))
    assert whole.stat().st_size - frame < 2 * (without.stat().st_size - frame)
