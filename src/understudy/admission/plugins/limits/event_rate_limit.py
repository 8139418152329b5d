"""EventRateLimit: refuse events that come too fast, by namespace, user, source and object, or all of them."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable, Iterator, Sequence
from dataclasses import field

from understudy.admission.chain import Attributes, Operation, Point
from understudy.kinds.context import Context
from understudy.machinery.errors import StatusError
from understudy.machinery.golang.text import aggregate
from understudy.machinery.releases.version import Version
from understudy.machinery.serializer.configuration import TYPE_META, ConfigurationTypes, decode_named
from understudy.machinery.typeinfo.scheme import scheme_name
from understudy.machinery.types import Obj, dataclass
from understudy.machinery.util.rate_limit import TokenBucket
from understudy.machinery.validation.bad_values import Typed
from understudy.machinery.validation.field import FieldError, Path, invalid, not_supported

DEFAULT_SIZE = 4096  # keys whose buckets are remembered

_PACKAGE = "k8s.io/kubernetes/plugin/pkg/admission/eventratelimit/apis/eventratelimit/v1alpha1"
_TYPES = ConfigurationTypes(
    {"eventratelimit.admission.k8s.io/v1alpha1/Configuration": f"{_PACKAGE}.Configuration"},
    {
        f"{_PACKAGE}.Configuration": [TYPE_META, ["Limits", "limits", "", f"[]{_PACKAGE}.Limit", 0]],
        f"{_PACKAGE}.Limit": [
            ["Type", "type", "", "string", 0],
            ["QPS", "qps", "", "int32", 0],
            ["Burst", "burst", "", "int32", 0],
            ["CacheSize", "cacheSize", "o", "int32", 0],
        ],
    },
)


def _source_and_object(attributes: Attributes) -> str:
    event = attributes.new
    source, involved = (event.get(name) or {} for name in ("source", "involvedObject"))
    named = [involved.get(name, "") for name in ("kind", "namespace", "name", "uid", "apiVersion")]
    return "".join((source.get("component", ""), source.get("host", ""), *named))


# What the events that share a bucket have in common, by the types of limits.
_KEYS: dict[str, Callable[[Attributes], str]] = {
    "Server": lambda attributes: "",
    "Namespace": lambda attributes: attributes.namespace,
    "User": lambda attributes: str(attributes.user.get("username", "")),
    "SourceAndObject": _source_and_object,
}


@dataclass(slots=True)
class Limit:
    """A limit of one type.

    buckets  count the events by their keys; the key that was asked for last is the last one
    """

    type: str
    per_second: int
    burst: int
    size: int = DEFAULT_SIZE
    buckets: OrderedDict[str, TokenBucket] = field(default_factory=OrderedDict)

    def accepts(self, key: str, now: Callable[[], float]) -> bool:
        """Report whether an event with a key may come now, and count it if so; `now` returns the time in seconds."""
        bucket = self.buckets.pop(key, None) or TokenBucket(self.per_second, self.burst, now)
        self.buckets[key] = bucket
        if len(self.buckets) > self.size:
            self.buckets.popitem(last=False)
        return bucket.try_accept()


@dataclass(frozen=True, slots=True)
class EventLimits:
    """The limits of a configuration, which count events for all requests of a server."""

    limits: Sequence[Limit] = ()


def read_event_limits(data: bytes | None, version: Version) -> EventLimits:
    """Return the limits of a configuration, which must have some. Raises ValueError."""
    obj: Obj = {}
    if data is not None:
        _, obj = decode_named(data, _TYPES.find, scheme_name(version, "eventratelimit"), strict=False)
    if wrong := [error.text(version) for error in _wrong(obj)]:
        raise ValueError(aggregate(wrong))
    return EventLimits(
        [
            Limit(each["type"], each["qps"], each["burst"], each.get("cacheSize") or DEFAULT_SIZE)
            for each in obj["limits"]
        ]
    )


def _wrong(obj: Obj) -> Iterator[FieldError]:
    """Yield the errors of a configuration (`ValidateConfiguration`)."""
    path, limits = Path("limits"), obj.get("limits") or ()
    if not limits:
        yield invalid(path, Typed.of_field(obj, "limits", "[]eventratelimit.Limit"), "must not be empty")
    for i, limit in enumerate(limits):
        kind = limit.get("type", "")
        if kind not in _KEYS:
            yield not_supported(path.index(i).child("type"), kind, sorted(_KEYS))
        for name in ("burst", "qps"):
            if (number := limit.get(name, 0)) <= 0:
                yield invalid(path.index(i).child(name), number, "must be positive")
        if kind != "Server" and (size := limit.get("cacheSize", 0)) < 0:
            yield invalid(path.index(i).child("cacheSize"), size, "must not be negative")


class EventRateLimit:
    """Refuses events of the core API beyond some limits. `now` returns the time in seconds."""

    name = "EventRateLimit"

    def __init__(self, limits: EventLimits, now: Callable[[], float]) -> None:
        self._limits = limits.limits
        self._now = now

    def handles(self, point: Point) -> bool:
        return point[1:4] == ("", "events", "") and point.operation in (Operation.CREATE, Operation.UPDATE)

    async def validate(self, attributes: Attributes, ctx: Context) -> None:
        """Raise 429 for an event that exceeds a limit; all limits count it."""
        if attributes.dry_run:
            return
        keys = [(limit, _KEYS[limit.type](attributes)) for limit in self._limits]
        reached = [(limit, key) for limit, key in keys if not limit.accepts(key, self._now)]
        if reached:
            texts = [f"limit reached on type {limit.type} for key {key}" for limit, key in reached]
            raise StatusError(429, "TooManyRequests", f"Too many requests: {aggregate(texts)}")
