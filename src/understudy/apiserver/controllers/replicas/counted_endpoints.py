"""Lets the endpoints of the Service `kubernetes` be as many servers as there are said to be.

A server adds its address and, if there are more than that number, removes those that follow it in their order. One that
is killed stays among the endpoints until another one comes.

Upstream: `masterCountEndpointReconciler` in pkg/controlplane/reconcilers.
"""

from __future__ import annotations

from understudy.apiserver.client.verbs import Verbs
from understudy.apiserver.controllers.replicas.kubernetes_service import EndpointReconciler, with_subsets
from understudy.machinery.errors import StatusError
from understudy.machinery.types import Obj


class MasterCountReconciler(EndpointReconciler):
    """Keeps the endpoints of servers whose number is known: `count`."""

    def __init__(self, client: Verbs, address: str, port: int, service_ip: str, count: int) -> None:
        super().__init__(client, address, port, service_ip)
        self._count = count

    async def add(self) -> None:
        stored = await self.find_endpoints()
        own = {"addresses": [{"ip": self._address}], "ports": self._ports}
        if stored is None:
            await self.create_endpoints([own])
            return
        subsets: list[Obj] = stored.get("subsets") or []
        if len(subsets) != 1:
            subsets = [own]
        elif not self._is_among(subsets[0].get("addresses") or []):
            subsets = self._joined(subsets[0])
        await self.update_endpoints(stored, with_subsets(stored, subsets))

    async def remove(self) -> None:
        while (stored := await self.find_endpoints()) is not None and (subsets := stored.get("subsets")):
            first, *others = subsets
            left = [each for each in first.get("addresses") or () if each["ip"] != self._address]
            changed = {**stored, "subsets": [*_repacked({**first, "addresses": left}), *others]}
            try:
                await self.update_endpoints(stored, changed)
            except StatusError as why:
                if why.reason != "Conflict":
                    raise
                continue  # another server has just written them
            return

    def _is_among(self, addresses: list[Obj]) -> bool:
        """Report whether addresses are no more than there are servers, with that of this one."""
        return len(addresses) <= self._count and any(each["ip"] == self._address for each in addresses)

    def _joined(self, subset: Obj) -> list[Obj]:
        """Return the subsets with the address of this server, without those that follow it if there are too many."""
        addresses = [*(subset.get("addresses") or ()), {"ip": self._address}]
        (subset,) = _repacked({**subset, "addresses": addresses})
        addresses = subset.get("addresses") or []
        own = [at for at, each in enumerate(addresses) if each["ip"] == self._address]
        while own and len(addresses) > self._count:
            del addresses[(own[0] + 1) % len(addresses)]
        return [subset]


def _repacked(subset: Obj) -> list[Obj]:
    """Return a subset with each address once, in their order, as not ready if it is both (`RepackSubsets`); nothing
    without addresses. Ports keep their order."""
    by_key = {
        (each["ip"], each.get("targetRef", {}).get("uid", "")): (name, each)
        for name in ("addresses", "notReadyAddresses")
        for each in subset.get(name) or ()
    }
    packed: Obj = {}
    for _, (name, each) in sorted(by_key.items()):
        packed.setdefault(name, []).append(each)
    return [{**packed, "ports": subset["ports"]} if subset.get("ports") else packed] if packed else []
