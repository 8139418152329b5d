"""What /metrics counts of updates, of documents that show what is served, and of connections without TLS."""

from __future__ import annotations

import re
import socket
from urllib.parse import urlsplit

from tests.http import send
from tests.waiting import wait_until
from understudy import Server
from understudy.machinery.types import Obj

MAPS = "/api/v1/namespaces/default/configmaps"
DEFINITIONS = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions"
AGGREGATED = "application/json;g=apidiscovery.k8s.io;v=v2;as=APIGroupDiscoveryList"
MERGE = "application/merge-patch+json"


def counts(server: Server, pattern: str) -> dict[str, str]:
    """Return the samples whose names match a pattern, without `_count` and what else stands before the labels."""
    text = send(server, "GET", "/metrics").body.decode()
    return dict(re.findall(rf"^{pattern}(\S*) (\S+)$", text, re.MULTILINE))


def definition(name: str) -> Obj:
    schema = {"openAPIV3Schema": {"type": "object", "x-kubernetes-preserve-unknown-fields": True}}
    version = {"name": "v1", "served": True, "storage": True, "schema": schema}
    names = {"plural": f"{name}s", "kind": name.title()}
    spec = {"group": "example.com", "scope": "Namespaced", "names": names, "versions": [version]}
    return {"metadata": {"name": f"{name}s.example.com"}, "spec": spec}


def test_updates_are_counted_by_how_objects_are_compared() -> None:
    """The times of managed fields are looked at first, then these, and all of the object only if they are the same."""
    path, one = f"{MAPS}/one", {"metadata": {"name": "one"}, "data": {"a": "b"}}
    with Server() as server:
        server.clock.freeze("2030-01-02T03:04:05Z")
        send(server, "POST", MAPS, one)
        counted = []
        for data in ({"a": "b"}, {"a": "b"}, {"a": "c"}, {"x": "y"}):
            before = counts(server, "apiserver_request_timestamp_comparison_time_count")
            assert send(server, "PUT", path, one | {"data": data}).status == 200
            after = counts(server, "apiserver_request_timestamp_comparison_time_count")
            counted += [label for label, count in after.items() if count != before.get(label)]
            server.clock.advance(seconds=1)
    fast, slow = "unequal_objects_fast", "unequal_objects_slow"
    assert counted == [f'{{code_path="{how}"}}' for how in (fast, fast, slow, fast)]


def test_documents_are_counted_when_they_change() -> None:
    """Aggregated discovery counts when it is asked for after a change, definitions by why their documents change."""
    with Server() as server:

        def aggregated(*paths: str) -> int:
            for path in paths:
                send(server, "GET", path, accept=AGGREGATED)
            return int(counts(server, "aggregator_discovery_aggregation_count_total")[""])

        assert [aggregated(), aggregated("/apis", "/apis"), aggregated("/api", "/api")] == [0, 1, 2]
        for name in ("foo", "bar"):
            assert send(server, "POST", DEFINITIONS, definition(name)).status == 201
        assert [aggregated(), aggregated("/apis", "/api"), aggregated("/apis")] == [2, 3, 3]
        send(server, "PATCH", f"{DEFINITIONS}/foos.example.com", {"metadata": {"labels": {"a": "b"}}}, MERGE)
        send(server, "DELETE", f"{DEFINITIONS}/bars.example.com")
        assert wait_until(lambda: send(server, "GET", f"{DEFINITIONS}/bars.example.com").status == 404)
        v2 = counts(server, "apiextensions_openapi_v2_regeneration_count")
        v3 = counts(server, "apiextensions_openapi_v3_regeneration_count")
    reasons = {"bars": ("add", "remove", "update"), "foos": ("add", "update")}
    assert v2 == {
        f'{{crd="{name}.example.com",reason="{reason}"}}': "0" for name, all_of in reasons.items() for reason in all_of
    }
    reasons = {"bars": ("remove", "update"), "foos": ("add",)}
    assert v3 == {
        f'{{crd="{name}.example.com",group="example.com",reason="{reason}",version="v1"}}': "0"
        for name, all_of in reasons.items()
        for reason in all_of
    }


def test_connections_without_tls_are_counted() -> None:
    """Each connection that ends before TLS is agreed upon counts, be it that the client speaks HTTP or says nothing."""
    with Server(tls=True) as server:
        url = urlsplit(server.url)
        for sent in (b"GET / HTTP/1.1\r\n\r\n", b"nonsense that is neither\r\n\r\n", b""):
            with socket.create_connection((str(url.hostname), url.port or 0), timeout=30) as connection:
                connection.sendall(sent)
                connection.shutdown(socket.SHUT_WR)
                while connection.recv(4096):
                    pass
        assert wait_until(lambda: counts(server, "apiserver_tls_handshake_errors_total") == {"": "3"})


def test_rules_of_custom_resources_are_timed() -> None:
    """Rules are compiled by schemas; each value that a schema with rules inside looks at is an evaluation."""
    rule = {"x-kubernetes-validations": [{"rule": "self != 'no'"}]}
    items = {"type": "array", "maxItems": 9, "items": {"type": "string", "maxLength": 9, **rule}}
    plain = {"type": "object", "properties": {"x": {"type": "string"}}}
    parts = {"list": items, "plain": plain}
    spec = {"type": "object", "properties": parts, "x-kubernetes-validations": [{"rule": "has(self.list)"}]}
    widgets = definition("widget")
    schema = {"openAPIV3Schema": {"type": "object", "properties": {"spec": spec}}}
    widgets["spec"]["versions"][0]["schema"] = schema
    path = "/apis/example.com/v1/namespaces/default/widgets"
    widget = {"apiVersion": "example.com/v1", "kind": "Widget", "metadata": {"name": "a"}}
    with Server() as server:

        def counted() -> tuple[int, int]:
            times = counts(server, "apiserver_cel_")
            return int(times["compilation_duration_seconds_count"]), int(times["evaluation_duration_seconds_count"])

        assert counted() == (0, 0)
        assert send(server, "POST", DEFINITIONS, definition("plain")).status == 201
        assert send(server, "POST", DEFINITIONS, widgets).status == 201
        assert counted() == (2, 0)
        assert wait_until(lambda: send(server, "GET", path).status == 200)
        body = {**widget, "spec": {"list": ["a", "b"], "plain": {"x": "y"}}}
        assert send(server, "POST", path, body).status == 201
        assert counted() == (4, 5)
        assert send(server, "PATCH", f"{path}/a", {"spec": {"list": ["c"]}}, MERGE).status == 200
        assert counted() == (4, 9)
