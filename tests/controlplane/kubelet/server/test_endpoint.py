"""The port of a kubelet, as other clients than kubectl use it."""

from __future__ import annotations

import asyncio
import base64
import http.client
import json
import ssl
import struct
import tempfile
from collections.abc import Iterator, Mapping
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import aiohttp
import pytest
import trustme

from tests.host_node import HostNode, host_node
from understudy import Server
from understudy.apiserver.client.connection import Connection
from understudy.apiserver.server.webhooks.streams.spdy import SpdyConnection
from understudy.apiserver.server.webhooks.streams.stream import SocketWire, beside, read_all
from understudy.controlplane.kubelet.kubelet import Kubelet

UPGRADE = {"Connection": "Upgrade", "Upgrade": "SPDY/3.1"}
V4 = {"X-Stream-Protocol-Version": "v4.channel.k8s.io"}
OLD = "channel.k8s.io"


@pytest.fixture(scope="module")
def node() -> Iterator[HostNode]:
    with tempfile.TemporaryDirectory(prefix="node-") as folder, host_node(Path(folder), "1.37") as node:
        node.create_pod("web", tty=True)
        spec = {"nodeName": "n", "containers": [{"name": "main", "image": "i"}], "resourceClaims": [WAITING]}
        node.server.create({"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "waiting"}, "spec": spec})
        yield node


WAITING = {"name": "none", "resourceClaimName": "none"}


def ask(
    node: HostNode, path: str, headers: Mapping[str, str] = {}, context: ssl.SSLContext | None = None
) -> tuple[int, str, http.client.HTTPMessage]:
    """Return status, body and headers of the kubelet's answer."""
    connection = http.client.HTTPSConnection("127.0.0.1", node.port, context=context or node.client_context)
    connection.request("POST", path, headers=headers)
    answer = connection.getresponse()
    result = answer.status, answer.read().decode(), answer.headers
    connection.close()
    return result


@pytest.mark.parametrize(
    ("path", "headers", "status", "text"),
    [
        ("/exec/default/web/main?command=ls", UPGRADE, 400, "you must specify at least 1 of stdin, stdout, stderr"),
        ("/exec/default/none/main?output=1", UPGRADE, 404, "pod does not exist"),
        ("/exec/default/web/none?output=1", UPGRADE, 500, 'container not found ("none")'),
        ("/exec/default/web/another-uid/main?output=1", UPGRADE, 500, 'container not found ("main")'),
        ("/exec/default/waiting/main?output=1", UPGRADE, 500, 'container not found ("main")'),
        ("/exec/default/web/main?output=1", {}, 500, "Upgrade request required\n"),
        (
            "/exec/default/web/main?output=1",
            UPGRADE,
            400,
            "unable to upgrade: X-Stream-Protocol-Version is required\n",
        ),
        (
            "/exec/default/web/main?output=1",
            UPGRADE | {"X-Stream-Protocol-Version": "v9, v8"},
            403,
            "unable to upgrade: unable to negotiate protocol: client supports [v9 v8], server accepts "
            "[v4.channel.k8s.io v3.channel.k8s.io v2.channel.k8s.io channel.k8s.io]\n",
        ),
        ("/attach/default/none/main?output=1", UPGRADE, 404, "pod does not exist"),
        ("/attach/default/web/none?output=1", UPGRADE, 500, "container none not found in pod web_default"),
        (
            "/attach/default/web/main?output=1&error=1",
            UPGRADE,
            500,
            "rpc error: code = InvalidArgument desc = tty and stderr cannot both be true",
        ),
        ("/portForward/default/none", UPGRADE, 404, "pod does not exist"),
        ("/portForward/default/web/another-uid", UPGRADE, 404, "pod not found"),
        ("/portForward/default/waiting", UPGRADE, 500, 'pod not found ("waiting_default")'),
        ("/portForward/default/web", {}, 500, "Upgrade request required\n"),
        ("/containerLogs/default/none/main", {}, 404, 'pod "default/none" does not exist\n'),
        ("/other", {}, 404, "404: Page Not Found"),
    ],
)
def test_errors_are_those_of_a_kubelet(
    node: HostNode, path: str, headers: Mapping[str, str], status: int, text: str
) -> None:
    """Pods and containers that do not run, and clients that ask for something else, get upstream's texts."""
    assert ask(node, path, headers)[:2] == (status, text)


def test_refused_protocols_are_answered_with_those_that_are_known(node: HostNode) -> None:
    """A client may try again with a protocol that the kubelet knows."""
    headers = ask(node, "/portForward/default/web", UPGRADE | V4)[2]
    assert headers.get_all("X-Accepted-Stream-Protocol-Versions") == ["portforward.k8s.io"]


def test_only_trusted_clients_are_answered(node: HostNode) -> None:
    """A client without a certificate, or with one of another authority, may not even read logs."""
    for path in ("/exec/default/web/main?output=1&command=ls", "/containerLogs/default/web/main"):
        stranger = ssl.create_default_context()
        stranger.check_hostname = False
        stranger.verify_mode = ssl.CERT_NONE
        assert ask(node, path, UPGRADE | V4, stranger)[:2] == (401, "Unauthorized")
        trustme.CA().issue_cert("client").configure_cert(stranger)
        assert ask(node, path, UPGRADE | V4, stranger)[:2] == (401, "Unauthorized")


def test_server_without_a_certificate_is_refused(node: HostNode) -> None:
    """An API server that shows the kubelet no certificate passes its refusal on."""
    with Server() as server:
        server.create({"apiVersion": "v1", "kind": "Node", "metadata": {"name": "n"}})
        status = node.server.get("nodes", "n")["status"]
        kept = {name: status[name] for name in ("addresses", "daemonEndpoints", "declaredFeatures")}
        server.patch("nodes", "n", {"status": kept}, subresource="status")
        spec = {"nodeName": "n", "containers": [{"name": "main", "image": "i"}]}
        server.create({"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "web"}, "spec": spec})
        path = "/api/v1/namespaces/default/pods/web/exec?stdout=1&command=ls"
        connection = http.client.HTTPConnection(server.url.removeprefix("http://"))
        connection.request("POST", path, headers=UPGRADE | V4)
        answer = connection.getresponse()
        assert (answer.status, answer.read()) == (401, b"Unauthorized")
        connection.close()


def test_commands_need_authorities_of_clients(tmp_path: Path) -> None:
    """A kubelet that would run commands of everybody is refused, and so are other options without sense."""
    arguments = Connection(url="http://127.0.0.1:1"), "n", tmp_path, "1.37"
    with pytest.raises(ValueError, match="commands in pods need a client CA file"):
        Kubelet(*arguments, exec_command=["env"])
    with pytest.raises(ValueError, match="want a sequence of arguments for the command, not 'env'"):
        Kubelet(*arguments, exec_command="env", client_ca_file=tmp_path)
    for port, address in (("web:80", "h:1"), ("a/web:80", "h"), ("a/web", "h:1")):
        with pytest.raises(ValueError, match="want NAMESPACE/NAME:PORT=HOST:PORT for a port of a pod"):
            Kubelet(*arguments, exec_command=["env"], client_ca_file=tmp_path, pod_addresses={port: address})


# --- SPDY, without kubectl


@asynccontextmanager
async def spdy(node: HostNode, path: str, version: str) -> Any:
    """Return a connection that speaks SPDY with the kubelet."""
    reader, writer = await asyncio.open_connection("127.0.0.1", node.port, ssl=node.client_context)
    lines = [f"POST {path} HTTP/1.1", "Host: n", *(f"{name}: {value}" for name, value in UPGRADE.items())]
    writer.write("\r\n".join([*lines, f"X-Stream-Protocol-Version: {version}", "", ""]).encode())
    head = (await reader.readuntil(b"\r\n\r\n")).decode()
    assert head.startswith("HTTP/1.1 101 Switching Protocols\r\n")
    assert f"X-Stream-Protocol-Version: {version}\r\n" in head
    wire = SocketWire(reader, writer)
    connection = SpdyConnection(wire, is_server=False)

    async def receive() -> None:
        await wire.receive(connection.receive)
        connection.end()

    try:
        async with beside(receive()):
            yield connection
    finally:
        writer.transport.abort()
        await asyncio.sleep(0)


@pytest.mark.parametrize("version", [f"v4.{OLD}", f"v3.{OLD}", f"v2.{OLD}", OLD])
async def test_older_protocols_tell_errors_as_text(node: HostNode, version: str) -> None:
    """Version 4 ends with a Status, older ones with the text of an error, and nothing after exit code 0."""
    for code in (0, 3):
        path = f"/exec/default/web/main?output=1&command=sh&command=-c&command=echo+x%3Bexit+{code}"
        async with spdy(node, path, version) as connection:
            error, output = [await connection.open({"streamType": name}) for name in ("error", "stdout")]
            said, text = await read_all(output), (await read_all(error)).decode()
        assert said == b"x\n"
        message = f"command terminated with non-zero exit code: error executing command [sh -c echo x;exit {code}]"
        message = f"{message}, exit code {code}"
        if not version.startswith("v4"):
            assert text == (message if code else "")
            continue
        status = json.loads(text)
        assert status["status"] == ("Failure" if code else "Success")
        if code:
            cause = {"reason": "ExitCode", "message": str(code)}
            expected = {"message": message, "reason": "NonZeroExitCode", "details": {"causes": [cause]}}
            assert status == {"metadata": {}, "status": "Failure", **expected}


async def test_streams_of_ports_have_right_headers(node: HostNode) -> None:
    """A stream without a port or of another type is refused, and so is a second one of a type."""
    async with spdy(node, "/portForward/default/web", "portforward.k8s.io") as connection:
        data = {"streamType": "data", "port": "80", "requestID": "1"}
        await connection.open(data)
        for headers in (data, {**data, "port": "0"}, {**data, "port": "x"}, {**data, "streamType": "stdin"}):
            with pytest.raises(ConnectionResetError):
                await connection.open(headers)


# --- WebSockets, without kubectl


@asynccontextmanager
async def websocket(node: HostNode, path: str, *protocols: str) -> Any:
    url = f"https://127.0.0.1:{node.port}{path}"
    async with (
        aiohttp.ClientSession() as session,
        session.ws_connect(url, protocols=protocols, ssl=node.client_context) as ws,
    ):
        assert ws.protocol == (protocols[0] if protocols else None)
        try:
            yield ws
        finally:
            ws._writer.transport.abort()  # TLS would end after the event loop
            await asyncio.sleep(0)


async def messages(ws: aiohttp.ClientWebSocketResponse) -> list[bytes | str]:
    """Return all messages that come until the other side closes the WebSocket."""
    return [message.data async for message in ws]


async def test_channels_carry_bytes(node: HostNode) -> None:
    """Each message begins with the number of its channel; the first one tells that the connection is there."""
    path = "/exec/default/web/main?input=1&output=1&error=1&command=head&command=-c4"
    for protocols in ((), (f"v4.{OLD}",), (OLD,)):
        async with websocket(node, path, *protocols) as ws:
            await ws.send_bytes(b"")
            await ws.send_bytes(b"\x09no channel")
            await ws.send_bytes(b"\x01not read")
            await ws.send_bytes(b"\0word")
            received = await messages(ws)
        assert received[:2] == [b"\x01", b"\x01word"]
        status = b'{"metadata":{},"status":"Success"}'
        assert received[2:] == ([b"\x03" + status] if protocols == (f"v4.{OLD}",) else [])


async def test_channels_carry_base64(node: HostNode) -> None:
    """Messages of text have the number as a digit, and base64 behind it."""
    path = "/exec/default/web/main?input=1&output=1&command=head&command=-c4"
    async with websocket(node, path, f"base64.{OLD}") as ws:
        await ws.send_str("0no base64")
        await ws.send_str("0" + base64.b64encode(b"word").decode())
        assert await messages(ws) == ["1", "1" + base64.b64encode(b"word").decode()]


async def test_a_message_closes_a_channel(node: HostNode) -> None:
    """In version 5 a client can end the input of a command; a message that ends no channel ends all."""
    path = "/exec/default/web/main?input=1&output=1&command=cat"
    async with websocket(node, path, f"v5.{OLD}") as ws:
        await ws.send_bytes(b"\0word")
        await ws.send_bytes(b"\xff\0")
        assert (await messages(ws))[:2] == [b"\x01", b"\x01word"]
    async with websocket(node, path, f"v5.{OLD}") as ws:
        await ws.send_bytes(b"\xff\x09")
        assert await messages(ws) == [b"\x01"]


async def test_frames_that_are_too_long_end_a_websocket(node: HostNode) -> None:
    """A message of more than 32 MiB is not read."""
    async with websocket(node, "/exec/default/web/main?input=1&output=1&command=cat", OLD) as ws:
        await ws.receive()
        ws._writer.transport.write(b"\x82\xff" + struct.pack(">Q", 33 << 20) + b"mask")
        assert (await messages(ws), ws.close_code) == ([], 1009)


@pytest.mark.parametrize(("query", "text"), [
    ("", 'query parameter "port" is required'),
    ("?port=", 'query parameter "port" cannot be empty'),
    ("?port=80,0", 'port "80,0" must be > 0'),
    ("?port=x", 'unable to parse "x" as a port: strconv.ParseUint: parsing "x": invalid syntax'),
    ("?port=65536", 'unable to parse "65536" as a port: strconv.ParseUint: parsing "65536": value out of range'),
])  # fmt: skip
def test_ports_of_websockets_are_in_the_url(node: HostNode, query: str, text: str) -> None:
    """The client of a WebSocket names its ports before it is there."""
    headers = {"Connection": "Upgrade", "Upgrade": "websocket"}
    assert ask(node, f"/portForward/default/web{query}", headers)[:2] == (400, text)


async def test_channels_carry_ports(node: HostNode) -> None:
    """Each port has a channel of data and one of errors, which begin with its number."""

    async def answer(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        writer.write((await reader.read(4)).upper())
        writer.close()

    async with await asyncio.start_server(answer, "127.0.0.1", 0) as server:
        port = server.sockets[0].getsockname()[1]
        async with websocket(node, f"/portForward/default/web?port={port}", f"v4.{OLD}") as ws:
            await ws.send_bytes(b"\0word")
            number = struct.pack("<H", port)
            assert await messages(ws) == [b"\0" + number, b"\x01" + number, b"\0WORD"]


def test_other_websockets_are_refused(node: HostNode) -> None:
    """A subprotocol that the kubelet does not know, another method, and a handshake without a key are refused."""
    headers = {"Connection": "Upgrade", "Upgrade": "websocket", "Sec-WebSocket-Version": "13"}
    path = "/exec/default/web/main?output=1"
    assert ask(node, path, headers)[:2] == (405, "bad method")
