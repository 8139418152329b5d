"""Connections on which another protocol is asked for."""

from __future__ import annotations

import socket
import ssl
from concurrent.futures import ThreadPoolExecutor
from threading import Event

import trustme
from multidict import CIMultiDict

from understudy.apiserver.server.webhooks.aggregation.upgrade import Upgrade
from understudy.apiserver.server.worker.loop_thread import LoopThread

REFUSAL = b"HTTP/1.1 401 Unauthorized\r\nContent-Length: 0\r\n\r\n"


def test_refused_upgrade_ends_with_its_answer() -> None:
    """A server that keeps the connection open after its refusal does not keep ours open: the loop can be closed."""
    is_over = Event()
    context, unverified = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER), ssl._create_unverified_context()
    trustme.CA().issue_cert("localhost").configure_cert(context)

    def refuse() -> None:
        with listener.accept()[0] as plain, context.wrap_socket(plain, server_side=True) as connection:
            connection.recv(1024)
            connection.sendall(REFUSAL)
            is_over.wait(5)

    async def ask() -> int:
        upgrade = await Upgrade.dial("127.0.0.1", listener.getsockname()[1], "localhost", unverified)
        return (await upgrade.ask("POST", "/", CIMultiDict())).status

    thread = LoopThread()
    with socket.create_server(("127.0.0.1", 0)) as listener, ThreadPoolExecutor() as pool:
        refusing = pool.submit(refuse)
        try:
            assert thread.run(ask()) == 401
            thread.end()
        finally:
            is_over.set()
        refusing.result()
