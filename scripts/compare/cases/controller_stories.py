"""Stories about pods and claims, told to an API server, and what controllers make of them.

A story is a list of steps, each in the namespace of the story's name. A step ends when the objects have come to rest,
or when they are what they have to become, if that is known:

    create  an object; `apiVersion` and `namespace` are filled in
    status  {kind, name, status}: a merge patch of the status
    patch   {kind, name, patch}: a merge patch
    delete  {kind, name}
    wait    seconds, or "rule" for the time after which the status of a DeviceTaintRule is written again
    await   a kind, until there is such an object: a controller tries again after pauses of different length

What comes between a step and the end of the waiting behind it may differ.

A story that is `alone` is told before all others are told at once: a controller does something the first time only.
Texts may be `$uid Pod/p`, the uid of an object, and `$claim p/gpu`, the name of the claim of a pod's entry.
"""

from __future__ import annotations

import asyncio
import json
import time
from collections.abc import Mapping, Sequence
from hashlib import sha256
from pathlib import Path
from typing import Any

from understudy.controlplane.client.api_client import APIClient
from understudy.controlplane.client.resources import EVENTS, NAMESPACES, PODS, Resource, pod_groups
from understudy.machinery.golang.yaml_reader import load_yaml
from understudy.machinery.releases.version import V1_31, V1_32, V1_33, V1_37, ByRelease, Version
from understudy.machinery.types import Obj, nested_field

STORIES = Path(__file__).parents[3] / "fixtures" / "controllers"
GROUP = "resource.k8s.io"
# The version in which the stories write claims, templates and slices: all that have it write them the same.
VERSION = ByRelease({V1_31: "v1alpha3", V1_32: "v1beta1"})
# The versions of rules, which the releases before 1.36 have only in this one, and of groups.
RULES = ByRelease({V1_37: "v1", V1_31: "v1alpha3"})
CONTEXTS = Resource(GROUP, "v1alpha3", "podschedulingcontexts", "PodSchedulingContext")
# What differs from one run to the next and means nothing.
TIMES = {"creationTimestamp", "time", "lastTransitionTime", "firstTimestamp", "lastTimestamp", "eventTime", "startTime"}
DROPPED = TIMES | {"resourceVersion", "count"}
KEPT_TIMES = {"deletionTimestamp", "timeAdded"}
LONGEST_TIMES = 40  # as long as objects have to rest, a step may take to come to rest
GOAL_REST = 0.2  # seconds without a change when objects are what they have to become: the controllers see it as well
PATIENCE = 15.0  # seconds without a change after which objects are no longer expected to become that
LONGEST_PAUSE = 30.0  # seconds that a controller may take to try again
Tellings = dict[str, list[list[Obj]]]  # by story, the objects at the end of each step


def read_stories(version: Version, file: str) -> list[Obj]:
    """Return the stories of a file, `claims.yaml` for example, that a release can tell."""
    documents = [document.value for document in load_yaml((STORIES / file).read_text())]
    return [
        story
        for story in documents
        if Version.parse(story.get("since", "1.31")) <= version <= Version.parse(story.get("until", "1.99"))
    ]


async def tell(
    client: APIClient,
    version: Version,
    stories: list[Obj],
    rest: float,
    rule_period: float,
    goals: Mapping[str, Sequence[str]] | None = None,
) -> Tellings:
    """Tell stories; return the objects at the end of each step.

    rest         seconds without a change after which objects are at rest
    rule_period  seconds after which the status of a DeviceTaintRule is written again
    goals        by story, the digests of the objects that are expected at the end of each step
    """

    async def told(story: Obj) -> tuple[str, list[list[Obj]]]:
        name = story["story"]
        return name, await _Teller(client, version, story, rest, rule_period).tell((goals or {}).get(name, ()))

    first = [await told(story) for story in stories if is_alone(story)]
    others = await asyncio.gather(*(told(story) for story in stories if not is_alone(story)))
    return dict([*first, *others])


def digest(objects: list[Obj]) -> str:
    """Return a text that is the same for the same objects."""
    return sha256(json.dumps(objects, sort_keys=True).encode()).hexdigest()[:16]


def resources_of(version: Version) -> dict[str, Resource]:
    """Return the resources of a release that stories are about, by kind."""
    api_version = VERSION[version]
    made = [
        Resource(GROUP, api_version, "resourceclaims", "ResourceClaim"),
        Resource(GROUP, api_version, "resourceclaimtemplates", "ResourceClaimTemplate"),
        Resource(GROUP, api_version, "resourceslices", "ResourceSlice", namespaced=False),
        Resource(GROUP, RULES[version], "devicetaintrules", "DeviceTaintRule", namespaced=False),
        pod_groups(version),
    ]
    return {resource.kind: resource for resource in (PODS, *made)}


def is_alone(story: Obj) -> bool:
    """Report whether a story is told before all others."""
    return bool(story.get("alone"))


def _with_waits(steps: list[Obj]) -> list[list[Obj]]:
    """Return the steps of a story, each with the waiting that belongs to it."""
    joined: list[list[Obj]] = []
    for step in steps:
        if step.keys() & {"wait", "await"} and joined:
            joined[-1].append(step)
        else:
            joined.append([step])
    return joined


class _Teller:
    """Tells one story."""

    def __init__(self, client: APIClient, version: Version, story: Obj, rest: float, rule_period: float) -> None:
        self._client = client
        self._story = story
        self._namespace = story["story"]
        self._rest = rest
        self._rule_period = rule_period
        self._resources = resources_of(version)
        self._seen = [
            PODS,
            self._resources["ResourceClaim"],
            *([CONTEXTS] if version < V1_32 else []),
            *([self._resources["DeviceTaintRule"]] if version >= V1_33 else []),
            *([self._resources["PodGroup"]] if "PodGroup" in repr(story) else []),
        ]
        self._names: dict[str, str] = {}  # of uids and of generated names

    async def tell(self, goals: Sequence[str]) -> list[list[Obj]]:
        """Do the steps; return the objects at the end of each. After one that ends otherwise, no goal is waited for."""
        labels = self._story.get("namespaceLabels", {})
        await self._client.create(NAMESPACES, {"metadata": {"name": self._namespace, "labels": labels}})
        steps = _with_waits(self._story["steps"])
        ends: list[list[Obj]] = []
        as_expected = True
        for number, (step, goal) in enumerate(zip(steps, goals or [""] * len(steps), strict=True), 1):
            *before, last = step
            for part in before:
                await self._do(part)
                await self._come_to_rest()
            await self._do(last)
            if goal and as_expected:
                await self._come_to(goal, GOAL_REST if number < len(steps) else self._rest)
            else:
                await self._come_to_rest()
            ends.append(await self._state())
            as_expected = digest(ends[-1]) == goal
        return ends

    async def _do(self, step: Obj) -> None:
        ((verb, argument),) = step.items()
        await getattr(self, f"_{verb}")(await self._resolved(argument))

    # --- steps

    async def _create(self, obj: Obj) -> None:
        resource = self._resources[obj["kind"]]
        metadata = obj["metadata"]
        if resource.namespaced:
            metadata = {**metadata, "namespace": self._namespace}
        await self._client.create(resource, {**obj, "metadata": metadata})

    async def _status(self, change: Obj) -> None:
        await self._changed(change, {"status": change["status"]}, "status")

    async def _patch(self, change: Obj) -> None:
        await self._changed(change, change["patch"], "")

    async def _changed(self, change: Obj, patch: Obj, subresource: str) -> None:
        resource = self._resources[change["kind"]]
        namespace = self._namespace if resource.namespaced else ""
        await self._client.patch(resource, change["name"], patch, namespace, subresource=subresource)

    async def _delete(self, what: Obj) -> None:
        resource = self._resources[what["kind"]]
        namespace = self._namespace if resource.namespaced else ""
        await self._client.delete(resource, what["name"], namespace, grace_period=what.get("gracePeriodSeconds"))

    async def _wait(self, seconds: Any) -> None:
        await asyncio.sleep(self._rule_period + 1 if seconds == "rule" else float(seconds))

    async def _await(self, kind: str) -> None:
        end = time.monotonic() + LONGEST_PAUSE
        while time.monotonic() < end and not await self._items(self._resources[kind]):
            await asyncio.sleep(GOAL_REST)

    # --- what is there

    async def _come_to_rest(self) -> None:
        """Wait until nothing has changed for a while. Raises TimeoutError."""
        last: object = None
        since = started = time.monotonic()
        while time.monotonic() - since < self._rest:
            if time.monotonic() - started > LONGEST_TIMES * self._rest:
                raise TimeoutError(f"{self._namespace}: the objects do not come to rest")
            objects = await self._objects()
            state = sorted((obj["metadata"]["uid"], obj["metadata"]["resourceVersion"]) for obj in objects)
            if state != last:
                last, since = state, time.monotonic()
            await asyncio.sleep(self._rest / 4)

    async def _come_to(self, goal: str, rest: float) -> None:
        """Wait until the objects are as expected and stay so for a while, or nothing has changed for a long while."""
        last: object = None
        since = time.monotonic()
        while True:
            state = await self._state()
            if state != last:
                last, since = state, time.monotonic()
            if time.monotonic() - since > (rest if digest(state) == goal else PATIENCE):
                return
            await asyncio.sleep(GOAL_REST / 2)

    async def _state(self) -> list[Obj]:
        """Return the objects and events of the story, without what differs from one run to the next."""
        objects = await self._objects()
        events = [normal_event(event) for event in await self._items(EVENTS)]
        return sorted((self._normal(obj) for obj in [*objects, *events]), key=repr)

    async def _objects(self) -> list[Obj]:
        """Return the pods and claims of the story, and its rules; learn their uids and generated names."""
        objects = [obj for resource in self._seen for obj in await self._items(resource)]
        for obj in objects:
            metadata = obj["metadata"]
            name = metadata["name"]
            if prefix := metadata.get("generateName"):
                self._names[name] = name = f"{prefix}*"
            if metadata["uid"] not in self._names:
                label = f"{obj['kind']}/{name}"
                again = sum(known == label or known.startswith(f"{label}#") for known in self._names.values())
                self._names[metadata["uid"]] = f"{label}#{again + 1}" if again else label
            for status in nested_field(obj, "status", "resourceClaimStatuses", default=()):
                prefix = f"{name}-{status['name']}-"  # of a claim that may have come and gone unseen
                if status.get("resourceClaimName", "").startswith(prefix):
                    self._names[status["resourceClaimName"]] = f"{prefix}*"
        return objects

    async def _items(self, resource: Resource) -> list[Obj]:
        listed = await self._client.list(resource, self._namespace if resource.namespaced else "")
        items = [resource.typed(item) for item in listed["items"]]
        return [
            item for item in items if resource.namespaced or item["metadata"]["name"].startswith(f"{self._namespace}-")
        ]

    async def _resolved(self, value: Any) -> Any:
        """Return a value with the uids and names that its texts stand for."""
        if isinstance(value, Mapping):
            return {key: await self._resolved(item) for key, item in value.items()}
        if isinstance(value, list):
            return [await self._resolved(item) for item in value]
        if isinstance(value, str) and value.startswith("$"):
            what, _, name = value[1:].partition(" ")
            first, _, second = name.partition("/")
            if what == "uid":
                return (await self._client.get(self._resources[first], second, self._namespace))["metadata"]["uid"]
            statuses = nested_field(
                await self._client.get(PODS, first, self._namespace), "status", "resourceClaimStatuses", default=()
            )
            return next(status["resourceClaimName"] for status in statuses if status["name"] == second)
        return value

    def _normal(self, value: Any) -> Any:
        """Return a value without what differs from one run to the next."""
        if isinstance(value, dict):
            return {
                self._normal(key): "TIME" if key in KEPT_TIMES else self._normal(item)
                for key, item in value.items()
                if key not in DROPPED
            }
        if isinstance(value, list):
            items = [self._normal(item) for item in value]
            return sorted(items, key=repr) if items and isinstance(items[0], dict) else items
        if isinstance(value, str):
            for text, name in self._names.items():
                value = value.replace(text, name)
        return value


def normal_event(event: Obj) -> Obj:
    """Return an event without its name, which holds the time, and without what counts its repetitions."""
    about = {field: value for field, value in event["involvedObject"].items() if field != "resourceVersion"}
    fields = ("kind", "type", "reason", "message", "source", "reportingComponent", "reportingInstance")
    return {"involvedObject": about, **{field: event.get(field) for field in fields}}
