"""A webhook that converts custom resources, and a server with a definition that asks it."""

from __future__ import annotations

import threading
from collections.abc import Iterator

import pytest

from tests.apiserver.extensions.conversion_webhook import Webhook, define
from understudy import Server


@pytest.fixture
def webhook() -> Iterator[Webhook]:
    webhook = Webhook()
    thread = threading.Thread(target=webhook.server.serve_forever, args=(0.01,))
    thread.start()
    yield webhook
    webhook.server.shutdown()
    thread.join()
    webhook.server.server_close()


@pytest.fixture
def server(apiserver: Server, webhook: Webhook) -> Server:
    """Return a server with a definition that asks the webhook."""
    define(apiserver, conversion=webhook.conversion())
    return apiserver
