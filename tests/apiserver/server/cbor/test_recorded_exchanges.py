"""CBOR is read and written as recorded beside a real kube-apiserver.

`python -m scripts.compare cbor … --save FILE` records recorded/RELEASE.jsonl, beside this file.
"""

from __future__ import annotations

import json
from pathlib import Path

import aiohttp
import pytest

from scripts.common.comparing import Server as Asked
from scripts.common.custom_resources import DEFINITIONS, definition, served_version
from scripts.compare.cases.cbor_requests import Tag, item
from scripts.compare.cbor import exchanges
from tests.waiting import wait_until
from understudy import Server
from understudy.machinery.releases.version import V1_37
from understudy.machinery.serializer.cbor.decode import decode_any
from understudy.machinery.serializer.cbor.items import parse

RECORDED = Path(__file__).with_name("recorded")
GATE = {"CBORServingAndStorage": True}


@pytest.mark.parametrize("release", ["1.32", "1.36", "1.37"])
def test_exchanges_are_as_recorded(release: str) -> None:
    """Objects, lists, watches, apply, errors and negotiation are those of the real server."""
    with Server(emulated_version=release, feature_gates=GATE) as server, Asked(server.url) as asked:
        actual = list(exchanges(asked))
    assert actual == [json.loads(line) for line in (RECORDED / f"{release}.jsonl").read_text().splitlines()]


def test_cbor_is_not_served_without_its_gate() -> None:
    """Neither bodies nor answers are in CBOR by default, and errors do not name it."""
    path, cbor = "/api/v1/namespaces/default/configmaps", "application/cbor"
    with Server() as server, Asked(server.url) as asked:
        read = asked.exchange("GET", path, {"Accept": cbor})
        written = asked.exchange("POST", path, {"Content-Type": cbor}, b"\xa0")
        applied = asked.exchange("PATCH", f"{path}/a", {"Content-Type": "application/apply-patch+cbor"}, b"\xa0")
    assert [read.status, written.status, applied.status] == [406, 415, 415]
    assert not any(b"cbor" in answer.body for answer in (read, written, applied))


@pytest.mark.parametrize("gate", [True, False])
def test_custom_resources_have_their_floats(gate: bool) -> None:
    """With the gate they are stored in CBOR, where 1.0 is a float still; in JSON it is written as 1 with both."""
    schema = {"type": "object", "properties": {"n": {"type": "number"}}}
    path, number = "/apis/example.com/v1/numbers", {"apiVersion": "example.com/v1", "kind": "Number"}
    with Server(feature_gates={"CBORServingAndStorage": gate}) as server, Asked(server.url) as asked:
        asked.must("POST", DEFINITIONS, definition("example.com", "Number", served_version(schema)))
        wait_until(lambda: asked.exchange("GET", path).status == 200)
        asked.must("POST", path, {**number, "metadata": {"name": "a"}, "n": 1.0})
        read = asked.exchange("GET", f"{path}/a")
        stored = server.state.registry.store.peek("/registry/example.com/numbers/a")
    assert b'"n":1}' in read.body
    assert stored is not None
    assert isinstance(stored.object["n"], float) is gate


def test_audit_log_has_objects_as_json(tmp_path: Path) -> None:
    """Bodies, answers and applied patches in CBOR stand in the audit log as the same ones in JSON do."""
    policy, log, path = tmp_path / "policy", tmp_path / "log", "/api/v1/namespaces/default/secrets"
    rules = [{"level": "RequestResponse", "omitStages": ["RequestReceived"]}]
    policy.write_text(json.dumps({"apiVersion": "audit.k8s.io/v1", "kind": "Policy", "rules": rules}))
    secret = {"apiVersion": "v1", "kind": "Secret", "metadata": {"name": "a"}, "data": {"b": Tag(22, b"c")}}
    with (
        Server(feature_gates=GATE, audit_policy_file=policy, audit_log_path=str(log)) as server,
        Asked(server.url) as asked,
    ):
        headers = {"Content-Type": "application/cbor", "Accept": "application/cbor"}
        asked.exchange("POST", path, headers, item(secret))
        headers["Content-Type"] = "application/apply-patch+cbor"
        asked.exchange(
            "PATCH", f"{path}/a?fieldManager=m&force=true", headers, item({**secret, "data": {"b": b"ZA=="}})
        )
        stored = asked.must("GET", f"{path}/a")
    created, applied = [
        event for event in map(json.loads, log.read_text().splitlines()) if event["verb"] in ("create", "patch")
    ]
    assert created["requestObject"]["data"] == created["responseObject"]["data"] == {"b": "Yw=="}
    assert applied["requestObject"] == {**secret, "data": {"b": "ZA=="}}
    assert applied["responseObject"] == stored


async def test_websocket_has_an_item_in_each_message() -> None:
    """An event in CBOR is a binary message, from its first byte on."""
    path = "/api/v1/namespaces?watch=1&timeoutSeconds=-1"
    with Server(feature_gates=GATE, accept_hosts=["localhost"]) as server:
        async with aiohttp.ClientSession() as session:
            headers = {"Origin": "http://localhost", "Accept": "application/cbor"}
            async with session.ws_connect(f"{server.url}{path}", headers=headers) as socket:
                sent = [message async for message in socket]
    assert {message.type for message in sent} == {aiohttp.WSMsgType.BINARY}
    assert [decode_any(parse(message.data, V1_37))["type"] for message in sent] == ["ADDED"] * len(sent)
