"""Request info: the verb and resource of a request, read from its method, path and query alone.

The rules are those of RequestInfoFactory (k8s.io/apiserver/pkg/endpoints/request/requestinfo.go), so that authorization
also learns what a request to an unknown resource asks for. Whether the resource exists is not checked here.

    /api/v1/namespaces/NS/pods/NAME/status      /apis/GROUP/VERSION/nodes/NAME      /apis/GROUP (no resource)
    /api/v1/watch/namespaces/NS/pods            deprecated: watches a list, or with a name one object
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from understudy.machinery.auth import authorization
from understudy.machinery.types import dataclass
from understudy.machinery.util.caches import SHORT_KEPT, cache_short_texts

if TYPE_CHECKING:
    from understudy.machinery.options import Query

VERBS = {"POST": "create", "GET": "get", "HEAD": "get", "PUT": "update", "PATCH": "patch", "DELETE": "delete"}
COLLECTION_VERBS = ("deletecollection", "watch")  # that a path alone may have
OF_COLLECTIONS = ("list", "watch", "deletecollection")  # the verbs of requests that several objects answer to
SPECIAL_VERBS = ("proxy", "watch")
LONG_RUNNING_SUBRESOURCES = ("attach", "exec", "log", "portforward", "proxy")
PROFILES = "/debug/pprof/"
NAMESPACE_SUBRESOURCES = ("status", "finalize")


class RequestInfoError(Exception):
    """A path that contains `watch` or `proxy` but no resource; answered with 500 in plain text."""


@dataclass(frozen=True, slots=True)
class RequestInfo(authorization.Attributes):
    """The parts of a request that the authorizer and the router look at (`RequestInfo`).

    verb        "" for a resource and a method that has no verb
    namespace   for a namespace object, its own name
    name        for a list or watch, that of its `metadata.name` field selector
    prefix      "api" or "apis"
    parts       the path from the resource on; parts after the subresource are kept here only
    watch_path  marks the deprecated /watch/ paths
    long_running
                whether it lasts as long as the client likes: a watch, a stream (`BasicLongRunningRequestCheck`)
    """

    prefix: str = ""
    parts: tuple[str, ...] = ()
    watch_path: bool = False
    long_running: bool = False

    @property
    def api_version(self) -> str:
        """Return the group and version of a resource, as `apiVersion` has them."""
        return f"{self.group}/{self.version}" if self.group else self.version

    def __hash__(self) -> int:
        """Hash only the parts that differ between requests: every request looks up its route by this value."""
        return hash((self.path, self.verb, self.name))


def request_info(method: str, path: str, query: Query) -> RequestInfo:
    """Return the info of a request (`NewRequestInfo`). Raises RequestInfoError.

    path  unquoted, without the query
    """
    info = (_of_path if len(method) <= SHORT_KEPT else _read_path)(path, method)
    if info.verb != "get" or info.name or not info.is_resource:
        return _with_field_selector(info, query) if query and info.verb in COLLECTION_VERBS else info
    of_collection = _of_collection(path, method, "watch" if query and watches(query) else "list")
    if not query or not (selector := query.get("fieldSelector")):
        return of_collection
    terms = authorization.field_terms(selector)
    return replace(of_collection, name=selected_name(selector), field_selector=terms)


def _with_field_selector(info: RequestInfo, query: Query) -> RequestInfo:
    selector = query.get("fieldSelector")
    return replace(info, field_selector=authorization.field_terms(selector)) if selector else info


def group_version_path(group: str, version: str) -> str:
    """Return the path of a group-version, under which its resources are."""
    return f"/apis/{group}/{version}" if group else f"/api/{version}"


def resource_path(
    group: str, version: str, resource: str, namespace: str = "", name: str = "", subresource: str = ""
) -> str:
    """Return the path of a resource, of an object of it, or of an object's subresource; parts may be templates."""
    root = group_version_path(group, version)
    place = f"{root}/namespaces/{namespace}" if namespace else root
    return "/".join(filter(None, (place, resource, name, subresource)))


def watches(query: Query) -> bool:
    """Report whether a query asks for a watch: every value of `watch` counts, the empty one too, but false and 0."""
    return "watch" in query and query.get("watch").lower() not in ("false", "0")


def selected_name(field_selector: str) -> str:
    """Return NAME of a field selector with `metadata.name=NAME`, "" if it has none that can be part of a path."""
    if "metadata.name=" not in field_selector:
        return ""
    for term in field_selector.split(","):
        key, equals, value = term.partition("=")
        name = value.removeprefix("=")
        if equals and key.strip() == "metadata.name" and name not in (".", "..") and not set("/%\\") & set(name):
            return name
    return ""


def _read_path(path: str, method: str) -> RequestInfo:
    """Return the info of a path, without that of the query. Raises RequestInfoError."""
    other = RequestInfo(path, method.lower(), long_running=path.startswith(PROFILES))
    parts = path.strip("/").split("/")
    if len(parts) < 3 or parts[0] not in ("api", "apis") or path.startswith("//"):
        return other
    prefix, *parts = parts
    group = ""
    if prefix == "apis":
        if len(parts) < 3:
            return other
        group, *parts = parts
    version, *parts = parts
    verb = VERBS.get(method, "")
    special = parts[0] in SPECIAL_VERBS
    if special:
        verb, *parts = parts
        if not parts:
            raise RequestInfoError(f"unable to determine kind and namespace from url, {path}")
    namespace = ""
    if parts[0] == "namespaces" and len(parts) > 1:
        namespace = parts[1]
        if len(parts) > 2 and parts[2] not in NAMESPACE_SUBRESOURCES:
            parts = parts[2:]
    name = parts[1] if len(parts) > 1 else ""
    if verb == "delete" and not name:
        verb = "deletecollection"
    subresource = parts[2] if len(parts) > 2 and verb != "proxy" else ""
    return RequestInfo(
        path=path,
        verb=verb,
        is_resource=True,
        prefix=prefix,
        group=group,
        version=version,
        namespace=namespace,
        resource=parts[0],
        subresource=subresource,
        name=name,
        parts=tuple(parts),
        watch_path=special and verb == "watch",
        long_running=verb in SPECIAL_VERBS or subresource in LONG_RUNNING_SUBRESOURCES,
    )


_of_path = cache_short_texts(4096)(_read_path)


@cache_short_texts(1024)
def _of_collection(path: str, method: str, verb: str) -> RequestInfo:
    """Return the info of a GET without a name and a field selector: a list or a watch."""
    return replace(_of_path(path, method), verb=verb, long_running=verb == "watch")
