"""Faults in JSON and YAML: over HTTP, and as options of a server."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from tests.http import send
from understudy import Fault, Server, ServerConfig
from understudy.cli.main import main

FAULTS = "/understudy/faults"
NODES = "/api/v1/nodes"

pytestmark = pytest.mark.apiserver(control=True)


def test_faults_are_added_listed_and_removed(apiserver: Server) -> None:
    """A rule is answered as it would be read, with its number and its counters, until it is removed."""
    rule = {"fault": "tooManyRequests", "retryAfter": 3, "verb": ["list", "get"], "resource": "nodes", "nth": 2}
    added = send(apiserver, "POST", FAULTS, rule)
    listed = {**rule, "id": 1, "times": 1, "matched": 0, "fired": 0}
    assert (added.status, added.json()) == (200, listed)
    assert [send(apiserver, "GET", NODES).status for _ in range(3)] == [200, 429, 200]
    listed = {**listed, "matched": 3, "fired": 1}
    fired = {"rule": 1, "fault": "tooManyRequests", "retryAfter": 3, "verb": "list", "path": NODES}
    assert send(apiserver, "GET", FAULTS).json() == {"items": [listed], "fired": [{**fired, "user": "system:admin"}]}
    assert send(apiserver, "GET", f"{FAULTS}/1").json() == listed
    assert send(apiserver, "DELETE", f"{FAULTS}/1").json() == {"items": [listed]}
    assert send(apiserver, "GET", f"{FAULTS}/1").status == 404
    assert len(apiserver.faults) == 0


def test_lists_are_added_and_removed_at_once(apiserver: Server) -> None:
    """A list of rules is in force as a whole; DELETE removes all."""
    rules = [
        {"fault": "serverError"},
        {"chaos": {"seed": 7, "share": 0.5, "faults": [{"fault": "timeout"}]}, "user": "a*"},
    ]
    added = send(apiserver, "POST", FAULTS, rules).json()["items"]
    assert [each["id"] for each in added] == [1, 2]
    assert added[1]["chaos"] == {"seed": 7, "share": 0.5, "faults": [{"fault": "timeout", "afterCommit": False}]}
    assert send(apiserver, "GET", NODES).status == 500
    assert len(send(apiserver, "DELETE", FAULTS).json()["items"]) == 2
    assert send(apiserver, "GET", NODES).status == 200


def test_listed_rules_can_be_read_again(apiserver: Server) -> None:
    """Every kind of fault is read, and listed as it was."""
    for fault in (
        *(
            Fault.conflict(),
            Fault.too_many_requests(),
            Fault.server_error("x", after_commit=True),
            Fault.reset(after_bytes=3),
        ),
        *(Fault.service_unavailable(), Fault.timeout(), Fault.hang(), Fault.reset(), Fault.delay(0.5), Fault.slow(10)),
        *(Fault.stale(3), Fault.cut_watch(2, reset=True), Fault.expired(), Fault.expired(2), Fault.no_bookmarks()),
    ):
        apiserver.faults.add(fault, user="nobody")
    read = ("id", "matched", "fired")
    items = [
        {name: value for name, value in each.items() if name not in read}
        for each in send(apiserver, "GET", FAULTS).json()["items"]
    ]
    before = [str(rule) for rule in apiserver.faults]
    apiserver.faults.clear()
    assert send(apiserver, "POST", FAULTS, items).status == 200
    assert [str(rule) for rule in apiserver.faults] == before


@pytest.mark.parametrize(
    ("document", "causes"),
    [
        ([], {}),
        ("x", {"<nil>": 'Invalid value: "x": want an object'}),
        ({}, {"fault": "Required value"}),
        ({"fault": "conflcit"}, {"fault": 'Unsupported value: "conflcit": supported values: "conflict", "cutWatch", '}),
        ({"fault": "delay"}, {"seconds": "Required value"}),
        ({"fault": "delay", "seconds": True}, {"seconds": "Invalid value: true: want a number"}),
        ({"fault": "delay", "seconds": -1}, {"<nil>": "want seconds that are not negative, not -1"}),
        ({"fault": "timeout", "after_commit": True}, {"after_commit": "unknown field; did you mean 'afterCommit'?"}),
        ({"fault": "conflict", "verb": "create"}, {"<nil>": "no create meets conflict(): update, patch, delete can"}),
        ({"fault": "conflict", "resource": "podz"}, {"resource": "resource type \"podz\"; did you mean 'Pod'?"}),
        (
            {"fault": "conflict", "nth": "2", "verbs": "get"},
            {"nth": 'Invalid value: "2": want an integer', "verbs": "unknown field; did you mean 'verb'?"},
        ),
        (
            [{"fault": "conflict"}, {"fault": "timeout", "verb": [1]}],
            {"items[1].verb": 'Invalid value: "[1]": want a string or a list of strings'},
        ),
        (
            {"chaos": {"share": 2, "sed": 1}},
            {"chaos.sed": "unknown field; did you mean 'seed'?", "chaos.seed": "Required value"},
        ),
        ({"chaos": {"seed": 1, "share": 2}}, {"<nil>": "want a share from 0 to 1, not 2"}),
        (
            {"chaos": {"seed": 1, "share": 0.1, "faults": [{"fault": "timeout", "verb": "get"}]}},
            {"chaos.faults[0].verb": 'Invalid value: "get": unknown field'},
        ),
        ({"chaos": 7}, {"chaos": "Invalid value: 7: want an object"}),
        ({"chaos": {"seed": 1, "share": 1, "faults": 7}}, {"chaos.faults": "Invalid value: 7: want a list"}),
    ],
    ids=str,
)
def test_wrong_rules_are_invalid(apiserver: Server, document: Any, causes: dict[str, str]) -> None:
    """A wrong rule is a Status with a cause for each mistake; none of a list is in force then."""
    answer = send(apiserver, "POST", FAULTS, document)
    status = answer.json()
    assert answer.status == (422 if causes else 200)
    messages = {each["field"]: each["message"] for each in status.get("details", {}).get("causes", [])}
    assert messages.keys() == causes.keys()
    assert all(part in messages[field] for field, part in causes.items()), messages
    assert len(apiserver.faults) == 0


def test_other_requests_are_refused(apiserver: Server) -> None:
    """A body that is no JSON is a 400, an unknown number a 404, another method a 405."""
    assert send(apiserver, "POST", FAULTS, b"{").json()["message"].startswith("faults: unexpected")
    assert send(apiserver, "POST", FAULTS, b"{").status == 400
    assert send(apiserver, "DELETE", f"{FAULTS}/7").json()["message"] == 'faults "7" not found'
    assert send(apiserver, "PUT", FAULTS, {}).status == 405
    assert send(apiserver, "GET", f"{FAULTS}x").status == 404


def test_control_api_meets_no_faults(apiserver: Server) -> None:
    """A fault for every path leaves the way to remove it."""
    send(apiserver, "POST", FAULTS, {"fault": "serverError", "path": "*"})
    assert send(apiserver, "GET", "/version").status == 500
    assert send(apiserver, "DELETE", FAULTS).status == 200
    assert send(apiserver, "GET", "/version").status == 200


# --- options --------------------------------------------------------------------------------------------------


def test_server_begins_with_faults_of_its_options(tmp_path: Path) -> None:
    """The rules of file and flag are there at the start, and as new after a reset; those of tests are not."""
    path = tmp_path / "faults.yaml"
    path.write_text(
        "# first a conflict\nfault: serverError\nnth: 1\nresource: nodes\n---\n- {fault: timeout, resource: pods}\n"
    )
    with Server(faults=path, chaos={"seed": "7", "share": "1"}, controllers=["namespace"]) as server:
        rules = [str(rule) for rule in server.faults]
        assert rules[0].startswith("<FaultRule fault=server_error(")
        assert rules[2] == "<Chaos seed=7 share=1>"
        assert send(server, "GET", NODES).status == 500
        assert server.list("nodes") == []
        server.faults.add(Fault.timeout())
        server.reset()
        assert [str(rule) for rule in server.faults] == rules
        assert send(server, "GET", NODES).status == 500


@pytest.mark.parametrize(
    ("option", "value", "message"),
    [
        ("chaos", "seed=7", "--chaos: faults[0].chaos.share: Required value"),
        ("chaos", "seed=x,share=0.1", '--chaos: faults[0].chaos.seed: Invalid value: "x": want an integer'),
        ("chaos", {"seed": 1, "share": 3}, "want a share from 0 to 1, not 3"),
        ("faults", "missing.yaml", "missing.yaml: No such file or directory"),
    ],
)
def test_wrong_options_are_refused(option: str, value: Any, message: str) -> None:
    """Options that make no sense are one clear line."""
    with pytest.raises(ValueError, match=message.replace("[", r"\[")):
        ServerConfig(**{option: value})


def test_wrong_file_names_the_place(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """A wrong rule of a file is told with the file and the rule's place; the command ends with 2."""
    path = tmp_path / "faults.json"
    path.write_text(json.dumps([{"fault": "conflict"}, {"fault": "cutWatch"}]))
    assert main(["serve", "--faults", str(path)]) == 2
    assert capsys.readouterr().err == f"understudy: {path}: faults[1].events: Required value\n"
