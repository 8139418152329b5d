"""Names of new objects that are refused."""

from __future__ import annotations

from typing import Any

import pytest

from tests.http import exchange, send
from understudy import Server

MAPS = "/api/v1/namespaces/default/configmaps"


def test_taken_name_beside_generate_name(server: Server) -> None:
    """A name that exists is reported as a failed generation if the object has a generateName too."""
    sent = {"metadata": {"name": "there", "generateName": "gen-"}}
    response = send(server, "POST", MAPS, sent)
    code, headers, body = response.status, response.headers, response.json()
    assert (code, headers["Retry-After"], body["details"]["retryAfterSeconds"]) == (409, "1", 1)
    why = "the server was not able to generate a unique name for the object"
    assert body["message"] == f'configmaps "there" already exists, {why}'


@pytest.mark.parametrize(("metadata", "name"), [({}, "Unknown"), ({"generateName": "g-"}, "g-")])
def test_refusal_without_a_name(server: Server, metadata: Any, name: str) -> None:
    """Admission refuses an object without a name under its generateName, or as "Unknown"."""
    send(server, "POST", "/api/v1/namespaces", {"metadata": {"name": "going", "finalizers": ["e.io/x"]}})
    send(server, "DELETE", "/api/v1/namespaces/going")
    code, body = exchange(server, "POST", "/api/v1/namespaces/going/configmaps", {"metadata": metadata})
    why = "unable to create new content in namespace going because it is being terminated"
    assert (code, body["message"]) == (403, f'configmaps "{name}" is forbidden: {why}')
