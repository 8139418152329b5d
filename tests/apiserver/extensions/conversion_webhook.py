"""A webhook server in Python that converts custom resources between the versions of their definition."""

from __future__ import annotations

import base64
import json
import ssl
from collections.abc import Callable
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

import trustme

from tests.apiserver.extensions.test_custom_resources import DEFINITIONS, definition, wait_for
from tests.http import exchange
from understudy import Server
from understudy.machinery.types import Obj

V1, V2 = (f"/apis/example.com/{version}/namespaces/default/widgets" for version in ("v1", "v2"))
APPLY = "application/apply-patch+yaml"
FAILED = "conversion webhook for example.com/v1, Kind=Widget failed: "
RENAMED = {"v1": ("width", "size"), "v2": ("size", "width")}  # the field of the spec that each version renames


class TLSServer(ThreadingHTTPServer):
    """An HTTPS server that shakes hands in the thread of each connection."""

    def handle_error(self, request: Any, client_address: Any) -> None:
        """Ignore clients that went away, as an API server does that stops."""


class Webhook:
    """A webhook server. `convert` returns the review that answers another.

    requests  those of all reviews
    paths     path and query of each call
    """

    def __init__(self) -> None:
        self.requests: list[Obj] = []
        self.paths: list[str] = []
        self.convert: Callable[[Obj], Any] = converted
        authority = trustme.CA()
        self.ca_bundle = base64.b64encode(authority.cert_pem.bytes()).decode()
        webhook = self

        class Handler(BaseHTTPRequestHandler):
            def do_POST(self) -> None:
                review = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
                webhook.paths.append(self.path)
                webhook.requests.append(review["request"])
                answer = json.dumps(webhook.convert(review)).encode()
                self.send_response(200)
                self.send_header("Content-Length", str(len(answer)))
                self.end_headers()
                self.wfile.write(answer)

            def log_message(self, *args: Any) -> None:
                """Log nothing."""

        self.server = TLSServer(("127.0.0.1", 0), Handler)
        context = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
        authority.issue_cert("127.0.0.1").configure_cert(context)
        self.server.socket = context.wrap_socket(self.server.socket, server_side=True, do_handshake_on_connect=False)
        self.url = f"https://127.0.0.1:{self.server.server_port}/convert"

    def conversion(self, *review_versions: str) -> Obj:
        """Return the `spec.conversion` of a definition that asks this webhook."""
        config = {"url": self.url, "caBundle": self.ca_bundle}
        webhook = {"clientConfig": config, "conversionReviewVersions": list(review_versions or ("v1",))}
        return {"strategy": "Webhook", "webhook": webhook}


def in_version(obj: Obj, api_version: str) -> Obj:
    """Convert a widget as its webhook should: v1 has `spec.size`, v2 `spec.width`."""
    old, new = RENAMED[api_version.rpartition("/")[2]]
    spec = {new if name == old else name: value for name, value in obj.get("spec", {}).items()}
    return {**obj, "apiVersion": api_version, "spec": spec}


def converted(review: Obj, **changes: Any) -> Obj:
    """Return the review that answers another; `changes` are made to its response."""
    request = review["request"]
    objects = [in_version(obj, request["desiredAPIVersion"]) for obj in request["objects"]]
    response = {"uid": request["uid"], "convertedObjects": objects, "result": {"status": "Success"}, **changes}
    return {"apiVersion": review["apiVersion"], "kind": review["kind"], "response": response}


def changing(**changes: Any) -> Callable[[Obj], Obj]:
    """Return a conversion that changes fields of the objects after they are converted; None removes one."""

    def convert(review: Obj) -> Obj:
        answer = converted(review)
        for obj in answer["response"]["convertedObjects"]:
            obj.update(changes)
        return answer

    return convert


def with_metadata(**changes: Any) -> Callable[[Obj], Obj]:
    """Return a conversion that changes the metadata of the objects."""

    def convert(review: Obj) -> Obj:
        answer = converted(review)
        for obj in answer["response"]["convertedObjects"]:
            obj["metadata"].update(changes)
        return answer

    return convert


def versions(storage: str = "v1") -> list[Obj]:
    """Return the versions of the definition: a whole number under `spec.size` in v1, under `spec.width` in v2."""

    def version(name: str, field: str) -> Obj:
        number = {"type": "integer"}
        spec = {"type": "object", "properties": {field: number, "replicas": number, "color": {"type": "string"}}}
        schema = {"type": "object", "properties": {"spec": spec, "status": {"type": "object"}}}
        scale = {"specReplicasPath": ".spec.replicas", "statusReplicasPath": ".status.replicas"}
        return {
            "name": name,
            "served": True,
            "storage": name == storage,
            "schema": {"openAPIV3Schema": schema},
            "subresources": {"status": {}, "scale": scale},
            "selectableFields": [{"jsonPath": ".spec.color"}, {"jsonPath": f".spec.{field}"}],
            "additionalPrinterColumns": [{"name": field, "type": "integer", "jsonPath": f".spec.{field}"}],
        }

    return [version("v1", "size"), version("v2", "width")]


def define(server: Server, **spec: Any) -> None:
    """Create the definition of widgets, and wait until it is served."""
    code, body = exchange(server, "POST", DEFINITIONS, definition(*versions(), **spec))
    assert code == 201, body
    wait_for(server, V2, lambda code, body: code == 200)


def widget(version: str = "v1", name: str = "a", **spec: Any) -> Obj:
    return {"apiVersion": f"example.com/{version}", "kind": "Widget", "metadata": {"name": name}, "spec": spec}
