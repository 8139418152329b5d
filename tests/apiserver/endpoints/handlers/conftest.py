"""A server that holds one config map, for tests of requests that need no other object."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.releases import since
from understudy import Server
from understudy.machinery.releases.version import V1_32


@pytest.fixture(scope="module", params=since(V1_32), ids=str)
def server(request: pytest.FixtureRequest) -> Iterator[Server]:
    """Run a server of each release that the requests hold for; the config map is called "there"."""
    with Server(emulated_version=str(request.param)) as running:
        running.apply({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "there"}})
        yield running
