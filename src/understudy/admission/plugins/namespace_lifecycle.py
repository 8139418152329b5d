"""NamespaceLifecycle and NamespaceExists: refuse objects in missing or terminating namespaces.

The former keeps the system namespaces, too.
"""

from __future__ import annotations

from understudy.admission.chain import Attributes, Operation, Point
from understudy.kinds.context import Context
from understudy.machinery import errors
from understudy.machinery.types import Obj

IMMORTAL = ("default", "kube-system", "kube-public")
_ACCESS_REVIEWS = ("authorization.k8s.io", "localsubjectaccessreviews")


class NamespaceLifecycle:
    """Refuses objects in namespaces that are missing or going, and the deletion of the server's own namespaces."""

    name = "NamespaceLifecycle"

    def handles(self, point: Point) -> bool:
        if (point.group, point.resource) == ("", "namespaces"):
            return point.operation == Operation.DELETE
        is_review = (point.group, point.resource) == _ACCESS_REVIEWS
        return point.operation == Operation.CREATE and point.namespaced and not is_review

    async def admit(self, attributes: Attributes, ctx: Context) -> None:
        """Raise 404 for a missing namespace, 403 for one that is being deleted or may not be deleted."""
        if attributes.point.operation == Operation.DELETE:
            if attributes.name in IMMORTAL:
                raise errors.forbidden("", "namespaces", attributes.name, "this namespace may not be deleted")
            return
        name = attributes.namespace
        if not name:
            return
        namespace = await _existing_namespace(name, ctx)
        if "deletionTimestamp" in namespace["metadata"]:
            raise _terminating(attributes)


class NamespaceExists:
    """Refuses every request in a namespace that does not exist, deletions included."""

    name = "NamespaceExists"

    def handles(self, point: Point) -> bool:
        return point.namespaced and point.operation != Operation.CONNECT

    async def validate(self, attributes: Attributes, ctx: Context) -> None:
        name = attributes.namespace
        if name:
            await _existing_namespace(name, ctx)


async def _existing_namespace(name: str, ctx: Context) -> Obj:
    """Return a namespace, also one that another server has just made. Raises StatusError."""
    namespace = ctx.lookup("", "namespaces", "", name)
    if namespace is None:
        await ctx.catch_up()
        namespace = ctx.lookup("", "namespaces", "", name)
    if namespace is None:
        raise errors.not_found("", "namespaces", name)
    return namespace


def _terminating(attributes: Attributes) -> errors.StatusError:
    """Return a 403 with the cause NamespaceTerminating."""
    group, resource, name = attributes.point.group, attributes.point.resource, attributes.namespace
    why = f"unable to create new content in namespace {name} because it is being terminated"
    metadata = {"name": attributes.name} if attributes.name else attributes.new["metadata"]
    error = errors.admission_forbidden(group, resource, metadata, why)
    cause = {
        "reason": "NamespaceTerminating",
        "message": f"namespace {name} is being terminated",
        "field": "metadata.namespace",
    }
    error.details = {**(error.details or {}), "causes": [cause]}
    return error
