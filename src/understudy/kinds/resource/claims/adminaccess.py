"""Validation of adminAccess: only namespaces with a label may ask for it (KEP-5018)."""

from __future__ import annotations

from understudy.kinds.context import Context
from understudy.kinds.resource.claims import allocation
from understudy.kinds.resource.common.release_rules import ReleaseRules
from understudy.machinery.types import Obj
from understudy.machinery.validation.field import Errors, Path, forbidden, internal


def validate_requests(spec: Obj, namespace: str, ctx: Context) -> Errors:
    """Check the requests of a new claim or template (upstream: `AuthorizedForAdmin`).

    The path is that of a claim, without `exactly`, for templates as well. Only the first request is reported.
    """
    for i, request in enumerate((spec.get("devices") or {}).get("requests") or ()):
        if (request.get("exactly") or {}).get("adminAccess"):
            return _authorized(Path("spec", "devices", "requests").index(i).child("adminAccess"), namespace, ctx)
    return []


def validate_results(status: Obj, old: Obj, namespace: str, ctx: Context) -> Errors:
    """Check the results of an allocation, unless the stored one has adminAccess (upstream:
    `AuthorizedForAdminStatus`)."""
    if any(result.get("adminAccess") for result in allocation.results(old)):
        return []
    for i, result in enumerate(allocation.results(status)):
        if result.get("adminAccess"):
            where = Path("status", "allocation", "devices", "results").index(i).child("adminAccess")
            return _authorized(where, namespace, ctx)
    return []


def _authorized(path: Path, name: str, ctx: Context) -> Errors:
    """Check the label of the namespace. Without a server there is none to ask."""
    label = ReleaseRules.of(ctx.release).admin_label
    if label is None or ctx.offline:
        return []
    namespace = ctx.lookup("", "namespaces", "", name)
    if namespace is None:
        text = f'could not retrieve namespace to verify admin access: namespaces "{name}" not found'
        return [internal(path, text)]
    if (namespace["metadata"].get("labels") or {}).get(label) == "true":
        return []
    text = f"admin access to devices requires the `{label}: true` label on the containing namespace"
    return [forbidden(path, text)]
