"""The replay itself: when a live answer counts as the recorded one."""

from __future__ import annotations

from typing import Any

import pytest

from .compare import Memory
from .conftest import surprises
from .replay import Outcome

ONE, TWO = "11111111-1111-4111-8111-111111111111", "22222222-2222-4222-8222-222222222222"


def status(message: str, *causes: str) -> dict[str, Any]:
    return {"kind": "Status", "message": message, "details": {"causes": [{"message": cause} for cause in causes]}}


@pytest.mark.parametrize(
    ("want", "got"),
    [
        pytest.param({"a": 1, "b": [None, True]}, {"b": [None, True], "a": 1}, id="order of fields"),
        pytest.param(["<uid:1>", "<uid:1>"], [ONE, ONE], id="one placeholder, one value"),
        pytest.param("claim <uid:1> at <time>", f"claim {ONE} at 2025-01-01T00:00:00Z", id="inside a text"),
        pytest.param("<microtime>", "2025-01-01T00:00:00.000001Z", id="micro time"),
        pytest.param(["5m", "<age>"], ["5m", "3d4h"], id="age"),
        pytest.param("a <b> c", "a <b> c", id="not a placeholder"),
        pytest.param("at <pointer>", "at 0xc000123456", id="memory address"),
        pytest.param(status("[a, b]", "a", "b"), status("[b, a]", "b", "a"), id="order of causes"),
        pytest.param(
            {"managedFields": [{"manager": "a"}, {"manager": "b"}]},
            {"managedFields": [{"manager": "b"}, {"manager": "a"}]},
            id="order of managed fields",
        ),
    ],
)
def test_made_up_values_agree(want: Any, got: Any) -> None:
    """Values that a server makes up, and lists without an order, are no difference."""
    assert Memory().body(want, got) == []


@pytest.mark.parametrize(
    ("want", "got", "where"),
    [
        pytest.param({"a": 1}, {"a": 1.0}, "a", id="int or float"),
        pytest.param({"a": 1}, {"a": True}, "a", id="int or bool"),
        pytest.param({"a": 1}, {}, "a", id="missing"),
        pytest.param({"a": None}, {"a": None, "b": 0}, ".b", id="unexpected"),
        pytest.param({"a": [1]}, {"a": [1, 2]}, "a", id="length"),
        pytest.param(["<uid:1>", "<uid:1>"], [ONE, TWO], "[1]", id="one placeholder, two values"),
        pytest.param("<time>", "2025-01-01T00:00:00.1Z", "", id="not a time in seconds"),
        pytest.param("<rv:1>", "one", "", id="not a resource version"),
        pytest.param(status("a", "a"), status("b", "a"), "message", id="message"),
        pytest.param(status("[a, b]", "a", "b"), status("[a, c]", "a", "c"), "message", id="another cause"),
    ],
)
def test_other_differences_are_located(want: Any, got: Any, where: str) -> None:
    """Any other difference is reported with its path."""
    assert [difference.split(":")[0] for difference in Memory().body(want, got)][:1] == [where]


def test_live_values_are_sent_back() -> None:
    """A request is sent with the live uid and the object's own times in place of the recorded ones."""
    memory = Memory()
    metadata = {
        "uid": ONE,
        "creationTimestamp": "2025-01-01T00:00:00Z",
        "managedFields": [{"time": "2025-01-02T00:00:00Z"}],
    }
    recorded = {"uid": "<uid:1>", "creationTimestamp": "<time>", "managedFields": [{"time": "<time>"}]}
    memory.note({"metadata": metadata})
    assert memory.body({"metadata": recorded}, {"metadata": metadata}) == []
    assert memory.fill({"metadata": recorded}) == {"metadata": metadata}
    assert memory.path("/claims/<uid:1>?at=<rv:7>") == f"/claims/{ONE}?at=%3Crv%3A7%3E"


def test_resource_versions_keep_their_order() -> None:
    """Live resource versions must stand in the recorded order, at any distance."""
    memory = Memory()
    assert memory.differences(["<rv:1>", "<rv:2>", "<rv:3>"], ["10", "20", "20"]) == []
    assert memory.in_order({"<rv:1>": 1, "<rv:2>": 2, "<rv:3>": 2})
    assert not memory.in_order({"<rv:1>": 2, "<rv:2>": 1, "<rv:3>": 1})
    assert not memory.in_order({"<rv:1>": 1, "<rv:2>": 2, "<rv:3>": 3})


def test_only_new_differences_are_reported() -> None:
    """A failure names the lines that are not known to differ, and those that are although they agree."""
    outcome = Outcome()
    outcome.add(3, "GET /a", ["status: 404, want 200"])
    outcome.add(5, "GET /b", [])
    outcome.add(7, "GET /c", ["status: 500, want 200"])
    assert surprises(outcome, {3: "for a reason", 7: "for another"}) == []
    assert surprises(outcome, {3: "for a reason", 5: "for another"}) == [
        "line 7 is new: GET /c\n    status: 500, want 200",
        "known before: 3 (for a reason), 5 (for another)",
        "line 5 agrees now: take it off tests/recordings/known.py",
    ]
