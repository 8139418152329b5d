"""Kubelets are asked, and what they answer is passed on, as recorded beside a real kube-apiserver.

`python -m scripts.compare kubelets … --save FILE` records recorded/STORY/RELEASE.jsonl, beside this file.
"""

from __future__ import annotations

import json
import socket
from itertools import takewhile
from pathlib import Path

import pytest
import trustme

from scripts.common.comparing import Server as Asked
from scripts.compare.aggregation import Scene
from scripts.compare.cases.aggregated_server import AggregatedServer
from scripts.compare.cases.aggregation_requests import UPGRADE
from scripts.compare.cases.aggregation_steps import Write
from scripts.compare.kubelets import PODS, STORIES, steps
from understudy import Server
from understudy.apiserver.server.webhooks import kubelets
from understudy.apiserver.server.webhooks.aggregation import upgrade

RECORDED = Path(__file__).with_name("recorded")
MERGE = "application/merge-patch+json"
NO_NAME = "x509: cannot validate certificate for 127.0.0.1 because it doesn't contain any IP SANs"


def write_first(asked: Asked, port: int) -> None:
    """Write the objects that the steps begin with: nodes whose kubelets listen at a port, and pods."""
    for step in takewhile(lambda step: isinstance(step, Write), steps(port)):
        asked.call(step.method, step.path, step.body, MERGE if step.method == "PATCH" else "application/json")


@pytest.mark.parametrize("release", ["1.32", "1.36", "1.37"])
@pytest.mark.parametrize("story", STORIES)
def test_exchanges_are_as_recorded(release: str, story: str, tmp_path: Path) -> None:
    """Logs, upgraded connections, headers in both directions and errors are those of the real server."""
    tokens = tmp_path / "tokens.csv"
    tokens.write_text("admin-token,admin,admin,system:masters\n")
    with (
        Server(emulated_version=release, token_auth_file=tokens) as server,
        Asked(server.url, "admin-token") as asked,
        AggregatedServer(answers="/") as kubelet,
    ):
        actual = list(Scene(asked, "admin-token", kubelet).exchanges(steps(kubelet.port, story)))
    assert actual == [json.loads(line) for line in (RECORDED / story / f"{release}.jsonl").read_text().splitlines()]


def test_certificates_of_kubelets_are_verified(tmp_path: Path) -> None:
    """A kubelet whose certificate cannot be verified is not asked, but for a client that does not mind."""
    trustme.CA().cert_pem.write_to_path(str(tmp_path / "ca"))
    with (
        Server(kubelet_certificate_authority=tmp_path / "ca") as server,
        Asked(server.url) as asked,
        AggregatedServer(answers="/") as kubelet,
    ):
        write_first(asked, kubelet.port)
        log = f"{PODS}/on-n/log?container=other"
        status, answer = asked.call("GET", log)
        assert (status, answer["message"].rpartition("certificate: ")[2]) == (500, NO_NAME)
        assert asked.exchange("GET", f"{log}&insecureSkipTLSVerifyBackend=true").status == 200


def test_kubelets_that_take_no_connection_are_given_up(monkeypatch: pytest.MonkeyPatch) -> None:
    """A log, and a command, of a node whose kubelet takes no connection get an error when the time is up."""
    monkeypatch.setattr(kubelets, "DIAL", 0.3)
    monkeypatch.setattr(upgrade, "DIAL", 0.3)
    with Server() as server, Asked(server.url) as asked, socket.create_server(("127.0.0.1", 0), backlog=0) as full:
        port = full.getsockname()[1]
        write_first(asked, port)
        with socket.create_connection(("127.0.0.1", port)):  # no other one fits
            log, forward = f"{PODS}/on-n/log?container=other", f"{PODS}/on-n/portforward"
            answers = [asked.exchange("GET", path, UPGRADE if path == forward else {}) for path in (log, log, forward)]
        assert {answer.status for answer in answers} == {500}
        for answer in answers[1:]:  # the first one may fit, and is not answered
            assert json.loads(answer.body)["message"].endswith(f": dial tcp 127.0.0.1:{port}: i/o timeout")


def test_kubelets_are_shown_a_certificate_with_its_key(tmp_path: Path) -> None:
    """A certificate for kubelets without its key is refused at the start, and so is a file that is missing."""
    with pytest.raises(ValueError, match="--kubelet-client-certificate and --kubelet-client-key go together"):
        Server(kubelet_client_certificate=tmp_path / "cert")
    with pytest.raises(ValueError, match="No such file"):
        Server(kubelet_certificate_authority=tmp_path / "none")
