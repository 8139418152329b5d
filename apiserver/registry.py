"""How objects of any kind are created, read and updated: the algorithms, once.

    create   mutating admission → system metadata → strategy.prepare_for_create → validate → warnings → canonicalize →
             validating admission, quotas last → store
    update   the same around one compare-and-swap loop; PUT, every PATCH and apply differ in their `transform` only

Objects are in the internal form here; requests are decoded, converted and given managed fields by `writes`, deletions
are in `deletion`.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from understudy.admission import creation, meta
from understudy.admission.field import Errors, Path, invalid
from understudy.admission.names import path_segment_name
from understudy.apiserver import errors, freshness
from understudy.apiserver.charging import charge
from understudy.apiserver.gotext import Printed, go_quote
from understudy.apiserver.kind import Context, Kind, Strategy
from understudy.apiserver.lists import Listing, Page
from understudy.apiserver.options import ListOptions
from understudy.apiserver.releases import Release
from understudy.apiserver.selectors import Selector
from understudy.apiserver.storage.base import (
    Entry,
    KeyExistsError,
    RevisionConflictError,
    Store,
)
from understudy.apiserver.types import Obj

# Tries to find a name that is free for generateName.
_NAME_TRIES = 8

# Where a kind is kept if not under its resource's name (the real server's layout in etcd).
_KEYS = {
    ("", "nodes"): "minions",
    ("", "services"): "services/specs",
    ("", "endpoints"): "services/endpoints",
    ("", "replicationcontrollers"): "controllers",
    ("networking.k8s.io", "ingresses"): "ingress",
    ("apiextensions.k8s.io", "customresourcedefinitions"): "apiextensions.k8s.io/customresourcedefinitions",
    ("apiregistration.k8s.io", "apiservices"): "apiregistration.k8s.io/apiservices",
    ("events.k8s.io", "events"): "events",
}


def prefix_of(kind: Kind, namespace: str = "") -> str:
    """Under which the objects of a kind are kept, all or those of a namespace."""
    where = _KEYS.get((kind.group, kind.resource), kind.resource)
    return f"/registry/{where}/{namespace}/" if namespace else f"/registry/{where}/"


def key_of(kind: Kind, namespace: str, name: str) -> str:
    return prefix_of(kind, namespace) + name


# What is stored now (None: nothing) to what is wanted, both internal; may raise StatusError.
Transform = Callable[[Obj | None], Obj]


@dataclass(frozen=True, slots=True)
class Write:
    """What is written to: `strategy` is the resource's or its subresource's."""

    kind: Kind
    namespace: str
    name: str
    strategy: Strategy
    ctx: Context
    dry_run: bool = False


def strategy_of(kind: Kind, subresource: str) -> Strategy:
    """The strategy of a kind's main resource, of its status or of another subresource that writes the object."""
    if subresource != "status":
        return kind.rules.subresources.get(subresource, kind.rules.strategy)
    if kind.rules.status is not None:
        return kind.rules.status
    return _GENERIC_STATUS


def _keep_spec(obj: Obj, old: Obj, ctx: Context) -> None:
    """A status write changes the status and metadata only."""
    for name in [n for n in obj if n not in ("metadata", "status") and n not in old]:
        del obj[name]
    for name, value in old.items():
        if name not in ("metadata", "status"):
            obj[name] = value


_GENERIC_STATUS = Strategy(prepare_for_update=_keep_spec, reset_fields={"": (("spec",),)})


class Registry:
    """Reads and writes the store of one server. `patience`: seconds that reads wait for a version to come."""

    def __init__(self, store: Store, release: Release) -> None:
        self.store = store
        self.release = release
        self.patience = freshness.PATIENCE

    # --- reading ----------------------------------------------------------------------------------------------

    async def get(self, kind: Kind, namespace: str, name: str) -> Entry:
        """Raises 400, 404."""
        _check_name(name)
        entry = await self.store.get(key_of(kind, namespace, name))
        if entry is None:
            raise errors.not_found(kind.group, kind.resource, name)
        return entry

    def lookup(self, group: str, resource: str, namespace: str, name: str) -> Obj | None:
        """An object by the name of its resource, None where there is none. Answers at once, for rules."""
        kind = self.release.of_resource(group, resource)
        entry = kind and self.store.peek(key_of(kind, namespace, name))
        return entry.object if entry else None

    def listing(self, group: str, resource: str, namespace: str = "") -> list[Obj]:
        """The objects of a resource, of one namespace or of all. Answers at once, for rules."""
        kind = self.release.of_resource(group, resource)
        return [entry.object for entry in self.store.scan(prefix_of(kind, namespace))] if kind else []

    async def all(self, kind: Kind, namespace: str = "") -> list[Entry]:
        """Every entry of a kind, of one namespace or of all."""
        return (await self.store.range(prefix_of(kind, namespace))).entries

    async def list(self, kind: Kind, namespace: str, options: ListOptions, selector: Selector) -> Page:
        """Raises 400, 410, 500 and 504 for versions and tokens that cannot be served."""
        name = ""
        if not options.token:  # which looks at all that it has begun to list
            if kind.namespaced:
                namespace = namespace or selector.namespace
            name = selector.name if namespace or not kind.namespaced else ""
        prefix, cached = prefix_of(kind, namespace), kind.rules.cached
        return await Listing(self.store, prefix, name, options, selector, cached, self.patience).page()

    async def not_older(self, kind: Kind, version: str) -> None:
        """Returns once there is what a GET with that resourceVersion may answer. Raises 400, 500 and 504."""
        if kind.rules.cached:
            await freshness.wait_for(self.store, version, self.patience)
        else:
            freshness.check(self.store, version)

    # --- creating ---------------------------------------------------------------------------------------------

    async def create(self, write: Write, obj: Obj) -> Entry:
        """Stores a new internal object, which belongs to this call. Raises 403, 404, 409, 422."""
        self.admit_namespace(write.kind, write.namespace, obj["metadata"])
        write.strategy.admit_create(obj, write.ctx)
        tries = _NAME_TRIES if obj["metadata"].get("generateName") and not obj["metadata"].get("name") else 1
        for _ in range(tries - 1):
            try:
                return await self._create_once(write, _copied(obj))
            except errors.StatusError as error:
                if error.reason != "AlreadyExists":
                    raise
        return await self._create_once(write, obj)

    async def _create_once(self, write: Write, obj: Obj) -> Entry:
        kind = write.kind
        obj = self.before_create(write, obj)
        await charge(self, write, obj)
        name = obj["metadata"]["name"]
        key = key_of(kind, write.namespace, name)
        if write.dry_run:
            if await self.store.get(key) is not None:
                raise self._exists(write, key, obj)
            return Entry(key, obj, 0)
        version = obj["metadata"].pop("resourceVersion", "")
        if version.isdigit() and int(version):
            raise errors.unknown_error("resourceVersion should not be set on objects to be created")
        try:
            return await self.store.create(key, obj)
        except KeyExistsError:
            raise self._exists(write, key, obj) from None

    def _exists(self, write: Write, key: str, obj: Obj) -> errors.StatusError:
        fields = obj["metadata"]
        constructor = errors.generate_name_conflict if fields.get("generateName") else errors.already_exists
        error = constructor(write.kind.group, write.kind.resource, fields["name"])
        current = self.store.peek(key)
        if current is not None and "deletionTimestamp" in current.value["metadata"]:
            error.message = f"object is being deleted: {error.message}"
        return error

    def before_create(self, write: Write, obj: Obj) -> Obj:
        """Fills in metadata, prepares, validates and canonicalizes. Raises 422 and what the strategy's checks raise."""
        kind, strategy, ctx = write.kind, write.strategy, write.ctx
        creation.complete(obj, kind, strategy, write.namespace, ctx)
        self._raise_invalid(kind, obj, creation.prepare(obj, kind, strategy, ctx))
        strategy.warn_create(obj, ctx)
        strategy.canonicalize(obj, ctx)
        strategy.check_create(obj, ctx)
        return obj

    @staticmethod
    def _raise_invalid(kind: Kind, obj: Obj, found: Errors) -> None:
        if found:
            stored = kind.stored
            raise errors.invalid(stored.group, stored.kind, str(obj["metadata"].get("name", "")), found)

    def admit_namespace(self, kind: Kind, namespace: str, fields: Obj) -> None:
        """Refuses what is to be created in a namespace that is missing or going (NamespaceLifecycle).

        `fields`: its metadata. Raises 403 and 404.
        """
        if not kind.namespaced or not namespace:
            return
        entry = self.store.peek(f"/registry/namespaces/{namespace}")
        if entry is None:
            raise errors.not_found("", "namespaces", namespace)
        if "deletionTimestamp" in entry.value["metadata"]:
            why = f"unable to create new content in namespace {namespace} because it is being terminated"
            error = errors.refused(kind.group, kind.resource, fields, why)
            cause = {
                "reason": "NamespaceTerminating",
                "message": f"namespace {namespace} is being terminated",
                "field": "metadata.namespace",
            }
            error.details = {**(error.details or {}), "causes": [cause]}
            raise error

    # --- updating ---------------------------------------------------------------------------------------------

    async def update(
        self,
        write: Write,
        transform: Transform,
        *,
        uid: str = "",
        create: bool = False,
        validate: Callable[[Obj, Obj], None] = lambda new, old: None,
    ) -> tuple[Entry, bool]:
        """Stores what `transform` makes of the current object; answers it and whether it was created by that.

        `uid` is a precondition, `create` allows a missing object (apply; strategies may allow it for PUT too),
        `validate` is validating admission. Raises 404, 409, 422 and what transform raises.
        """
        _check_name(write.name)
        key = key_of(write.kind, write.namespace, write.name)
        while True:
            current = await self.store.get(key)
            if uid:
                _check_uid(write, key, uid, current)
            try:
                if current is None:
                    return await self._create_by_update(write, transform, create), True
                return await self._replace(write, current, transform, validate), False
            except RevisionConflictError:
                continue

    async def _create_by_update(self, write: Write, transform: Transform, create: bool) -> Entry:
        kind = write.kind
        if not create and not write.strategy.create_on_update:
            raise errors.not_found(kind.group, kind.resource, write.name)
        obj = transform(None)
        self.admit_namespace(write.kind, write.namespace, {"name": write.name})
        write.strategy.admit_create(obj, write.ctx)
        _version(obj)
        if not write.dry_run:
            for name in ("resourceVersion", "selfLink"):
                obj["metadata"].pop(name, None)
        return await self._create_once(write, obj)

    async def _replace(
        self, write: Write, current: Entry, transform: Transform, validate: Callable[[Obj, Obj], None]
    ) -> Entry:
        kind, strategy, ctx = write.kind, write.strategy, write.ctx
        old = current.object
        obj = transform(old)
        if obj is old:
            return current
        strategy.admit_update(obj, old, ctx)
        self._check_version(write, obj, current)
        self.before_update(write, obj, old)
        validate(obj, old)
        await charge(self, write, obj, old)
        if self.emptied(kind, obj, old):
            if not write.dry_run:
                await self.store.delete(current.key, current.revision)
            return Entry(current.key, obj, current.revision)
        obj["metadata"].pop("resourceVersion", None)
        if not write.dry_run:
            obj["metadata"].pop("selfLink", None)
        if obj == current.value or _same_but_times(obj, current.value):
            return current
        if write.dry_run:
            return Entry(current.key, obj, current.revision)
        return await self.store.update(current.key, obj, current.revision)

    async def modify(self, write: Write, transform: Transform) -> Entry:
        """Stores what the server itself makes of an object, which no strategy has a say in (a binding). Raises 404."""
        while True:
            current = await self.get(write.kind, write.namespace, write.name)
            obj = transform(current.object)
            obj["metadata"] = {k: v for k, v in obj["metadata"].items() if k != "resourceVersion"}
            if write.dry_run:
                return Entry(current.key, obj, current.revision)
            try:
                return await self.store.update(current.key, obj, current.revision)
            except RevisionConflictError:
                continue

    @staticmethod
    def _check_version(write: Write, obj: Obj, current: Entry) -> None:
        """The optimistic lock."""
        version, kind = _version(obj), write.kind
        if version == 0:
            if not write.strategy.unconditional_update:
                error = invalid(Path("metadata", "resourceVersion"), Printed("0x0"), "must be specified for an update")
                raise errors.invalid(kind.group, kind.resource, write.name, [error])
            obj["metadata"]["resourceVersion"] = str(current.revision)
        elif version != current.revision:
            raise errors.modified(kind.group, kind.resource, write.name)

    def before_update(self, write: Write, obj: Obj, old: Obj) -> None:
        """Keeps what cannot change, prepares, validates and canonicalizes. Raises 422."""
        kind, strategy, ctx = write.kind, write.strategy, write.ctx
        fields, before = obj["metadata"], old["metadata"]
        _keep(fields, before, "generation")
        strategy.prepare_for_update(obj, old, ctx)
        fields = obj["metadata"]
        if strategy.generation and _spec_changed(obj, old):
            fields["generation"] = before.get("generation", 0) + 1
        if not fields.get("uid"):
            fields["uid"] = before["uid"]
        _keep(fields, before, "creationTimestamp")
        if "deletionTimestamp" in before:
            fields["deletionTimestamp"] = before["deletionTimestamp"]
        if "deletionGracePeriodSeconds" in before:
            fields.setdefault("deletionGracePeriodSeconds", before["deletionGracePeriodSeconds"])
        if kind.namespaced:
            fields["namespace"] = write.namespace
        else:
            fields.pop("namespace", None)
        found = meta.validate(fields, namespaced=kind.namespaced, name=path_segment_name, release=ctx.release)
        found += meta.validate_update(fields, before, release=ctx.release)
        ctx.sound_metadata = not found
        found += strategy.validate_update(obj, old, ctx)
        self._raise_invalid(kind, obj, found)
        strategy.warn_update(obj, old, ctx)
        strategy.canonicalize(obj, ctx)
        strategy.check_update(obj, old, ctx)

    @staticmethod
    def emptied(kind: Kind, obj: Obj, old: Obj) -> bool:
        """Whether an update took away what a deletion was waiting for."""
        if obj["metadata"].get("finalizers") or kind.rules.pending(obj):
            return False
        before = old["metadata"]
        return "deletionTimestamp" in before and not before.get("deletionGracePeriodSeconds")


def _version(obj: Obj) -> int:
    """The resourceVersion that a client has sent, 0 for none. Raises 500 for what is no number."""
    text = obj["metadata"].get("resourceVersion", "")
    if text and not (text.isascii() and text.isdigit()):
        raise errors.unknown_error(f'strconv.ParseUint: parsing "{text}": invalid syntax')
    return int(text or 0)


def _copied(value: Any) -> Any:
    """A copy that shares nothing, not even within itself: rules may edit one of two parts that were the same."""
    if isinstance(value, dict):
        return {name: _copied(item) for name, item in value.items()}
    return [_copied(item) for item in value] if isinstance(value, list) else value


def _same_but_times(obj: Obj, old: Obj) -> bool:
    """Whether nothing differs but the times at which managers are said to have changed something."""
    mine, before = obj["metadata"].get("managedFields"), old["metadata"].get("managedFields")
    if not mine or not before or mine == before or len(mine) != len(before):
        return False
    if {**obj, "metadata": {**obj["metadata"], "managedFields": before}} != old:
        return False
    return all({**a, "time": ""} == {**b, "time": ""} for a, b in zip(mine, before, strict=True))


def _keep(fields: Obj, before: Obj, name: str) -> None:
    if name in before:
        fields[name] = before[name]
    else:
        fields.pop(name, None)


def _spec_changed(obj: Obj, old: Obj) -> bool:
    """Whether anything but metadata and status differs."""
    ignored = ("metadata", "status", "kind", "apiVersion")
    return {k: v for k, v in obj.items() if k not in ignored} != {k: v for k, v in old.items() if k not in ignored}


def _check_name(name: str) -> None:
    """Refuses what cannot be a part of a key."""
    if name and "%" not in name and name not in (".", ".."):
        return
    why = f"may not be '{name}'" if name in (".", "..") else "may not contain '%'"
    raise errors.bad_request(f"Name parameter invalid: {go_quote(name)}: {why}" if name else "Name parameter required.")


def _check_uid(write: Write, key: str, uid: str, current: Entry | None) -> None:
    have = current.value["metadata"]["uid"] if current else ""
    if have != uid:
        shown = key.removeprefix("/registry") if write.dry_run else key
        text = (
            f"StorageError: invalid object, Code: 4, Key: {shown}, ResourceVersion: 0, AdditionalErrorMsg: "
            f"Precondition failed: UID in precondition: {uid}, UID in object meta: {have}"
        )
        raise errors.conflict(write.kind.group, write.kind.resource, write.name, text)
