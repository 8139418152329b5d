"""Policies and webhooks that are stored already when a server starts, or that another server has written."""

from __future__ import annotations

import subprocess
import sys

import pytest

# In a process of its own: what CEL imports is imported once in a process.
STARTED = """
import asyncio
from tests.http import exchange
from understudy import Server
from understudy.apiserver.storage.memory import MemoryStore

rule = {"apiGroups": [""], "apiVersions": ["v1"], "operations": ["CREATE"], "resources": ["configmaps"], "scope": "*"}
matches = {"resourceRules": [rule], "matchPolicy": "Equivalent", "namespaceSelector": {}, "objectSelector": {}}
meta = {"name": "p", "uid": "1", "creationTimestamp": "2026-01-01T00:00:00Z"}
store = MemoryStore()

async def add(plural, kind, **fields):
    obj = {"apiVersion": "admissionregistration.k8s.io/v1", "kind": kind, "metadata": meta, **fields}
    await store.create(f"/registry/{plural}/p", obj)

async def fill():
    condition = "object.metadata.name != 'b'"
%s
asyncio.run(fill())
with Server(store=lambda: store) as server:
    for name in "ab":
        print(exchange(server, "POST", "/api/v1/namespaces/default/configmaps", {"metadata": {"name": name}})[0])
"""


POLICY = """
    spec = {"failurePolicy": "Fail", "matchConstraints": matches, "validations": [{"expression": condition}]}
    await add("validatingadmissionpolicies", "ValidatingAdmissionPolicy", spec=spec, status={})
    spec = {"policyName": "p", "validationActions": ["Deny"]}
    await add("validatingadmissionpolicybindings", "ValidatingAdmissionPolicyBinding", spec=spec)
"""
WEBHOOK = """
    client = {"url": "https://127.0.0.1:1/nobody-listens"}
    hook = {"name": "a.example.com", "clientConfig": client, "rules": matches.pop("resourceRules"), **matches}
    hook |= {"admissionReviewVersions": ["v1"], "sideEffects": "None", "failurePolicy": "Fail", "timeoutSeconds": 1}
    hook["matchConditions"] = [{"name": "m", "expression": "!(" + condition + ")"}]
    await add("%s", "%s", webhooks=[hook])
"""


@pytest.mark.parametrize(
    ("stored", "refused"),
    [
        pytest.param(POLICY, "422", id="policy"),
        pytest.param(
            WEBHOOK % ("validatingwebhookconfigurations", "ValidatingWebhookConfiguration"), "500", id="validating"
        ),
        pytest.param(WEBHOOK % ("mutatingwebhookconfigurations", "MutatingWebhookConfiguration"), "500", id="mutating"),
    ],
)
def test_stored_expression_is_compiled_when_it_is_asked_first(stored: str, refused: str) -> None:
    """The first request after a start meets the expression, though nothing has compiled one before."""
    command = [sys.executable, "-c", STARTED % stored]
    assert subprocess.run(command, capture_output=True, text=True, check=True).stdout.split() == ["201", refused]
