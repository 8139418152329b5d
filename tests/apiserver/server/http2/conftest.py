"""A server that speaks HTTP/2, and a connection to it."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.apiserver.server.http2.client import Client
from understudy import Server


@pytest.fixture
def server() -> Iterator[Server]:
    with Server(tls=True) as running:
        yield running


@pytest.fixture
def client(server: Server) -> Iterator[Client]:
    with Client(server.url) as connection:
        yield connection
