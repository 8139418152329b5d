"""The chain of admission plugins, which a request passes before it changes anything.

A plugin may edit the object (`admit`), refuse it (`validate`), or both. The chain is resolved once for each kind of
request and remembered, so that a request that no plugin handles costs one look-up.

Source: k8s.io/apiserver/pkg/admission.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Hashable, Iterable, Sequence
from dataclasses import field
from enum import StrEnum
from time import perf_counter
from typing import Protocol, runtime_checkable

from understudy.admission.times import ADMIT, STEPS, VALIDATE, AdmissionTimes, Handler, Round, Step
from understudy.kinds.context import Context
from understudy.machinery import errors
from understudy.machinery.errors import StatusError
from understudy.machinery.types import GroupVersionKind, GroupVersionResource, NamedTuple, Obj, dataclass, deep_copy


class Operation(StrEnum):
    """The operation of a request. CONNECT opens a connection to a pod, a service or a node (exec, proxy)."""

    CREATE = "CREATE"
    UPDATE = "UPDATE"
    DELETE = "DELETE"
    CONNECT = "CONNECT"


EVERY_OPERATION = tuple(Operation)


class Point(NamedTuple):
    """Names a kind of request: an operation on a resource such as ("apps", "deployments") or on a subresource of it."""

    operation: Operation
    group: str
    resource: str
    subresource: str = ""
    namespaced: bool = True


@dataclass(slots=True)
class Invoked:
    """The webhooks or policies of one plugin that have been asked about a request, and those to be asked again.

    Upstream: `webhookReinvokeContext`, `policyReinvokeContext`.

    output   the object as the plugin left it last
    invoked  keys of those with reinvocationPolicy IfNeeded that have been asked since
    again    keys of those to be asked again
    """

    output: Obj | None = None
    invoked: set[Hashable] = field(default_factory=set)
    again: set[Hashable] = field(default_factory=set)

    def require(self) -> None:
        """Let all that have been asked be asked again."""
        self.again |= self.invoked
        self.invoked = set()


@dataclass(slots=True)
class Reinvocation:
    """Notes whether plugins are asked a second time, since another has changed the object (`ReinvocationContext`).

    needed   set by a plugin that has changed the object: all mutating plugins are asked once more
    begun    whether they are being asked for the second time
    invoked  what each plugin has asked, by the name of the plugin
    """

    needed: bool = False
    begun: bool = False
    invoked: dict[str, Invoked] = field(default_factory=dict)

    def of(self, plugin: str, obj: Obj | None) -> Invoked:
        """Return the notes about a plugin. If others have changed the object since, it has to ask everything again."""
        invoked = self.invoked.setdefault(plugin, Invoked())
        if self.begun and invoked.output != obj:
            invoked.require()
        return invoked


@dataclass(slots=True)
class Attributes:
    """Describes one request to the plugins (`admission.Attributes`).

    point   operation, resource and subresource
    kind    type of the object: that of the subresource's body for scales, bindings, evictions and tokens
    object  new object in its internal form; None for DELETE and CONNECT. It shares nothing with stored objects
    old_object  stored object, never edited; None for CREATE and CONNECT
    options  parameters of the request, such as {"kind": "CreateOptions", …, "dryRun": ["All"]}; {} for CONNECT
    user    who asks, as in UserInfo: {"username": …, "groups": […]}
    version API version of the resource, as in the path
    """

    point: Point
    kind: GroupVersionKind
    namespace: str
    name: str
    object: Obj | None = None
    old_object: Obj | None = None
    options: Obj = field(default_factory=dict)
    dry_run: bool = False
    user: Obj = field(default_factory=dict)
    version: str = ""
    reinvocation: Reinvocation = field(default_factory=Reinvocation)

    @property
    def resource(self) -> GroupVersionResource:
        """Return the group, version and resource of the path."""
        return GroupVersionResource(self.point.group, self.version, self.point.resource)

    def forbidden(self, text: str) -> StatusError:
        """Return a 403 of a plugin for this request (`admission.NewForbidden`).

        An object without a name is called by its `generateName`, and `Unknown` if it has neither.
        """
        metadata = (self.object or {}).get("metadata") or {}
        name = self.name or metadata.get("name") or metadata.get("generateName") or "Unknown"
        return errors.forbidden(self.point.group, self.point.resource, name, text)

    @property
    def new(self) -> Obj:
        """Return the new object of a CREATE or UPDATE."""
        assert self.object is not None
        return self.object

    @property
    def old(self) -> Obj:
        """Return the stored object of an UPDATE or DELETE."""
        assert self.old_object is not None
        return self.old_object


class Plugin(Protocol):
    """Takes part in admission under a name that `--enable-admission-plugins` knows."""

    name: str

    def handles(self, point: Point) -> bool:
        """Report whether the plugin takes part in a kind of request."""


@runtime_checkable
class MutatingPlugin(Plugin, Protocol):
    """Edits new objects (`MutationInterface`)."""

    async def admit(self, attributes: Attributes, ctx: Context) -> None:
        """Edit `attributes.object` in place, before the strategy prepares it. Raises StatusError to refuse."""


@runtime_checkable
class ValidatingPlugin(Plugin, Protocol):
    """Refuses objects (`ValidationInterface`)."""

    async def validate(self, attributes: Attributes, ctx: Context) -> None:
        """Raise StatusError to refuse the request. The object has passed validation and is not edited any more."""


class Asked(NamedTuple):
    """A plugin by its name, and what it does in one step of admission."""

    name: str
    ask: Callable[[Attributes, Context], Awaitable[None]]


def _measured(plugins: Sequence[Asked], times: Round | None) -> Sequence[Asked]:
    """Return plugins that do the same, and note their times (`pluginHandlerWithMetrics`); as they are without any."""
    return plugins if times is None else [_measured_one(plugin, times) for plugin in plugins]


def _measured_one(plugin: Asked, times: Round) -> Asked:
    async def ask(attributes: Attributes, ctx: Context) -> None:
        begun = perf_counter()
        try:
            await plugin.ask(attributes, ctx)
        finally:
            times.seconds.append((plugin.name, perf_counter() - begun))

    return Asked(plugin.name, ask)


class Admission(NamedTuple):
    """Holds the plugins that handle one kind of request, in order.

    admitting, validation  count the requests of the operation
    waits                  whether a plugin waits for others outside
    """

    mutating: Sequence[Asked]
    validating: Sequence[Asked]
    admitting: Step
    validation: Step
    waits: bool

    @property
    def is_empty(self) -> bool:
        """Report whether no plugin has anything to do."""
        return not (self.mutating or self.validating)

    async def admit(self, attributes: Attributes, ctx: Context) -> None:
        """Let the plugins edit the object of a request, twice if one asks for it. Raises what a plugin raises."""
        if self.mutating and attributes.object is not None and attributes.old_object is not None:
            attributes.object = deep_copy(attributes.object)  # an updated object shares parts with the stored one
        times = self.admitting.begin(waits=self.waits)
        plugins = _measured(self.mutating, times)
        reinvocation = attributes.reinvocation
        try:
            for plugin in plugins:
                await plugin.ask(attributes, ctx)
            if reinvocation.needed:
                reinvocation.begun = True
                for plugin in plugins:
                    await plugin.ask(attributes, ctx)
        except StatusError as error:
            self.admitting.end(times, plugin.name, again=reinvocation.begun)
            error.by(f"admission plugin {plugin.name}")
            raise
        self.admitting.end(times, again=reinvocation.begun)

    async def validate(self, attributes: Attributes, ctx: Context) -> None:
        """Ask the plugins whether they refuse a request. Raises what the first of them raises."""
        times = self.validation.begin(waits=self.waits)
        plugins = _measured(self.validating, times)
        try:
            for plugin in plugins:
                await plugin.ask(attributes, ctx)
        except StatusError as error:
            self.validation.end(times, plugin.name)
            error.by(f"admission plugin {plugin.name}")
            raise
        self.validation.end(times)

    async def pass_over(self, *_: object) -> None:
        """Count a request for which no plugin has anything to do."""
        self.admitting.skipped += 1
        self.validation.skipped += 1


class Chain:
    """Finds the plugins that handle a request. `plugins` are those that are enabled, in the order they are asked.

    times  measures them, None where nobody wants to know
    """

    def __init__(self, plugins: Iterable[Plugin] = (), times: AdmissionTimes | None = None) -> None:
        self.plugins: Sequence[Plugin] = tuple(plugins)
        self._times = times or AdmissionTimes({plugin.name: Handler(EVERY_OPERATION, STEPS) for plugin in self.plugins})
        self._resolved: dict[Point, Admission] = {}

    def of(self, point: Point) -> Admission:
        """Return the plugins for a kind of request."""
        try:
            return self._resolved[point]
        except KeyError:
            admission = self._resolved[point] = self._resolve(point)
            return admission

    def forget(self) -> None:
        """Forget which plugins handle which requests, since one of them handles others than before."""
        self._resolved.clear()

    def _resolve(self, point: Point) -> Admission:
        plugins = [plugin for plugin in self.plugins if plugin.handles(point)]
        mutating = [Asked(plugin.name, plugin.admit) for plugin in plugins if isinstance(plugin, MutatingPlugin)]
        validating = [Asked(plugin.name, plugin.validate) for plugin in plugins if isinstance(plugin, ValidatingPlugin)]
        admitting, validation = (self._times.step(type_, point.operation) for type_ in (ADMIT, VALIDATE))
        waits = self._times.waits([plugin.name for plugin in plugins])
        return Admission(mutating, validating, admitting, validation, waits)
