"""`understudy snapshot`: copies between files and servers, and what differs between two of them."""

from __future__ import annotations

import gzip
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.etcd import running
from understudy import Server, StatusError
from understudy.cli.main import main
from understudy.machinery.types import Obj

SAVED = Path(__file__).parent.parent / "apiserver/storage/recorded/etcd-snapshot.db.gz"
Run = Callable[..., tuple[int, list[str], str]]
CONFIG_MAP: Obj = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "a"}, "data": {"key": "before"}}


@pytest.fixture
def run(capsys: pytest.CaptureFixture[str]) -> Run:
    def run(*args: object) -> tuple[int, list[str], str]:
        code = main(["snapshot", *map(str, args)])
        out, err = capsys.readouterr()
        return code, out.splitlines(), err

    return run


@pytest.fixture
def snapshot(tmp_path: Path) -> Path:
    file = tmp_path / "etcd.snapshot"
    file.write_bytes(gzip.decompress(SAVED.read_bytes()))
    return file


def test_saved_snapshot_of_etcd_is_the_same_and_can_be_served(run: Run, snapshot: Path, tmp_path: Path) -> None:
    copy = tmp_path / "copy.db"
    assert run("save", snapshot, copy) == (0, [], "understudy: 131 objects up to revision 258\n")
    code, lines, errors = run("diff", snapshot, copy)
    assert lines == []
    assert code == 1  # some values of this snapshot cannot be read, which is said
    assert f"understudy: {copy}: /registry/secrets/default/encrypted: identity transformer tried to read" in errors
    assert run("save", snapshot, copy) == (2, [], f"understudy: {copy}: there is such a file already\n")
    with Server(storage=f"sqlite:{copy}") as server:
        assert server.get("configmaps", "last")["metadata"]["resourceVersion"] == "258"


def test_differences_of_kinds_names_and_fields(run: Run, tmp_path: Path) -> None:
    before, after = tmp_path / "before.db", tmp_path / "after.db"
    with Server() as server:
        server.create(CONFIG_MAP)
        server.create({**CONFIG_MAP, "metadata": {"name": "gone"}})
        assert run("save", server.url, before)[0] == 0
        assert run("diff", f"sqlite:{before}", server.url) == (0, [], "")
        server.patch("configmaps", "a", {"data": {"key": "after", "more": "1"}})
        server.delete("configmaps", "gone")
        server.create({"apiVersion": "v1", "kind": "Secret", "metadata": {"name": "new"}})
        assert run("save", server.url, after)[0] == 0
    assert run("diff", before, after) == (
        1,
        [
            "~ ConfigMap default/a",
            '    data.key: "before" -> "after"',
            '    data.more: added "1"',
            "- ConfigMap default/gone",
            "+ Secret default/new",
        ],
        "",
    )
    assert any(
        "resourceVersion" in line or "managedFields" in line for line in run("diff", before, after, "--all-fields")[1]
    )


def test_restore_replaces_only_if_it_is_told_to(run: Run, snapshot: Path, tmp_path: Path) -> None:
    place = f"sqlite:{tmp_path / 'store.db'}"
    assert run("restore", snapshot, place)[0] == 0
    code, _, error = run("restore", snapshot, place)
    assert (code, error) == (2, f"understudy: {place}: it holds objects already, which --replace replaces\n")
    assert run("restore", snapshot, place, "--replace")[0] == 0
    code, _, error = run("restore", snapshot, tmp_path / "other")
    assert (code, error) == (2, f"understudy: {tmp_path / 'other'}: want sqlite:FILE or etcd:URL to write to\n")


def test_restore_into_a_file_that_is_used_is_refused(run: Run, snapshot: Path, tmp_path: Path) -> None:
    """Not even `--replace` takes a file away from the server that uses it, which goes on."""
    file = tmp_path / "store.db"
    with Server(storage=f"sqlite:{file}") as server:
        server.create(CONFIG_MAP)
        code, _, error = run("restore", snapshot, f"sqlite:{file}", "--replace")
        assert (code, error) == (2, f"understudy: {file}: another server uses it\n")
        assert server.patch("configmaps", "a", {"data": {"key": "after"}})["data"] == {"key": "after"}


def test_restore_into_an_etcd(run: Run, snapshot: Path, tmp_path: Path) -> None:
    """Servers of the etcd have what the snapshot holds, and one that serves it is told of the new contents."""
    with running(tmp_path) as etcd:
        place = f"etcd:{etcd.url}"
        assert run("restore", snapshot, place)[0] == 0
        code, lines, _ = run("diff", snapshot, place)
        assert (code, lines) == (1, [])  # some values of this snapshot cannot be read, which is said
        with Server(etcd_servers=etcd.url) as server:
            kept = server.get("configmaps", "last")
            server.create(CONFIG_MAP)
            code, _, error = run("restore", snapshot, place)
            assert (code, error) == (2, f"understudy: {place}: it holds objects already, which --replace replaces\n")
            assert server.get("configmaps", "a")
            assert run("restore", snapshot, place, "--replace")[0] == 0
            assert server.get("configmaps", "last")["data"] == kept["data"]
            with pytest.raises(StatusError, match="not found"):
                server.get("configmaps", "a")


@pytest.mark.parametrize(("place", "text"), [("missing", "there is no such file"), ("empty", "it is empty")])
def test_places_that_cannot_be_read(run: Run, tmp_path: Path, place: str, text: str) -> None:
    (tmp_path / "empty").touch()
    code, _, error = run("diff", tmp_path / place, tmp_path / place)
    assert code == 2
    assert error.startswith(f"understudy: {tmp_path / place}: ")
    assert text in error
    assert run("save", tmp_path / place, tmp_path / "new.db")[0] == 2
    assert not (tmp_path / "new.db").exists()
