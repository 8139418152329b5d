"""The AllocationResults of a search: devices, configuration and node selector (upstream: `Allocate`)."""

from __future__ import annotations

from collections.abc import Container, Iterator, Sequence

from understudy.controlplane.allocator.errors import AllocationError
from understudy.controlplane.allocator.inventory import Slice
from understudy.controlplane.allocator.pools import Pool
from understudy.controlplane.allocator.requests import Request
from understudy.controlplane.allocator.rules import Variant
from understudy.controlplane.allocator.search import Allocated, Search
from understudy.machinery.types import Obj


def allocation_results(search: Search, node: Obj) -> list[Obj]:
    """Return the AllocationResult of each claim of a search that found devices. Raises AllocationError."""
    return [_allocation_result(search, index, node) for index in range(len(search.claims))]


def _allocation_result(search: Search, index: int, node: Obj) -> Obj:
    data, allocated = search.claims[index], search.results[index]
    devices: Obj = {"results": [_device_result(search, taken) for taken in allocated]}
    picked = [requests[search.picked.get((index, at), 0)] for at, requests in enumerate(data.requests)]
    configuration = [*_of_classes(search, picked), *_of_claim(search, picked, data.claim)]
    if search.rules.shortens_config:
        configuration = [_for_all(config, picked) for config in configuration]
    if configuration:
        devices["config"] = configuration
    result: Obj = {"devices": devices}
    try:
        selector = _node_selector(search, allocated, node)
    except _UnsupportedSelectorError as error:
        name = data.claim["metadata"].get("name", "")
        raise AllocationError(f"create NodeSelector for claim {name}: {error}") from None
    if selector:
        result["nodeSelector"] = selector
    return result


def _device_result(search: Search, taken: Allocated) -> Obj:
    rules, device, request = search.rules, taken.device, taken.request
    result: Obj = {
        "request": request.full_name,
        "driver": device.slice.driver,
        "pool": device.slice.pool_name,
        "device": device.name,
    }
    if request.admin_access and rules.admin_in_results:
        result["adminAccess"] = True
    if rules.tolerations and request.tolerations:
        result["tolerations"] = list(request.tolerations)
    if rules.knows_capacity and rules.binding_conditions_in_results:
        for name in ("bindingConditions", "bindingFailureConditions"):
            if device.spec.get(name):
                result[name] = device.spec[name]
    if device.slice.skipped_operations and rules.variant is Variant.EXPERIMENTAL:
        result["skipNodeOperations"] = device.slice.skipped_operations
    if taken.share_id is not None:
        result["shareID"] = taken.share_id
    if taken.consumed:
        result["consumedCapacity"] = {name: str(amount) for name, amount in sorted(taken.consumed.items())}
    return result


# --- configuration ----------------------------------------------------------------------------------------------------


def _of_classes(search: Search, picked: Sequence[Request]) -> Iterator[Obj]:
    """Yield the configuration of the classes; from 1.34 on once per class, with the requests that it is for."""
    merged = search.rules.merges_class_config
    users: dict[str, list[Request]] = {}
    for request in picked:
        users.setdefault(request.class_["metadata"].get("name", ""), []).append(request)
    for requests in users.values() if merged else ([request] for request in picked):
        for config in (requests[0].class_.get("spec") or {}).get("config") or ():
            names = {"requests": [request.full_name for request in requests]} if merged else {}
            yield {"source": "FromClass", **names, **config}


def _of_claim(search: Search, picked: Sequence[Request], claim: Obj) -> Iterator[Obj]:
    """Yield the configuration of a claim; from 1.33 on for each picked request that it names."""
    for config in ((claim.get("spec") or {}).get("devices") or {}).get("config") or ():
        names = config.get("requests")
        if not names or not search.rules.picks_claim_config:
            yield {"source": "FromClaim", **config}
            continue
        for request in picked:
            if _is_named(request, names):
                yield {"source": "FromClaim", **config}
                if search.rules.shortens_config:
                    break


def _for_all(config: Obj, picked: Sequence[Request]) -> Obj:
    """Return a configuration without the names of requests if all are named: that means the same."""
    if all(_is_named(request, config.get("requests") or ()) for request in picked):
        return {name: value for name, value in config.items() if name != "requests"}
    return config


def _is_named(request: Request, names: Container[str]) -> bool:
    """Report whether a request is among names: by its own or, for a subrequest, by that of its request."""
    return request.base_name in names or request.full_name in names


# --- node selector ----------------------------------------------------------------------------------------------------


class _UnsupportedSelectorError(Exception):
    """A node selector that cannot be joined with others."""


def _node_selector(search: Search, allocated: Sequence[Allocated], node: Obj) -> Obj | None:
    """Return the selector of the nodes that can use all devices, None for all (upstream: `createNodeSelector`)."""
    fields: list[Obj] = []
    expressions: list[Obj] = []
    for taken in allocated:
        device = taken.device
        slice_ = device.slice
        if search.rules.first_of_name:
            slice_ = _first_of_name(search.pools.by_id[slice_.pool], device.name)
        node_name = device.spec.get("nodeName") if slice_.per_device else slice_.node_name
        selector = device.spec.get("nodeSelector") if slice_.per_device else slice_.node_selector
        if node_name or (search.rules.knows_capacity and device.spec.get("bindsToNode")):
            name = {"key": "metadata.name", "operator": "In", "values": [node["metadata"].get("name", "")]}
            return {"nodeSelectorTerms": [{"matchFields": [name]}]}
        terms = (selector or {}).get("nodeSelectorTerms") or ()
        if len(terms) > 1:
            raise _UnsupportedSelectorError(f"unsupported ResourceSlice.NodeSelector with {len(terms)} terms")
        for term in terms:
            _add_new(fields, term.get("matchFields") or ())
            _add_new(expressions, term.get("matchExpressions") or ())
    term = {**({"matchExpressions": expressions} if expressions else {}), **({"matchFields": fields} if fields else {})}
    return {"nodeSelectorTerms": [term]} if term else None


def _first_of_name(pool: Pool, name: str) -> Slice:
    """Return the first slice of a pool that has a device of a name (1.31: `findSlice`)."""
    return next(slice_ for slice_ in pool.slices if any(device.name == name for device in slice_.devices))


def _add_new(requirements: list[Obj], more: Sequence[Obj]) -> None:
    """Add the requirements that are not there yet; values are compared as sets."""
    for requirement in more:
        if not any(_same(requirement, known) for known in requirements):
            requirements.append(requirement)


def _same(a: Obj, b: Obj) -> bool:
    values = [set(requirement.get("values") or ()) for requirement in (a, b)]
    return a["key"] == b["key"] and a["operator"] == b["operator"] and values[0] == values[1]
