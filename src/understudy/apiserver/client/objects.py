"""Objects of a server, read and written as one user: what `Server` and each of its users offer to tests."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Coroutine, Sequence
from contextlib import closing
from pathlib import Path
from typing import Any, Literal, TypeVar

from understudy.apiserver.client import writing
from understudy.apiserver.client.kind_names import find
from understudy.apiserver.client.listing import ObjectList, Selector, list_object, list_objects, selector_query
from understudy.apiserver.client.loopback import USER_AGENT, Client
from understudy.apiserver.client.manifests import Manifest, settled
from understudy.apiserver.client.waiting import Condition, states, wait
from understudy.apiserver.client.watching import Frames, Watch
from understudy.apiserver.client.writing import Pause, Place
from understudy.apiserver.endpoints.negotiation import APPLY_PATCH, JSON_PATCH, MERGE_PATCH, STRATEGIC_PATCH
from understudy.kinds.declarations.kind import Kind
from understudy.machinery.options import WriteOptions
from understudy.machinery.types import Obj

T = TypeVar("T")
Objects = list[Obj]  # for annotations, where `list` is the method
Use = Callable[[Client, Pause], Coroutine[Any, Any, T]]
Propagation = Literal["", "Background", "Foreground", "Orphan"]
FieldValidation = Literal["Strict", "Warn", "Ignore"]
PatchType = Literal["", "strategic", "merge", "json", "apply"]
PATCHES = {"strategic": STRATEGIC_PATCH, "merge": MERGE_PATCH, "json": JSON_PATCH, "apply": APPLY_PATCH}


class ObjectAccess(ABC):
    """Reads and writes objects of a server as one user.

    kind        in every method: a kind ("ResourceClaim"), a resource ("resourceclaims"), a singular or short name
                ("deploy"), in any case. A group, or a version and a group, may follow
                ("resourceclaims.v1beta1.resource.k8s.io"); by default it is the version that the server prefers
    namespace   "default" for one object and for deletions; for `list` and `watch`, all of them (""). Kinds without
                namespaces ignore it
    labels, fields
                selectors: a text ("app=a,tier!=b", "spec.nodeName=n") or a dict ({"app": "a"})
    subresource of the object, which is read or written in its place: "status", "scale", …
    field_manager
                who manages the written fields: "understudy" by default
    field_validation
                what becomes of fields that are unknown or there twice: "Strict" refuses them, the others drop them
    dry_run     whether everything is done but storing

    Objects are dicts of JSON values. Every method raises StatusError for what the server refuses, with the `code`,
    `reason`, `message` and `details` of its Status (404 for an unknown kind, too), and ValueError for what cannot be
    asked. Methods block: coroutines call `wait_for`, and iterate over `watch`, by `asyncio.to_thread`.

    manifest_folder  where relative paths of manifests are looked for before the working directory: the folder of the
                     test in the fixture
    """

    manifest_folder: Path | None = None

    @abstractmethod
    def _ask(self, use: Use[T]) -> T:
        """Call a function with a client and return its result. Raises StatusError, LoadError, RequestError."""

    def get(self, kind: str, name: str, namespace: str = "default", *, subresource: str = "") -> Obj:
        """Return an object.

            server.get("ResourceClaim", "gpu")
            server.get("deploy", "web", subresource="scale")["spec"]["replicas"]

        Raises StatusError (404).
        """
        __tracebackhide__ = True  # so that pytest shows the line of the test, and the error
        return self._ask(lambda client, _: client.get(find(client.serving, kind).object(namespace, name, subresource)))

    def list(self, kind: str, namespace: str = "", *, labels: Selector = "", fields: Selector = "") -> ObjectList:
        """Return the objects of a kind, of one namespace or of all, that label and field selectors match.

        Its `resource_version` is that of the list, where a watch may begin.
        """
        __tracebackhide__ = True
        query = selector_query(labels, fields)
        return self._ask(lambda client, _: list_objects(client, kind, namespace, query))

    def create(
        self,
        manifest: Manifest,
        namespace: str = "default",
        *,
        subresource: str = "",
        kind: str = "",
        name: str = "",
        field_manager: str = "",
        field_validation: FieldValidation = "Strict",
        dry_run: bool = False,
    ) -> Obj:
        """Create the object of a dict, a YAML or JSON text, or a path; return it as stored.

            server.create({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"generateName": "c-"}})
            server.create(eviction, kind="pods", name="p", subresource="eviction")

        The server drops the status of a new object: `apply` stores it. A definition of custom resources is returned
        once their objects can be created. Raises StatusError (409 if the object exists), LoadError for what cannot be
        read.

        namespace   of an object that names none
        kind, name  of the object that has the subresource, where the manifest does not say it
        """
        __tracebackhide__ = True
        place = Place(namespace, subresource, kind, name)
        options = WriteOptions(dry_run, field_manager, field_validation, None)
        given = settled(manifest, self.manifest_folder)
        return self._ask(lambda client, pause: writing.create(client, pause, given, place, options))

    def update(
        self,
        manifest: Manifest,
        namespace: str = "default",
        *,
        subresource: str = "",
        kind: str = "",
        name: str = "",
        field_manager: str = "",
        field_validation: FieldValidation = "Strict",
        dry_run: bool = False,
    ) -> Obj:
        """Replace an object by that of a dict, a YAML or JSON text, or a path (PUT); return it as stored.

            claim = server.get("resourceclaims", "gpu")
            del claim["metadata"]["labels"]["team"]
            claim = server.update(claim)
            server.update(claim | {"status": {…}}, subresource="status")

        What the manifest does not have is gone afterwards, whoever has written it. With the resourceVersion that `get`
        returns it is a conflict if the object has changed meanwhile. Raises StatusError (404, 409), LoadError for what
        cannot be read.

        namespace   of an object that names none
        kind, name  of the object that has the subresource, where the manifest does not say it
        """
        __tracebackhide__ = True
        place = Place(namespace, subresource, kind, name)
        options = WriteOptions(dry_run, field_manager, field_validation, None)
        given = settled(manifest, self.manifest_folder)
        return self._ask(lambda client, _: writing.update(client, given, place, options))

    def patch(
        self,
        kind: str,
        name: str,
        patch: Obj | Sequence[Obj],
        namespace: str = "default",
        *,
        type: PatchType = "",  # noqa: A002 - as in `kubectl patch --type`
        subresource: str = "",
        field_manager: str = "",
        field_validation: FieldValidation = "Strict",
        force: bool | None = None,
        dry_run: bool = False,
    ) -> Obj:
        """Change an object by a patch; return it as stored. Raises StatusError (404, 409, 422).

            server.patch("pods", "p", {"status": {"phase": "Running"}}, subresource="status")
            server.patch("pods", "p", [{"op": "remove", "path": "/metadata/labels/app"}])

        type   "json" (RFC 6902), "merge" (RFC 7386), "strategic" or "apply". By default a list is a JSON patch, and a
               dict a strategic merge patch, or a merge patch for custom resources, which have no strategic ones
        force  for "apply": whether fields of other managers are taken over
        """
        __tracebackhide__ = True
        if type and type not in PATCHES:
            raise ValueError(f"want a patch of the type {', '.join(PATCHES)}, not {type!r}")
        manager = field_manager or (USER_AGENT if type == "apply" else "")
        query = writing.query(WriteOptions(dry_run, manager, field_validation, force))

        async def patch_object(client: Client, _: Pause) -> Obj:
            served = find(client.serving, kind)
            path, form = served.object(namespace, name, subresource), _content_type(type, patch, served.kind)
            return await client.patch(path, patch, form, query)

        return self._ask(patch_object)

    def apply(
        self,
        *manifests: Manifest,
        namespace: str = "default",
        field_manager: str = USER_AGENT,
        force: bool = True,
        field_validation: FieldValidation = "Strict",
        dry_run: bool = False,
    ) -> Objects:
        """Apply the objects of dicts, YAML or JSON texts, and paths (server-side apply); return them as stored.

            server.apply("fixtures/gpu-cluster.yaml", {"apiVersion": "v1", "kind": "ConfigMap", …})

        Objects that are not there are created, with their status. Of the others, the fields of the manifest are set,
        and those removed that this field manager has applied before and that are no longer in the manifest. What others
        have written stays: `update` removes it. Managed fields, as `get` returns them, are left out of the manifest. An
        object with a generateName and no name is created. A definition is established before the next object is
        applied.

        Raises StatusError (409 for fields of other managers, without `force`), LoadError for what cannot be read. The
        objects before stay applied.

        namespace  of objects that name none
        force      whether fields of other managers are taken over
        dry_run    leaves out the status
        """
        __tracebackhide__ = True
        options = WriteOptions(dry_run, field_manager, field_validation, force)
        given = settled(manifests, self.manifest_folder)
        return self._ask(lambda client, pause: writing.apply(client, pause, given, namespace, options))

    def delete(
        self,
        kind: str,
        name: str,
        namespace: str = "default",
        *,
        propagation: Propagation = "",
        grace_period: int | None = None,
        uid: str = "",
        resource_version: str = "",
        dry_run: bool = False,
    ) -> Obj:
        """Delete an object; return the answer: a Status, or the object if it stays for a while.

        Raises StatusError (404, 409).

        propagation   what becomes of dependents: "Background", "Foreground" or "Orphan"; the kind's own way by default
        grace_period  of a pod, in seconds; 0 removes it now. By default one that is on a node waits for its kubelet
        uid, resource_version
                      of the object to delete: another one is a conflict
        """
        __tracebackhide__ = True

        async def delete_object(client: Client, _: Pause) -> Obj:
            return await client.delete(
                find(client.serving, kind).object(namespace, name),
                propagation=propagation,
                grace_period=grace_period,
                uid=uid,
                resource_version=resource_version,
                dry_run=dry_run,
            )

        return self._ask(delete_object)

    def delete_collection(
        self,
        kind: str,
        namespace: str = "default",
        *,
        labels: Selector = "",
        fields: Selector = "",
        propagation: Propagation = "",
        grace_period: int | None = None,
        dry_run: bool = False,
    ) -> ObjectList:
        """Delete the objects of a namespace that selectors match, by default all; return them as they were before.

        Raises StatusError (405 for all namespaces at once, and for kinds that cannot be deleted so).

        propagation   what becomes of dependents: "Background", "Foreground" or "Orphan"; the kind's own way by default
        grace_period  of pods, in seconds; 0 removes them now
        """
        __tracebackhide__ = True
        query = selector_query(labels, fields)

        async def delete_objects(client: Client, _: Pause) -> ObjectList:
            path = find(client.serving, kind).collection(namespace)
            deleted = await client.delete(
                path, query, propagation=propagation, grace_period=grace_period, dry_run=dry_run
            )
            return ObjectList.of(deleted)

        return self._ask(delete_objects)

    def watch(
        self,
        kind: str,
        namespace: str = "",
        *,
        labels: Selector = "",
        fields: Selector = "",
        resource_version: str = "",
        timeout: float | None = 60.0,
    ) -> Watch:
        """Return the changes of objects that selectors match, of one namespace or of all: an iterator of WatchEvents.

            with server.watch("pods", labels="app=a") as events:
                server.create(pod)
                for type, pod in events:
                    if type == "ADDED":
                        break

        It has begun when this returns: with an event "ADDED" for each object that is there, or after a
        resource_version. Raises StatusError, while it is iterated over, too (410 for a resource_version that is too
        old).

        resource_version  of a list or an object: only later changes are returned
        timeout           seconds after which the iteration ends; None: when the server ends it, after 30 to 60 minutes
        """
        __tracebackhide__ = True
        query = {**selector_query(labels, fields), "resourceVersion": resource_version}
        frames = Frames()
        stop = self._ask(
            lambda client, _: client.watch(find(client.serving, kind).collection(namespace), query, frames)
        )
        return Watch(frames, stop, timeout)

    def wait_for(
        self, kind: str, name: str, condition: Condition, namespace: str = "default", *, timeout: float = 30.0
    ) -> Obj:
        """Wait until a condition holds for an object, which need not be there yet; return the object.

            server.wait_for("pods", "p", "Ready")  # or "Ready=False", "Ready=Unknown"
            server.wait_for("resourceclaims", "gpu", lambda claim: claim["status"]["allocation"])
            server.wait_for("pods", "p", "deleted")

        Raises TimeoutError, which shows the object as it was last; StatusError; ValueError for a text that is no
        condition.

        condition  a function that gets the object, after every change, until it returns something true; where it raises
                   KeyError or IndexError, it is asked again. Or a type of the conditions in the object's status, with
                   the rules of `kubectl wait --for=condition=…`. Or "created" or "deleted", which returns the object as
                   it was last, {} if it was not there
        timeout    seconds; 0 looks at the object once
        """
        __tracebackhide__ = True
        subject = f'{kind} "{name}"' + (f' in namespace "{namespace}"' if namespace != "default" else "")

        def read() -> ObjectList:
            return self._ask(lambda client, _: list_object(client, kind, name, namespace))

        def watch(version: str, seconds: float) -> Watch:
            named = {"metadata.name": name}
            return self.watch(kind, namespace, fields=named, resource_version=version, timeout=seconds)

        with closing(states(read, watch, timeout)) as seen:
            return wait(seen, condition, subject, timeout)


def _content_type(type_: PatchType, patch: Obj | Sequence[Obj], kind: Kind) -> str:
    """Return the content type of a patch."""
    if type_:
        return PATCHES[type_]
    if not isinstance(patch, dict):
        return JSON_PATCH
    return STRATEGIC_PATCH if kind.custom is None else MERGE_PATCH
