"""LimitRanger: fill in requests and limits of containers, and keep pods and volume claims within limit ranges.

https://kubernetes.io/docs/concepts/policy/limit-range/
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping

from understudy.admission.chain import Attributes, Operation, Point
from understudy.kinds.context import Context
from understudy.kinds.core.pods.containers.pod_requests import Amounts, of_pod, parsed
from understudy.kinds.core.pods.containers_of import containers
from understudy.machinery import errors
from understudy.machinery.golang.text import aggregate
from understudy.machinery.quantity import Quantity, parse
from understudy.machinery.releases import features
from understudy.machinery.types import Obj

ANNOTATION = "kubernetes.io/limit-ranger"
_MAX_MILLI = (2**63 - 1) // 1000  # larger amounts are compared in whole units
_NONE = parse("0")


class LimitRanger:
    """Fills in requests and limits of containers, and refuses pods and claims outside the bounds."""

    name = "LimitRanger"

    def handles(self, point: Point) -> bool:
        created = (Operation.CREATE, "", "pods", ""), (Operation.CREATE, "", "persistentvolumeclaims", "")
        return point[:4] in (*created, (Operation.UPDATE, "", "persistentvolumeclaims", ""))

    async def admit(self, attributes: Attributes, ctx: Context) -> None:
        """Give the containers of a new pod the defaults of the namespace."""
        if attributes.point.resource == "pods":
            _fill(attributes.new, _ranges(attributes, ctx))

    async def validate(self, attributes: Attributes, ctx: Context) -> None:
        """Raise 403 with every violation of a limit range. Claims that are being deleted are not checked."""
        if attributes.old_object is not None and "deletionTimestamp" in attributes.old_object["metadata"]:
            return
        for limit_range in _ranges(attributes, ctx):
            spec = attributes.new["spec"]
            if attributes.point.resource == "pods":
                texts = [text for item in _limits(limit_range) for text in _pod_texts(spec, item, ctx)]
            else:
                texts = _claim_texts(spec, limit_range)
            if texts:
                why = aggregate(texts)
                raise errors.admission_forbidden("", attributes.point.resource, attributes.new["metadata"], why)


def _ranges(attributes: Attributes, ctx: Context) -> list[Obj]:
    return list(ctx.listing("", "limitranges", attributes.namespace))


def _fill(pod: Obj, ranges: Iterable[Obj]) -> None:
    """Add the default requests and limits of a namespace to containers (`mergePodResourceRequirements`).

    An annotation of the pod lists the changes.
    """
    for limit_range in ranges:
        items = [item for item in _limits(limit_range) if item.get("type") == "Container"]
        defaults = {
            "requests": {name: text for item in items for name, text in (item.get("defaultRequest") or {}).items()},
            "limits": {name: text for item in items for name, text in (item.get("default") or {}).items()},
        }
        changes = [
            f"{', '.join(names)} {which.removesuffix('s')} for {called} {container.get('name', '')}"
            for kind, called in (("containers", "container"), ("initContainers", "init container"))
            for container in containers(pod["spec"], kind)
            for which, values in defaults.items()
            if (names := _complete(container, which, values))
        ]
        if changes:
            annotations = pod["metadata"].get("annotations") or {}
            text = f"LimitRanger plugin set: {'; '.join(changes)}"
            pod["metadata"]["annotations"] = dict(sorted({**annotations, ANNOTATION: text}.items()))


def _complete(container: Obj, kind: str, defaults: dict[str, str]) -> list[str]:
    """Add the missing entries to a container's requests or limits, and return the names added.

    kind    "requests" or "limits"
    defaults  {resource: quantity}
    """
    resources = container.get("resources") or {}
    stated = resources.get(kind) or {}
    names = sorted(defaults.keys() - stated.keys())
    if names:
        container["resources"] = {**resources, kind: dict(sorted({**defaults, **stated}.items()))}
    return names


def _claim_texts(spec: Obj, limit_range: Obj) -> list[str]:
    """Return the error messages of a volume claim that a limit range does not allow."""
    requests = parsed((spec.get("resources") or {}).get("requests"))
    items = [item for item in _limits(limit_range) if item.get("type") == "PersistentVolumeClaim"]
    return [text for item in items for text in _texts(item, _OF_CLAIMS, requests, {})]


def _limits(limit_range: Obj) -> list[Obj]:
    return limit_range["spec"].get("limits") or []


def _pod_texts(spec: Obj, item: Obj, ctx: Context) -> Iterator[str]:
    """Yield the error messages of a pod that one item of a limit range does not allow."""
    kind = item.get("type", "")
    if kind == "Container":
        for container in containers(spec, "containers", "initContainers"):
            resources = container.get("resources") or {}
            stated = parsed(resources.get("requests")), parsed(resources.get("limits"))
            yield from _texts(item, _OF_PODS, *stated)
    elif kind == "Pod":
        of_whole = _OF_WHOLE if ctx.gates[features.POD_LEVEL_RESOURCES] else ()
        total = (of_pod(spec, which, parsed, of_whole.__contains__) for which in ("requests", "limits"))
        yield from _texts(item, _OF_PODS, *total)


def _texts(item: Obj, rules: Mapping[str, Rule], requests: Amounts, limits: Amounts) -> Iterator[str]:
    """Yield the error messages of requests and limits outside the bounds of one item of a limit range."""
    for name, rule in rules.items():
        for resource, bound in sorted(parsed(item.get(name)).items()):
            why = rule(bound, requests.get(resource), limits.get(resource))
            if why:
                yield why.format(resource=resource, kind=item["type"], bound=bound)


_OF_WHOLE = ("cpu", "memory")  # what a pod may set as a whole; quotas and the scheduler count its huge pages, too
# Takes (bound, request, limit); returns the error message with {resource}, {kind} and {bound} to fill in, "" if none.
Rule = Callable[[Quantity, Quantity | None, Quantity | None], str]
_LEAST, _MOST = (f"{which}imum {{resource}} usage per {{kind}} is {{bound}}" for which in ("min", "max"))
_RATIO = "{resource} max limit to request ratio per {kind} is {bound}"


def _comparable(*amounts: Quantity | None) -> list[int]:
    """Return amounts as integers in one unit: thousandths, or wholes if one is too large for thousandths; None is 0."""
    values = [_NONE if amount is None else amount for amount in amounts]
    wholes = [amount.scaled(0) for amount in values]
    return wholes if max(wholes) > _MAX_MILLI else [amount.scaled(-3) for amount in values]


def _at_least(bound: Quantity, request: Quantity | None, limit: Quantity | None) -> str:
    """Return the error message of a request or limit below the minimum, "" if there is none (`minConstraint`)."""
    least, requested, limited = _comparable(bound, request, limit)
    if request is None:
        return f"{_LEAST}.  No request is specified"
    if requested < least:
        return f"{_LEAST}, but request is {request}"
    return f"{_LEAST}, but limit is {limit}" if limit is not None and limited < least else ""


def _at_most(bound: Quantity, request: Quantity | None, limit: Quantity | None) -> str:
    """Return the error message of a request or limit above the maximum, "" if there is none (`maxConstraint`)."""
    most, requested, limited = _comparable(bound, request, limit)
    if limit is None:
        return f"{_MOST}.  No limit is specified"
    if limited > most:
        return f"{_MOST}, but limit is {limit}"
    return f"{_MOST}, but request is {request}" if request is not None and requested > most else ""


def _request_at_most(bound: Quantity, request: Quantity | None, limit: Quantity | None) -> str:
    """Return the error message of a request above the maximum, "" if there is none (`maxRequestConstraint`)."""
    most, requested = _comparable(bound, request)
    if request is None:
        return f"{_MOST}.  No request is specified"
    return f"{_MOST}, but request is {request}" if requested > most else ""


def _in_proportion(bound: Quantity, request: Quantity | None, limit: Quantity | None) -> str:
    """Return the error message of a limit too far above its request, "" if there is none.

    Upstream: `limitRequestRatioConstraint`.
    """
    _, requested, limited = _comparable(bound, request, limit)
    if not requested:
        return f"{_RATIO}, but no request is specified or request is 0"
    if not limited:
        return f"{_RATIO}, but no limit is specified or limit is 0"
    ratio = limited / requested
    fine = bound.scaled(0) <= _MAX_MILLI
    most, scaled = (bound.scaled(-3), ratio * 1000) if fine else (bound.scaled(0), ratio)
    return f"{_RATIO}, but provided ratio is {ratio:f}" if scaled > most else ""


_OF_PODS: Mapping[str, Rule] = {"min": _at_least, "max": _at_most, "maxLimitRequestRatio": _in_proportion}
# Claims have no limits: the maximum bounds their request.
_OF_CLAIMS: Mapping[str, Rule] = {"min": _at_least, "max": _request_at_most}
