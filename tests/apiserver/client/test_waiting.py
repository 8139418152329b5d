"""Waiting until a condition holds for an object."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import pytest

from tests.waiting import PATIENCE, wait_until
from understudy import Server, StatusError, Watch
from understudy.apiserver.client.kind_names import RequestError
from understudy.apiserver.client.listing import ObjectList
from understudy.apiserver.client.objects import ObjectAccess
from understudy.apiserver.client.waiting import expectation, states, wait
from understudy.machinery.types import Obj


def config_map(**data: str) -> Obj:
    return {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "a"}, "data": data}


POD = {
    "apiVersion": "v1",
    "kind": "Pod",
    "metadata": {"name": "p"},
    "spec": {"containers": [{"name": "c", "image": "i"}]},
}


@contextmanager
def meanwhile(*steps: Callable[[], object]) -> Iterator[None]:
    """Do something in another thread."""
    thread = threading.Thread(target=lambda: [step() for step in steps])
    thread.start()
    yield
    thread.join(PATIENCE)


def ready(status: str, **fields: Any) -> Obj:
    return {"status": {"conditions": [{"type": "Ready", "status": status, **fields}]}}


def test_function_is_asked_after_every_change(access: ObjectAccess) -> None:
    """The object is returned for which the function holds, which may use the server itself."""
    counts: list[int] = []

    def has_three_keys(obj: Obj) -> bool:
        counts.append(len(access.get("cm", "a")["data"]))
        return len(obj["data"]) == 3

    access.create(config_map(k="1"))
    steps = [lambda key=key: access.patch("cm", "a", {"data": {key: "1"}}) for key in "lm"]
    with meanwhile(*steps):
        assert sorted(access.wait_for("cm", "a", has_three_keys, timeout=PATIENCE)["data"]) == ["k", "l", "m"]
    assert counts[-1] == 3


def test_object_need_not_be_there_yet(access: ObjectAccess) -> None:
    """An object is waited for that is created, deleted and created again."""
    with meanwhile(
        lambda: access.create(config_map()),
        lambda: access.delete("cm", "a"),
        lambda: access.create(config_map(k="1")),
    ):
        assert access.wait_for("cm", "a", lambda obj: obj["data"]["k"], timeout=PATIENCE)["data"] == {"k": "1"}


def test_condition_has_a_type_and_a_status(access: ObjectAccess) -> None:
    """A text is the type of a condition that is True, or has the status that is named; in any case."""
    access.create(POD)
    with meanwhile(lambda: access.patch("pods", "p", ready("False"), subresource="status")):
        access.wait_for("pods", "p", "Ready=False", timeout=PATIENCE)
    with meanwhile(lambda: access.patch("pods", "p", ready("True"), subresource="status")):
        stored = access.wait_for("pods", "p", "ready", timeout=PATIENCE)
    assert stored["status"]["conditions"][0]["status"] == "True"


def test_deletion_is_waited_for(apiserver: Server, access: ObjectAccess) -> None:
    """A deleted object is returned as it was last, and {} for one that was not there."""

    def is_watched() -> bool:
        return apiserver.state.registry.store.watching("/registry/configmaps/default/") > 0

    access.create(config_map(k="1"))
    with meanwhile(lambda: wait_until(is_watched), lambda: access.delete("cm", "a")):
        assert access.wait_for("cm", "a", "deleted", timeout=PATIENCE)["data"] == {"k": "1"}
    assert access.wait_for("cm", "a", "delete", timeout=0) == {}


def test_creation_is_waited_for(access: ObjectAccess) -> None:
    """An object is returned as soon as it is there."""
    with meanwhile(lambda: access.create(config_map(k="1"))):
        assert access.wait_for("cm", "a", "created", timeout=PATIENCE)["data"] == {"k": "1"}


def test_object_of_another_namespace_or_none(access: ObjectAccess) -> None:
    """An object is waited for in its namespace; a kind without namespaces ignores it."""
    access.create({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "other"}})
    access.create(config_map(), "other")
    assert access.wait_for("cm", "a", "created", "other", timeout=0)
    assert access.wait_for("ns", "other", lambda ns: ns["status"]["phase"] == "Active")
    with pytest.raises(RequestError, match="an empty namespace may not be set"):
        access.wait_for("cm", "a", "created", "")


def is_full(obj: Obj) -> bool:
    return bool(obj["data"]["full"])


@pytest.mark.parametrize(
    ("name", "condition", "message"),
    [
        ("a", is_full, "cm \"a\" does not fulfil is_full after 0 s (it raised KeyError('full')); it is:"),
        ("a", lambda obj: False, 'cm "a" does not fulfil the condition after 0 s; it is:'),
        ("a", "Ready=false", 'cm "a" is not Ready=false after 0 s; it is:'),
        ("a", "deleted", 'cm "a" is not deleted after 0 s; it is:'),
        ("b", "created", 'cm "b" is not created after 0 s; there is no such object'),
        ("b", is_full, 'cm "b" does not fulfil is_full after 0 s; there is no such object'),
    ],
)
def test_failure_shows_the_object(access: ObjectAccess, name: str, condition: Any, message: str) -> None:
    """A wait that fails names its condition, and shows the object's last state without managed fields."""
    access.create(config_map(k="1"))
    with pytest.raises(TimeoutError) as error:
        access.wait_for("cm", name, condition, timeout=0)
    first, _, shown = str(error.value).partition("\n\n")
    assert first == message
    assert ('\ndata:\n  k: "1"\n' in shown) == (name == "a")
    assert "managedFields" not in shown


def test_failure_shows_a_deleted_object() -> None:
    """An object that went away while it was waited for is shown as it was."""
    with pytest.raises(
        TimeoutError, match='cm "a" is not Ready=True after 2 s; it is gone, and was:\n\napiVersion: v1'
    ):
        wait([config_map(k="1"), None], "Ready", 'cm "a"', 2)


@pytest.mark.parametrize("condition", ["", "=True", "Ready=yes", "status.phase=Running", "jsonpath={.a}=b"])
def test_text_that_is_no_condition_is_refused(access: ObjectAccess, condition: str) -> None:
    """A text that means nothing is refused at once, and the error says what may be asked for."""
    with pytest.raises(ValueError, match='want a function, "created", "deleted", or a condition such as "Ready"'):
        access.wait_for("cm", "a", condition)


def test_errors_of_a_function_are_raised(access: ObjectAccess) -> None:
    """Errors of a function that do not say that a field is missing are its author's."""
    access.create(config_map())
    with pytest.raises(ZeroDivisionError):
        access.wait_for("cm", "a", lambda obj: 1 / 0)


def test_unknown_kind_is_refused_at_once(access: ObjectAccess) -> None:
    """Waiting for an object of an unknown kind raises StatusError before any time has passed."""
    with pytest.raises(StatusError, match='the server doesn\'t have a resource type "cms"'):
        access.wait_for("cms", "a", "created")


def test_history_may_be_compacted_meanwhile(apiserver: Server) -> None:
    """The object is read anew when the version at which the watch would begin is gone."""
    apiserver.create(config_map(k="1"))

    def is_changed(obj: Obj) -> bool:
        if obj["data"]["k"] == "1":
            apiserver.patch("cm", "a", {"data": {"k": "2"}})
            apiserver.compact()
        return bool(obj["data"]["k"] == "2")

    assert apiserver.wait_for("cm", "a", is_changed)["data"] == {"k": "2"}


def test_object_with_another_uid_was_deleted() -> None:
    """An object that is another one when it is read anew has been deleted meanwhile."""
    first, second = ({"metadata": {"name": "a", "uid": uid}} for uid in "12")
    reads = iter([ObjectList([first]), ObjectList([second]), ObjectList()])

    def watch(version: str, seconds: float) -> Watch:
        raise StatusError(410, "Expired", "too old resource version")

    seen = states(lambda: next(reads), watch, PATIENCE)
    assert [next(seen) for _ in range(4)] == [first, None, second, None]


async def test_coroutine_waits_in_a_thread(apiserver: Server) -> None:
    """A coroutine waits in a thread, and goes on with other things meanwhile."""

    async def create() -> None:
        await asyncio.sleep(0)
        apiserver.create(config_map())

    waiting = asyncio.to_thread(apiserver.wait_for, "cm", "a", "created")
    stored, _ = await asyncio.gather(waiting, create())
    assert stored["metadata"]["name"] == "a"


@pytest.mark.parametrize(
    ("obj", "holds"),
    [
        (None, False),
        ({}, False),
        ({"status": {"conditions": [{"type": "Other", "status": "True"}]}}, False),
        (ready("True"), True),
        (ready("true"), True),
        (ready("False"), False),
        ({"status": {"conditions": "odd"}}, False),
        ({"metadata": {"generation": 2}, **ready("True", observedGeneration=1)}, False),
        ({"metadata": {"generation": 2}, **ready("True", observedGeneration=2)}, True),
        ({"metadata": {"generation": 2}, "status": {**ready("True")["status"], "observedGeneration": 1}}, False),
    ],
)
def test_condition_must_be_of_the_last_generation(obj: Obj | None, holds: bool) -> None:
    """A condition that was observed in an earlier generation does not count, as for `kubectl wait`."""
    assert bool(expectation("Ready").holds(obj)) == holds
