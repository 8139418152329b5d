"""PodTolerationRestriction: add the tolerations of a namespace to its pods, and keep them to those that it may have."""

from __future__ import annotations

from collections.abc import Sequence

from understudy.admission.chain import Attributes, Operation, Point
from understudy.kinds.context import Context
from understudy.kinds.core.pods.qos import qos_class
from understudy.kinds.core.pods.validation.scheduling import tolerations
from understudy.machinery import errors
from understudy.machinery.patch import patch_body
from understudy.machinery.releases.version import Version
from understudy.machinery.serializer.configuration import TYPE_META, ConfigurationTypes, decode_named
from understudy.machinery.serializer.json import DecodeError, decode_value
from understudy.machinery.typeinfo.scheme import scheme_name
from understudy.machinery.types import NamedTuple, Obj, nested_field
from understudy.machinery.validation.field import Path

_DEFAULTS = "scheduler.alpha.kubernetes.io/defaultTolerations"
_WHITELIST = "scheduler.alpha.kubernetes.io/tolerationsWhitelist"
_MEMORY_PRESSURE = {"key": "node.kubernetes.io/memory-pressure", "operator": "Exists", "effect": "NoSchedule"}

_PACKAGE = "k8s.io/kubernetes/plugin/pkg/admission/podtolerationrestriction/apis/podtolerationrestriction/v1alpha1"
_TOLERATION = "k8s.io/api/core/v1.Toleration"
_TYPES = ConfigurationTypes(
    {"podtolerationrestriction.admission.k8s.io/v1alpha1/Configuration": f"{_PACKAGE}.Configuration"},
    {
        f"{_PACKAGE}.Configuration": [
            TYPE_META,
            ["Default", "default", "o", f"[]{_TOLERATION}", 0],
            ["Whitelist", "whitelist", "o", f"[]{_TOLERATION}", 0],
        ],
        _TOLERATION: [
            ["Key", "key", "o", "string", 1],
            ["Operator", "operator", "o", "string", 2],
            ["Value", "value", "o", "string", 3],
            ["Effect", "effect", "o", "string", 4],
            ["TolerationSeconds", "tolerationSeconds", "o", "*int64", 5],
        ],
    },
)
_FIELDS = {name.lower(): name for name in ("key", "operator", "value", "effect", "tolerationSeconds")}


class TolerationConfiguration(NamedTuple):
    """The tolerations that pods get, and those that they may have, where their namespace does not say which."""

    default: Sequence[Obj] = ()
    whitelist: Sequence[Obj] = ()


def read_tolerations(data: bytes | None, version: Version) -> TolerationConfiguration:
    """Return the configuration of some bytes. Raises ValueError."""
    if data is None:
        return TolerationConfiguration()
    _, obj = decode_named(data, _TYPES.find, scheme_name(version, "podtolerationrestriction"), strict=False)
    path, lists = Path("podtolerationrestriction"), [obj.get(name) or [] for name in ("default", "whitelist")]
    wrong = [
        error.text(version)
        for name, items in zip(("default", "whitelist"), lists, strict=True)
        for error in tolerations(items, path.child(name), version)
    ]
    if wrong:
        raise ValueError(f"invalid config: [{' '.join(wrong)}]")
    return TolerationConfiguration(*lists)


class PodTolerationRestriction:
    """Gives pods the tolerations of their namespace, and refuses those that the namespace does not allow."""

    name = "PodTolerationRestriction"

    def __init__(self, configuration: TolerationConfiguration) -> None:
        self._configuration = configuration

    def handles(self, point: Point) -> bool:
        return point[1:4] == ("", "pods", "") and point.operation in (Operation.CREATE, Operation.UPDATE)

    async def admit(self, attributes: Attributes, ctx: Context) -> None:
        """Add the tolerations of the namespace to a new pod, and that of memory pressure to one that asks for a share.

        Raises as `validate`.
        """
        pod, more = attributes.new, list[Obj]()
        if attributes.point.operation == Operation.CREATE:
            own = _tolerations_of(attributes.namespace, _DEFAULTS, ctx)
            more += self._configuration.default if own is None else own
        if (nested_field(pod, "status", "qosClass") or qos_class(pod, ctx.gates)) != "BestEffort":
            more.append(_MEMORY_PRESSURE)
        if more:
            pod["spec"]["tolerations"] = _merged([*(pod["spec"].get("tolerations") or ()), *more])
        await self.validate(attributes, ctx)

    async def validate(self, attributes: Attributes, ctx: Context) -> None:
        """Raise 500, as kube-apiserver does, for a toleration that is not allowed, and for wrong annotations."""
        items = attributes.new["spec"].get("tolerations") or ()
        if not items:
            return
        own = _tolerations_of(attributes.namespace, _WHITELIST, ctx)
        allowed, scope = (self._configuration.whitelist, "cluster") if own is None else (own, "namespace")
        if allowed and not all(any(_includes(each, item) for each in allowed) for item in items):
            what = "pod tolerations (possibly merged with namespace default tolerations)"
            raise errors.unknown_error(f"{what} conflict with its {scope} whitelist")


def _tolerations_of(namespace: str, annotation: str, ctx: Context) -> list[Obj] | None:
    """Return the tolerations in an annotation of a namespace, None without it. Raises 404, 500."""
    stored = ctx.lookup("", "namespaces", "", namespace)
    if stored is None:
        raise errors.not_found("", "namespaces", namespace)
    text = nested_field(stored, "metadata", "annotations", annotation)
    if not text:
        return None if text is None else []
    try:
        return _parsed(text)
    except DecodeError as error:
        raise errors.unknown_error(str(error)) from None


def _parsed(text: str) -> list[Obj]:
    """Return the tolerations in a JSON list, whose field names match in any case. Raises DecodeError."""
    items = patch_body.loads(text.encode())[0]
    if items is None:
        return []
    if not isinstance(items, list):
        kind = patch_body.kind_of(items)
        raise DecodeError(f"json: cannot unmarshal {kind} into Go value of type []v1.Toleration")
    struct = _TYPES.struct(_TOLERATION)
    return [decode_value(_with_field_names(item), struct)[0] for item in items]


def _with_field_names(item: object) -> object:
    return {_FIELDS.get(name.lower(), name): value for name, value in item.items()} if isinstance(item, dict) else item


def _merged(items: Sequence[Obj]) -> list[Obj]:
    """Return tolerations without those that another one includes (`MergeTolerations`)."""
    merged: list[Obj] = []
    for i, item in enumerate(items):
        later = (other for other in items[i + 1 :] if other != item)
        if not any(_includes(other, item) for other in merged) and not any(_includes(other, item) for other in later):
            merged.append(item)
    return merged


def _includes(wide: Obj, narrow: Obj) -> bool:
    """Report whether a toleration tolerates all that another one does (`isSuperset`)."""
    if wide == narrow:
        return True
    operator: str = wide.get("operator", "")
    effect: str = wide.get("effect", "")
    if narrow.get("key", "") != wide.get("key", "") and (wide.get("key", "") or operator != "Exists"):
        return False
    if effect and narrow.get("effect", "") != effect:
        return False
    seconds, most = narrow.get("tolerationSeconds"), wide.get("tolerationSeconds")
    if effect == "NoExecute" and most is not None and (seconds is None or seconds > most):
        return False
    if operator in ("Equal", ""):
        return (narrow.get("operator"), narrow.get("value", "")) == ("Equal", wide.get("value", ""))
    return operator == "Exists"
