"""The scripts that compare two servers: what they count as agreement, and that they fail without any comparison."""

from __future__ import annotations

import random
import re
import socket
import threading
from collections.abc import Callable, Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest

from scripts.common import commands, comparing
from scripts.compare import custom, kinds
from scripts.compare.cases import rules
from scripts.compare.sequences.report import compare
from scripts.compare.sequences.server_pair import ServerPair
from scripts.compare.sequences.steps import Step
from tests.releases import NEWEST
from tests.scripts.commands import ROOT, run
from understudy import Server
from understudy.cel.checker.declared_types import declared_type
from understudy.cel.interpreter.unstructured import converter
from understudy.cel.rules import compile_rule

NOBODY = "http://127.0.0.1:1"


@pytest.fixture
def client() -> Iterator[Any]:
    """Yield a client of a server, whose answers a test can replace."""
    with Server() as server, comparing.Server(server.url) as client:
        yield client


@pytest.mark.parametrize(
    ("left", "right", "lines"),
    [
        ({"a": 1}, {"a": 1}, []),
        ({"a": None}, {}, [".a: null and nothing"]),
        ({}, {"a": None}, [".a: nothing and null"]),
        ({"a": 1}, {"a": True}, [".a: 1 and true"]),
        ({"a": 1}, {"a": 1.0}, [".a: 1 and 1.0"]),
        ({"a": [0]}, {"a": [False]}, [".a[0]: 0 and false"]),
        ({"a": [1]}, {"a": [1, 2]}, [".a: [1] and [1, 2]"]),
    ],
)
def test_differences(left: Any, right: Any, lines: list[str]) -> None:
    """An absent field differs from null, and a number from a boolean and from the same number with a point."""
    assert list(comparing.differences(left, right, "")) == lines


@pytest.mark.parametrize(
    "command",
    [
        "requests",
        "apply",
        "metadata",
        "kinds",
        "custom",
        "rules",
        "authorization",
        "policies",
        "webhooks",
        "recordings",
    ],
)
def test_no_server_is_a_failure(command: str) -> None:
    """A command ends with one line, which makes its status 1, when nobody answers."""
    with pytest.raises(SystemExit, match="GET /version: no answer") as end:
        commands.main("scripts.compare", [command], [command, NOBODY, NOBODY])
    assert "\n" not in str(end.value)


def test_nothing_is_recorded_from_no_server() -> None:
    """A process that records ends with status 1 and one line when nobody answers."""
    scenario = ROOT / "tests/recordings/scenarios/config-maps.yaml"
    done = run("record", "scenario", "--server", NOBODY, str(scenario))
    assert (done.returncode, len(done.stderr.splitlines())) == (1, 1), done.stderr
    assert "GET /version: no answer" in done.stderr


@pytest.mark.parametrize(
    ("command", "nothing"),
    [
        ("apply", "--kind=Unknown"),
        ("metadata", "--kind=Unknown"),
        ("kinds", "--only=unknown"),
        ("recordings", "--only=unknown"),
        ("custom", "--definitions=0"),
        ("rules", "--definitions=0"),
        ("authorization", "--decisions=0"),
        ("policies", "--batches=0"),
        ("webhooks", "--batches=0"),
    ],
)
def test_no_comparison_is_a_failure(command: str, nothing: str) -> None:
    """A command that has nothing to compare ends with status 1."""
    with Server() as one, Server() as other:
        done = run("compare", command, one.url, other.url, nothing)
    assert (done.returncode, done.stderr) == (1, "")


@pytest.mark.parametrize(
    ("mode", "status", "word"), [("RBAC", 0, "50 agree, 0 differ"), ("AlwaysAllow", 1, "[1-9][0-9]* differ")]
)
def test_decisions_are_compared(tmp_path: Path, mode: str, status: int, word: str) -> None:
    """Two servers that authorize by RBAC decide alike, one that allows everything decides otherwise."""
    tokens = tmp_path / "tokens.csv"
    tokens.write_text("t,admin,1,system:masters\n")
    options: dict[str, Any] = {"token_auth_file": tokens, "tls": False}
    with Server(authorization_mode=["RBAC"], **options) as one, Server(authorization_mode=[mode], **options) as other:
        done = run("compare", "authorization", one.url, other.url, "--token=t", "--decisions=50")
    assert (done.returncode, done.stderr) == (status, "")
    assert re.search(word, done.stdout.splitlines()[-1])


@pytest.mark.parametrize("command", ["policies", "webhooks"])
@pytest.mark.parametrize(("mode", "status"), [("AlwaysAllow", 0), ("RBAC", 1)])
def test_admission_is_compared(tmp_path: Path, mode: str, status: int, command: str) -> None:
    """Requests that policies or webhooks are about agree on equal servers, and differ where users have fewer rights."""
    tokens = tmp_path / "tokens.csv"
    tokens.write_text("t,admin,1,system:masters\n")
    options: dict[str, Any] = {"token_auth_file": tokens, "tls": False}
    with Server(**options) as one, Server(authorization_mode=[mode], **options) as other:
        sent = ["--token=t", "--batches=1", "--cases=3", "--sequences=2", "--no-shrinking"]
        done = run("compare", command, one.url, other.url, *sent)
    assert (done.returncode, done.stderr) == (status, ""), done.stdout


@pytest.mark.parametrize(("mode", "status"), [("AlwaysAllow", 0), ("RBAC", 1)])
def test_changed_recordings_are_compared(mode: str, status: int) -> None:
    """Recorded requests and their changed copies agree on equal servers, and differ where users have fewer rights."""
    with Server() as one, Server(authorization_mode=[mode]) as other:
        done = run("compare", "recordings", one.url, other.url, "--only=machinery.*m09", "--share=0.3", "--seed=1")
    assert (done.returncode, done.stderr) == (status, ""), done.stdout


def test_dropped_request_is_not_sent_again() -> None:
    """A request without an answer is counted as such, since a write that is sent twice is another write."""
    received = []

    def accept(listener: socket.socket) -> None:
        with suppress(OSError):  # the listener closes while a second request is waited for
            while True:
                connection, _ = listener.accept()
                received.append(connection.recv(1000))
                connection.close()

    with socket.create_server(("127.0.0.1", 0)) as listener:
        threading.Thread(target=accept, args=(listener,), daemon=True).start()
        with comparing.Server(f"http://127.0.0.1:{listener.getsockname()[1]}") as client:
            answer = client.exchange("POST", "/x")
    assert (answer.status, len(received)) == (comparing.UNANSWERED, 1)


def answering(client: Any, answer: Callable[[Any], Any]) -> Any:
    """Return a client that changes the answers to its GET requests below a namespace."""

    class Changed(type(client)):  # type: ignore[misc]
        def exchange(self, method: str, path: str, *more: Any) -> Any:
            original = client.exchange(method, path, *more)
            return answer(original) if method == "GET" and path.endswith("/configmaps") else original

    return Changed(client.url)


def steps() -> list[Any]:
    return [Step(0, "GET", "/api/v1/namespaces/{{ns}}/configmaps")]


@pytest.fixture
def other() -> Iterator[Any]:
    with Server() as server, comparing.Server(server.url) as client:
        yield client


def test_same_answers_agree(client: Any, other: Any) -> None:
    """Two servers that answer alike have no difference."""
    assert ServerPair(client, other).difference(steps()) is None


@pytest.mark.parametrize(
    ("known", "lines"),
    [
        ("", [".headers.warning: [] and [\"x\"]", ".status: 200 and 418"]),
        ("warning", [".status: 200 and 418"]),
        ("warning|status", None),
    ],
    ids=["nothing known", "one line known", "both lines known"],
)  # fmt: skip
def test_known_lines_hide_no_others(client: Any, other: Any, known: str, lines: list[str] | None) -> None:
    """A pattern of known differences hides the lines that match, not the answer that they are in."""
    changed = answering(other, lambda answer: answer._replace(status=418, headers=[*answer.headers, ("Warning", "x")]))
    pair = ServerPair(client, changed, known)
    difference = pair.difference(steps())
    assert (difference and [line for line in difference.lines if "allow" not in line]) == lines


def test_real_server_without_an_answer_is_no_agreement(client: Any, other: Any) -> None:
    """A sequence that the real server cuts short is counted apart."""
    changed = answering(client, lambda answer: answer._replace(status=comparing.UNANSWERED))
    pair = ServerPair(changed, other)
    outcomes = compare(pair, {"one": steps()}, False)
    assert (dict(outcomes), pair.unanswered) == ({"unanswered": 1}, 1)


def test_other_server_without_an_answer_differs(client: Any, other: Any) -> None:
    """A dropped connection of the server under test is a difference."""
    changed = answering(other, lambda answer: answer._replace(status=comparing.UNANSWERED))
    outcomes = compare(ServerPair(client, changed), {"one": steps()}, False)
    assert dict(outcomes) == {"differ": 1}


def test_namespace_that_is_not_created_ends_the_run(client: Any) -> None:
    """A sequence needs a namespace of its own on both servers: here they are one, which has it already."""
    with pytest.raises(SystemExit, match="409"):
        ServerPair(client, client).difference(steps())


def test_changes_of_kinds_differ_between_configurations() -> None:
    """Random changes of objects find a server that has another feature gate, and none between equal servers."""
    gates = {"DRAConsumableCapacity": False}
    with Server() as one, Server() as equal, Server(feature_gates=gates) as other:
        for right, status in ((equal, 0), (other, 1)):
            sent = ["--seed=1", "--requests=150", "--only=resource.k8s.io/v1/.*claim"]
            done = run("compare", "kinds", one.url, right.url, *sent, timeout=120)
            assert (done.returncode, done.stderr) == (status, ""), done.stdout


@pytest.mark.parametrize(
    ("path", "lines", "is_known"),
    [
        ("/api/v1/pods", ['.body.details.causes[0].message[1]: "Toleration(nil)}" and "Toleration{}}"'], True),
        ("/api/v1/pods", ['.body.details.causes[0].message[1]: "must be 1" and "must be 2"'], False),
        ("/api/v1/pods", ['.body.details.causes[0].message[1]: "nil" and "[]"', ".body.code: 422 and 409"], False),
        (
            "/x/validatingadmissionpolicies",
            [".causes: invalid JSONPath", ".status: 422 and 200", ".a: 1"],
            True,
        ),
        ("/x/validatingadmissionpolicies", [".causes: invalid JSONPath", ".body.spec: 1 and 2"], False),
    ],
)
def test_known_differences_hide_no_others(path: str, lines: list[str], is_known: bool) -> None:
    """A difference is known if each of its lines is, or one where a server refuses what the other accepts."""
    assert bool(kinds.known_reason(path, lines)) == is_known


def test_random_definitions_are_valid(client: Any) -> None:
    """Most of the definitions for the comparison of custom resources are accepted, and most of their objects."""
    accepted = objects = 0
    for seed in range(8):
        generator = custom.SchemaGenerator(seed)
        definition = custom.things(seed, f"g{seed}.example.com", generator)
        status, _ = custom.install(client, definition)
        if status == 201:
            accepted += 1
            kind = custom.kind_of(definition, generator)
            path = kind.versions[0][1].replace("{{ns}}", "default")
            for i, spec in enumerate(kind.required[0][1]):
                obj = {
                    "apiVersion": kind.versions[0][0],
                    "kind": kind.name,
                    "metadata": {"name": f"a{i}"},
                    "spec": spec,
                }
                objects += client.call("POST", path, obj)[0] == 201
    assert accepted >= 4
    assert objects >= 4


def test_random_rules_compile() -> None:
    """Most of the random rules of schemas compile, and all random values convert for them."""
    compiled = 0
    for seed in range(20):
        rng = random.Random(seed)
        schema = rules.random_schema(rng)
        rule = rules.random_rule(rng, schema, transition=True)
        declared = declared_type(schema, NEWEST)
        assert declared is not None
        made = compile_rule(rule, declared, NEWEST).compiled
        compiled += made is not None and made.error is None
        assert converter(schema)(rules.random_value(rng, {**schema, "nullable": False}))
    assert compiled >= 12
