"""Warnings of API versions that go."""

from __future__ import annotations

import urllib.error
import urllib.request

import pytest

from understudy import Server

FLOWS = "/apis/flowcontrol.apiserver.k8s.io"
TEXT = (
    "flowcontrol.apiserver.k8s.io/v1beta3 FlowSchema is deprecated in v1.29+, unavailable in v1.32+; "
    "use flowcontrol.apiserver.k8s.io/v1 FlowSchema"
)


def warnings(server: Server, path: str) -> list[str]:
    try:
        with urllib.request.urlopen(server.url + path) as answer:
            return answer.headers.get_all("Warning") or []
    except urllib.error.HTTPError as error:
        with error:
            return error.headers.get_all("Warning") or []


@pytest.mark.apiserver(emulated_version="1.31")
@pytest.mark.parametrize(
    ("path", "told"),
    [
        ("/api/v1/componentstatuses", ["v1 ComponentStatus is deprecated in v1.19+"]),
        (f"{FLOWS}/v1beta3/flowschemas", [TEXT]),
        (f"{FLOWS}/v1beta3/flowschemas/missing", [TEXT]),
        (f"{FLOWS}/v1/flowschemas", []),
        ("/api/v1/pods", []),
    ],
)
def test_warning(apiserver: Server, path: str, told: list[str]) -> None:
    """Every answer about such a version warns, errors too; those that stay do not."""
    assert warnings(apiserver, path) == [f'299 - "{text}"' for text in told]
