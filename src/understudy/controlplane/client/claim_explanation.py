"""Says why a claim gets no devices, as `understudy explain-allocation` does, in few words for many nodes."""

from __future__ import annotations

import asyncio
from collections import Counter
from itertools import islice

from understudy.apiserver.client.verbs import Verbs
from understudy.apiserver.endpoints.server_state import ServerState
from understudy.controlplane.allocator import Explanation
from understudy.controlplane.client.explanations import UnknownObjectError, explain, objects_of_server
from understudy.machinery import errors
from understudy.machinery.types import Obj

MOST_NODES = 100  # that are looked at


async def explain_claim(client: Verbs, state: ServerState, claim: str) -> Obj:
    """Return the fate of a claim (NAMESPACE/NAME) on each node, and the number of nodes left out. Raises 404."""
    try:
        return (await _explained(client, state, [claim], 1))[claim]
    except UnknownObjectError:
        raise errors.not_found("resource.k8s.io", "resourceclaims", claim) from None


async def explain_waiting_claims(client: Verbs, state: ServerState, most: int) -> dict[str, Obj]:
    """Return the fate of the first claims without devices, `most` of them, by their names."""
    return await _explained(client, state, None, most)


async def _explained(client: Verbs, state: ServerState, claims: list[str] | None, most: int) -> dict[str, Obj]:
    """Return the fates of some claims, or of those without devices, by their names. Raises UnknownObjectError."""
    version = state.release.version
    features = frozenset(gate for gate, on in state.gates.in_force().items() if on)
    objects = await objects_of_server(lambda resource: client.get(resource.path()), version, features)
    nodes = objects["Node"]
    left = max(0, len(nodes) - MOST_NODES)
    shown = {**objects, "Node": nodes[:MOST_NODES]}

    def explained() -> dict[str, Obj]:
        fates = islice(explain(version, features, shown, claims), most)
        return {fate.claims[0]: {"nodes": [_node(each) for each in fate.nodes], "left": left} for fate in fates}

    return await asyncio.to_thread(explained)


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
