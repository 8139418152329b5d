"""Discovery documents: equal to those of the real servers, which are kept as digests."""

from __future__ import annotations

import re
from hashlib import sha256
from typing import Any

import orjson
import pytest

from tests.releases import NEWEST, RELEASES, served
from understudy.apiserver.endpoints.discovery.documents import Discovery
from understudy.apiserver.endpoints.request import Request, Response
from understudy.apiserver.extensions.serving import Serving
from understudy.apiserver.server.pages import healthz
from understudy.machinery.errors import StatusError
from understudy.machinery.options import Query
from understudy.machinery.releases.features import Gates
from understudy.machinery.releases.version import V1_31, V1_32, V1_33, Version

AGGREGATED = "application/json;g=apidiscovery.k8s.io;v=v2;as=APIGroupDiscoveryList"
BETA = AGGREGATED.replace("v=v2", "v=v2beta1")

PAGES = {
    release: Discovery(
        Serving(served(release)), Gates.of(release, {}), "<address>", pages=healthz.paths(served(release).health_checks)
    )
    for release in RELEASES
}


def ask(path: str, release: Version = NEWEST, method: str = "GET", query: str = "", **headers: str) -> Response | None:
    named = {name.replace("_", "-"): value for name, value in headers.items()}
    return PAGES[release].answer(Request(method, path, named, b"", Query(query), release))


def document(reply: Response | None) -> Any:
    assert reply is not None
    assert reply.status == 200
    return orjson.loads(reply.body)


# release, path, Accept, the first digits of the digest of the recorded document
RECORDED = [
    (V1_31, "/", "*/*", "108c7b9f14ec09d4"),
    (V1_31, "/api", "*/*", "0c5a9400842be06c"),
    (V1_31, "/apis", "*/*", "4f3d6cba99bbbbf8"),
    (V1_31, "/apis/resource.k8s.io", "*/*", "7aa7dc4e77a87b7b"),
    (V1_31, "/apis/resource.k8s.io/", "*/*", "7aa7dc4e77a87b7b"),
    (V1_31, "/apis/coordination.k8s.io", "*/*", "7d7dbadbcc31c177"),
    (V1_31, "/apis/events.k8s.io", "*/*", "feeb843392439506"),
    (V1_31, "/apis/apps", "*/*", "d204bc4a9378fbfc"),
    (V1_31, "/api", AGGREGATED, "48d2a1ba2bd541ad"),
    (V1_31, "/apis", AGGREGATED, "a69a7061fdff9237"),
    (V1_32, "/", "*/*", "94eba04b15fa8838"),
    (V1_32, "/api", "*/*", "0c5a9400842be06c"),
    (V1_32, "/apis", "*/*", "6523262c8bc9668d"),
    (V1_32, "/apis/resource.k8s.io", "*/*", "e4d9bed9f058be57"),
    (V1_32, "/apis/resource.k8s.io/", "*/*", "e4d9bed9f058be57"),
    (V1_32, "/apis/coordination.k8s.io", "*/*", "7d7dbadbcc31c177"),
    (V1_32, "/apis/events.k8s.io", "*/*", "feeb843392439506"),
    (V1_32, "/apis/apps", "*/*", "d204bc4a9378fbfc"),
    (V1_32, "/api", AGGREGATED, "48d2a1ba2bd541ad"),
    (V1_32, "/apis", AGGREGATED, "2ba9bac3d7a84339"),
]


@pytest.mark.parametrize(("release", "path", "accept", "digest"), RECORDED)
def test_recorded_documents(release: Version, path: str, accept: str, digest: str) -> None:
    """Every document equals the real server's, in content and order."""
    result = document(ask(path, release, Accept=accept))
    assert sha256(orjson.dumps(result)).hexdigest()[:16] == digest


def test_subresources_follow_their_resource() -> None:
    """A resource list names subresources after their resource, with the kinds that they take."""
    result = {resource["name"]: resource for resource in document(ask("/api/v1/"))["resources"]}
    assert result["pods"]["shortNames"] == ["po"]
    assert result["pods"]["storageVersionHash"] == "xPOwRZ+Yhw8="
    assert result["pods/eviction"] == {
        "name": "pods/eviction",
        "singularName": "",
        "namespaced": True,
        "group": "policy",
        "version": "v1",
        "kind": "Eviction",
        "verbs": ["create"],
    }
    assert "storageVersionHash" not in result["bindings"]


def test_aggregated_discovery_has_an_etag() -> None:
    """Both versions of aggregated discovery share one ETag, and a client that has it gets an empty 304."""
    first, beta = ask("/apis", V1_32, Accept=AGGREGATED), ask("/apis", V1_32, Accept=f"{BETA},application/json")
    assert first is not None
    assert beta is not None
    assert first.headers == beta.headers
    headers = dict(first.headers)
    assert (headers["Vary"], headers["Cache-Control"]) == ("Accept", "public")
    assert beta.content_type == BETA
    again = ask("/apis", V1_32, Accept=AGGREGATED, If_None_Match=headers["ETag"])
    assert again is not None
    assert (again.status, again.body, dict(again.headers)["ETag"]) == (304, b"", headers["ETag"])
    stale = ask("/apis", V1_32, Accept=AGGREGATED, If_None_Match="W/" + headers["ETag"])
    assert stale is not None
    assert stale.status == 200


def test_trailing_slash_is_ignored() -> None:
    """A slash at the end changes nothing, except that /apis/ is never aggregated."""
    assert document(ask("/api/", Accept=AGGREGATED))["kind"] == "APIGroupDiscoveryList"
    assert document(ask("/apis/apps/"))["kind"] == "APIGroup"
    with pytest.raises(StatusError, match="only the following media types"):
        ask("/apis/", Accept=AGGREGATED)


@pytest.mark.parametrize("path", ["/api", "/api/v1", "/apis/apps/v1", "/version"])
def test_only_get_reads_group_lists(path: str) -> None:
    """The lists of groups and resources are read with GET only; the page of one group takes any method."""
    with pytest.raises(StatusError) as refused:
        ask(path, method="POST")
    assert refused.value.code == 405
    assert document(ask("/apis", method="POST"))["kind"] == "APIGroupList"


def test_version_is_indented_json() -> None:
    """/version is always indented JSON and ignores the Accept header."""
    reply = ask("/version/", V1_32, Accept="application/json;as=Table")
    assert reply is not None
    assert reply.body.startswith(b'{\n  "major": "1",\n  "minor": "32",\n  "gitVersion": "v1.32.')
    with pytest.raises(StatusError, match=r"Available representations: application/json$"):
        ask("/version", Accept="application/yaml")


@pytest.mark.parametrize("release", RELEASES, ids=str)
def test_version_names_the_patch(release: Version) -> None:
    """/version has the fields of 1.32, 1.36 and 1.37, in their order: the patch, and since 1.33 what is emulated."""
    info = document(ask("/version", release))
    minor, before = str(release.minor), str(release.minor - 1)
    emulation = {"emulationMajor": "1", "emulationMinor": minor, "minCompatibilityMajor": "1"}
    emulation["minCompatibilityMinor"] = before
    expected = {"major": "1", "minor": minor, **(emulation if release >= V1_33 else {})}
    build = ("gitVersion", "gitCommit", "gitTreeState", "buildDate", "goVersion", "compiler", "platform")
    assert list(info) == [*expected, *build]
    assert info.items() >= expected.items()
    assert re.fullmatch(rf"v{release}\.\d+", info["gitVersion"])
    assert re.fullmatch(r"go1\.\d+\.\d+", info["goVersion"])


def test_only_compact_json_ends_with_a_newline() -> None:
    """Compact JSON ends with a newline, indented JSON does not."""
    compact, pretty = ask("/apis/apps"), ask("/apis/apps", query="pretty=true")
    assert compact is not None
    assert compact.body.startswith(b'{"kind":"APIGroup","apiVersion":"v1","name":"apps"')
    assert compact.body.endswith(b"}\n")
    assert pretty is not None
    assert pretty.body.startswith(b'{\n  "kind": "APIGroup",')
    assert pretty.body.endswith(b"}")


@pytest.mark.parametrize(
    "path", ["/api/v2", "/apis/apps/v9", "/api/v1/nothing", "/apis/apps/v1/nothing", "/api//v1", "/version/x"]
)
def test_unknown_path_below_a_known_group(path: str) -> None:
    """An unknown version or resource below a known group is answered with a Status."""
    assert ask(path) is None
    with pytest.raises(StatusError) as missing:
        PAGES[NEWEST].missing(path)
    assert missing.value.status()["details"] == {}


@pytest.mark.parametrize(
    "path", ["/wrong", "/apis/wrong.example.com", "/apis/wrong.example.com/v1/x", "/healthy", "/apis//", "/apis//v1"]
)
def test_unknown_group_is_plain_text(path: str) -> None:
    """An unknown path is answered with plain text, as Go's http.ServeMux writes it."""
    assert ask(path) is None
    reply = PAGES[NEWEST].missing(path)
    assert (reply.status, reply.body, reply.content_type) == (404, b"404 page not found\n", "text/plain; charset=utf-8")


def test_discovery_follows_runtime_config() -> None:
    """Resources that --runtime-config switches off are not listed."""
    release = served(V1_32, {"resource.k8s.io/v1beta1": False, "batch/v1": False})
    pages = Discovery(Serving(release), Gates.of(release.version, {}), "")
    call = Request("GET", "/apis", {}, b"", Query(""), V1_32)
    groups = {group["name"]: group for group in document(pages.answer(call))["groups"]}
    assert "batch" not in groups
    assert groups["resource.k8s.io"]["preferredVersion"]["version"] == "v1alpha3"
    assert pages.answer(Request("GET", "/apis/batch/v1", {}, b"", Query(""), V1_32)) is None
    assert pages.missing("/apis/batch/v1").status == 404
