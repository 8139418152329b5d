"""Clients of controllers, which act as kube-controller-manager's do: by service account and user agent."""

from __future__ import annotations

from understudy.controlplane.client.api_client import APIClient
from understudy.controlplane.components import ComponentContext
from understudy.machinery.auth.users import User, account_groups, account_name

NAMESPACE = "kube-system"


def controller_client(context: ComponentContext, account: str) -> APIClient:
    """Return the client of a controller that has a service account, such as "resource-claim-controller"."""
    user = User(account_name(NAMESPACE, account), account_groups(NAMESPACE))
    return APIClient(context.connection(user), f"kube-controller-manager/v{context.version}", context.clock)
