"""Reads the objects of a cluster, from any API server, in an order in which they can be created again."""

from __future__ import annotations

from collections import Counter
from collections.abc import AsyncIterator, Awaitable, Callable, Collection, Iterable, Iterator
from dataclasses import field

from understudy.apiserver.client.verbs import Query
from understudy.controlplane.client.resources import Resource
from understudy.controlplane.recorder.cleaning import cleaned, is_made_by_servers
from understudy.machinery.errors import StatusError
from understudy.machinery.types import NamedTuple, Obj, dataclass
from understudy.machinery.util.spelling import did_you_mean

Get = Callable[[str, Query], Awaitable[Obj]]  # a path and parameters; raises StatusError
PAGE = 500  # objects in an answer
NOT_FOUND = 404
# Not recorded: what servers and controllers make of other objects.
DERIVED = {
    *("events", "events.events.k8s.io", "endpoints", "endpointslices.discovery.k8s.io", "componentstatuses"),
    *("leases.coordination.k8s.io", "controllerrevisions.apps", "ipaddresses.networking.k8s.io"),
    "storageversions.internal.apiserver.k8s.io",
}
# Left out: what is secret, and what would call programs that are not there.
LEFT_OUT = {
    *("secrets", "apiservices.apiregistration.k8s.io"),
    *("certificatesigningrequests.certificates.k8s.io", "podcertificaterequests.certificates.k8s.io"),
    "mutatingwebhookconfigurations.admissionregistration.k8s.io",
    "validatingwebhookconfigurations.admissionregistration.k8s.io",
}
# Created first, since others are in them or of their kind; and last, since they would decide about others.
FIRST = ("CustomResourceDefinition", "Namespace", "ServiceAccount", "PriorityClass", "Node")
LAST = ("ResourceQuota", "LimitRange", "ValidatingAdmissionPolicy", "MutatingAdmissionPolicy")


class Choice(NamedTuple):
    """The objects to record: of which namespaces and kinds; all without any. Cluster-wide ones have no namespace."""

    namespaces: Collection[str] = ()
    kinds: Collection[str] = ()

    def takes_kind(self, resource: Resource) -> bool:
        """Report whether objects of a resource are recorded."""
        return not self.kinds or any(kind.lower() in _names(resource) for kind in self.kinds)

    def check_kinds(self, resources: Iterable[Resource]) -> None:
        """Raise ValueError for a kind of which no resource is recorded."""
        known = {name: resource.kind for resource in resources for name in _names(resource)}
        for kind in self.kinds:
            if kind.lower() not in known:
                raise ValueError(f"objects of kind {kind!r} are not recorded{did_you_mean(kind, known.values())}")

    async def check_namespaces(self, get: Get) -> None:
        """Raise StatusError for a namespace that does not exist. One that the user may not read may exist."""
        for name in self.namespaces:
            try:
                await get(f"/api/v1/namespaces/{name}", {})
            except StatusError as error:
                if error.code == NOT_FOUND:
                    raise

    def takes(self, obj: Obj) -> bool:
        """Report whether an object is recorded."""
        namespace = obj["metadata"].get("namespace") or (obj["metadata"]["name"] if obj["kind"] == "Namespace" else "")
        return not self.namespaces or not namespace or namespace in self.namespaces


@dataclass
class Recording:
    """Recorded objects in the order of their creation, and the number of those of each kind that were left out.

    version  of the server, "v1.37.2"
    unread   a line for each kind or version that could not be read, with the error
    """

    version: str
    objects: list[Obj] = field(default_factory=list)
    left_out: Counter[str] = field(default_factory=Counter)
    unread: list[str] = field(default_factory=list)

    def summary(self) -> str:
        """Return the numbers of objects that were recorded, and of those that were left out by kind."""
        left_out = ", ".join(f"{count} {kind}" for kind, count in sorted(self.left_out.items()))
        objects = f"{len(self.objects)} object{'' if len(self.objects) == 1 else 's'}"
        return f"{objects}, without {left_out}" if left_out else objects

    def text(self) -> str:
        """Return the objects as YAML documents, below a comment with the summary and what could not be read."""
        from understudy.machinery.golang.yaml_writer import dump_yaml

        comment = [f"Recorded from Kubernetes {self.version}: {self.summary()}.", *self.unread]
        head = "".join(f"# {line}\n" for part in comment for line in part.splitlines())
        return "".join([head, *(f"---\n{dump_yaml(obj)}" for obj in self.objects)])


async def record(get: Get, choice: Choice) -> Recording:
    """Record the objects of a server.

    Raises StatusError and ConnectionError if it does not say what it serves, and for a namespace that it does not
    have; ValueError for a kind that is not recorded.
    """
    recording = Recording((await get("/version", {}))["gitVersion"])
    resources = [each async for each in resources_of(get, recording) if _name(each) not in DERIVED]
    choice.check_kinds(resources)
    await choice.check_namespaces(get)
    for resource in filter(choice.takes_kind, resources):
        try:
            async for obj in objects_of(get, resource):
                if not choice.takes(obj) or is_made_by_servers(obj):
                    continue
                if _name(resource) in LEFT_OUT or obj["metadata"].get("deletionTimestamp"):
                    recording.left_out[resource.kind] += 1
                else:
                    recording.objects.append(cleaned(obj))
        except StatusError as error:
            recording.unread.append(f"not recorded: {_name(resource)}: {error.message}")
    recording.objects = [*_in_order(recording.objects)]
    return recording


async def resources_of(get: Get, recording: Recording) -> AsyncIterator[Resource]:
    """Yield the resources of a server whose objects can be listed and created, in the preferred version of each."""
    groups = (await get("/apis", {}))["groups"]
    served = [("", "v1"), *((group["name"], version["version"]) for group in groups for version in _preferred(group))]
    seen: set[tuple[str, str]] = set()
    for group, version in served:
        try:
            path = f"/apis/{group}/{version}" if group else f"/api/{version}"
            resources = (await get(path, {}))["resources"]
        except StatusError as error:  # a server behind this one that does not answer
            recording.unread.append(f"not recorded: {group}/{version}: {error.message}")
            continue
        for each in resources:
            if (
                {"list", "create"} <= set(each["verbs"])
                and (group, each["name"]) not in seen
                and "/" not in each["name"]
            ):
                seen.add((group, each["name"]))
                yield Resource(group, version, each["name"], each["kind"], each["namespaced"])


def _preferred(group: Obj) -> Iterable[Obj]:
    """Return the versions of a group, the preferred one first."""
    first = group["preferredVersion"]
    return [first, *(version for version in group["versions"] if version != first)]


async def objects_of(get: Get, resource: Resource) -> AsyncIterator[Obj]:
    """Yield all objects of a resource, read page by page."""
    token = ""
    while True:
        page = await get(resource.path(), {"limit": str(PAGE), "continue": token})
        for obj in page.get("items") or ():
            yield resource.typed(obj)
        token = page["metadata"].get("continue") or ""
        if not token:
            return


def _name(resource: Resource) -> str:
    """Return `deployments.apps`, or `pods` for the core group."""
    return f"{resource.plural}.{resource.group}" if resource.group else resource.plural


def _names(resource: Resource) -> tuple[str, ...]:
    """Return the names by which the objects of a resource are chosen, in lower case."""
    return resource.kind.lower(), resource.plural, _name(resource)


def _in_order(objects: list[Obj]) -> Iterator[Obj]:
    """Yield objects so that each comes after those whose uid it names: its owners, the pods that use a claim."""
    objects.sort(key=_rank)
    by_uid = {obj["metadata"]["uid"]: obj for obj in objects if obj["metadata"].get("uid")}
    done: set[int] = set()
    for start in objects:
        todo = [start]
        while todo:
            obj = todo[-1]
            needed = [by_uid[uid] for uid in _named_uids(obj) if uid in by_uid]
            first = [other for other in needed if id(other) not in done and other not in todo]
            if first:
                todo += first[:1]
                continue
            todo.pop()
            if id(obj) not in done:
                done.add(id(obj))
                yield obj


def _rank(obj: Obj) -> int:
    kind = obj["kind"]
    return FIRST.index(kind) if kind in FIRST else len(FIRST) + (kind in LAST)


def _named_uids(obj: Obj) -> list[str]:
    """Return the uids of the owners of an object, and of the consumers of a claim."""
    owners = obj["metadata"].get("ownerReferences") or []
    consumers = (obj.get("status") or {}).get("reservedFor") or []
    return [str(each.get("uid")) for each in (*owners, *consumers)]
