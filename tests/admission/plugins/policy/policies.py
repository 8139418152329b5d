"""Stores admission policies in a running server, each for the config maps with a label of its own."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from tests.http import Response, send
from understudy import Server
from understudy.machinery.types import Obj

GROUP = "/apis/admissionregistration.k8s.io"
CONFIG_MAPS = "/api/v1/namespaces/default/configmaps"
RULE = {"apiGroups": [""], "apiVersions": ["v1"], "operations": ["CREATE", "UPDATE"], "resources": ["configmaps"]}


def store(server: Server, path: str, obj: Obj) -> Obj:
    """Store an object and return it. Fails with the server's message."""
    response = send(server, "POST", path, obj)
    assert response.status == 201, response.json()["message"]
    stored: Obj = response.json()
    return stored


def constraints(name: str, **fields: Any) -> Obj:
    return {"resourceRules": [RULE], "objectSelector": {"matchLabels": {"case": name}}, **fields}


def store_policy(
    server: Server, name: str, spec: Obj, kind: str = "validating", *, version: str = "v1", **binding: Any
) -> None:
    """Store a policy and a binding of its name; `spec` is that of the policy without what most policies have."""
    metadata, path = {"name": name}, f"{GROUP}/{version}/{kind}admission"
    if kind == "validating":
        binding = {"validationActions": ["Deny"], **binding}
    else:
        spec = {"reinvocationPolicy": "Never", **spec}
    store(server, f"{path}policies", {"metadata": metadata, "spec": {"matchConstraints": constraints(name), **spec}})
    store(server, f"{path}policybindings", {"metadata": metadata, "spec": {"policyName": name, **binding}})


def config_map(case: str, name: str = "c", **data: str) -> Obj:
    return {"metadata": {"name": name, "labels": {"case": case}}, "data": data}


def create(server: Server, case: str, **data: str) -> Response:
    """Ask, in a dry run, for a config map that a policy is about."""
    return send(server, "POST", f"{CONFIG_MAPS}?dryRun=All", config_map(case, **data))


def reason(response: Response) -> str:
    """Return the reason that a policy refuses a request, "" if none does."""
    message: str = response.json().get("message", "")
    return message.partition(" denied request: ")[2]


def validations(*expressions: str) -> Sequence[Obj]:
    return [{"expression": expression} for expression in expressions]
