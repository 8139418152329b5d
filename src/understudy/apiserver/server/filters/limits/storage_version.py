"""Refuses writes of resources whose StorageVersion is not written yet. Upstream: `WithStorageVersionPrecondition`."""

from __future__ import annotations

from collections.abc import Callable

from understudy.apiserver.controllers.replicas.storage_versions import StorageVersionManager
from understudy.apiserver.endpoints.request import Request
from understudy.apiserver.endpoints.requestinfo import RequestInfo
from understudy.machinery.auth.users import MASTERS, User
from understudy.machinery.errors import StatusError, group_resource_text

_READS = ("get", "list", "watch")


def with_storage_version_precondition(manager: StorageVersionManager) -> Callable[[Request], None]:
    """Return the filter that raises 503 for a write that has to wait."""

    def check(request: Request) -> None:
        if manager.completed or not request.info.is_resource or request.info.verb in _READS:
            return
        error = manager.error_of(request.info.group, request.info.resource)
        if error is not None and not _is_needed(request.info, request.user):
            name = group_resource_text(request.info.group, request.info.resource)
            text = "wait for storage version registration to complete for resource"
            raise StatusError(503, "ServiceUnavailable", f"{text}: {name}, last seen error: {error}")

    return check


def _is_needed(info: RequestInfo, user: User) -> bool:
    """Report whether a write is one that StorageVersions need to be written."""
    names = info.group, info.resource
    if names == ("", "namespaces") and info.verb == "create":
        return user.name == "system:apiserver" and MASTERS in user.groups
    is_lease = names == ("coordination.k8s.io", "leases") and info.namespace == "kube-system"
    return is_lease or names == ("internal.apiserver.k8s.io", "storageversions")
