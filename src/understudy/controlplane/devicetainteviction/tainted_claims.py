"""Finds the evictions of pods: by the taints of the devices that their claims have."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

from understudy.controlplane.allocator.allocated import device_results
from understudy.controlplane.allocator.checks.taint_rules import RuleMatcher
from understudy.controlplane.client.pod_claims import (
    is_allocated,
    is_for_pod,
    is_reserved_for,
    pod_claims,
)
from understudy.controlplane.client.store import Key, key_of
from understudy.controlplane.devicetainteviction.eviction import NO_EXECUTE, Eviction, Reason, TrackedTaint, eviction_by
from understudy.controlplane.devicetainteviction.pools import Pools
from understudy.machinery.releases.version import V1_37, Version
from understudy.machinery.types import Obj, dataclass


@dataclass(frozen=True)
class AllocatedClaim:
    """A claim with devices, and the eviction of its pods if one of them is tainted."""

    claim: Obj
    eviction: Eviction | None


class TaintedClaims:
    """The allocated claims, the published devices and the rules that evict; answers when a pod has to go."""

    def __init__(self, version: Version, pools: Pools, matcher: RuleMatcher, groups: bool) -> None:
        """Begin without claims. `groups`: whether claims may belong to the PodGroup of a pod."""
        self._version = version
        self.pools = pools
        self.matcher = matcher
        self._groups = groups
        self.rules: dict[str, Obj] = {}  # those with the effect NoExecute, by name
        self._claims: dict[Key, AllocatedClaim] = {}

    def simulating(self, rule: Obj) -> TaintedClaims:
        """Return the same claims and devices with one rule only, as if its effect were NoExecute."""
        simulated = TaintedClaims(self._version, self.pools, self.matcher, self._groups)
        taint = {**rule["spec"]["taint"], "effect": NO_EXECUTE}
        simulated.rules = {rule["metadata"]["name"]: {**rule, "spec": {**rule["spec"], "taint": taint}}}
        for allocated in self._claims.values():
            simulated.put(allocated.claim)
        return simulated

    def put(self, claim: Obj) -> None:
        """Hold a claim, if it is allocated. Devices of an allocated claim do not change."""
        if not is_allocated(claim):
            self._claims.pop(key_of(claim), None)
            return
        known = self._claims.get(key_of(claim))
        if known is not None and known.claim["metadata"]["uid"] == claim["metadata"]["uid"]:
            self._claims[key_of(claim)] = replace(known, claim=claim)
        else:
            self._claims[key_of(claim)] = AllocatedClaim(claim, self._eviction(claim))

    def remove(self, claim: Obj) -> None:
        """Let a claim go."""
        self._claims.pop(key_of(claim), None)

    def reconsider(self) -> list[Obj]:
        """Look at all claims again, after devices or rules have changed; return those whose eviction changes."""
        changed = []
        for key, allocated in self._claims.items():
            eviction = self._eviction(allocated.claim)
            if eviction != allocated.eviction:
                self._claims[key] = replace(allocated, eviction=eviction)
                changed.append(allocated.claim)
        return changed

    def eviction_of(self, pod: Obj) -> Eviction | None:
        """Return the eviction of a pod, None if no claim that is reserved for it is tainted."""
        if not pod["spec"].get("nodeName"):
            return None
        eviction: Eviction | None = None
        for name, generated in pod_claims(pod, extended=self._version >= V1_37):
            allocated = self._claims.get(Key(pod["metadata"]["namespace"], name))
            if allocated is None:
                continue
            if generated and not is_for_pod(pod, allocated.claim, groups=self._groups):
                continue
            if allocated.eviction is not None and is_reserved_for(pod, allocated.claim, groups=self._groups):
                eviction = allocated.eviction.joined(eviction)
        return eviction

    def allocated_devices(self) -> Iterator[Obj]:
        """Yield the results of all claims: driver, pool and device, and the tolerations."""
        for allocated in self._claims.values():
            yield from device_results(allocated.claim)

    def _eviction(self, claim: Obj) -> Eviction | None:
        eviction: Eviction | None = None
        for result in device_results(claim):
            taints = self._taints(result["driver"], result["pool"], result["device"])
            if (of_device := eviction_by(taints, result.get("tolerations") or ())) is not None:
                eviction = of_device.joined(eviction)
        return eviction

    def _taints(self, driver: str, pool: str, name: str) -> Iterator[TrackedTaint]:
        """Yield the NoExecute taints of a device: those that its driver publishes, and those of rules."""
        device = self.pools.device(driver, pool, name)
        for number, taint in enumerate((device or {}).get("taints") or ()):
            if taint["effect"] == NO_EXECUTE:
                yield TrackedTaint(taint, Reason(driver=driver, pool=pool, device=name, number=number))
        for rule in self.rules.values():
            if self.matcher.selects(rule, driver, pool, name, device):
                metadata = rule["metadata"]
                yield TrackedTaint(rule["spec"]["taint"], Reason(rule=metadata["name"], rule_uid=metadata["uid"]))
