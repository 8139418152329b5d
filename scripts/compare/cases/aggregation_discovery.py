"""The story of what discovery says of aggregated API servers, for `compare aggregation`."""

from __future__ import annotations

from collections.abc import Iterator

from scripts.common.comparing import Obj
from scripts.compare.cases.aggregated_server import FLUNDERS, GROUP
from scripts.compare.cases.aggregation_steps import API_SERVICES, DEFINITIONS, SERVICES, Ask, Reason, Serve, Step, Write

# Groups that every server has; others are left out, since it depends on flags which there are.
COMMON = ("apiregistration.k8s.io", "apps", "rbac.authorization.k8s.io", "apiextensions.k8s.io")
V2, V2_BETA = (
    f"application/json;g=apidiscovery.k8s.io;v={version};as=APIGroupDiscoveryList" for version in ("v2", "v2beta1")
)
NEWER = f"/apis/{GROUP}/v1beta1"
FISH: Obj = {
    "resource": "fish",
    "responseKind": {"group": GROUP, "version": "v1beta1", "kind": "Fish"},
    "scope": "Cluster",
    "singularResource": "fish",
    "verbs": ["list", "get"],
    "shortNames": ["fi"],
    "categories": ["all"],
    "subresources": [
        {"subresource": "status", "verbs": ["get"]},
        {"subresource": "scale", "verbs": ["get"], "unknown": 1},
    ],
}
WITHOUT_KIND = {"resource": "eels", "scope": "Namespaced", "singularResource": "", "verbs": ["get"], "shortNames": []}
VERSIONS = [
    {"version": "v1beta1", "resources": [FISH, WITHOUT_KIND], "freshness": "Stale"},
    {"version": "v1alpha1", "resources": [], "freshness": "Current"},
]
ALL_AT_ONCE = {
    "kind": "APIGroupDiscoveryList",
    "apiVersion": "apidiscovery.k8s.io/v2",
    "metadata": {},
    "items": [{"metadata": {"name": GROUP}, "versions": VERSIONS}],
}
STATUS = {"name": "flunders/status", "singularName": "", "namespaced": True, "kind": "Flunder", "verbs": ["get"]}
LOST = {"name": "lost/log", "singularName": "", "namespaced": False, "kind": "", "verbs": ["get"]}
SCALE = {"name": "flunders/scale", "namespaced": True, "group": "autoscaling", "version": "v1", "kind": "Scale"}
NEWER_RESOURCES = {
    "kind": "APIResourceList",
    "apiVersion": "v1",
    "groupVersion": f"{GROUP}/v1beta1",
    "resources": [STATUS, {**FLUNDERS, "shortNames": ["fl"], "categories": ["all"]}, SCALE | {"verbs": ["get"]}, LOST],
}


def trimmed(document: Obj) -> Obj:
    """Return a page of discovery without groups that not every server has, and resources of built-in groups."""
    if document.get("kind") == "APIGroupList":
        return {**document, "groups": [group for group in document["groups"] if _is_kept(group["name"])]}
    if document.get("kind") == "APIGroupDiscoveryList":
        return {
            **document,
            "items": [_trimmed(item) for item in document["items"] if _is_kept(item["metadata"]["name"])],
        }
    if isinstance(document.get("paths"), list):
        return {"paths": [path for path in document["paths"] if "example.com" in path]}
    return document


def _trimmed(item: Obj) -> Obj:
    """Return a group in discovery, without the resources of a built-in one."""
    if _is_own(item["metadata"]["name"]):
        return item
    return {**item, "versions": [{**version, "resources": []} for version in item["versions"]]}


def _is_kept(group: str) -> bool:
    return group in COMMON or _is_own(group)


def _is_own(group: str) -> bool:
    return group.endswith("example.com")


def service(version: str, group: str, priorities: tuple[int, int], port: int, bundle: str) -> Write:
    """Return the creation of an API service; without a bundle it has no server."""
    spec: Obj = {
        "group": group,
        "version": version,
        "groupPriorityMinimum": priorities[0],
        "versionPriority": priorities[1],
    }
    if bundle:
        spec |= {"caBundle": bundle, "service": {"namespace": "wardle", "name": "api", "port": port}}
    return Write("POST", API_SERVICES, {"metadata": {"name": f"{version}.{group}"}, "spec": spec})


def definition(group: str, version: str) -> Write:
    """Return the creation of a definition of the kind Lanky."""
    schema = {"openAPIV3Schema": {"type": "object", "x-kubernetes-preserve-unknown-fields": True}}
    names = {"plural": "lankies", "kind": "Lanky"}
    versions = [{"name": version, "served": True, "storage": True, "schema": schema}]
    spec = {"group": group, "names": names, "scope": "Cluster", "versions": versions}
    return Write("POST", DEFINITIONS, {"metadata": {"name": f"lankies.{group}"}, "spec": spec})


def pages() -> Iterator[Step]:
    """Yield requests for all that lists groups."""
    yield Ask("/apis", headers={"Accept": V2})
    yield Ask("/apis", headers={"Accept": f"{V2_BETA},application/json"})
    yield Ask("/apis")
    yield Ask("/apis/")
    yield Ask(f"/apis/{GROUP}")
    yield Ask(f"/apis/{GROUP}/")


def wait(shows: str = "", hides: str = "", accept: str = V2) -> Ask:
    """Return the step that waits until discovery shows a text and hides another."""
    return Ask("/apis", headers={"Accept": accept}, shows=shows, hides=hides, waits=True)


def stale(version: str) -> Ask:
    """Return the step that waits until nothing is known of a version."""
    return wait(f'{{"version":"{version}","freshness":"Stale"}}')


def steps(port: int, bundle: str, _: str) -> Iterator[Step]:
    """Yield the steps, with an aggregated server at a port."""
    external = {"type": "ExternalName", "externalName": "localhost"}
    older, newer, built_in = f"v1alpha1.{GROUP}", f"v1beta1.{GROUP}", "v2.rbac.authorization.k8s.io"
    other = "other.example.com"
    yield Serve("/apis")
    yield Serve(NEWER)
    yield Write("POST", "/api/v1/namespaces", {"metadata": {"name": "wardle"}})
    yield service("v1alpha1", GROUP, (2000, 15), port, bundle)
    yield Reason("ServiceNotFound", older)
    yield stale("v1alpha1")
    yield from pages()
    yield Write("POST", SERVICES, {"metadata": {"name": "api"}, "spec": external})
    yield Reason("Passed", older)
    yield wait("flunders")
    yield from pages()
    yield Ask("/", shows="example.com")
    yield Ask(f"/apis/{GROUP}", "POST", body={})
    for group in (GROUP, "lanky.example.com"):
        yield definition(group, "v1")
        yield Ask(f"/apis/{group}/v1", until=200, waits=True)
        yield wait(f'{group}/v1"', accept="application/json")
    yield Serve(NEWER, NEWER_RESOURCES)
    yield service("v1beta1", GROUP, (17000, 20), port, bundle)
    yield service("v1", other, (1000, 1), 1, "")
    yield service("v2", "rbac.authorization.k8s.io", (5, 5), port, bundle)
    yield Reason("Passed", newer)
    yield Reason("FailedDiscoveryCheck", built_in)
    yield Reason("Local", f"v1.{other}")
    yield stale("v2")
    yield wait('"fl"')
    yield from pages()
    yield Ask(f"/apis/{other}")
    yield Ask("/apis/rbac.authorization.k8s.io")
    yield Serve("/apis", ALL_AT_ONCE, V2)
    for name in (older, newer, built_in):
        yield Write("PATCH", f"{API_SERVICES}/{name}", {"spec": {"groupPriorityMinimum": 900}})
    yield wait('"fi"', hides="Stale")
    yield wait(hides="flunders")
    yield from pages()
    yield Write("DELETE", f"{SERVICES}/api")
    for name in (built_in, newer, older):
        yield Reason("ServiceNotFound", name)
        yield stale(name.partition(".")[0])
    yield from pages()
    for name in (older, newer, f"v1.{other}", built_in):
        yield Write("DELETE", f"{API_SERVICES}/{name}")
    yield wait(hides="Stale")
    yield wait(hides="rbac.authorization.k8s.io/v2", accept="application/json")
    yield from pages()
    for group in (GROUP, "lanky.example.com"):
        yield Write("DELETE", f"{DEFINITIONS}/lankies.{group}")
    yield wait(hides="example.com", accept="application/json")
