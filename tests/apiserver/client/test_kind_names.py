"""The names that people have for kinds, and the paths of their objects."""

from __future__ import annotations

import pytest

from understudy import Server, StatusError
from understudy.apiserver.client.kind_names import RequestError, find, find_kind_of
from understudy.apiserver.extensions.serving import Serving
from understudy.apiserver.serving.release import Release
from understudy.machinery.types import Obj

SERVING = Serving(Release.named("1.34"))
CLAIMS = "/apis/resource.k8s.io"


@pytest.mark.parametrize(
    ("text", "path"),
    [
        ("pods", "/api/v1/pods"),
        ("pod", "/api/v1/pods"),
        ("Pod", "/api/v1/pods"),
        ("PO", "/api/v1/pods"),
        ("pods.v1.", "/api/v1/pods"),
        ("deploy", "/apis/apps/v1/deployments"),
        ("Deployment.apps", "/apis/apps/v1/deployments"),
        ("deployments.v1.apps", "/apis/apps/v1/deployments"),
        ("ResourceClaim", f"{CLAIMS}/v1/resourceclaims"),
        ("resourceclaims.resource.k8s.io", f"{CLAIMS}/v1/resourceclaims"),
        ("resourceclaims.v1beta1.resource.k8s.io", f"{CLAIMS}/v1beta1/resourceclaims"),
        ("events", "/api/v1/events"),
        ("events.events.k8s.io", "/apis/events.k8s.io/v1/events"),
        ("ComponentStatus", "/api/v1/componentstatuses"),
    ],
)
def test_kind_is_found_by_any_of_its_names(text: str, path: str) -> None:
    """A kind has a kind, a resource, a singular and short names; group, or version and group, may follow."""
    assert find(SERVING, text).collection("") == path


@pytest.mark.parametrize("text", ["", "pdos", "pods.apps", "deployments.v1beta1.apps", "ResourceClaims "])
def test_unknown_name_is_a_404(text: str) -> None:
    """A name that no kind has is refused with kubectl's text, and maybe a hint."""
    with pytest.raises(StatusError) as error:
        find(SERVING, text)
    assert error.value.code == 404
    assert str(error.value).startswith(f'the server doesn\'t have a resource type "{text}"')


@pytest.mark.parametrize(
    ("manifest", "text"),
    [
        ({"apiVersion": "v1", "kind": "Pd"}, 'no matches for kind "Pd" in version "v1"'),
        ({"apiVersion": "apps/v2", "kind": "Deployment"}, 'no matches for kind "Deployment" in version "apps/v2"'),
        ({"apiVersion": "v1"}, "the manifest has no kind"),
        ({"kind": "Pod"}, "the manifest has no apiVersion"),
        ({"apiVersion": 1, "kind": "Pod"}, "the manifest has no apiVersion"),
    ],
)
def test_unknown_kind_of_a_manifest_is_named(manifest: dict[str, str], text: str) -> None:
    """A manifest whose kind is not served, or that names none, is refused."""
    with pytest.raises((StatusError, RequestError)) as error:
        find_kind_of(SERVING, manifest)
    assert str(error.value).startswith(text)


@pytest.mark.parametrize(
    ("namespace", "name", "text"),
    [
        ("default", "", "resource name may not be empty"),
        ("default", "a/b", "invalid resource name \"a/b\": [may not contain '/']"),
        ("default", "..", "invalid resource name \"..\": [may not be '..']"),
        ("default", 3, "invalid resource name 3: want text"),
        ("", "a", "an empty namespace may not be set when a resource name is provided"),
        ("a%", "a", "invalid namespace \"a%\": [may not contain '%']"),
    ],
)
def test_path_of_no_object_is_refused(namespace: str, name: str, text: str) -> None:
    """A name that would make another path is refused with client-go's texts: without one, DELETE would delete all."""
    with pytest.raises(RequestError) as error:
        find(SERVING, "pods").object(namespace, name)
    assert str(error.value) == text


def test_kinds_without_namespaces_have_no_namespace_in_their_path() -> None:
    """The namespace that methods have by default does not matter for a kind without namespaces."""
    assert find(SERVING, "nodes").object("default", "n", "status") == "/api/v1/nodes/n/status"


def test_custom_kind_is_found(apiserver: Server) -> None:
    """Custom resources are found by their names, in the version that is asked for, before reviews and bindings."""
    schema = {"openAPIV3Schema": {"type": "object", "x-kubernetes-preserve-unknown-fields": True}}
    versions = [{"name": v, "served": True, "storage": v == "v1", "schema": schema} for v in ("v1", "v1beta1")]
    names = {"kind": "Ship", "plural": "ships", "shortNames": ["sh"]}
    spec = {"group": "example.com", "scope": "Namespaced", "names": names, "versions": versions}
    head: Obj = {"apiVersion": "apiextensions.k8s.io/v1", "kind": "CustomResourceDefinition"}
    apiserver.create({**head, "metadata": {"name": "ships.example.com"}, "spec": spec})
    spec["names"] = {"kind": "Binding", "plural": "bindings"}
    apiserver.create({**head, "metadata": {"name": "bindings.example.com"}, "spec": spec})
    assert apiserver.list("Binding") == []
    apiserver.create({"apiVersion": "example.com/v1", "kind": "Ship", "metadata": {"name": "a"}})
    for text, version in (("sh", "v1"), ("Ship", "v1"), ("ships.v1beta1.example.com", "v1beta1")):
        assert apiserver.get(text, "a")["apiVersion"] == f"example.com/{version}"
