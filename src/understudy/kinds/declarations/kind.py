"""Kinds: their names and versions, and the behavior in which a kind differs from others.

Facts (names, scope, verbs, columns) come from `schemas/RELEASE/resources.json`; differences from the `Behavior` that
`kinds.behaviors` has for it; `apiserver.serving.release` joins the two. A kind without a behavior is decoded, given
metadata, stored and served like any other.

Rules work on the internal form: JSON as in every version that has no conversion (`Behavior.conversions`). Every object
handed to a rule as `obj` belongs to the request and may be edited in place; `old` is stored and never is.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import field
from functools import cached_property
from typing import Any, Protocol

from understudy.kinds.common.objectmeta import CORE
from understudy.kinds.context import Context
from understudy.kinds.declarations.codec import Codec
from understudy.kinds.declarations.watch_cache import WatchCache
from understudy.kinds.number_range import NumberRange
from understudy.machinery.options import DeleteOptions
from understudy.machinery.releases.features import Gates
from understudy.machinery.releases.version import Version
from understudy.machinery.typeinfo.go_types import Schemas, Struct
from understudy.machinery.types import GroupVersionKind, NamedTuple, Obj, dataclass
from understudy.machinery.validation.field import Errors


def _nothing(obj: Obj, ctx: Context) -> None:
    """Do nothing, as the rule of kinds that have none."""


def _nothing_new(obj: Obj, old: Obj, ctx: Context) -> None:
    """Do nothing, as the update rule of kinds that have none."""


def _valid(obj: Obj, ctx: Context) -> Errors:
    """Find no errors, as the validation of kinds that have none."""
    return []


def _valid_update(obj: Obj, old: Obj, ctx: Context) -> Errors:
    """Find no errors, as the update validation of kinds that have none."""
    return []


@dataclass(frozen=True, slots=True)
class Strategy:
    """The steps of writing objects of a kind, or its subresource (`rest.RESTCreateStrategy`, `RESTUpdateStrategy`).

    prepare_for_create/_update  reset what clients may not set, drop gated fields; before validation
    validate_metadata           what the kind itself asks of the metadata of a new object, before `validate`
    validate, validate_update   every error found, never only the first; on update with what it asks of the metadata
    warn_create, warn_update    ctx.warn(...) for what is accepted but doubtful
    canonicalize                after validation, before storing
    after_update                when a change is stored (`BeginUpdate`, which returns it); None: nothing
    """

    prepare_for_create: Callable[[Obj, Context], None] = _nothing
    prepare_for_update: Callable[[Obj, Obj, Context], None] = _nothing_new
    validate_metadata: Callable[[Obj, Context], Errors] = CORE.created
    validate: Callable[[Obj, Context], Errors] = _valid
    validate_update: Callable[[Obj, Obj, Context], Errors] = _valid_update
    warn_create: Callable[[Obj, Context], None] = _nothing
    warn_update: Callable[[Obj, Obj, Context], None] = _nothing_new
    canonicalize: Callable[[Obj, Context], None] = _nothing
    after_update: Callable[[Obj, Obj, Context], None] | None = None
    create_on_update: bool = False  # PUT of a missing object creates it (leases)
    unconditional_update: bool = True  # PUT without resourceVersion is allowed
    conditional_in: frozenset[str] = frozenset()  # versions in which it is not allowed nevertheless
    generation: bool = False  # metadata.generation starts at 1 and counts changes of what is not metadata and status
    generation_counts_empty: bool = (
        False  # a list that is sent empty counts as a change (upstream: `reflect.DeepEqual`)
    )
    reset_fields: Mapping[str, tuple[tuple[str, ...], ...]] = field(default_factory=dict)
    # {API version: field paths that this strategy resets, such as ("status",)}; for managed fields. "": any version


class ObjectName(NamedTuple):
    """The group, kind, namespace ("" for kinds without) and name of an object."""

    group: str
    kind: str
    namespace: str
    name: str


class Conversion(NamedTuple):
    """Conversion between a version and the internal form. Both return a new object, which may share parts.

    lossless  whether any object of the version is the same after conversion there and back; else fields may be added
    into      converts an object of the version into an internal one that exists, where it does not replace all of it:
              in Go, the fields that a version does not have stay as they are in the object that is converted into
    """

    to_internal: Callable[[Obj], Obj]
    from_internal: Callable[[Obj], Obj]
    lossless: bool = False
    into: Callable[[Obj, Obj], Obj] | None = None


def _unchanged(obj: Obj) -> Obj:
    """Return an object as it is."""
    return obj


class StoredDocument(NamedTuple):
    """The document of a kind that is always stored as JSON: servers of their own keep these kinds.

    write  turns an internal object into the document
    read   turns a document into an object of a version that the release has
    """

    write: Callable[[Obj], Obj]
    read: Callable[[Obj], Obj] = _unchanged


@dataclass(frozen=True, slots=True)
class Behavior:
    """The ways in which a kind differs from others: its strategies, its table, its deletion.

    conversions  by version, for those whose form differs from the internal one
    defaults     fills in a decoded object of any version, in place and in that version's form
    strategy     of the resource; `status` of its status subresource (None: the generic one)
    subresources strategies of further subresources that write the object itself: {"finalize": …}
    selectable   field selectors besides metadata.name and metadata.namespace: {label: value of the internal form}
    unknown_field  text of the error for any other label, if `selectable` is not empty
    table_row    cells of one table row, in the order of the columns in resources.json; None: name and age only
    list_row     makes the function of the rows of a list's table from its objects; None: they are as `table_row`
    row_conditions  conditions of a table row: [{"type": "Completed", …}]
    row_order    key to sort the rows of a table by; None: they keep the order of the list
    delete_returns_object    whether DELETE answers the object instead of a Status (`ReturnDeletedObject`); not in
                             the versions of `delete_returns_status_in`
    graceful_delete          turns the requested grace period into the granted one, in seconds; the request may say
                             none. None: the kind has no graceful deletion (`CheckGracefulDelete`)
    default_gc_policy        "Background" or "Orphan": for dependents if neither options nor finalizers say it
                             (`DefaultGarbageCollectionPolicy`); `orphan_warning` warns of that, "" for no warning.
                             "Unsupported": objects never have dependents, whatever the options say (events)
    begin_termination        edits an object in place when it is deleted first, which does not remove it (namespaces),
                             the garbage collector's finalizers included
    failed_precondition      begins the error of a deletion whose precondition fails, of kinds that check it themselves;
                             "" for those that leave it to the store
    held_by_spec_finalizers  whether an object that is being deleted waits for more than `metadata.finalizers`
    allocations  objects of other kinds that an object holds, internal and without what every object gets: they are
                 created before it is stored, and deleted after it is gone (the IPAddresses of services)
    numbers      bitmaps of the numbers that an object holds of ranges, of which nobody else gets them (node ports)
    deleted_with  the object of another kind that is deleted after an object (the Endpoints of services)
    protected    names of objects that cannot be deleted by name, with the reason
    fill_empty   sets in place what an object of which nothing is set has in every version: numbers that are no pointers
                 inside the real server (bookmarks)
    replicas_paths  {API version of a custom resource: path of the replicas in it, None if it has no scale}; for the
                 managed fields of scales
    scale_paths  paths of the replicas that the scale subresource shows, as a definition declares them; None: workloads
    cached       whether the real server reads the kind from its watch cache (--watch-cache-sizes), not from etcd
    expires      whether the real server lets etcd forget objects after a time (--event-ttl)
    defaulted_on_read  whether new objects are stored without defaults that whoever reads them adds, since the strategy
                 removes these; so the first update stores an object anew even if it changes nothing
    defaults_labels  whether defaults may set labels, so that those which are stored may not be all
    stored_as_json  the document that the real server stores, of kinds that it never stores as protobuf
    """

    conversions: Mapping[str, Conversion] = field(default_factory=dict)
    defaults: Callable[[Obj, Context], None] = _nothing
    strategy: Strategy = field(default_factory=Strategy)
    status: Strategy | None = None
    subresources: Mapping[str, Strategy] = field(default_factory=dict)
    selectable: Mapping[str, Callable[[Obj], str]] = field(default_factory=dict)
    table_row: Callable[[Obj, float], list[Any]] | None = None
    list_row: Callable[[Sequence[Obj]], Callable[[Obj, float], list[Any]]] | None = None
    delete_returns_object: bool = False
    delete_returns_status_in: frozenset[str] = frozenset()
    graceful_delete: Callable[[Obj, int | None], int] | None = None
    default_gc_policy: str = "Background"
    orphan_warning: str = ""
    begin_termination: Callable[[Obj, DeleteOptions, Context], None] | None = None
    failed_precondition: str = ""
    allocations: Callable[[Obj, Context], Mapping[ObjectName, Obj]] | None = None
    numbers: Callable[[Obj, Gates], Mapping[NumberRange, int]] | None = None
    deleted_with: Callable[[Obj], ObjectName] | None = None
    protected: Mapping[str, str] = field(default_factory=dict)
    held_by_spec_finalizers: Callable[[Obj], bool] = lambda obj: False
    unknown_field: str = "field label not supported: {label}"
    row_conditions: Callable[[Obj], list[Obj]] = lambda obj: []
    row_order: Callable[[Obj], Any] | None = None
    fill_empty: Callable[[Obj], None] = lambda obj: None
    scale_paths: Obj | None = None
    replicas_paths: Mapping[str, tuple[str, ...] | None] = field(default_factory=dict)
    cached: bool = True
    expires: bool = False
    defaulted_on_read: bool = False
    defaults_labels: bool = False
    stored_as_json: StoredDocument | None = None

    def returns_deleted_object(self, version: str) -> bool:
        """Report whether DELETE answers the object in a version."""
        return self.delete_returns_object and version not in self.delete_returns_status_in


class Subresource(NamedTuple):
    """A part of a resource with its own path. `kind` is what its body is: the resource's kind for status, another
    for scale, binding, token. Unless it is `foreign`, its group and version are those of the resource."""

    name: str
    kind: GroupVersionKind
    verbs: tuple[str, ...]
    foreign: bool = False


class CustomStorage(Protocol):
    """Turns objects of a custom resource into the form in which they are stored, and back.

    Objects of custom resources carry their kind and apiVersion; rules work on them in the version of the request.

    All methods may raise 500 if a webhook converts the objects, and LoopWouldWaitError on the event loop.
    """

    @property
    def calls_webhook(self) -> bool:
        """Report whether a webhook converts objects between the versions of the definition."""

    @property
    def cache(self) -> WatchCache | None:
        """Return the watch cache of the version of the kind, None unless a webhook converts its objects."""

    def store(self, obj: Obj) -> Obj:
        """Return an object as it is stored: in the storage version."""

    def load(self, obj: Obj) -> Obj:
        """Return a stored object, which may have been stored in any version, in the version of the kind."""

    def load_new(self, stored: Obj) -> Obj | None:
        """Return an object that was decoded in the version of the kind and stored, as `load` would, None if it is not
        sure what that does."""

    def convert(self, obj: Obj, api_version: str) -> Obj | None:
        """Return an object in another version of the definition, None for a version that it does not have."""


@dataclass(frozen=True, eq=False)
class Kind:
    """A kind of a release, in every served version. Each version of a custom resource is a separate kind.

    resource, singular  names in paths and in kubectl: "pods", "pod"
    verbs               sorted as discovery has them
    versions            served ones, preferred first
    stored              what is stored for it: (group, version, kind). Events of two groups are one store
    subresources        by name, as in the preferred version
    columns             {version: columnDefinitions of its tables}; empty for what cannot be listed
    new_codec           makes the codec of a version, which is kept
    custom              how objects of a custom resource are stored, None for built-in kinds
    """

    release: Version
    group: str
    name: str
    resource: str
    singular: str
    namespaced: bool
    verbs: tuple[str, ...]
    versions: tuple[str, ...]
    stored: GroupVersionKind
    short_names: tuple[str, ...] = ()
    categories: tuple[str, ...] = ()
    subresources: Mapping[str, Subresource] = field(default_factory=dict)
    columns: Mapping[str, list[Obj]] = field(default_factory=dict)
    find_behavior: Callable[[], Behavior] = Behavior  # called once, when the rules are first needed
    new_codec: Callable[[Kind, str], Codec] = field(kw_only=True)
    custom: CustomStorage | None = None
    _codecs: dict[str, Codec] = field(default_factory=dict, init=False)

    @cached_property
    def behavior(self) -> Behavior:
        """Return the behavior of the kind, found once."""
        return self.find_behavior()

    @property
    def storage_version(self) -> str:
        """Return the version that stored objects are said to have."""
        return self.stored.version

    @property
    def virtual(self) -> bool:
        """Report whether nothing is stored: reviews and bindings are only created, component statuses read."""
        return "watch" not in self.verbs

    @property
    def watch_cache(self) -> WatchCache | None:
        """Return the watch cache of a custom resource that a webhook converts, None of other kinds."""
        return None if self.custom is None else self.custom.cache

    @cached_property
    def has_status(self) -> bool:
        """Report whether the kind has a status subresource."""
        return "status" in self.subresources

    def codec(self, version: str) -> Codec:
        """Return the codec of a version."""
        codec = self._codecs.get(version)
        if codec is None:
            codec = self._codecs[version] = self.new_codec(self, version)
        return codec

    def gvk(self, version: str) -> GroupVersionKind:
        """Return the group, version and kind of objects in a version."""
        return GroupVersionKind(self.group, version, self.name)

    def served_text(self) -> str:
        """Return the apiVersions that are served, preferred first: "resource.k8s.io/v1, resource.k8s.io/v1beta2"."""
        return ", ".join(self.gvk(version).api_version for version in self.versions)

    def subresource_kind(self, sub: Subresource, version: str) -> GroupVersionKind:
        """Return the kind of the body of a subresource, in a version of this kind."""
        return sub.kind if sub.foreign else GroupVersionKind(self.group, version, sub.kind.kind)

    def struct(self, version: str) -> Struct:
        """Return the type of objects in a version. Raises KeyError for a version that the release does not know."""
        return Schemas.of(self.release).kind(self.group, version, self.name)


class Resources(Protocol):
    """Finds the kinds that are served."""

    @property
    def kinds(self) -> Iterator[Kind]:
        """Return each kind once, in the order of discovery."""

    def resource(self, group: str, version: str, resource: str) -> Kind | None:
        """Return the kind of a resource of a group-version, None if it is not served."""

    def of_resource(self, group: str, resource: str) -> Kind | None:
        """Return the kind of a resource such as ("apps", "deployments"), None for one that is not served."""

    def kind(self, group: str, name: str) -> Kind | None:
        """Return a kind by its name such as ("apps", "Deployment"), None for one that is not served."""
