"""Digests of all OpenAPI documents of a server, without the descriptions of types.

The files of `recorded` hold those of kube-apiserver, whose every group-version and feature gate was on (but for
CBORServingAndStorage), and which had the definitions of `recorded/definitions.json`. This program prints them:

    python -m tests.apiserver.endpoints.openapi.openapi_digests https://127.0.0.1:6443 TOKEN > 1.32.json
"""

from __future__ import annotations

import json
import ssl
import sys
import urllib.request
from collections.abc import Callable
from hashlib import sha256
from typing import Any

Get = Callable[[str, str], bytes]  # of a path and an Accept header
PROTOBUF = "application/com.github.proto-openapi.spec.v2.v1.0+protobuf"
DEFINITIONS = "9"  # the field of protobuf that has descriptions of types


def digests(get: Get) -> dict[str, dict[str, str]]:
    """Return {part of a document: {name: digest}}; the fields of v2 in protobuf are named by their numbers."""

    def read(path: str) -> Any:
        return json.loads(get(path, "application/json"))

    v2 = read("/openapi/v2")
    out = {
        "paths": {path: _digest(item) for path, item in v2.pop("paths").items()},
        "definitions": _by_package(v2.pop("definitions")),
        "parameters": {name: _digest(parameter) for name, parameter in v2.pop("parameters").items()},
        "rest": {name: _digest(part) for name, part in v2.items()},
    }
    fields = {number: _digest(content.hex()) for number, content in _fields(get("/openapi/v2", PROTOBUF)).items()}
    out["protobuf"] = {number: digest for number, digest in fields.items() if number != DEFINITIONS}
    for name, where in read("/openapi/v3")["paths"].items():
        document = read(where["serverRelativeURL"])
        schemas = document["components"].pop("schemas", {})
        out.setdefault("documents", {})[name] = _digest([document, _undescribed(schemas)])
    return out


def _by_package(definitions: dict[str, Any]) -> dict[str, str]:
    packages: dict[str, dict[str, Any]] = {}
    for name, schema in definitions.items():
        packages.setdefault(name.rpartition(".")[0], {})[name] = _undescribed(schema)
    return {package: _digest(schemas) for package, schemas in packages.items()}


def _fields(message: bytes) -> dict[str, bytes]:
    """Return the fields of a protobuf message that has each once, and nothing but bytes."""
    fields = {}
    while message:
        key, message = _varint(message)
        size, message = _varint(message)
        fields[str(key >> 3)], message = message[:size], message[size:]
    return fields


def _varint(message: bytes) -> tuple[int, bytes]:
    """Return the number at the start of a message, and the rest of it."""
    end = next(at for at, byte in enumerate(message) if byte < 0x80) + 1
    return sum((byte & 0x7F) << 7 * at for at, byte in enumerate(message[:end])), message[end:]


def _undescribed(part: Any) -> Any:
    """Return part of a schema without descriptions; a property of this name has no text."""
    if isinstance(part, dict):
        kept = {key: value for key, value in part.items() if key != "description" or not isinstance(value, str)}
        return {key: _undescribed(value) for key, value in kept.items()}
    return [_undescribed(item) for item in part] if isinstance(part, list) else part


def _digest(part: Any) -> str:
    return sha256(json.dumps(part).encode()).hexdigest()[:8]


def main(url: str, token: str) -> None:
    """Print the digests of a server, whose certificate is not verified."""
    context = ssl._create_unverified_context()

    def get(path: str, accept: str) -> bytes:
        request = urllib.request.Request(url + path, headers={"Authorization": f"Bearer {token}", "Accept": accept})
        with urllib.request.urlopen(request, context=context) as answer:
            body: bytes = answer.read()
            return body

    json.dump(digests(get), sys.stdout, indent=0)
    print()


if __name__ == "__main__":
    main(*sys.argv[1:])
