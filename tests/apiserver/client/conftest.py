"""Objects as a server and as a user of it reads and writes them."""

from __future__ import annotations

import pytest

from understudy import Server
from understudy.apiserver.client.objects import ObjectAccess


@pytest.fixture(params=["server", "user"])
def access(apiserver: Server, request: pytest.FixtureRequest) -> ObjectAccess:
    """Return a server, or a user of it: both have the same methods."""
    return apiserver if request.param == "server" else apiserver.user("driver")
