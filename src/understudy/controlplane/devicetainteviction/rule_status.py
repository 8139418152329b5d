"""The condition in the status of a DeviceTaintRule: what it evicts, has evicted, or would evict. From 1.35 on."""

from __future__ import annotations

from understudy.controlplane.client.api_client import APIClient
from understudy.controlplane.client.informer import Informer
from understudy.controlplane.client.store import Store
from understudy.controlplane.devicetainteviction.eviction import NO_EXECUTE
from understudy.controlplane.devicetainteviction.references import RuleReference
from understudy.controlplane.devicetainteviction.tainted_claims import TaintedClaims
from understudy.machinery.types import Obj, condition_of
from understudy.machinery.util.clock import parse_timestamp, timestamp

FIELD_MANAGER = "device-taint-eviction-controller"
CONDITION = "EvictionInProgress"
PERIOD = 10.0  # seconds between two writes of a rule's status. Upstream: `ruleStatusPeriod`


class RuleStatus:
    """Writes the status of rules, and counts the pods that each has evicted. Upstream: `maybeUpdateRuleStatus`."""

    def __init__(self, client: APIClient, rules: Informer, pods: Store, claims: TaintedClaims) -> None:
        self._client = client
        self._resource = rules.resource
        self._rules = rules.store
        self._pods = pods
        self._claims = claims
        self._evicted: dict[str, int] = {}  # pods since the start, by the uid of the rule

    def count_evicted(self, uid: str) -> None:
        """Count one more pod that a rule has evicted."""
        self._evicted[uid] = self._evicted.get(uid, 0) + 1

    def forget(self, uid: str) -> None:
        """Forget what a rule has evicted."""
        self._evicted.pop(uid, None)

    async def update(self, reference: RuleReference) -> float:
        """Write the condition of a rule, unless that was done just before; return after how many seconds to try again.

        0 is for not at all. Raises StatusError.
        """
        rule = self._rules.get("", reference.name)
        if rule is None or rule["metadata"]["uid"] != reference.uid:
            return 0.0
        old = condition_of(rule, CONDITION)
        generation = rule["metadata"].get("generation", 0)
        now = self._client.clock.now()
        if old and old.get("observedGeneration", 0) == generation:
            wait = parse_timestamp(old["lastTransitionTime"]) + PERIOD - now
            if wait > 0:
                return wait
        new = {"type": CONDITION, **self._condition(rule), "observedGeneration": generation}
        if any(old.get(field) != value for field, value in new.items()):
            new["lastTransitionTime"] = timestamp(now)
            metadata = {"name": reference.name, "uid": reference.uid}
            applied = {"metadata": metadata, "status": {"conditions": [new]}}
            await self._client.apply(self._resource, applied, FIELD_MANAGER, "status")
        return 0.0

    def _condition(self, rule: Obj) -> Obj:
        """Return status, reason and message of the condition of a rule."""
        uid, effect = rule["metadata"]["uid"], rule["spec"]["taint"]["effect"]
        status, evicted = "False", self._evicted.get(uid, 0)
        parts: list[str] = []
        if effect == NO_EXECUTE:
            pods, namespaces = self._pending(self._claims, uid)
            if pods:
                status, reason = "True", "PodsPendingEviction"
                needs = "1 pod needs" if pods == 1 else f"{pods} pods need"
                parts.append(f"{needs} to be evicted in {_namespaces(namespaces)}.")
            else:
                reason = "Completed" if evicted else "NotStarted"
        elif effect == "None":
            reason = "NoEffect"
            parts.append(self._simulated(rule))
        else:
            reason = "OtherEffect"
            parts.append("Eviction only happens for the NoExecute effect.")
        if evicted:
            parts.append(f"{_count(evicted, 'pod')} evicted since starting the controller.")
        return {"status": status, "reason": reason, "message": " ".join(parts)}

    def _simulated(self, rule: Obj) -> str:
        """Return the message about what a rule would evict if its effect were NoExecute."""
        pods, namespaces = self._pending(self._claims.simulating(rule), rule["metadata"]["uid"])
        selects = self._claims.matcher.selects
        published = sum(selects(rule, *device, None) for device in self._claims.pools.devices())
        allocated = sum(
            selects(rule, result["driver"], result["pool"], result["device"], None)
            for result in self._claims.allocated_devices()
        )
        return (
            f"{_count(published, 'published device')} selected. {_count(allocated, 'allocated device')} selected. "
            f"{_count(pods, 'pod')} would be evicted in {_namespaces(namespaces)} if the effect was NoExecute. "
            "This information will not be updated again. Recreate the DeviceTaintRule to trigger an update."
        )

    def _pending(self, claims: TaintedClaims, uid: str) -> tuple[int, int]:
        """Return the number of pods that a rule evicts, and that of their namespaces. Upstream: `countPendingPods`."""
        namespaces = []
        for pod in self._pods.objects():
            if not pod["metadata"].get("deletionTimestamp"):
                eviction = claims.eviction_of(pod)
                if eviction is not None and any(reason.rule_uid == uid for reason in eviction.rules()):
                    namespaces.append(pod["metadata"]["namespace"])
        return len(namespaces), len(set(namespaces))


def _count(number: int, what: str) -> str:
    return f"1 {what}" if number == 1 else f"{number} {what}s"


def _namespaces(number: int) -> str:
    return "1 namespace" if number == 1 else f"{number} different namespaces"
