"""The verbs with which a server and its users read and write objects: stories of objects that come, change and go."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml

from tests.http import send
from understudy import LoadError, Server, StatusError
from understudy.apiserver.client.kind_names import RequestError
from understudy.apiserver.client.objects import ObjectAccess
from understudy.machinery.types import Obj

PATH = "/api/v1/namespaces/default/configmaps"
POD: Obj = {
    "apiVersion": "v1",
    "kind": "Pod",
    "metadata": {"name": "p"},
    "spec": {"containers": [{"name": "c", "image": "i"}]},
}
DEPLOYMENT: Obj = {
    "apiVersion": "apps/v1",
    "kind": "Deployment",
    "metadata": {"name": "web"},
    "spec": {
        "replicas": 1,
        "selector": {"matchLabels": {"app": "web"}},
        "template": {"metadata": {"labels": {"app": "web"}}, "spec": POD["spec"]},
    },
}


def config_map(name: str = "a", labels: dict[str, str] | None = None, **data: str) -> Obj:
    metadata = {"name": name, **({"labels": labels} if labels else {})}
    return {"apiVersion": "v1", "kind": "ConfigMap", "metadata": metadata, "data": data}


def definition(group: str = "example.com") -> Obj:
    """Return the definition of Ship, whose objects have any fields and a status."""
    schema = {"openAPIV3Schema": {"type": "object", "x-kubernetes-preserve-unknown-fields": True}}
    version = {"name": "v1", "served": True, "storage": True, "schema": schema, "subresources": {"status": {}}}
    names = {"kind": "Ship", "plural": "ships"}
    return {
        "apiVersion": "apiextensions.k8s.io/v1",
        "kind": "CustomResourceDefinition",
        "metadata": {"name": f"ships.{group}"},
        "spec": {"group": group, "scope": "Namespaced", "names": names, "versions": [version]},
    }


def ship(**fields: Any) -> Obj:
    return {"apiVersion": "example.com/v1", "kind": "Ship", "metadata": {"name": "a"}, **fields}


def names(objects: list[Obj]) -> list[str]:
    return [obj["metadata"]["name"] for obj in objects]


def managers(obj: Obj) -> list[tuple[str, str]]:
    return [(fields["manager"], fields["operation"]) for fields in obj["metadata"]["managedFields"]]


def refusal(use: Callable[[], object]) -> tuple[int, str]:
    """Return the code and the text of the error that a use raises."""
    with pytest.raises(StatusError) as error:
        use()
    return error.value.code, error.value.message


def test_object_comes_changes_and_goes(access: ObjectAccess) -> None:
    """An object can be created, read, replaced, patched, listed and deleted, by the server and by a user of it."""
    made = access.create(config_map(k="1", l="1"))
    assert access.get("configmaps", "a") == made
    del made["data"]["l"]
    assert access.update(made)["data"] == {"k": "1"}
    assert access.patch("ConfigMap", "a", {"data": {"m": "1"}})["data"] == {"k": "1", "m": "1"}
    assert access.apply(config_map(n="1"))[0]["data"] == {"k": "1", "m": "1", "n": "1"}
    assert names(access.list("cm", "default")) == ["a"]
    assert access.delete("cm", "a")["details"]["uid"] == made["metadata"]["uid"]
    assert access.list("cm", "default") == []
    assert refusal(lambda: access.get("cm", "a")) == (404, 'configmaps "a" not found')


def test_refusals_are_those_of_the_server(access: ObjectAccess) -> None:
    """A refused request raises the Status that a client would get."""
    access.create(config_map())
    assert refusal(lambda: access.create(config_map())) == (409, 'configmaps "a" already exists')
    assert refusal(lambda: access.update(config_map("b"))) == (404, 'configmaps "b" not found')
    assert refusal(lambda: access.patch("cm", "a", [{"op": "remove", "path": "/data/k"}]))[0] == 422
    assert refusal(lambda: access.delete("cm", "b"))[0] == 404
    assert refusal(lambda: access.create(config_map("A")))[0] == 422
    with pytest.raises(StatusError) as error:
        access.create(config_map("A"))
    assert error.value.reason == "Invalid"
    assert error.value.details is not None
    assert error.value.details["causes"][0]["field"] == "metadata.name"


def test_update_of_an_old_object_is_a_conflict(access: ObjectAccess) -> None:
    """An object that has changed since it was read is not replaced."""
    old = access.create(config_map())
    access.patch("cm", "a", {"data": {"k": "2"}})
    assert refusal(lambda: access.update(old))[0] == 409
    assert access.get("cm", "a")["data"] == {"k": "2"}


def test_update_removes_what_others_have_written(apiserver: Server, access: ObjectAccess) -> None:
    """A key that another client created is gone after an update without it."""
    send(apiserver, "POST", PATH, config_map(k="1", l="1"))
    changed = access.get("cm", "a")
    del changed["data"]["k"]
    access.update(changed)
    assert access.get("cm", "a")["data"] == {"l": "1"}


def test_listed_objects_can_be_written(access: ObjectAccess) -> None:
    """Items of a list have a kind and an apiVersion, so that they can be given to `update` and `apply`."""
    access.create(config_map("a"))
    (item,) = access.list("cm", "default")
    assert (item["kind"], item["apiVersion"]) == ("ConfigMap", "v1")
    assert access.update({**item, "data": {"k": "1"}})["data"] == {"k": "1"}


def test_list_is_of_what_selectors_match(access: ObjectAccess) -> None:
    """Selectors are texts or dicts; without a namespace a list is of all."""
    access.create({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "other"}})
    for name, namespace, labels in (("a", "default", {"x": "1"}), ("b", "other", {"x": "1", "y": "2"})):
        access.create(config_map(name, labels), namespace)
    assert names(access.list("cm", labels="x=1,y!=2")) == ["a"]
    assert names(access.list("cm", labels={"x": "1", "y": "2"})) == ["b"]
    assert names(access.list("cm", labels="x")) == ["a", "b"]
    assert names(access.list("cm", "other", labels="x", fields={"metadata.name": "b"})) == ["b"]
    assert access.list("cm", "default", fields="metadata.name=b") == []


@pytest.mark.parametrize(
    ("given", "namespace"),
    [(config_map(), "default"), ({**config_map(), "metadata": {"name": "a", "namespace": "other"}}, "other")],
)
def test_namespace_of_the_manifest_comes_first(access: ObjectAccess, given: Obj, namespace: str) -> None:
    """An object is written to the namespace that it names, else to that of the call, "default" if there is none."""
    access.create({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "other"}})
    writes: list[Callable[..., Obj]] = [access.create, access.update, lambda obj, **at: access.apply(obj, **at)[0]]
    for write in writes:
        assert write(given)["metadata"]["namespace"] == namespace
    access.delete("cm", "a", namespace)
    for write in writes:
        assert write(config_map(), namespace="other")["metadata"]["namespace"] == "other"


def test_manifests_are_left_as_they_are(access: ObjectAccess) -> None:
    """No verb edits the object that it is given."""
    manifest: Obj = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "a"}}
    before = json.dumps(manifest)
    access.create(manifest)
    access.update(manifest)
    access.apply(manifest)
    assert json.dumps(manifest) == before
    read = access.get("cm", "a")
    before = json.dumps(read)
    access.apply(read)
    assert json.dumps(read) == before


@pytest.mark.parametrize("form", ["dict", "text", "path"])
def test_manifest_is_an_object_a_text_or_a_path(access: ObjectAccess, tmp_path: Path, form: str) -> None:
    """`create`, `update` and `apply` take an object in every form."""
    text = yaml.safe_dump(config_map(k="1"))
    path = tmp_path / "a.yaml"
    path.write_text(text)
    manifest = {"dict": config_map(k="1"), "text": text, "path": path}[form]
    for write in (access.create, access.update, lambda manifest: access.apply(manifest)[0]):
        assert write(manifest)["data"] == {"k": "1"}


def test_lists_of_objects_are_applied_one_by_one(access: ObjectAccess, tmp_path: Path) -> None:
    """A List, an iterable of objects and paths, and an iterator that asks the server itself are several objects."""

    def given() -> Iterator[Obj]:
        yield config_map("c", k=str(len(access.list("cm", "default"))))

    listed = {"apiVersion": "v1", "kind": "List", "items": [config_map("a"), config_map("b")]}
    path = tmp_path / "e.json"
    path.write_text(json.dumps(config_map("e")))
    assert names(access.apply(listed, [config_map("d"), path], given())) == ["a", "b", "d", "e", "c"]
    assert access.get("cm", "c")["data"] == {"k": "0"}


@pytest.mark.parametrize(
    ("manifest", "error", "text"),
    [
        ([config_map("a"), config_map("b")], RequestError, "want one object, not 2: `apply` takes several"),
        ([], RequestError, "want one object, not 0"),
        ({"metadata": {"name": "a"}}, RequestError, "the manifest has no kind"),
        ("absent.yaml", LoadError, "absent.yaml: No such file or directory"),
        ("{}", LoadError, "no object with apiVersion and kind"),
        (3, TypeError, "want an object, a path, YAML or JSON, not 3"),
        ({**config_map(), "metadata": None}, StatusError, "name or generateName is required"),
    ],
)
def test_what_cannot_be_created_is_told(access: ObjectAccess, manifest: Any, error: type, text: str) -> None:
    """A manifest that is none, or not one object, raises an error that says so."""
    with pytest.raises(error, match=text):
        access.create(manifest)


def test_update_needs_a_name(access: ObjectAccess) -> None:
    """An object without a name is not written to the path of all objects."""
    with pytest.raises(RequestError, match="resource name may not be empty"):
        access.update({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {}})


def test_name_is_generated(access: ObjectAccess) -> None:
    """An object with a generateName gets a name, also where it is applied."""
    manifest = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"generateName": "c-"}}
    for made in (access.create(manifest), *access.apply(manifest)):
        assert made["metadata"]["name"].startswith("c-")
    assert len(access.list("cm", "default")) == 2


# --- subresources ---------------------------------------------------------------------------------------------------


def test_status_is_written_beside_the_rest(access: ObjectAccess) -> None:
    """Create drops the status; update and patch of the subresource change nothing else; apply stores both."""
    assert access.create({**POD, "status": {"phase": "Running"}})["status"]["phase"] == "Pending"
    patched = access.patch("pods", "p", {"status": {"phase": "Running"}}, subresource="status")
    assert patched["status"]["phase"] == "Running"
    patched["status"]["message"] = "well"
    patched["spec"]["activeDeadlineSeconds"] = 5
    updated = access.update(patched, subresource="status")
    assert updated["status"]["message"] == "well"
    assert "activeDeadlineSeconds" not in updated["spec"]
    (applied,) = access.apply({**DEPLOYMENT, "status": {"replicas": 1}})
    assert applied["status"]["replicas"] == 1


def test_scale_is_read_and_written(access: ObjectAccess) -> None:
    """A subresource of another kind is read by its name, and written with the kind of its object."""
    access.create(DEPLOYMENT)
    scale = access.get("deploy", "web", subresource="scale")
    assert (scale["kind"], scale["spec"]["replicas"]) == ("Scale", 1)
    scale["spec"]["replicas"] = 3
    assert access.update(scale, kind="deploy", subresource="scale")["spec"]["replicas"] == 3
    access.patch("deploy", "web", {"spec": {"replicas": 4}}, subresource="scale")
    assert access.get("deploy", "web")["spec"]["replicas"] == 4


def test_requests_are_posted_to_objects(access: ObjectAccess) -> None:
    """Evictions and requests for tokens are created for an object, which the manifest or the call names."""
    access.create(POD)
    eviction = {"apiVersion": "policy/v1", "kind": "Eviction", "metadata": {"name": "p"}}
    access.create(eviction, kind="pods", subresource="eviction", dry_run=True)
    assert names(access.list("pods")) == ["p"]
    assert access.create(eviction, kind="pods", subresource="eviction")["status"] == "Success"
    assert access.list("pods") == []
    access.create({"apiVersion": "v1", "kind": "ServiceAccount", "metadata": {"name": "robot"}})
    request = {"apiVersion": "authentication.k8s.io/v1", "kind": "TokenRequest", "spec": {}}
    answer = access.create(request, kind="serviceaccounts", name="robot", subresource="token")
    assert answer["status"]["token"]


def test_what_is_no_object_is_told(access: ObjectAccess) -> None:
    """Logs are a text, which `get` does not return."""
    access.create(POD)
    with pytest.raises(RequestError, match="pods/p/log is not answered with an object"):
        access.get("pods", "p", subresource="log")


# --- patches --------------------------------------------------------------------------------------------------------

OTHER = {"name": "d", "image": "j"}


@pytest.mark.parametrize(
    ("type_", "containers"), [("", ["d", "c"]), ("strategic", ["d", "c"]), ("merge", ["d"]), ("apply", ["c", "d"])]
)
def test_patch_types_differ_in_lists(access: ObjectAccess, type_: Any, containers: list[str]) -> None:
    """A strategic merge patch, which is the default, merges lists by their keys, a merge patch replaces them."""
    access.create(DEPLOYMENT)
    changes: Obj = {"spec": {"template": {"spec": {"containers": [OTHER]}}}}
    if type_ == "apply":
        changes = {"apiVersion": "apps/v1", "kind": "Deployment", **changes}
    patched = access.patch("deployments", "web", changes, type=type_)
    assert [c["name"] for c in patched["spec"]["template"]["spec"]["containers"]] == containers


def test_list_is_a_json_patch(access: ObjectAccess) -> None:
    """A list of operations is a JSON patch, with its type and without."""
    access.create(config_map(k="1", l="1"))
    access.patch("cm", "a", [{"op": "remove", "path": "/data/k"}])
    assert access.patch("cm", "a", [{"op": "add", "path": "/data/m", "value": "1"}], type="json")["data"] == {
        "l": "1",
        "m": "1",
    }


def test_custom_resources_get_merge_patches(access: ObjectAccess) -> None:
    """A dict is a merge patch of a custom resource, which refuses strategic merge patches."""
    access.create(definition())
    access.create(ship(spec={"crew": [1, 2], "captain": "x"}))
    assert access.patch("ships", "a", {"spec": {"crew": [3], "captain": None}})["spec"] == {"crew": [3]}
    assert refusal(lambda: access.patch("ships", "a", {}, type="strategic"))[0] == 415
    assert access.patch("ships", "a", {"status": {"at": "sea"}}, subresource="status")["status"] == {"at": "sea"}


def test_unknown_patch_type_is_refused(access: ObjectAccess) -> None:
    """A mistyped type names those that there are."""
    with pytest.raises(ValueError, match="want a patch of the type strategic, merge, json, apply, not 'jsn'"):
        access.patch("cm", "a", {}, type="jsn")  # type: ignore[arg-type]


def test_force_is_for_apply_patches(access: ObjectAccess) -> None:
    """An apply patch takes over fields with `force` only; other patches may not have it."""
    access.create(config_map(k="1"), field_manager="other")
    changes = config_map(k="2")
    code, text = refusal(lambda: access.patch("cm", "a", changes, type="apply"))
    assert (code, 'conflict with "other"' in text) == (409, True)
    assert access.patch("cm", "a", changes, type="apply", force=True)["data"] == {"k": "2"}
    assert refusal(lambda: access.patch("cm", "a", {}, force=True))[0] == 422


# --- apply ----------------------------------------------------------------------------------------------------------


def test_read_object_can_be_changed_and_applied(apiserver: Server, access: ObjectAccess) -> None:
    """`get`, change, `apply` works: managed fields are left out. A key that another client created stays."""
    send(apiserver, "POST", PATH, config_map(k="1", l="1"))
    changed = access.get("cm", "a")
    del changed["data"]["k"]
    changed["data"]["l"] = "2"
    (applied,) = access.apply(changed)
    assert applied["data"] == {"k": "1", "l": "2"}
    assert ("understudy", "Apply") in managers(applied)
    (listed,) = access.list("cm", "default")
    del listed["data"]["l"]
    assert access.apply(listed)[0]["data"] == {"k": "1"}  # applied before, under the same name


def test_read_object_with_a_status_can_be_changed_and_applied(access: ObjectAccess) -> None:
    """The resourceVersion of an applied object with a status is that before its own change; a real change conflicts."""
    access.create(POD)
    access.patch("pods", "p", {"status": {"phase": "Running"}}, subresource="status")
    read = access.get("pods", "p")
    read["metadata"]["labels"] = {"x": "1"}
    read["status"]["message"] = "well"
    (applied,) = access.apply(read)
    assert (applied["metadata"]["labels"], applied["status"]["message"]) == ({"x": "1"}, "well")
    assert refusal(lambda: access.apply(read))[0] == 409


def test_apply_is_by_a_manager(access: ObjectAccess) -> None:
    """Each manager removes what it has applied itself, and conflicts with others unless it is forced."""
    access.apply(config_map(k="1", l="1"), field_manager="one")
    access.apply(config_map(m="1"), field_manager="two", force=False)
    assert access.apply(config_map(l="1"), field_manager="one")[0]["data"] == {"l": "1", "m": "1"}
    code, text = refusal(lambda: access.apply(config_map(l="2"), field_manager="two", force=False))
    assert (code, 'conflict with "one"' in text) == (409, True)
    (applied,) = access.apply(config_map(l="2"), field_manager="two")
    assert (applied["data"], managers(applied)) == ({"l": "2"}, [("two", "Apply")])


@pytest.mark.parametrize("verb", ["create", "apply"])
def test_definition_is_established_at_once(access: ObjectAccess, verb: str) -> None:
    """Objects of a definition can be created as soon as it is."""
    stored = access.create(definition()) if verb == "create" else access.apply(definition())[0]
    conditions = {condition["type"]: condition["status"] for condition in stored["status"]["conditions"]}
    assert conditions["Established"] == "True"
    assert access.create(ship(spec={}))["kind"] == "Ship"


# --- options --------------------------------------------------------------------------------------------------------


def test_dry_run_stores_nothing(access: ObjectAccess) -> None:
    """A dry run does everything but storing."""
    assert access.create(config_map(), dry_run=True)["metadata"]["uid"]
    assert access.apply({**DEPLOYMENT, "status": {"replicas": 1}}, definition(), dry_run=True)[0]["metadata"]["uid"]
    assert refusal(lambda: access.create(config_map("A"), dry_run=True))[0] == 422
    assert [access.list(kind, "default") for kind in ("cm", "deploy", "crd")] == [[], [], []]
    access.create(config_map(k="1"))
    access.update(config_map(k="2"), dry_run=True)
    access.patch("cm", "a", {"data": {"k": "2"}}, dry_run=True)
    access.delete("cm", "a", dry_run=True)
    assert names(access.delete_collection("cm", dry_run=True)) == ["a"]
    assert access.get("cm", "a")["data"] == {"k": "1"}


@pytest.mark.parametrize(
    "write",
    [
        lambda access, **options: access.create(config_map("b") | {"dta": {}}, **options),
        lambda access, **options: access.update(config_map("a") | {"dta": {}}, **options),
        lambda access, **options: access.patch("cm", "a", {"dta": {}}, **options),
        lambda access, **options: access.apply(config_map("a") | {"dta": {}}, **options),
    ],
    ids=["create", "update", "patch", "apply"],
)
def test_unknown_fields_are_refused_unless_told_otherwise(access: ObjectAccess, write: Callable[..., Obj]) -> None:
    """A mistyped field is an error; `field_validation` turns that off."""
    access.create(config_map("a"))
    code, text = refusal(lambda: write(access))
    assert code in (400, 422, 500)
    assert "dta" in text
    if "schema" not in text:  # an applied object has to fit its schema in any case
        write(access, field_validation="Ignore")


def test_field_manager_is_noted(access: ObjectAccess) -> None:
    """Writes are managed by the manager that is named, "understudy" by default."""
    assert managers(access.create(config_map(k="1"))) == [("understudy", "Update")]
    assert ("x", "Update") in managers(access.update(config_map(k="2"), field_manager="x"))
    assert ("y", "Update") in managers(access.patch("cm", "a", {"data": {"k": "3"}}, field_manager="y"))


# --- deletions ------------------------------------------------------------------------------------------------------


def test_only_the_named_object_is_deleted(access: ObjectAccess) -> None:
    """An object that has another uid or resourceVersion than the call says stays."""
    made = access.create(config_map())["metadata"]
    assert refusal(lambda: access.delete("cm", "a", uid="other"))[0] == 409
    assert refusal(lambda: access.delete("cm", "a", resource_version="1"))[0] == 409
    access.delete("cm", "a", uid=made["uid"], resource_version=made["resourceVersion"])
    assert access.list("cm", "default") == []


def test_deleted_object_with_finalizers_stays(access: ObjectAccess) -> None:
    """The answer is the object where it stays, and it shows what becomes of dependents."""
    manifest = config_map()
    manifest["metadata"]["finalizers"] = ["example.com/held"]
    access.create(manifest)
    answer = access.delete("cm", "a", propagation="Foreground")
    assert answer["metadata"]["finalizers"] == ["example.com/held", "foregroundDeletion"]
    assert answer["metadata"]["deletionTimestamp"]


def test_pod_on_a_node_is_deleted_at_once_if_told(access: ObjectAccess) -> None:
    """A pod that is on a node waits for its kubelet, unless the grace period is 0."""
    access.create({**POD, "spec": {**POD["spec"], "nodeName": "n"}})
    assert access.delete("pods", "p")["metadata"]["deletionGracePeriodSeconds"] == 30
    access.delete("pods", "p", grace_period=0)
    assert access.list("pods") == []


def test_collection_is_deleted_as_selected(access: ObjectAccess) -> None:
    """Objects that selectors match are deleted in one namespace, "default" by default, and returned."""
    access.create({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "other"}})
    for name, x in (("a", "1"), ("b", "1"), ("c", "2")):
        for namespace in ("default", "other"):
            access.create(config_map(name, {"x": x}), namespace)
    deleted = access.delete_collection("cm", labels={"x": "1"}, fields="metadata.name!=b")
    assert [(obj["kind"], obj["metadata"]["name"]) for obj in deleted] == [("ConfigMap", "a")]
    assert names(access.delete_collection("cm")) == ["b", "c"]
    assert names(access.list("cm", labels="x")) == ["a", "b", "c"]
    assert refusal(lambda: access.delete_collection("cm", "", labels="x"))[0] == 405
    assert names(access.delete_collection("cm", "other", labels="x in (1,2)")) == ["a", "b", "c"]


@pytest.mark.apiserver(authorization_mode="RBAC", tls=False)
def test_users_do_what_they_may(apiserver: Server) -> None:
    """Each verb is refused to a user without the right, and noted under its name."""
    driver = apiserver.user("driver")
    apiserver.create(config_map())
    uses: dict[str, Callable[[], object]] = {
        "get": lambda: driver.get("cm", "a"),
        "list": lambda: driver.list("cm", "default"),
        "watch": lambda: driver.watch("cm", "default"),
        "create": lambda: driver.create(config_map("b")),
        "update": lambda: driver.update(config_map()),
        "patch": lambda: driver.patch("cm", "a", {}),
        "delete": lambda: driver.delete("cm", "a"),
        "deletecollection": lambda: driver.delete_collection("cm"),
    }
    for verb, use in uses.items():
        assert f'User "driver" cannot {verb} resource "configmaps"' in refusal(use)[1]
        apiserver.allow("driver", verb, "configmaps", namespace="default")
        use()
    assert {(used.verb, used.resource) for used in apiserver.permissions("driver").used} == {
        (verb, "configmaps") for verb in uses
    }
