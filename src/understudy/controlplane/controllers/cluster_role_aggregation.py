"""Fills in the rules of ClusterRoles that have an aggregationRule.

They get the rules of all ClusterRoles that its selectors match, in the order of their names, each rule once.

Source: k8s.io/kubernetes/pkg/controller/clusterroleaggregation.
"""

from __future__ import annotations

from understudy.apiserver.controllers.controller import CONTROLLER_AGENT, ControllerContext, service_account
from understudy.apiserver.controllers.framework.controller import Controller
from understudy.apiserver.controllers.framework.store_informer import StoreInformers
from understudy.apiserver.storage.interface import Entry
from understudy.machinery.selectors.labels import label_selector_matches
from understudy.machinery.types import Obj

GROUP = "rbac.authorization.k8s.io"
PREFIX = "/registry/clusterroles/"
MANAGER = "clusterrole-aggregation-controller"


class ClusterRoleAggregationController(Controller[str]):
    """Applies the rules of aggregated roles; keys are their names. A change of any role concerns them all."""

    def __init__(self, context: ControllerContext, informers: StoreInformers) -> None:
        super().__init__(informers)
        self._registry = context.state.registry
        self._client = context.clients.client(CONTROLLER_AGENT, service_account(MANAGER))
        self._aggregated_roles: set[str] = set()
        informers.of(PREFIX).add_handler(self._changed, lambda _, new: self._changed(new), self._deleted)

    def _changed(self, entry: Entry) -> None:
        """Look at every aggregated role after a write of any role."""
        if entry.value.get("aggregationRule"):
            self._aggregated_roles.add(entry.key.removeprefix(PREFIX))
        self.queue.add_all(self._aggregated_roles)

    def _deleted(self, entry: Entry) -> None:
        self._aggregated_roles.discard(entry.key.removeprefix(PREFIX))
        self.queue.add_all(self._aggregated_roles)

    async def sync(self, key: str) -> None:
        """Apply the rules that an aggregated role should have, if it has others."""
        role = self._registry.lookup(GROUP, "clusterroles", "", key)
        if role is None or not role.get("aggregationRule"):
            return
        rules = self._aggregated(role)
        if rules != (role.get("rules") or []):
            head = {"apiVersion": f"{GROUP}/v1", "kind": "ClusterRole", "metadata": {"name": key}}
            await self._client.apply(f"/apis/{GROUP}/v1/clusterroles/{key}", {**head, "rules": rules}, MANAGER)

    def _aggregated(self, role: Obj) -> list[Obj]:
        """Return the rules of the roles that a role selects, without itself."""
        rules: list[Obj] = []
        for selector in role["aggregationRule"].get("clusterRoleSelectors") or ():
            for other in self._registry.listing(GROUP, "clusterroles"):
                metadata = other["metadata"]
                if metadata["name"] == role["metadata"]["name"]:
                    continue
                if label_selector_matches(selector, metadata.get("labels") or {}):
                    for rule in other.get("rules") or ():
                        if rule not in rules:
                            rules.append(rule)
        return rules
