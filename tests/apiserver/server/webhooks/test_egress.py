"""Servers that others are reached through are asked as by kube-apiserver, and its errors are those of understudy."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
import trustme

from tests.apiserver.server.webhooks.egress_flow import configuration, place, rows
from tests.connect_proxy import ConnectProxy
from tests.http import send
from understudy import Server
from understudy.apiserver.server.options.config import ServerConfig
from understudy.machinery.types import Obj

FOLDER = Path(__file__).with_name("recorded")
EXCHANGES = sorted((FOLDER / "egress").glob("*.jsonl"))
CONFIGURATIONS = FOLDER / "egress_configurations.jsonl"


@pytest.mark.parametrize(
    "file",
    [pytest.param(file, marks=() if file.stem == "1.37" else pytest.mark.maintenance) for file in EXCHANGES],
    ids=lambda file: file.stem,
)
def test_proxies_are_asked_as_recorded(tmp_path: Path, file: Path) -> None:
    """Webhooks at URLs are asked through the proxy to the control plane, Services, pods and kubelets through the other
    one, and what goes wrong there is said in Go's words."""
    tokens = tmp_path / "tokens.csv"
    tokens.write_text("admintoken,admin,admin,system:masters\n")
    with place() as where:
        options: Any = {"egress_selector_config_file": where.configuration, "token_auth_file": tokens}
        with Server(emulated_version=file.stem, **options) as server:
            ours = [*rows(server.url, where, lambda: None)]
    assert ours == [json.loads(line) for line in file.read_text().splitlines()]


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return a folder with the files that the recorded configurations name."""
    made, authority = tmp_path_factory.mktemp("egress"), trustme.CA()
    client, other = authority.issue_cert("client.example.com"), authority.issue_cert("other.example.com")
    authority.cert_pem.write_to_path(made / "ca.pem")
    client.cert_chain_pems[0].write_to_path(made / "client.pem")
    client.private_key_pem.write_to_path(made / "client.key")
    other.private_key_pem.write_to_path(made / "other.key")
    (made / "nonsense").write_text("nonsense")
    return made


@pytest.mark.parametrize("release", ["1.32", "1.37"])
def test_configurations_are_refused_as_recorded(folder: Path, release: str) -> None:
    """The errors are those with which kube-apiserver does not start."""
    recorded = map(json.loads, CONFIGURATIONS.read_text().splitlines())
    for row in (row for row in recorded if release in row["errors"]):  # but for texts with an address in memory
        file = folder / "egress.yaml"
        file.write_text(row["file"].replace("FOLDER", str(folder)))
        with pytest.raises(ValueError, match="egress") as refused:
            ServerConfig(emulated_version=release, egress_selector_config_file=file)
        assert str(refused.value).replace(str(folder), "FOLDER") == row["errors"][release], row["file"]


def connection(name: str, connected: Obj) -> Obj:
    return {**configuration({}), "egressSelections": [{"name": name, "connection": connected}]}


UDS = {"uds": {"udsName": "/proxy.sock"}}


@pytest.mark.parametrize(
    ("selection", "error"),
    [
        (("cluster", "GRPC"), 'egress selector "cluster": GRPC is not supported here, HTTPConnect is'),
        (
            ("etcd", "HTTPConnect"),
            'egress selector "etcd": HTTPConnect is not supported here, Direct is',
        ),
    ],
)
def test_what_is_not_supported_says_so(tmp_path: Path, selection: tuple[str, str], error: str) -> None:
    """The server does not start with connections that it cannot make."""
    name, protocol = selection
    file = tmp_path / "egress.yaml"
    file.write_text(json.dumps(connection(name, {"proxyProtocol": protocol, "transport": UDS})))
    with pytest.raises(ValueError, match="egress selector") as refused:
        ServerConfig(egress_selector_config_file=file)
    assert str(refused.value) == error


def test_missing_file() -> None:
    """A file that there is not has an error of its own."""
    with pytest.raises(ValueError, match="egress") as refused:
        ServerConfig(egress_selector_config_file="/nowhere")
    assert str(refused.value) == "egress-selector-config-file /nowhere does not exist"


def test_direct_connections_need_no_proxy(tmp_path: Path) -> None:
    """A network that is reached directly has none."""
    file = tmp_path / "egress.yaml"
    file.write_text(json.dumps(connection("master", {"proxyProtocol": "Direct"})))
    assert ServerConfig(egress_selector_config_file=file).proxies == {"controlplane": None}


HOST = "/api/v1/namespaces/default/pods/{}:8080/proxy/"


@pytest.mark.parametrize(
    ("transport", "why"),
    [
        ({"uds": {"udsName": "/nowhere.sock"}}, "dial unix /nowhere.sock: connect: no such file or directory"),
        ({"tcp": {"url": "http://127.0.0.1"}}, "dial tcp: address 127.0.0.1: missing port in address"),
        ({"tcp": {"url": "http://127.0.0.1:1"}}, "dial tcp 127.0.0.1:1: connect: connection refused"),
        ({"tcp": {"url": "http://nowhere.invalid:1"}}, "dial tcp: lookup nowhere.invalid: no such host"),
    ],
)
def test_proxy_that_is_not_there(tmp_path: Path, transport: Obj, why: str) -> None:
    """The error is that of the connection to the proxy."""
    file = tmp_path / "egress.yaml"
    file.write_text(json.dumps(configuration({"cluster": transport})))
    with Server(egress_selector_config_file=str(file)) as server:
        assert proxied(server) == (503, f"error trying to reach service: {why}")


def proxied(server: Server) -> tuple[int, str]:
    """Ask a pod for a page; return status and message of the answer."""
    spec = {"containers": [{"name": "c", "image": "i"}]}
    server.create({"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "p"}, "spec": spec})
    server.patch("pods", "p", {"status": {"podIP": "10.1.2.3", "podIPs": [{"ip": "10.1.2.3"}]}}, subresource="status")
    answer = send(server, "GET", HOST.format("p"))
    return answer.status, answer.json()["message"] if answer.body.startswith(b"{") else answer.body.decode()


def test_connection_that_does_not_come_about_is_counted(tmp_path: Path) -> None:
    """The metrics tell a proxy that cannot be reached from one that refuses, and times only what comes about."""
    file = tmp_path / "egress.yaml"
    file.write_text(json.dumps(configuration({"cluster": {"uds": {"udsName": "/nowhere.sock"}}})))
    with Server(egress_selector_config_file=str(file)) as server:
        assert "apiserver_egress_dialer" not in send(server, "GET", "/metrics").body.decode()
        proxied(server)
        lines = send(server, "GET", "/metrics").body.decode().splitlines()
    prefix, protocol = "apiserver_egress_dialer_dial", 'protocol="http_connect"'
    assert [line for line in lines if line.startswith(prefix)] == [
        f'{prefix}_failure_count{{{protocol},stage="connect",transport="uds"}} 1',
        f'{prefix}_start_total{{{protocol},transport="uds"}} 1',
    ]


def test_proxy_over_plain_tcp(tmp_path: Path) -> None:
    """A proxy without TLS is asked as well; kube-apiserver ends with a panic when it finds one."""
    file = tmp_path / "egress.yaml"
    with ConnectProxy().running() as proxy:
        proxy.answer = b"HTTP/1.1 403 Forbidden\r\n\r\n"
        file.write_text(json.dumps(configuration({"cluster": {"tcp": {"url": f"http://{proxy.address}"}}})))
        with Server(egress_selector_config_file=str(file)) as server:
            why = f"proxy error from {proxy.address} while dialing 10.1.2.3:8080, code 403: 403 Forbidden"
            assert proxied(server) == (503, f"error trying to reach service: {why}")
        assert proxy.asked == ["10.1.2.3:8080"]
