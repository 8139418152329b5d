"""Keeps the flow schemas and priority levels that every server holds.

Source: k8s.io/kubernetes/pkg/registry/flowcontrol/ensurer.

Each that is missing is made again. `exempt` and `catch-all` are mandatory: their specs are set back. The others are
suggested: their specs are set back unless the annotation, or a generation other than 1, says that a user changed them.
"""

from __future__ import annotations

import logging
from collections.abc import Awaitable, Callable

from understudy.apiserver.client.loopback import Client
from understudy.apiserver.encoding.conversion import from_internal
from understudy.apiserver.endpoints.requestinfo import resource_path
from understudy.apiserver.endpoints.server_state import ServerState
from understudy.apiserver.server.bootstrap.initial_objects import initial_objects
from understudy.machinery.errors import StatusError
from understudy.machinery.golang.text import parse_bool
from understudy.machinery.types import Obj, nested_field, split_api_version

GROUP = "flowcontrol.apiserver.k8s.io"
INTERVAL = 60.0  # seconds
AUTO_UPDATE = "apf.kubernetes.io/autoupdate-spec"
MANAGER = {"fieldManager": "api-priority-and-fairness-config-producer-v1"}
_MANDATORY = ("exempt", "catch-all")
_RESOURCES = {"PriorityLevelConfiguration": "prioritylevelconfigurations", "FlowSchema": "flowschemas"}

log = logging.getLogger(__name__)


async def ensure_periodically(client: Client, state: ServerState, sleep: Callable[[float], Awaitable[None]]) -> None:
    """Ensure once a minute that flow schemas and priority levels are as they have to be.

    Upstream: `ensureAPFBootstrapConfiguration`. Runs until it is cancelled; `sleep` waits for seconds.
    """
    while True:
        await sleep(INTERVAL)
        try:
            await _ensure(client, state, _bootstrap(state))
        except StatusError as why:
            log.error("flow schemas and priority levels are ensured again in a minute: %s", why)


def _bootstrap(state: ServerState) -> list[Obj]:
    """Return the objects as they have to be, the suggested ones first. They are made anew: nobody keeps them."""
    objects = initial_objects(state.release, state.gates, state.timestamp(), 0)
    bootstrap = [obj for obj in objects if split_api_version(obj["apiVersion"])[0] == GROUP]
    return sorted(bootstrap, key=lambda obj: (obj["metadata"]["name"] in _MANDATORY, obj["kind"] == "FlowSchema"))


async def _ensure(client: Client, state: ServerState, bootstrap: list[Obj]) -> None:
    """Make what is missing, set back what differs, and delete what no longer belongs to it. Raises StatusError."""
    stored = {kind: _stored(state, kind) for kind in {obj["kind"]: None for obj in bootstrap}}
    for obj in bootstrap:
        current = stored[obj["kind"]].pop(obj["metadata"]["name"], None)
        if current is None:
            metadata = {key: obj["metadata"][key] for key in ("name", "annotations")}
            head = {"apiVersion": obj["apiVersion"], "kind": obj["kind"], "metadata": metadata}
            await client.create(_path(obj["kind"]), {**head, "spec": obj["spec"]}, MANAGER)
        elif (revised := _revised(current, obj)) is not None:
            await client.update(_path(obj["kind"], obj["metadata"]["name"]), revised, MANAGER)
    for kind, others in stored.items():
        for name, other in others.items():
            if _annotation(other) is True:
                await client.delete(_path(kind, name))


def _path(kind: str, name: str = "") -> str:
    return resource_path(GROUP, "v1", _RESOURCES[kind], "", name)


def _stored(state: ServerState, name: str) -> dict[str, Obj]:
    """Return the stored objects of a kind by name. The real server reads its cache, too, so that no request counts."""
    kind = state.release.kind(GROUP, name)
    assert kind is not None
    objects = state.registry.listing(GROUP, _RESOURCES[name])
    return {obj["metadata"]["name"]: from_internal(kind, "v1", obj) for obj in objects}


def _annotation(obj: Obj) -> bool | None:
    """Return the value of the annotation that says whether the spec is set back, None for any other text."""
    text = nested_field(obj, "metadata", "annotations", AUTO_UPDATE, default="")
    return parse_bool(text)


def _revised(current: Obj, bootstrap: Obj) -> Obj | None:
    """Return a stored object as it has to be, None if it is so (`ReviseIfNeeded`)."""
    metadata, annotation = current["metadata"], _annotation(current)
    updates = metadata.get("generation") == 1 if annotation is None else annotation
    updates = updates or metadata["name"] in _MANDATORY
    replaces = updates and current["spec"] != _expected_spec(bootstrap, current)
    if annotation is updates and not replaces:
        return None
    annotations = {**(metadata.get("annotations") or {}), AUTO_UPDATE: "true" if updates else "false"}
    spec = bootstrap["spec"] if replaces else current["spec"]
    return {**current, "metadata": {**metadata, "annotations": annotations}, "spec": spec}


def _expected_spec(bootstrap: Obj, current: Obj) -> Obj:
    """Return the spec that an object has to have; users may set the shares of the level `exempt`."""
    spec: Obj = bootstrap["spec"]
    if "exempt" not in spec or "exempt" not in current["spec"]:
        return spec
    return {**spec, "exempt": current["spec"]["exempt"]}
