"""The two ways in which an object is seen as a Scale: workloads have fixed fields, definitions name their paths."""

from __future__ import annotations

from copy import deepcopy
from typing import Any, Protocol

from understudy.apiserver.endpoints.handlers.patch import applied_patch, apply_to_live
from understudy.apiserver.endpoints.handlers.write_request import WriteRequest
from understudy.apiserver.endpoints.scope import RequestScope
from understudy.kinds.apiextensions.custom_resources import nested
from understudy.kinds.common import objectmeta
from understudy.machinery import errors
from understudy.machinery.patch.apply.apply import check_type
from understudy.machinery.patch.apply.scale_handler import REPLICAS, to_scale, to_workload
from understudy.machinery.releases.version import V1_31, V1_32, V1_34, V1_35, ByRelease
from understudy.machinery.types import Obj
from understudy.machinery.validation.field import Path, invalid

SCALE_VERSION = "autoscaling/v1"
_SHOWN = ("name", "namespace", "uid", "resourceVersion", "creationTimestamp")
_UNSET = -(2**31)  # the replicas of a custom resource that has none; the real server uses the same number
# The line of customresource_handler.go that makes a scheme, which errors of bodies name.
_SCHEME_LINE = ByRelease({V1_35: 781, V1_34: 730, V1_32: 725, V1_31: 719})


class ScaleView(Protocol):
    """Reads the Scale of an object, and writes the object behind a Scale."""

    def shown(self, obj: Obj) -> Obj:
        """Return the Scale of an object, as GET answers it. Raises 500 for a custom resource without replicas."""

    def written(self, obj: Obj) -> Obj:
        """Return the Scale of an object that was written. Raises 500 for fields of a wrong type."""

    def live(self, obj: Obj) -> Obj:
        """Return the Scale of an object that is to be changed, with its managed fields."""

    def own(self, write: WriteRequest, live: Obj, scale: Obj) -> None:
        """Set the managed fields of a Scale that replaces `live`, in place."""

    def apply(self, write: WriteRequest, live: Obj) -> Obj:
        """Apply the body to a Scale as server-side apply does. Raises 400, 409, 500."""

    def changed(self, obj: Obj, scale: Obj, live: Obj) -> Obj:
        """Return an object with the replicas of a Scale that replaces `live`. Raises 400, 409, 422."""

    def refused_body(self, error: errors.StatusError) -> errors.StatusError:
        """Return the error for a body that cannot be decoded."""


def view_of(scope: RequestScope) -> ScaleView:
    """Return the view of a kind's objects as Scales."""
    paths = scope.behavior.scale_paths
    return WorkloadScale(scope) if paths is None else CustomScale(scope, paths)


def new_scale(obj: Obj, replicas: int, current: int, selector: str) -> Obj:
    """Return the Scale of an object."""
    return {
        "kind": "Scale",
        "apiVersion": SCALE_VERSION,
        "metadata": {name: obj["metadata"][name] for name in _SHOWN if name in obj["metadata"]},
        "spec": {"replicas": replicas} if replicas else {},
        "status": {"replicas": current, **({"selector": selector} if selector else {})},
    }


class WorkloadScale:
    """Shows a deployment, replica set, stateful set or replication controller."""

    def __init__(self, scope: RequestScope) -> None:
        self._scope = scope
        self._paths = {scope.kind.gvk(version).api_version: REPLICAS for version in scope.kind.versions}

    def shown(self, obj: Obj) -> Obj:
        """Return the Scale of a workload."""
        spec, status = obj.get("spec") or {}, obj.get("status") or {}
        return new_scale(obj, spec.get("replicas", 0), status.get("replicas", 0), _selector(spec.get("selector")))

    written = shown

    def live(self, obj: Obj) -> Obj:
        """Return the Scale of a workload with its managed fields: those of the replicas."""
        scale = self.shown(obj)
        scale["metadata"]["managedFields"] = to_scale(obj["metadata"].get("managedFields"), self._paths)
        return scale

    def own(self, write: WriteRequest, live: Obj, scale: Obj) -> None:
        """Set the managed fields of a Scale that replaces `live`, in place."""
        write.update_managed_fields(live, scale)

    def apply(self, write: WriteRequest, live: Obj) -> Obj:
        """Apply the body to a Scale as server-side apply does. Raises 400, 409, 500."""
        return apply_to_live(write, live)

    def changed(self, obj: Obj, scale: Obj, live: Obj) -> Obj:
        """Return a workload with the replicas of a Scale, and their owners. Raises 409, 422."""
        self._check(scale, live)
        before, after = obj["metadata"].get("managedFields"), scale["metadata"].get("managedFields")
        owners = to_workload(before or [], after, self._scope.api_version, self._paths)
        replicas = (scale.get("spec") or {}).get("replicas", 0)
        spec = {**deepcopy(obj["spec"]), "replicas": replicas}
        return {**obj, "metadata": {**obj["metadata"], "managedFields": owners}, "spec": spec}

    def _check(self, scale: Obj, live: Obj) -> None:
        """Raise 422 for an invalid Scale, and 409 for one with another uid."""
        scope, fields = self._scope, scale["metadata"]
        replicas = (scale.get("spec") or {}).get("replicas", 0)
        field_errors = objectmeta.validate(fields, namespaced=True) + objectmeta.finalizer_names(fields)
        if replicas < 0:
            field_errors.append(invalid(Path("spec", "replicas"), replicas, "must be greater than or equal to 0"))
        if field_errors:
            raise errors.invalid("autoscaling", "Scale", scope.name, field_errors, scope.kind.release)
        uid = fields.get("uid")
        if uid and uid != live["metadata"]["uid"]:
            message = errors.uid_precondition_text(uid, live["metadata"]["uid"])
            raise errors.conflict(scope.kind.group, f"{scope.kind.resource}/scale", scope.name, message)

    def refused_body(self, error: errors.StatusError) -> errors.StatusError:
        """Return the error as it is."""
        return error


class CustomScale:
    """Shows a custom resource, by the paths of its definition (upstream: `customresource.ScaleREST`)."""

    def __init__(self, scope: RequestScope, paths: Obj) -> None:
        self._scope = scope
        self._replicas_path: str = paths["specReplicasPath"]
        self._status_path: str = paths["statusReplicasPath"]
        self._selector_path: str = paths.get("labelSelectorPath") or ""
        self._paths = scope.behavior.replicas_paths

    def shown(self, obj: Obj) -> Obj:
        """Return the Scale of an object. Raises 500 for one without replicas."""
        if self._nested(obj, self._replicas_path, int, "int64") is None:
            raise errors.internal_error(f'the spec replicas field "{self._replicas_path}" does not exist')
        return self.written(obj)

    def written(self, obj: Obj) -> Obj:
        """Return the Scale of an object; it has no replicas if the object has none. Raises 500."""
        replicas = self._nested(obj, self._replicas_path, int, "int64") or 0
        current = self._nested(obj, self._status_path, int, "int64") or 0
        selector = self._nested(obj, self._selector_path, str, "string") if self._selector_path else ""
        return new_scale(obj, replicas, current, selector or "")

    def live(self, obj: Obj) -> Obj:
        """Return the Scale of an object with its managed fields, and a mark if it has no replicas."""
        scale = self.written(obj)
        if self._nested(obj, self._replicas_path, int, "int64") is None:
            scale["spec"] = {"replicas": _UNSET}
        if owners := to_scale(obj["metadata"].get("managedFields"), self._paths):
            scale["metadata"]["managedFields"] = owners
        return scale

    def own(self, write: WriteRequest, live: Obj, scale: Obj) -> None:
        write.update_managed_fields(live, scale)

    def apply(self, write: WriteRequest, live: Obj) -> Obj:
        """Return the Scale of an object with the fields of the body owned.

        Raises 400 for a body of another kind, 409 for conflicts. Raises 500 if no manager owns its replicas, or if they
        are to change: the real server's converter does not know `autoscaling/v1`.
        """
        sent = applied_patch(write).obj
        check_type(sent, live["kind"], live["apiVersion"])
        if not live["metadata"].get("managedFields"):
            raise _unconvertible("failed to create manager for existing fields: failed to convert live object", {})
        scale = apply_to_live(write, live)
        if _without_owners(scale) != _without_owners(live):
            raise _unconvertible("failed to convert new object", sent["metadata"])
        return scale

    def changed(self, obj: Obj, scale: Obj, live: Obj) -> Obj:
        """Return an object with the replicas of a Scale, and their owners. Raises 400, 500."""
        replicas = (scale.get("spec") or {}).get("replicas", 0)
        if replicas == _UNSET:
            raise errors.bad_request(f'the spec replicas field "{self._replicas_path}" cannot be empty')
        names = tuple(self._replicas_path.removeprefix(".").split("."))
        before, after = obj["metadata"].get("managedFields"), scale["metadata"].get("managedFields")
        owners = to_workload(before, after, self._scope.api_version, self._paths)
        out = {**deepcopy(obj), "metadata": {**obj["metadata"], "managedFields": owners}}
        inner: Any = out
        for name in names[:-1]:
            inner = inner.setdefault(name, {})
            if not isinstance(inner, dict):
                raise errors.unknown_error(
                    f"value cannot be set because {self._replicas_path} is not a map[string]interface{{}}"
                )
        inner[names[-1]] = replicas
        return out

    def refused_body(self, error: errors.StatusError) -> errors.StatusError:
        """Return the error that the real server answers to any body that it cannot decode."""
        line = _SCHEME_LINE[self._scope.kind.release]
        place = f"k8s.io/apiextensions-apiserver/pkg/apiserver/customresource_handler.go:{line}"
        return errors.bad_request(f'no kind is registered for the type v1.Scale in scheme "{place}"')

    @staticmethod
    def _nested(obj: Obj, path: str, expected: type, go_type: str) -> Any:
        """Return the value at a path, None if there is none. Raises 500 for one of another type."""
        value, text = nested(obj, path, expected, go_type)
        if text:
            raise errors.unknown_error(text)
        return value


def _selector(selector: Obj | None) -> str:
    """Return a label selector as text (`FormatLabelSelector`). That of a replication controller is a plain map."""
    if not selector:
        return ""
    if not {"matchLabels", "matchExpressions"} & set(selector):
        return ",".join(f"{key}={selector[key]}" for key in sorted(selector))
    terms = {key: f"{key}={value}" for key, value in (selector.get("matchLabels") or {}).items()}
    formats = {
        "In": "{key} in ({values})",
        "NotIn": "{key} notin ({values})",
        "Exists": "{key}",
        "DoesNotExist": "!{key}",
    }
    for expression in selector.get("matchExpressions") or []:
        values = ",".join(sorted(expression.get("values") or []))
        terms[expression["key"]] = formats[expression["operator"]].format(key=expression["key"], values=values)
    return ",".join(terms[key] for key in sorted(terms))


def _without_owners(scale: Obj) -> Obj:
    return {**scale, "metadata": {**scale["metadata"], "managedFields": None}}


def _unconvertible(what: str, metadata: Obj) -> errors.StatusError:
    """Return the error for the Scale of a custom resource that cannot be converted; `metadata` names it."""
    name = f"{metadata.get('namespace', '')}/{metadata.get('name', '')}; autoscaling/v1, Kind=Scale"
    why = "to proper version: request to convert CR to an invalid group/version: autoscaling/v1"
    return errors.unknown_error(f"{what} ({name}) {why}")
