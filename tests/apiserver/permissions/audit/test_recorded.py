"""Events that kube-apiserver has logged, beside those of this server for the same requests.

Recorded with `python -m scripts.compare audit … --flow FLOW --save RELEASE-FLOW.jsonl`.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from scripts.common.comparing import Server as Client
from scripts.common.comparing import differences
from scripts.compare.audit import Log, recorded
from scripts.compare.cases.audit_flows import HOOKS
from scripts.compare.cases.webhook_server import WebhookServer
from tests.releases import often
from understudy import Server

RECORDED = Path(__file__).with_name("recorded")
PATHS = sorted(RECORDED.glob("*.jsonl"))
# Every run plays the flows on the newest release; -m every_recording plays the others. A server is started anew for
# another object, even for an equal text.
FLOWS = [
    pytest.param(
        sys.intern(path.stem[:4]),
        path.stem[5:],
        marks=often(path.stem[:4] == PATHS[-1].stem[:4]),
    )
    for path in PATHS
]
POLICY = Path(__file__).parents[4] / "scripts/compare/cases/audit.yaml"
TOKENS = 'admintoken,admin,admin,"system:masters"\n'


@pytest.fixture(scope="module")
def logging(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[Server, Path]]:
    """A server of a release, and its audit log."""
    folder = tmp_path_factory.mktemp("audit")
    tokens, path = folder / "tokens.csv", folder / "audit.log"
    tokens.write_text(TOKENS)
    with Server(
        emulated_version=request.param,
        authorization_mode="Node,RBAC",
        token_auth_file=tokens,
        audit_policy_file=POLICY,
        audit_log_path=path,
    ) as server:
        yield server, path


@pytest.mark.parametrize(("logging", "flow"), FLOWS, indirect=["logging"])
def test_events_are_those_of_the_real_server(logging: tuple[Server, Path], flow: str) -> None:
    """The events of every request agree: how many there are, of which stages, with which fields in which order."""
    server, path = logging
    with WebhookServer() as hook, Client(server.url, "admintoken") as client:
        hook.answers = {f"/{letter}/{name}": answer for name, answer in HOOKS.items() for letter in "mv"}
        log = Log(client, str(path), f"run-{flow.replace('_', '-')}", hook)
        log.open()
        try:
            log.send(flow)
        finally:
            log.close()
        found = recorded(log)
    release = server.state.release.version
    expected = [json.loads(line) for line in (RECORDED / f"{release}-{flow}.jsonl").read_text().splitlines()]
    assert [line["request"] for line in found] == [line["request"] for line in expected]
    assert [line for pair in zip(expected, found, strict=True) for line in differences(*pair, pair[0]["request"])] == []
