"""What clients send is not kept for long: caches have no long keys."""

from __future__ import annotations

import gc
import tracemalloc
from collections.abc import Iterator
from typing import Any

import pytest

from tests.http import send
from understudy import Server

MAPS = "/api/v1/namespaces/default/configmaps"
CLAIMS = "/apis/resource.k8s.io/v1beta1/namespaces/default/resourceclaims"
REQUESTS, CHARACTERS = 20, 50_000


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    tokens = tmp_path_factory.mktemp("tokens") / "tokens.csv"
    tokens.write_text("token,asker,asker\n")
    with Server(authorization_mode="RBAC", token_auth_file=tokens, tls=False) as running:
        running.apply(
            {
                "apiVersion": "rbac.authorization.k8s.io/v1",
                "kind": "ClusterRoleBinding",
                "metadata": {"name": "asker"},
                "roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": "cluster-admin"},
                "subjects": [{"apiGroup": "rbac.authorization.k8s.io", "kind": "User", "name": "asker"}],
            }
        )
        running.request_log.on = False  # it keeps what is asked, for tests, up to a limit of its own
        yield running


@pytest.fixture
def traced(little_garbage: None) -> Iterator[None]:
    tracemalloc.start()
    yield
    tracemalloc.stop()


def claim(expression: str) -> dict[str, Any]:
    selectors = [{"cel": {"expression": expression}}]
    request = {"name": "a", "deviceClassName": "a.example.com", "selectors": selectors}
    return {"metadata": {"name": "long"}, "spec": {"devices": {"requests": [request]}}}


def bytes_of_long_texts() -> int:
    """Return the memory of blocks that are long enough for such a text: other threads of the process have others."""
    gc.collect()
    return sum(trace.size for trace in tracemalloc.take_snapshot().traces if trace.size >= CHARACTERS)


def with_text(value: Any, text: str) -> Any:
    """Return a JSON value with a text in place of every LONG in its texts."""
    if isinstance(value, dict):
        return {key: with_text(item, text) for key, item in value.items()}
    if isinstance(value, list):
        return [with_text(item, text) for item in value]
    return value.replace("LONG", text) if isinstance(value, str) else value


@pytest.mark.parametrize(
    ("method", "path", "body", "headers"),
    [
        ("GET", f"{MAPS}/LONG", None, {}),
        ("GET", "/api/v1/namespaces/LONG/configmaps", None, {}),
        ("GET", "/LONG", None, {}),
        ("LONG", "/api", None, {}),
        ("GET", "/api", None, {"Impersonate-User": "LONG"}),
        ("GET", "/api", None, {"Impersonate-User": "a", "Impersonate-Group": "LONG"}),
        (
            "POST",
            "/apis/authorization.k8s.io/v1/subjectaccessreviews",
            {"spec": {"user": "LONG", "resourceAttributes": {"verb": "get", "resource": "pods", "name": "LONG"}}},
            {},
        ),
        ("GET", "/openapi/v3", None, {"Accept": "application/json;a=LONG"}),
        ("POST", MAPS, {"metadata": {"name": "a", "creationTimestamp": "LONG"}}, {}),
        ("POST", f"{MAPS}?dryRun=All", {"metadata": {"name": "a"}}, {"User-Agent": "LONG"}),
        ("POST", f"{MAPS}?dryRun=All", {"metadata": {"name": "a", "finalizers": ["LONG"]}}, {}),
        ("POST", CLAIMS, claim('"LONG" == ""'), {}),
        (
            "POST",
            "/api/v1/namespaces/default/resourcequotas?dryRun=All",
            {"metadata": {"name": "a"}, "spec": {"hard": {"pods": f"{'0' * CHARACTERS}LONG"}}},
            {},
        ),
    ],
)
def test_long_texts_are_not_kept(
    server: Server, traced: None, method: str, path: str, body: Any, headers: dict[str, str]
) -> None:
    """A long path, header, time, name or quantity is forgotten when the request has been answered."""

    def ask(number: int) -> None:
        text = f"{number:05}" * (CHARACTERS // 5)
        if body is not None and "hard" in body.get("spec", {}):
            text = str(number)  # a quantity may have many zeros in front, but not so many digits
        sent = with_text([method, path, body, {"Authorization": "Bearer token"} | headers], text)
        send(server, *sent[:3], headers=sent[3])

    for number in range(3):
        ask(number)
    before = bytes_of_long_texts()
    for number in range(10, 10 + REQUESTS):
        ask(number)
    send(server, "GET", "/healthz")
    assert bytes_of_long_texts() - before < REQUESTS * CHARACTERS / 2
