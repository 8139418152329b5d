"""The strategies of custom resources and of their status (upstream: `registry/customresource`)."""

from __future__ import annotations

from copy import deepcopy
from typing import Any

from understudy.admission.context import Context
from understudy.admission.validation.objectmeta import PLAIN
from understudy.apiserver.registry.kind import Strategy
from understudy.machinery.types import GroupVersionKind, Obj
from understudy.machinery.validation.field import Errors, Path, invalid


class CustomResource:
    """The rules of custom resources in one version. `has_status`: whether it has a status subresource."""

    def __init__(self, kind: GroupVersionKind, *, has_status: bool) -> None:
        self.kind = kind
        self.has_status = has_status

    def strategy(self) -> Strategy:
        """Return the strategy of the resource."""
        return Strategy(
            prepare_for_create=self._prepare_for_create,
            prepare_for_update=self._prepare_for_update,
            validate_metadata=lambda obj, ctx: [],
            validate=self._validate,
            validate_update=self._validate_update,
            unconditional_update=False,
            reset_fields={"": (("status",),)} if self.has_status else {},
        )

    def status_strategy(self) -> Strategy:
        """Return the strategy of the status subresource."""
        return Strategy(
            prepare_for_update=self._prepare_status,
            validate_update=self._validate_status_update,
            unconditional_update=False,
            reset_fields={"": (("metadata",), ("spec",))},
        )

    def _prepare_for_create(self, obj: Obj, ctx: Context) -> None:
        """Drop the status of a new object, and begin to count generations."""
        if self.has_status:
            obj.pop("status", None)
        obj["metadata"]["generation"] = 1

    def _prepare_for_update(self, obj: Obj, old: Obj, ctx: Context) -> None:
        """Keep the stored status, and count a change of anything but metadata as a new generation."""
        if self.has_status:
            obj.pop("status", None)
            if "status" in old:
                obj["status"] = old["status"]
        if _without_metadata(obj) != _without_metadata(old):
            obj["metadata"]["generation"] = old["metadata"].get("generation", 0) + 1

    def _prepare_status(self, obj: Obj, old: Obj, ctx: Context) -> None:
        """Keep all but the status and the managed fields as stored, in place."""
        status, owners = obj.get("status", _ABSENT), obj["metadata"].get("managedFields")
        obj.clear()
        obj.update(deepcopy(old))
        obj["metadata"].pop("managedFields", None)
        if owners:
            obj["metadata"]["managedFields"] = owners
        obj.pop("status", None)
        if status is not _ABSENT:
            obj["status"] = status

    def _validate(self, obj: Obj, ctx: Context) -> Errors:
        """Return what is wrong with a new object."""
        return self._type_errors(obj) or PLAIN.created(obj, ctx)

    def _validate_update(self, obj: Obj, old: Obj, ctx: Context) -> Errors:
        """Return what is wrong with an object that replaces another one."""
        return self._type_errors(obj) or PLAIN.updated(obj, old, ctx)

    def _validate_status_update(self, obj: Obj, old: Obj, ctx: Context) -> Errors:
        """Return what is wrong with a status that replaces another one."""
        return self._type_errors(obj) or PLAIN.updated(obj, old, ctx)

    def _type_errors(self, obj: Obj) -> Errors:
        """Return the errors of an object of another kind or version (`ValidateTypeMeta`)."""
        expected = {"kind": self.kind.kind, "apiVersion": self.kind.api_version}
        return [
            invalid(Path(name), obj.get(name, ""), f"must be {value}")
            for name, value in expected.items()
            if obj.get(name) != value
        ]


def _without_metadata(obj: Obj) -> Obj:
    return {name: value for name, value in obj.items() if name != "metadata"}


_ABSENT: Any = object()
