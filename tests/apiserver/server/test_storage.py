"""Servers that keep their objects in a file: the next server goes on where the one before has ended."""

from __future__ import annotations

import asyncio
import os
import re
import sqlite3
import tempfile
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager
from itertools import islice
from pathlib import Path
from typing import Any

import pytest
import yaml

from tests.apiserver.server.test_snapshots import CONFIG_MAP, CONFIG_MAPS, definition
from tests.http import send, watch
from tests.scripts.commands import run
from understudy import Server, StatusError
from understudy.apiserver.storage.engine_store import EngineStore
from understudy.apiserver.storage.engines.sqlite import SQLiteEngine
from understudy.apiserver.storage.interface import StorageError
from understudy.machinery.types import Obj

NOBODY = 65534  # the user who owns nothing
CLAIMS = "/api/v1/namespaces/default/persistentvolumeclaims"
CLAIM: Obj = {
    "apiVersion": "v1",
    "kind": "PersistentVolumeClaim",
    "metadata": {"name": "c"},
    "spec": {"accessModes": ["ReadWriteOnce"], "resources": {"requests": {"storage": "1Gi"}}},
}
WIDGET: Obj = {"apiVersion": "example.com/v1", "kind": "Widget", "metadata": {"name": "w"}, "spec": {"size": 1.5}}


def bodies(server: Server, *paths: str) -> list[bytes]:
    """Return the answers to some GETs, which are all 200."""
    answers = [send(server, "GET", path) for path in paths]
    assert [answer.status for answer in answers] == [200] * len(paths)
    return [answer.body for answer in answers]


@pytest.mark.parametrize("synchronous", ["normal", "full"])
@pytest.mark.parametrize("media_type", ["application/vnd.kubernetes.protobuf", "application/json"])
def test_next_server_goes_on(tmp_path: Path, synchronous: str, media_type: str) -> None:
    """Objects, custom ones too, are the same to the last byte; watches from before resume; deletions stay."""
    options: dict[str, Any] = {
        "storage": f"sqlite:{tmp_path / 'store'}",
        "sqlite_synchronous": synchronous,
        "storage_media_type": media_type,
    }
    paths = [CONFIG_MAPS, "/apis/example.com/v1/namespaces/default/widgets/w", "/api/v1/namespaces"]
    with Server(**options) as server:
        server.create(definition("v1"))
        server.wait_for("customresourcedefinitions", "widgets.example.com", "Established")
        server.create(WIDGET)
        seen = server.create(CONFIG_MAP)["metadata"]["resourceVersion"]
        server.patch("configmaps", "a", {"data": {"key": "after"}})
        server.create({**CONFIG_MAP, "metadata": {"name": "gone"}})
        server.delete("configmaps", "gone")
        before = bodies(server, *paths)
    with Server(**options) as server:
        assert bodies(server, *paths) == before
        with watch(server, CONFIG_MAPS, f"&resourceVersion={seen}") as events:
            told = [(event["type"], event["object"]["metadata"]["name"]) for event in islice(events, 3)]
        assert told == [("MODIFIED", "a"), ("ADDED", "gone"), ("DELETED", "gone")]
        version = server.create({**CONFIG_MAP, "metadata": {"name": "new"}})["metadata"]["resourceVersion"]
        assert int(version) > max(int(obj["metadata"]["resourceVersion"]) for obj in server.list("configmaps")) - 1


def test_tokens_outlive_a_server(tmp_path: Path) -> None:
    """A token of a service account is good at the next server."""
    storage = f"sqlite:{tmp_path / 'store'}"
    with Server(storage=storage) as server:
        server.create({"apiVersion": "v1", "kind": "ServiceAccount", "metadata": {"name": "bot"}})
        request: Obj = {"apiVersion": "authentication.k8s.io/v1", "kind": "TokenRequest", "spec": {}}
        answer = send(server, "POST", "/api/v1/namespaces/default/serviceaccounts/bot/token", request)
        token = answer.json()["status"]["token"]
    with Server(storage=storage) as server:
        review: Obj = {"apiVersion": "authentication.k8s.io/v1", "kind": "TokenReview", "spec": {"token": token}}
        status = send(server, "POST", "/apis/authentication.k8s.io/v1/tokenreviews", review).json()["status"]
        assert (status["authenticated"], status["user"]["username"]) == (True, "system:serviceaccount:default:bot")


def test_certificate_authority_outlives_a_server(tmp_path: Path) -> None:
    """Clients go on to trust the server, whose certificate is of the same authority."""
    authorities = []
    for _ in range(2):
        with Server(storage=f"sqlite:{tmp_path / 'store'}", tls=True) as server:
            cluster = yaml.safe_load(Path(server.kubeconfig).read_text())["clusters"][0]["cluster"]
            authorities.append(cluster["certificate-authority-data"])
    assert authorities[0] == authorities[1]


def test_another_release_opens_the_file(tmp_path: Path) -> None:
    """A claim that 1.33 has stored as v1beta1 is served by 1.37 as v1, and by 1.33 again."""
    storage = f"sqlite:{tmp_path / 'store'}"
    claim: Obj = {
        "apiVersion": "resource.k8s.io/v1beta1",
        "kind": "ResourceClaim",
        "metadata": {"name": "c"},
        "spec": {"devices": {"requests": [{"name": "r", "deviceClassName": "gpu"}]}},
    }
    old, new = (f"/apis/resource.k8s.io/{version}/namespaces/default/resourceclaims/c" for version in ("v1beta1", "v1"))
    with Server(storage=storage, emulated_version="1.33") as server:
        server.create(claim)
        before = bodies(server, old)
    with Server(storage=storage) as server:
        (request,) = send(server, "GET", new).json()["spec"]["devices"]["requests"]
        assert request["exactly"]["deviceClassName"] == "gpu"
    with Server(storage=storage, emulated_version="1.33") as server:
        assert bodies(server, old) == before


def test_write_without_a_change_migrates_an_object(tmp_path: Path) -> None:
    """The first write stores anew what an older release or another media type has stored; later ones change nothing."""
    storage = f"sqlite:{tmp_path / 'store'}"
    claim: Obj = {
        "apiVersion": "resource.k8s.io/v1beta1",
        "kind": "ResourceClaim",
        "metadata": {"name": "c"},
        "spec": {"devices": {"requests": [{"name": "r", "deviceClassName": "gpu"}]}},
    }

    def versions(server: Server, kind: str, name: str) -> list[str]:
        objects = [server.get(kind, name), *(server.patch(kind, name, {}) for _ in range(3))]
        return [obj["metadata"]["resourceVersion"] for obj in objects]

    with Server(storage=storage, emulated_version="1.33") as server:
        server.create(claim)
        server.create(CONFIG_MAP)
        assert len({*versions(server, "resourceclaims", "c")}) == 1
    with Server(storage=storage) as server:
        first, *others = versions(server, "resourceclaims", "c")
        assert others == [others[0]] * 3
        assert first != others[0]
        assert len({*versions(server, "configmaps", "a")}) == 1
    with Server(storage=storage, storage_media_type="application/json") as server:
        first, *others = versions(server, "configmaps", "a")
        assert others == [others[0]] * 3
        assert first != others[0]


def test_phase_of_a_new_volume_claim_is_stored_by_its_first_update(tmp_path: Path) -> None:
    """A new claim is stored without its phase, a default for readers; a write that changes nothing adds it, once."""
    storage = f"sqlite:{tmp_path / 'store'}"
    for place in ("memory", storage):
        with Server(storage=place) as server:
            assert send(server, "POST", f"{CLAIMS}?dryRun=All", CLAIM).json()["status"] == {"phase": "Pending"}
            before = server.create(CLAIM)
            assert before["status"] == server.get("persistentvolumeclaims", "c")["status"] == {"phase": "Pending"}
            send(server, "PATCH", f"{CLAIMS}/c?dryRun=All", {})
            written = [server.patch("persistentvolumeclaims", "c", {}) for _ in range(3)]
            versions = [obj["metadata"]["resourceVersion"] for obj in (before, *written)]
            assert len({*versions}) == 2
            assert versions[1:] == [versions[1]] * 3
            server.create({**CLAIM, "metadata": {"name": "another"}})
    with Server(storage=storage) as server:
        objects = [server.get("persistentvolumeclaims", "another")]
        objects += [server.patch("persistentvolumeclaims", "another", {}) for _ in range(2)]
        assert [obj["status"] for obj in objects] == [{"phase": "Pending"}] * 3
        before, first, second = (obj["metadata"]["resourceVersion"] for obj in objects)
        assert before != first == second
    with Server(storage=storage) as server:
        assert server.patch("persistentvolumeclaims", "another", {})["metadata"]["resourceVersion"] == second


def test_restored_claim_is_as_new_as_in_its_snapshot() -> None:
    """A snapshot of a server knows of a new claim that its phase is not stored."""
    with Server() as server:
        server.create(CLAIM)
        snapshot = server.snapshot()
        server.patch("persistentvolumeclaims", "c", {})
        server.restore(snapshot)
        before = server.get("persistentvolumeclaims", "c")
        assert server.patch("persistentvolumeclaims", "c", {})["metadata"] != before["metadata"]


def test_validating_policies_see_no_phase_of_a_new_volume_claim() -> None:
    """Validating admission sees a new claim as it will be stored, and what it was before as its readers do."""
    rule = {"apiGroups": [""], "apiVersions": ["v1"], "operations": ["*"], "resources": ["persistentvolumeclaims"]}
    before = "oldObject == null ? 'new' : string(oldObject.status.phase)"
    expression = f"({before}) + (has(object.status.phase) ? ', phase' : ', no phase')"
    policy = {
        "apiVersion": "admissionregistration.k8s.io/v1",
        "kind": "ValidatingAdmissionPolicy",
        "metadata": {"name": "phases"},
        "spec": {
            "matchConstraints": {"resourceRules": [rule]},
            "validations": [{"expression": "false", "messageExpression": expression}],
        },
    }
    binding = {
        "apiVersion": "admissionregistration.k8s.io/v1",
        "kind": "ValidatingAdmissionPolicyBinding",
        "metadata": {"name": "phases"},
        "spec": {"policyName": "phases", "validationActions": ["Warn"]},
    }
    with Server() as server:
        server.create(policy)
        server.create(binding)
        created = send(server, "POST", CLAIMS, CLAIM)
        changed = send(server, "PUT", f"{CLAIMS}/c", created.json())
        warnings = [warning.rpartition(": ")[2] for answer in (created, changed) for warning in answer.warnings]
        assert warnings == ["new, no phase", "Pending, phase"]


def test_reset_outlives_a_server(tmp_path: Path) -> None:
    """A reset brings back what was there at the start, in the file as well."""
    storage = f"sqlite:{tmp_path / 'store'}"
    with Server(storage=storage) as server:
        server.create(CONFIG_MAP)
    with Server(storage=storage) as server:
        server.delete("configmaps", "a")
        server.create({**CONFIG_MAP, "metadata": {"name": "b"}})
        server.reset()
    with Server(storage=storage) as server:
        assert [obj["metadata"]["name"] for obj in server.list("configmaps", "default")] == ["a"]


def _of_another_program(file: Path) -> None:
    with closing(sqlite3.connect(file)) as connection:
        connection.execute("CREATE TABLE notes (text)")


def _newer(file: Path) -> None:
    with Server(storage=f"sqlite:{file}"):
        pass
    with closing(sqlite3.connect(file)) as connection:
        connection.execute("PRAGMA user_version = 1000")


def _damaged(file: Path) -> None:
    with Server(storage=f"sqlite:{file}", load=["gpu-cluster"]):
        pass
    content = bytearray(file.read_bytes())
    page = 4096 * (len(content) // 4096 // 2)
    content[page : page + 4096] = b"\xff" * 4096
    file.write_bytes(content)


@pytest.mark.parametrize(
    ("spoil", "says"),
    [
        (lambda file: file.write_text("no database" * 100), "file is not a database"),
        (_of_another_program, "a SQLite file of another program"),
        (_newer, r"written by a newer understudy \(format 1000, this one knows 1\)"),
        (_damaged, "malformed|damaged"),
        (lambda file: file.mkdir(), "unable to open database file"),
    ],
)
def test_file_that_cannot_be_used_is_left_as_it_is(tmp_path: Path, spoil: Callable[[Path], object], says: str) -> None:
    """A file that is not ours, newer or damaged is refused in one line, and not touched."""
    file = tmp_path / "store"
    spoil(file)
    before = file.read_bytes() if file.is_file() else b""
    with pytest.raises(OSError, match=says) as refused, Server(storage=f"sqlite:{file}"):
        pass
    assert str(refused.value).startswith(f"{file}: ")
    assert "\n" not in str(refused.value)
    assert (file.read_bytes() if file.is_file() else b"") == before


class Nobody:
    """Reads what an engine holds, and is told of nothing."""

    def take(self, writes: object, revision: int) -> None: ...

    def start_over(self, contents: object) -> None: ...


@contextmanager
def unprivileged() -> Iterator[None]:
    """Let root be another user in the block, one who may not read and write everything. Skips if it may not."""
    if os.geteuid() != 0:
        yield
        return
    group = os.getegid()
    try:
        os.setegid(NOBODY)
        os.seteuid(NOBODY)
    except PermissionError:
        os.setegid(group)
        pytest.skip("root may not be another user here")
    try:
        yield
    finally:
        os.seteuid(0)
        os.setegid(group)


def test_start_without_a_write_says_why(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A write that fails before the server listens is an error in one line, not the Status of a request."""

    async def write(*_: object) -> int:
        raise StorageError("the disk is full")

    monkeypatch.setattr(SQLiteEngine, "write", write)
    with (
        pytest.raises(OSError, match=r"^cannot store what a server begins with: the disk is full$"),
        Server(storage=f"sqlite:{tmp_path / 'store'}"),
    ):
        pass


@pytest.mark.parametrize(("file_mode", "folder_mode"), [(0o444, 0o555), (0o444, 0o777), (0o644, 0o555), (0, 0o777)])
def test_file_that_may_not_be_written_is_left_as_it_is(file_mode: int, folder_mode: int) -> None:
    """A file, or a folder, of somebody else is refused in one line before anything is served from it."""
    with tempfile.TemporaryDirectory() as name:  # not below pytest's own folder, which only its user may enter
        folder = Path(name)
        file = folder / "store"

        async def opened() -> None:
            engine = SQLiteEngine(file)
            await engine.open(Nobody())
            await engine.close()

        asyncio.run(opened())
        before = file.read_bytes()
        for each in folder.iterdir():
            each.chmod(file_mode)
        folder.chmod(folder_mode)
        with (
            unprivileged(),
            pytest.raises(StorageError, match=f"^{file}: (attempt to write a readonly|unable to open)"),
        ):
            asyncio.run(opened())
        folder.chmod(0o700)
        file.chmod(0o600)
        assert file.read_bytes() == before


def test_one_server_uses_a_file(tmp_path: Path) -> None:
    """A second server is refused while the first one runs, which is not disturbed."""
    storage = f"sqlite:{tmp_path / 'store'}"
    with Server(storage=storage) as first:
        with pytest.raises(OSError, match="another server uses it"), Server(storage=storage):
            pass
        first.create(CONFIG_MAP)
    with Server(storage=storage) as server:
        assert server.get("configmaps", "a")["data"] == CONFIG_MAP["data"]


@pytest.mark.parametrize("synchronous", ["normal", "full"])
def test_full_disk_fails_the_write_alone(tmp_path: Path, synchronous: str) -> None:
    """A write for which there is no room is answered with 500 and changes nothing; small ones and reads go on."""
    options: dict[str, Any] = {"storage": f"sqlite:{tmp_path / 'store'}", "sqlite_synchronous": synchronous}
    with Server(**options) as server:
        server.create(CONFIG_MAP)
        store = server.state.registry.store
        assert isinstance(store, EngineStore)
        assert isinstance(store._engine, SQLiteEngine)
        connection = store._engine._connection
        (pages,) = connection.execute("PRAGMA page_count").fetchone()
        connection.execute(f"PRAGMA max_page_count = {pages + 2}")
        with pytest.raises(StatusError, match="database or disk is full") as refused:
            server.create({**CONFIG_MAP, "metadata": {"name": "large"}, "data": {"key": "x" * 100_000}})
        assert refused.value.code == 500
        assert [obj["metadata"]["name"] for obj in server.list("configmaps", "default")] == ["a"]
        server.patch("configmaps", "a", {"data": {"key": "after"}})
    with Server(**options) as server:
        assert server.get("configmaps", "a")["data"] == {"key": "after"}


@pytest.mark.parametrize("synchronous", ["normal", pytest.param("full", marks=pytest.mark.maintenance)])
def test_killed_server_loses_nothing(synchronous: str) -> None:
    """All that a server has acknowledged is there after kill -9 in the middle of writes, once, in the same order."""
    result = run("torture", "kills", "--kills", "1", "--synchronous", synchronous)
    assert re.fullmatch(r"1 kills, [1-9]\d* acknowledged writes, 0 lost\n", result.stdout), result
