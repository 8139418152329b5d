"""Admission policies without a server: those among manifests, asked about what `understudy validate` checks.

The other manifests are what a server would have stored: parameters, namespaces. A namespace that is not among them has
no labels but that of its name. An administrator asks, and may do everything.
"""

from __future__ import annotations

from contextlib import suppress
from dataclasses import replace

from understudy.admission.chain import Attributes, Chain, Operation, Point
from understudy.admission.metrics import AdmissionMetrics
from understudy.admission.plugins.policy.mutating import MutatingAdmissionPolicy
from understudy.admission.plugins.policy.validating import ValidatingAdmissionPolicy
from understudy.apiserver.endpoints.object_interfaces import RegistryObjects
from understudy.apiserver.extensions.serving import Serving
from understudy.apiserver.registry.keys import key_of
from understudy.apiserver.registry.store import Registry
from understudy.apiserver.serving.release import Release
from understudy.apiserver.storage.interface import KeyExistsError
from understudy.apiserver.storage.memory import MemoryStore
from understudy.kinds.context import Context
from understudy.kinds.declarations.kind import Kind
from understudy.machinery.auth.always_allow import AlwaysAllow
from understudy.machinery.auth.users import AUTHENTICATED, MASTERS, User
from understudy.machinery.releases.features import Gates
from understudy.machinery.typeinfo.go_types import Schemas
from understudy.machinery.types import Obj
from understudy.machinery.util.deep_recursion import run_to_end

_USER = User("kubernetes-admin", [MASTERS, AUTHENTICATED]).info()
_OPTIONS = {"kind": "CreateOptions", "apiVersion": "meta.k8s.io/v1"}


class OfflinePolicies:
    """The policies among some objects, and what else is stored with them."""

    def __init__(self, release: Release) -> None:
        self._registry = Registry(MemoryStore(), Serving(release))
        objects, authorizer = RegistryObjects(self._registry, Schemas.of(release.version)), AlwaysAllow()
        version, metrics = release.version, AdmissionMetrics(release.version)
        plugins: list[MutatingAdmissionPolicy | ValidatingAdmissionPolicy] = [
            MutatingAdmissionPolicy(objects, authorizer, metrics, version),
            ValidatingAdmissionPolicy(objects, authorizer, metrics, version, Gates.of(version)),
        ]
        self._chain = Chain(plugins)
        for plugin in plugins:
            plugin.source.on_change(self._chain.forget)

    def add(self, kind: Kind, obj: Obj) -> None:
        """Store a valid internal object. The first of a name counts."""
        if not kind.virtual:
            metadata = obj["metadata"]
            key = key_of(kind, metadata.get("namespace", ""), metadata["name"])
            with suppress(KeyExistsError):
                run_to_end(self._registry.store.create(key, obj))

    def mutate(self, kind: Kind, version: str, obj: Obj, ctx: Context) -> Obj:
        """Return a new internal object as mutating policies change it. Raises StatusError."""
        attributes = _attributes(kind, version, obj)
        run_to_end(self._chain.of(attributes.point).admit(attributes, self._context(ctx)))
        return attributes.new

    def validate(self, kind: Kind, version: str, obj: Obj, ctx: Context) -> None:
        """Raise StatusError for a new internal object that a validating policy refuses."""
        attributes = _attributes(kind, version, obj)
        run_to_end(self._chain.of(attributes.point).validate(attributes, self._context(ctx)))

    def _context(self, ctx: Context) -> Context:
        return replace(ctx, requester=_USER, lookup=self._lookup, listing=self._registry.listing)

    def _lookup(self, group: str, resource: str, namespace: str, name: str) -> Obj | None:
        """Return a stored object, None if there is none. Every namespace exists."""
        obj = self._registry.lookup(group, resource, namespace, name)
        if obj is None and (group, resource) == ("", "namespaces"):
            metadata = {"name": name, "labels": {"kubernetes.io/metadata.name": name}}
            return {"metadata": metadata, "spec": {"finalizers": ["kubernetes"]}, "status": {"phase": "Active"}}
        return obj


def _attributes(kind: Kind, version: str, obj: Obj) -> Attributes:
    """Describe the creation of an object."""
    metadata = obj["metadata"]
    name = metadata.get("name", "")
    namespace = (metadata.get("namespace") or "default") if kind.namespaced else ""
    if (kind.group, kind.resource) == ("", "namespaces"):
        namespace = name
    point = Point(Operation.CREATE, kind.group, kind.resource, "", kind.namespaced)
    return Attributes(point, kind.gvk(version), namespace, name, obj, None, _OPTIONS, False, _USER, version)
