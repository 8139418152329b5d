"""Says why a claim gets no devices, as `understudy explain-allocation` does, in few words for many nodes."""

from __future__ import annotations

import asyncio
from collections import Counter

from understudy.apiserver.client.verbs import Verbs
from understudy.apiserver.endpoints.server_state import ServerState
from understudy.controlplane.allocator import Explanation
from understudy.controlplane.client.explanations import UnknownObjectError, explain, objects_of_server
from understudy.machinery import errors
from understudy.machinery.types import Obj

MOST_NODES = 100  # that are looked at


async def explain_claim(client: Verbs, state: ServerState, claim: str) -> Obj:
    """Return the fate of a claim (NAMESPACE/NAME) on each node, and the number of nodes left out. Raises 404."""
    version = state.release.version
    features = frozenset(gate for gate, on in state.gates.in_force().items() if on)
    objects = await objects_of_server(lambda resource: client.get(resource.path()), version, features)
    nodes = [node["metadata"]["name"] for node in objects["Node"]]

    def explained() -> list[Obj]:
        (one,) = explain(version, features, objects, [claim], nodes[:MOST_NODES])
        return [_node(each) for each in one.nodes]

    try:
        return {"nodes": await asyncio.to_thread(explained) if nodes else [], "left": max(0, len(nodes) - MOST_NODES)}
    except UnknownObjectError:
        raise errors.not_found("resource.k8s.io", "resourceclaims", claim) from None


def _node(explanation: Explanation) -> Obj:
    """Return an explanation with the devices counted by what they fail."""
    claims = [
        {
            "claim": claim.claim,
            "error": claim.error,
            "requests": [
                {
                    "request": request.request,
                    "asked": "All" if request.asked is None else request.asked,
                    "fitting": request.fitting,
                    "reasons": [
                        {"message": message, "count": count}
                        for message, count in Counter(device.message for device in request.devices).items()
                    ],
                }
                for request in claim.requests
            ],
        }
        for claim in explanation.claims
    ]
    name = explanation.node
    notes = [note.replace(name, "NODE") for note in explanation.pools if "other nodes" not in note] if name else []
    return {"node": name, "fits": explanation.fits, "error": explanation.error, "claims": claims, "notes": notes}
