"""Policies that are stored already when a server starts, or that another server has written."""

from __future__ import annotations

import subprocess
import sys

# In a process of its own: what CEL imports is imported once in a process.
STARTED_WITH_A_POLICY = """
import asyncio
from tests.http import exchange
from understudy import Server
from understudy.apiserver.storage.memory import MemoryStore

rule = {"apiGroups": [""], "apiVersions": ["v1"], "operations": ["CREATE"], "resources": ["configmaps"], "scope": "*"}
matches = {"resourceRules": [rule], "matchPolicy": "Equivalent", "namespaceSelector": {}, "objectSelector": {}}
validation = {"expression": "object.metadata.name != 'b'", "message": "no b"}
spec = {"failurePolicy": "Fail", "matchConstraints": matches, "validations": [validation]}
meta = {"name": "p", "uid": "1", "creationTimestamp": "2026-01-01T00:00:00Z"}
store = MemoryStore()

async def fill():
    kind = {"apiVersion": "admissionregistration.k8s.io/v1", "kind": "ValidatingAdmissionPolicy"}
    key = "/registry/validatingadmissionpolicies/p"
    await store.create(key, {**kind, "metadata": meta, "spec": spec, "status": {}})
    kind = {"apiVersion": "admissionregistration.k8s.io/v1", "kind": "ValidatingAdmissionPolicyBinding"}
    spec_of_binding = {"policyName": "p", "validationActions": ["Deny"]}
    key = "/registry/validatingadmissionpolicybindings/p"
    await store.create(key, {**kind, "metadata": meta, "spec": spec_of_binding})

asyncio.run(fill())
with Server(store=lambda: store) as server:
    for name in "ab":
        print(exchange(server, "POST", "/api/v1/namespaces/default/configmaps", {"metadata": {"name": name}})[0])
"""


def test_stored_policy_is_compiled_when_it_is_asked_first() -> None:
    """The first request after a start meets the policy, though nothing has compiled an expression before."""
    command = [sys.executable, "-c", STARTED_WITH_A_POLICY]
    assert subprocess.run(command, capture_output=True, text=True, check=True).stdout.split() == ["201", "422"]
