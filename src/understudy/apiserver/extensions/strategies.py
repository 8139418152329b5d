"""The strategies of custom resources and of their status (upstream: `registry/customresource`)."""

from __future__ import annotations

from collections.abc import Collection
from copy import deepcopy
from typing import Any

from understudy.kinds.apiextensions.custom_resources import CustomResourceRules
from understudy.kinds.context import Context
from understudy.kinds.declarations.kind import Strategy
from understudy.machinery.releases.version import V1_31, V1_35, V1_36, ByRelease, Version
from understudy.machinery.types import Obj, same_json


class CustomResource:
    """The strategies of custom resources in one version.

    with_status   the API versions of the definition that have a status subresource
    """

    def __init__(self, rules: CustomResourceRules, api_version: str, *, with_status: Collection[str]) -> None:
        self.rules = rules
        self.api_version = api_version
        self.with_status = with_status
        self.has_status = api_version in with_status

    def strategy(self) -> Strategy:
        """Return the strategy of the resource."""
        return Strategy(
            prepare_for_create=self._prepare_for_create,
            prepare_for_update=self._prepare_for_update,
            validate_metadata=lambda obj, ctx: [],
            validate=self.rules.create,
            validate_update=self.rules.update,
            warn_create=self.rules.warn_create,
            warn_update=self.rules.warn_update,
            unconditional_update=False,
            reset_fields={self.api_version: (("status",),)} if self.has_status else {},
        )

    def status_strategy(self, version: Version) -> Strategy:
        """Return the strategy of the status subresource.

        Before 1.35 it resets fields in the version of the request only, so that an owner in another version loses the
        fields that a writer of the status changed in vain.
        """
        versions = self.with_status if version >= V1_35 else (self.api_version,)
        return Strategy(
            prepare_for_update=self._prepare_status,
            validate_update=self.rules.update_status,
            unconditional_update=False,
            reset_fields=dict.fromkeys(versions, _STATUS_RESETS[version]),
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
        if not same_json(_without_metadata(obj), _without_metadata(old)):
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


def _without_metadata(obj: Obj) -> Obj:
    return {name: value for name, value in obj.items() if name != "metadata"}


_ABSENT: Any = object()
_STATUS_RESETS = ByRelease({V1_36: (("metadata",), ("spec",)), V1_31: (("spec",),)})
