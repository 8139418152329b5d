"""The field manager of an endpoint, which says who owns which field after a write (upstream:
`managedfields.FieldManager`).

    fields = FieldManager(GoObjectType(struct), "v1")                               # of config maps, built once
    owners = fields.update(live, new, "kubectl-edit", now)                          # after POST, PUT and PATCH
    obj = fields.apply(live, apply_body.parse(body), "kubectl", now, force=False)   # server-side apply

The managed fields of the scale subresource are also those of the object behind it: see `scale_handler`.
"""

from __future__ import annotations

from types import MappingProxyType

from understudy.machinery.errors import bad_request
from understudy.machinery.patch.apply import managers
from understudy.machinery.patch.apply.apply import ApplyRequest
from understudy.machinery.patch.apply.apply_body import Patch
from understudy.machinery.patch.apply.managed_fields import (
    Convert,
    ResetFields,
    Updater,
    cap_update_managers,
    no_conversion,
    starting_owners,
)
from understudy.machinery.patch.apply.object_type import ObjectType, UnconvertibleError
from understudy.machinery.patch.structured_merge_diff.typed import InvalidValue
from understudy.machinery.types import Obj


class FieldManager:
    """Computes the managed fields of objects that are written in one API version, to one endpoint.

    type_, api_version   the type of the objects; of a subresource such as scale, that of its body
    subresource          "" for the object itself
    reset                paths that the endpoint cannot change, which no manager owns through it (`ResetFields`);
                         owners in a version that it does not name lose them to writers that change them
    convert              converts objects between API versions, for owners that wrote in another one
    keeps_owners         whether the owners stay as they are where those of a change cannot be worked out (since 1.37);
                         else an object loses all of them
    """

    def __init__(
        self,
        type_: ObjectType,
        api_version: str,
        *,
        subresource: str = "",
        reset: ResetFields = MappingProxyType({}),
        convert: Convert = no_conversion,
        keeps_owners: bool = False,
    ) -> None:
        self.api_version = api_version
        self.subresource = subresource
        self._keeps_owners = keeps_owners
        self._updater = Updater(type_, api_version, reset, convert)

    def update(self, live: Obj | None, new: Obj, manager: str, now: str) -> list[Obj]:
        """Return the managedFields of `new`, which replaces `live` (None: it is created); [] if it has none (upstream:
        `FieldManager.Update`).

        `new` may bring managedFields of its own: `[]` and `[{}]` clear them; malformed or missing ones, and those that
        come through a subresource, count as the live ones. A `live` object without managedFields stays without.
        """
        before = starting_owners(live, new, self.subresource)
        if not before and live is not None:
            return []
        writer = managers.update_manager(manager, self.api_version, self.subresource)
        try:
            after = self._updater.update(live, new, before, writer, now)
        except (InvalidValue, UnconvertibleError):
            return (live["metadata"].get("managedFields") or []) if live is not None and self._keeps_owners else []
        return managers.encode(cap_update_managers(after))

    def apply(self, live: Obj | None, patch: Patch, manager: str, now: str, *, force: bool) -> Obj:
        """Return the object after an apply, complete and with its managed fields; `live` itself if nothing changes
        (upstream: `FieldManager.Apply`).

        `live` is None if the object is created. Raises StatusError: 409 for conflicts; 400 for a patch of another type,
        with managedFields, or with duplicate keys; 500 (without a reason) for a patch that does not fit the schema.
        """
        new = ApplyRequest(self._updater, patch.obj, manager, self.subresource, now).run(live, force)
        if patch.duplicates:
            lines = "\n  ".join(patch.duplicates)
            raise bad_request(
                f"error strict decoding {patch.what}: error converting YAML to JSON: yaml: unmarshal errors:\n  {lines}"
            )
        return new
