"""Fills in the rules of ClusterRoles that have an aggregationRule.

They get the rules of all ClusterRoles that its selectors match, in the order of their names, each rule once.

Source: k8s.io/kubernetes/pkg/controller/clusterroleaggregation.
"""

from __future__ import annotations

from understudy.apiserver.controllers.controller import CONTROLLER_AGENT, ControllerContext, service_account
from understudy.apiserver.storage.interface import Entry, Event
from understudy.machinery.selectors.labels import label_selector_matches
from understudy.machinery.types import Obj

GROUP = "rbac.authorization.k8s.io"
PREFIX = "/registry/clusterroles/"
MANAGER = "clusterrole-aggregation-controller"


class ClusterRoleAggregationController:
    """Applies the rules of aggregated roles; `todo` holds their names. A change of any role concerns them all."""

    def __init__(self, context: ControllerContext) -> None:
        self._registry = context.state.registry
        self._client = context.clients.client(CONTROLLER_AGENT, service_account(MANAGER))
        self.todo: dict[str, None] = {}

    def begin(self, entries: list[Entry]) -> None:
        """Look at every aggregated role."""
        self._all()

    def observe(self, event: Event) -> None:
        """Look at every aggregated role after a write of any role."""
        if event.entry.key.startswith(PREFIX):
            self._all()

    def _all(self) -> None:
        roles = self._registry.listing(GROUP, "clusterroles")
        self.todo |= {role["metadata"]["name"]: None for role in roles if role.get("aggregationRule")}

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
