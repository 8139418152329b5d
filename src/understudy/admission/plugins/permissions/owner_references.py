"""OwnerReferencesPermissionEnforcement: let owners of objects be changed only by who may delete them.

Source: k8s.io/kubernetes/plugin/pkg/admission/gc.
"""

from __future__ import annotations

from understudy.admission.chain import Attributes, Operation, Point
from understudy.admission.objects import ObjectInterfaces
from understudy.kinds.context import Context
from understudy.machinery.auth import authorization
from understudy.machinery.auth.users import User
from understudy.machinery.golang.text import go_quote
from understudy.machinery.types import GroupVersionKind, Obj, split_api_version

_WRITES = (Operation.CREATE, Operation.UPDATE)
NIL = "<nil>"  # as Go prints no error
_ANY_FINALIZERS = authorization.Attributes(
    "", "update", is_resource=True, group="*", version="*", resource="*", subresource="finalizers", name="*"
)


class OwnerReferencesPermissionEnforcement:
    """Refuses changes of `ownerReferences` by users who may not delete the object, and references that keep their
    owner from being deleted (`blockOwnerDeletion`) by users who may not set the owner's finalizers."""

    name = "OwnerReferencesPermissionEnforcement"

    def __init__(self, objects: ObjectInterfaces) -> None:
        self._objects = objects

    def handles(self, point: Point) -> bool:
        """Report whether a request writes an object; the status of a pod cannot change its owners."""
        return point.operation in _WRITES and point[1:4] != ("", "pods", "status")

    async def validate(self, attributes: Attributes, ctx: Context) -> None:
        new, old = _owners(attributes.object), _owners(attributes.old_object)
        if new == old:
            return
        user = User.of_info(attributes.user)
        if attributes.point.operation != Operation.CREATE:
            _check_delete(user, attributes, ctx)
        blocked_before = {owner.get("uid") for owner in old if owner.get("blockOwnerDeletion")}
        blocking = [
            owner for owner in new if owner.get("blockOwnerDeletion") and owner.get("uid") not in blocked_before
        ]
        if blocking and not ctx.authorizer.authorize(user, _ANY_FINALIZERS).allowed:
            for owner in blocking:
                self._check_finalizers(user, owner, attributes, ctx)

    def _check_finalizers(self, user: User, owner: Obj, attributes: Attributes, ctx: Context) -> None:
        """Raise 403 unless the user may update the finalizers of an owner."""
        api_version, kind = owner.get("apiVersion", ""), owner.get("kind", "")
        gvk = GroupVersionKind(*split_api_version(api_version), kind)
        mapping = self._objects.rest_mapping(gvk)
        if mapping is None:
            no_match = f"no matches for kind {go_quote(kind)} in version {go_quote(api_version)}"
            text = "cannot set blockOwnerDeletion in this case because cannot find RESTMapping for"
            raise attributes.forbidden(f"{text} APIVersion {api_version} Kind {kind}: {no_match}")
        question = authorization.Attributes(
            "",
            "update",
            True,
            *mapping.resource[:2],
            attributes.namespace if mapping.namespaced else "",
            mapping.resource.resource,
            "finalizers",
            owner.get("name", ""),
        )
        decision = ctx.authorizer.authorize(user, question)
        if not decision.allowed:
            text = "cannot set blockOwnerDeletion if an ownerReference refers to a resource you can't set finalizers on"
            raise attributes.forbidden(f"{text}: {decision.reason}, {decision.error or NIL}")


def _check_delete(user: User, attributes: Attributes, ctx: Context) -> None:
    """Raise 403 unless the user may delete the object."""
    point = attributes.point
    question = authorization.Attributes(
        "",
        "delete",
        True,
        point.group,
        attributes.version,
        attributes.namespace,
        point.resource,
        point.subresource,
        attributes.name,
    )
    decision = ctx.authorizer.authorize(user, question)
    if not decision.allowed:
        text = f"cannot set an ownerRef on a resource you can't delete: {decision.reason}, {decision.error or NIL}"
        raise attributes.forbidden(text)


def _owners(obj: Obj | None) -> list[Obj]:
    return ((obj or {}).get("metadata") or {}).get("ownerReferences") or []
