"""The controllers that can run behind a server: namespaces, garbage collection, definitions and flow schemas."""

from __future__ import annotations

import json
import threading
from collections.abc import Callable, Mapping
from typing import Any

import pytest

from tests.http import send, watch
from tests.releases import every_release
from understudy import Server
from understudy.cli.main import main
from understudy.controlplane.controllers.namespace import NamespaceController
from understudy.machinery.releases.version import Version
from understudy.machinery.types import Obj

pytestmark = pytest.mark.apiserver(controllers=["namespace", "garbage-collector"])


def request(server: Server, method: str, path: str, body: Obj | None = None) -> Obj:
    """Send a request that must succeed and return the object of the response."""
    response = send(server, method, path, body)
    assert response.status < 300, response.body
    answer: Obj = response.json()
    return answer


def until(server: Server, path: str, done: Callable[[Mapping[str, Obj]], bool]) -> dict[str, Obj]:
    """Watch a collection until `done` is true of its objects by name, and return them."""
    with watch(server, path) as events:
        listed = request(server, "GET", path)
        have = {item["metadata"]["name"]: item for item in listed["items"]}
        if done(have):
            return have
        seen = int(listed["metadata"]["resourceVersion"])
        for event in events:
            fields = event["object"]["metadata"]
            if int(fields["resourceVersion"]) <= seen:
                continue
            if event["type"] == "DELETED":
                have.pop(fields["name"], None)
            else:
                have[fields["name"]] = event["object"]
            if done(have):
                return have
    raise AssertionError("the watch ended")


def config_map(name: str, *owners: Obj, namespace: str = "default", **fields: Any) -> Obj:
    metadata = {"name": name, "namespace": namespace, **fields}
    if owners:
        metadata["ownerReferences"] = list(owners)
    return {"apiVersion": "v1", "kind": "ConfigMap", "metadata": metadata}


def owned(owner: Obj, *, blocks: bool = False) -> Obj:
    fields = owner["metadata"]
    reference = {k: owner[k] for k in ("apiVersion", "kind")} | {k: fields[k] for k in ("name", "uid")}
    return {**reference, "blockOwnerDeletion": True} if blocks else reference


def make(server: Server, obj: Obj) -> Obj:
    return server.apply(obj)[0]


CONFIG_MAPS = "/api/v1/namespaces/default/configmaps"


def delete(server: Server, name: str, policy: str) -> None:
    request(server, "DELETE", f"{CONFIG_MAPS}/{name}", {"propagationPolicy": policy})


def edit(server: Server, path: str, **metadata: Any) -> None:
    request(server, "PATCH", path, {"metadata": metadata})


def owners_of(obj: Obj) -> list[str]:
    return [owner["name"] for owner in obj["metadata"].get("ownerReferences", [])]


def test_no_controller_runs_by_default() -> None:
    """Without `controllers`, dependents stay and a deleted namespace stays Terminating."""
    with Server() as server:
        owner = make(server, config_map("owner"))
        make(server, config_map("dependent", owned(owner)))
        make(server, {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "a"}})
        server.delete("configmap", "owner")
        server.delete("namespace", "a")
        assert server.get("configmap", "dependent")
        assert server.get("namespace", "a")["status"]["phase"] == "Terminating"


@every_release
def test_namespace_is_emptied_and_deleted(release: Version) -> None:
    """A deleted namespace goes after everything in it; objects of other namespaces stay."""
    with Server(emulated_version=str(release), controllers=["namespace"]) as server:
        make(server, {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "a"}})
        server.apply(config_map("inside", namespace="a"), config_map("outside"))
        make(server, {"apiVersion": "v1", "kind": "Secret", "metadata": {"name": "s", "namespace": "a"}})
        spec = {"containers": [{"name": "c", "image": "i"}]}
        make(server, {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "p", "namespace": "a"}, "spec": spec})
        server.delete("namespace", "a")
        until(server, "/api/v1/namespaces", lambda have: "a" not in have)
        assert [c["metadata"]["name"] for c in server.list("configmaps", "default")] == ["outside"]
        assert [server.list(kind, "a") for kind in ("configmaps", "secrets", "pods")] == [[], [], []]


def test_finalizers_hold_a_namespace(apiserver: Server) -> None:
    """An object with finalizers keeps its namespace, whose conditions say so, until the finalizers are removed."""
    make(apiserver, {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "a"}})
    apiserver.apply(config_map("free", namespace="a"), config_map("held", namespace="a", finalizers=["e.com/f"]))
    apiserver.delete("namespace", "a")
    have = until(apiserver, "/api/v1/namespaces", lambda have: "conditions" in have["a"]["status"])
    assert {c["type"]: (c["status"], c["reason"], c["message"]) for c in have["a"]["status"]["conditions"]} == {
        "NamespaceDeletionDiscoveryFailure": (
            "False",
            "ResourcesDiscovered",
            "All resources successfully discovered",
        ),
        "NamespaceDeletionGroupVersionParsingFailure": (
            "False",
            "ParsedGroupVersions",
            "All legacy kube types successfully parsed",
        ),
        "NamespaceDeletionContentFailure": (
            "False",
            "ContentDeleted",
            "All content successfully deleted, may be waiting on finalization",
        ),
        "NamespaceContentRemaining": (
            "True",
            "SomeResourcesRemain",
            "Some resources are remaining: configmaps. has 1 resource instances",
        ),
        "NamespaceFinalizersRemaining": (
            "True",
            "SomeFinalizersRemain",
            "Some content in the namespace has finalizers remaining: e.com/f in 1 resource instances",
        ),
    }
    assert [c["metadata"]["name"] for c in apiserver.list("configmaps", "a")] == ["held"]
    edit(apiserver, "/api/v1/namespaces/a/configmaps/held", finalizers=None)
    until(apiserver, "/api/v1/namespaces", lambda have: "a" not in have)


def test_namespace_waits_for_foreign_finalizers(apiserver: Server) -> None:
    """A namespace is emptied, and then waits until others remove their finalizers from its spec."""
    spec = {"finalizers": ["kubernetes", "e.com/f"]}
    make(apiserver, {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "a"}, "spec": spec})
    make(apiserver, config_map("inside", namespace="a"))
    apiserver.delete("namespace", "a")
    have = until(apiserver, "/api/v1/namespaces", lambda have: have["a"]["spec"]["finalizers"] == ["e.com/f"])
    assert apiserver.list("configmaps", "a") == []
    request(apiserver, "PUT", "/api/v1/namespaces/a/finalize", {**have["a"], "spec": {}})
    until(apiserver, "/api/v1/namespaces", lambda have: "a" not in have)


def test_pods_on_a_node_hold_a_namespace(apiserver: Server) -> None:
    """A running pod is deleted gracefully, and its namespace waits until the kubelet has ended it."""
    make(apiserver, {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "a"}})
    spec = {"nodeName": "node", "containers": [{"name": "c", "image": "i"}]}
    make(apiserver, {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "p", "namespace": "a"}, "spec": spec})
    apiserver.delete("namespace", "a")
    until(apiserver, "/api/v1/namespaces", lambda have: "conditions" in have["a"]["status"])
    assert "deletionTimestamp" in apiserver.get("pod", "p", "a")["metadata"]
    request(apiserver, "DELETE", "/api/v1/namespaces/a/pods/p", {"gracePeriodSeconds": 0})
    until(apiserver, "/api/v1/namespaces", lambda have: "a" not in have)


def test_background_deletion(apiserver: Server) -> None:
    """The owner goes at once; its dependents and their dependents follow."""
    owner = make(apiserver, config_map("owner"))
    child = make(apiserver, config_map("child", owned(owner)))
    apiserver.apply(config_map("grandchild", owned(child)), config_map("other"))
    delete(apiserver, "owner", "Background")
    assert set(until(apiserver, CONFIG_MAPS, lambda have: len(have) == 1)) == {"other"}


def test_cluster_scoped_owner_has_dependents_of_any_kind(apiserver: Server) -> None:
    """A cluster-scoped owner takes dependents of any kind with it."""
    node = make(apiserver, {"apiVersion": "v1", "kind": "Node", "metadata": {"name": "node"}})
    api_version = "resource.k8s.io/v1beta1"
    resource_slice = {
        "apiVersion": api_version,
        "kind": "ResourceSlice",
        "metadata": {"name": "slice", "ownerReferences": [owned(node)]},
        "spec": {
            "nodeName": "node",
            "driver": "d.example.com",
            "pool": {"name": "p", "generation": 1, "resourceSliceCount": 1},
        },
    }
    apiserver.apply(resource_slice, config_map("dependent", owned(node)))
    apiserver.delete("node", "node")
    until(apiserver, f"/apis/{api_version}/resourceslices", lambda have: not have)
    until(apiserver, CONFIG_MAPS, lambda have: not have)


def test_dependent_of_an_absent_uid_is_collected(apiserver: Server) -> None:
    """A dependent is collected if no object has both the name and the uid of its owner."""
    owner = make(apiserver, config_map("owner"))
    absent = {**owned(owner), "uid": "00000000-0000-0000-0000-000000000000"}
    make(apiserver, config_map("dependent", absent))
    assert set(until(apiserver, CONFIG_MAPS, lambda have: len(have) == 1)) == {"owner"}


def test_dependent_stays_with_its_last_owner(apiserver: Server) -> None:
    """A dependent with another owner left stays, and loses the reference to the deleted one."""
    owners = [make(apiserver, config_map(name)) for name in ("one", "two")]
    make(apiserver, config_map("dependent", *map(owned, owners)))
    delete(apiserver, "one", "Background")
    until(apiserver, CONFIG_MAPS, lambda have: owners_of(have["dependent"]) == ["two"])
    delete(apiserver, "two", "Background")
    until(apiserver, CONFIG_MAPS, lambda have: not have)


def test_owner_is_looked_up_in_the_dependents_namespace(apiserver: Server) -> None:
    """An owner in another namespace does not count: the dependent is collected."""
    make(apiserver, {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "a"}})
    owner = make(apiserver, config_map("owner", namespace="a"))
    make(apiserver, config_map("dependent", owned(owner)))
    until(apiserver, CONFIG_MAPS, lambda have: not have)
    assert apiserver.get("configmap", "owner", "a")


def test_dependent_of_an_unknown_kind_stays(apiserver: Server) -> None:
    """An owner of a kind that is not served may exist, so its dependent stays."""
    unknown = {"apiVersion": "example.com/v1", "kind": "Widget", "name": "w", "uid": "1"}
    gone = {"apiVersion": "v1", "kind": "ConfigMap", "name": "gone", "uid": "2"}
    apiserver.apply(config_map("kept", unknown, gone), config_map("collected", gone))
    assert set(until(apiserver, CONFIG_MAPS, lambda have: len(have) == 1)) == {"kept"}


def test_foreground_deletion(apiserver: Server) -> None:
    """The owner waits for the dependents that block it, which are deleted meanwhile."""
    owner = make(apiserver, config_map("owner"))
    blocking = owned(owner, blocks=True)
    apiserver.apply(config_map("held", blocking, finalizers=["e.com/f"]), config_map("free", blocking))
    delete(apiserver, "owner", "Foreground")
    have = until(apiserver, CONFIG_MAPS, lambda have: "free" not in have)
    assert have["owner"]["metadata"]["finalizers"] == ["foregroundDeletion"]
    until(apiserver, CONFIG_MAPS, lambda have: "deletionTimestamp" in have["held"]["metadata"])
    edit(apiserver, f"{CONFIG_MAPS}/held", finalizers=None)
    until(apiserver, CONFIG_MAPS, lambda have: not have)


def test_foreground_deletion_reaches_grandchildren(apiserver: Server) -> None:
    """A blocking dependent with dependents of its own is deleted in the foreground too, the youngest first."""
    owner = make(apiserver, config_map("owner"))
    child = make(apiserver, config_map("child", owned(owner, blocks=True)))
    make(apiserver, config_map("grandchild", owned(child, blocks=True), finalizers=["e.com/f"]))
    delete(apiserver, "owner", "Foreground")
    have = until(apiserver, CONFIG_MAPS, lambda have: "deletionTimestamp" in have["grandchild"]["metadata"])
    assert have["child"]["metadata"]["finalizers"] == ["foregroundDeletion"]
    assert have["owner"]["metadata"]["finalizers"] == ["foregroundDeletion"]
    edit(apiserver, f"{CONFIG_MAPS}/grandchild", finalizers=None)
    until(apiserver, CONFIG_MAPS, lambda have: not have)


def test_foreground_deletion_waits_for_blocking_dependents_only(apiserver: Server) -> None:
    """A dependent without `blockOwnerDeletion` is deleted, and its owner does not wait for it."""
    owner = make(apiserver, config_map("owner"))
    make(apiserver, config_map("held", owned(owner), finalizers=["e.com/f"]))
    delete(apiserver, "owner", "Foreground")
    have = until(apiserver, CONFIG_MAPS, lambda have: "owner" not in have and "deletionTimestamp" in str(have["held"]))
    assert have["held"]["metadata"]["finalizers"] == ["e.com/f"]


def test_owner_goes_when_nothing_blocks_it(apiserver: Server) -> None:
    """The owner goes as soon as an edited reference no longer blocks it."""
    owner = make(apiserver, config_map("owner"))
    make(apiserver, config_map("held", owned(owner, blocks=True), finalizers=["e.com/f"]))
    delete(apiserver, "owner", "Foreground")
    until(apiserver, CONFIG_MAPS, lambda have: "deletionTimestamp" in have["held"]["metadata"])
    edit(apiserver, f"{CONFIG_MAPS}/held", ownerReferences=[owned(owner)])
    assert set(until(apiserver, CONFIG_MAPS, lambda have: len(have) == 1)) == {"held"}


def test_circle_of_owners_can_be_deleted(apiserver: Server) -> None:
    """Two objects that own each other can be deleted in the foreground."""
    one = make(apiserver, config_map("one"))
    two = make(apiserver, config_map("two", owned(one, blocks=True)))
    edit(apiserver, f"{CONFIG_MAPS}/one", ownerReferences=[owned(two, blocks=True)])
    delete(apiserver, "one", "Foreground")
    until(apiserver, CONFIG_MAPS, lambda have: not have)


def test_orphan_deletion(apiserver: Server) -> None:
    """The dependents lose their reference and stay, and then the owner goes."""
    owner, other = (make(apiserver, config_map(name)) for name in ("owner", "other"))
    apiserver.apply(config_map("one", owned(owner)), config_map("two", owned(owner), owned(other)))
    delete(apiserver, "owner", "Orphan")
    have = until(apiserver, CONFIG_MAPS, lambda have: "owner" not in have)
    assert (owners_of(have["one"]), owners_of(have["two"])) == ([], ["other"])


def test_claims_that_a_patch_would_rewrite_keep_their_owners(apiserver: Server) -> None:
    """A claim whose parameters are not spelt as patches write them cannot lose its owner: so it is with the real one,
    whose strategic merge patches are refused since they would change the claim's spec."""
    claims = "/apis/resource.k8s.io/v1/namespaces/default/resourceclaims"
    for name, parameters in (("spaces", '{"a": 1}'), ("order", '{"b":1,"a":2}'), ("plain", '{"a":1,"b":2}')):
        owner = owned(make(apiserver, config_map(f"{name}-owner")))
        spec = {
            "devices": {
                "requests": [{"name": "gpu", "exactly": {"deviceClassName": "gpu"}}],
                "config": [{"opaque": {"driver": "d.example.com", "parameters": None}}],
            }
        }
        metadata = {"name": name, "ownerReferences": [owner]}
        claim = {"apiVersion": "resource.k8s.io/v1", "kind": "ResourceClaim", "metadata": metadata, "spec": spec}
        body = json.dumps(claim).replace("null", parameters).encode()
        assert send(apiserver, "POST", claims, body).status == 201
    for name in ("spaces", "order", "plain"):
        delete(apiserver, f"{name}-owner", "Orphan")
    have = until(apiserver, CONFIG_MAPS, lambda have: "plain-owner" not in have)
    assert sorted(have) == ["order-owner", "spaces-owner"]
    owners = {item["metadata"]["name"]: owners_of(item) for item in apiserver.list("resourceclaims")}
    assert owners == {"spaces": ["spaces-owner"], "order": ["order-owner"], "plain": []}


def test_changes_belong_to_the_controller_manager(apiserver: Server) -> None:
    """Fields that controllers write belong to kube-controller-manager, as with the real one."""
    make(apiserver, {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "a", "labels": {"l": "v"}}})
    make(apiserver, config_map("held", namespace="a", finalizers=["e.com/f"]))
    apiserver.delete("namespace", "a")
    have = until(apiserver, "/api/v1/namespaces", lambda have: "conditions" in have["a"]["status"])
    managers = have["a"]["metadata"]["managedFields"]
    assert [(m["manager"], m["operation"], m.get("subresource")) for m in managers] == [
        ("understudy", "Apply", None),
        ("kube-controller-manager", "Update", "status"),
    ]


def test_loaded_objects_are_collected() -> None:
    """Objects that are there from the start are collected too, and again after a reset."""
    gone = {"apiVersion": "v1", "kind": "ConfigMap", "name": "gone", "uid": "1"}
    with Server(load=[config_map("dependent", gone)], controllers=["garbage-collector"]) as server:
        until(server, CONFIG_MAPS, lambda have: not have)
        server.reset()
        until(server, CONFIG_MAPS, lambda have: not have)


def test_reset_while_controllers_work(apiserver: Server) -> None:
    """A server that is reset while the controllers work is as new, and they go on."""
    for _ in range(3):
        make(apiserver, {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "a"}})
        apiserver.apply(*(config_map(f"c{n}", namespace="a") for n in range(20)))
        apiserver.delete("namespace", "a")
        apiserver.reset()
        assert apiserver.list("configmaps", "a") == []
        assert "a" not in {namespace["metadata"]["name"] for namespace in apiserver.list("namespaces")}


def test_writes_do_not_wait_for_controllers(apiserver: Server) -> None:
    """A write is answered while the controllers have hundreds of objects to delete."""
    owner = make(apiserver, config_map("owner"))
    apiserver.apply(*(config_map(f"c{n}", owned(owner)) for n in range(300)))
    delete(apiserver, "owner", "Background")
    assert make(apiserver, config_map("new"))
    assert set(until(apiserver, CONFIG_MAPS, lambda have: len(have) == 1)) == {"new"}


def test_controller_survives_a_bug_of_its_own(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """An unexpected error of a controller is logged, and the key is looked at again, as those after it."""
    sync, failures = NamespaceController.sync, ["first", "second"]

    async def failing(self: NamespaceController, key: str) -> None:
        if failures:
            raise RuntimeError(failures.pop(0))
        await sync(self, key)

    monkeypatch.setattr(NamespaceController, "sync", failing)
    with Server(controllers=["namespace"]) as server:
        for name in ("one", "two"):
            make(server, {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": name}})
            request(server, "DELETE", f"/api/v1/namespaces/{name}")
        until(server, "/api/v1/namespaces", lambda namespaces: not {"one", "two"} & namespaces.keys())
    errors = [record for record in caplog.records if record.levelname == "ERROR"]
    assert [record.getMessage().rpartition(": ")[2] for record in errors] == ["first", "second"]


def test_unknown_controller_is_refused(capsys: pytest.CaptureFixture[str]) -> None:
    """A controller that does not exist is an error of one line."""
    assert main(["serve", "--port=0", "--controllers=namespace,podgc"]) == 2
    text = capsys.readouterr().err
    known = (
        "namespace, garbage-collector, clusterrole-aggregation, validatingadmissionpolicy-status, serviceaccount, "
        "serviceaccount-token, legacy-serviceaccount-token-cleaner, root-ca-certificate-publisher, "
        "podgroup-protection, node-lifecycle, taint-eviction, device-taint-eviction, resourceclaim, scheduler"
    )
    assert text == f"understudy: unknown controller 'podgc': known are {known}\n"


def test_controllers_end_with_their_server(apiserver: Server) -> None:
    """No thread and no warning is left when a server with controllers is closed."""
    before = {thread.ident for thread in threading.enumerate()}
    with Server(controllers=["namespace", "garbage-collector"]) as server:
        make(server, {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "a"}})
        make(server, config_map("held", namespace="a", finalizers=["e.com/f"]))
        server.delete("namespace", "a")
    assert {thread.ident for thread in threading.enumerate()} <= before


DEFINITIONS = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions"


def definition(plural: str, kind: str, group: str = "example.com") -> Obj:
    schema = {"openAPIV3Schema": {"type": "object"}}
    return {
        "apiVersion": "apiextensions.k8s.io/v1",
        "kind": "CustomResourceDefinition",
        "metadata": {"name": f"{plural}.{group}"},
        "spec": {
            "group": group,
            "scope": "Cluster",
            "names": {"plural": plural, "kind": kind},
            "versions": [{"name": "v1", "served": True, "storage": True, "schema": schema}],
        },
    }


def conditions(obj: Obj | None) -> dict[str, tuple[str, str]]:
    """Return {type: (status, reason)} of an object's conditions."""
    result = ((obj or {}).get("status") or {}).get("conditions") or ()
    return {condition["type"]: (condition["status"], condition["reason"]) for condition in result}


ESTABLISHED = {"NamesAccepted": ("True", "NoConflicts"), "Established": ("True", "InitialNamesAccepted")}


@pytest.mark.apiserver(controllers=[])
def test_definition_is_established(apiserver: Server) -> None:
    """A definition gets its names and is established without any controller switched on; then its kind is immutable."""
    created = request(apiserver, "POST", DEFINITIONS, definition("tables", "Table"))
    assert created["status"] == {
        "conditions": None,
        "acceptedNames": {"plural": "", "kind": ""},
        "storedVersions": ["v1"],
    }
    have = until(apiserver, DEFINITIONS, lambda have: conditions(have.get("tables.example.com")) == ESTABLISHED)
    established = have["tables.example.com"]
    names = {"plural": "tables", "singular": "table", "kind": "Table", "listKind": "TableList"}
    assert established["status"]["acceptedNames"] == names
    owners = established["metadata"]["managedFields"]
    assert {owner["manager"]: owner.get("subresource") for owner in owners} == {
        "unknown": None,
        "kube-apiserver": "status",
    }
    established["spec"]["names"]["kind"] = "Desk"
    refused = send(apiserver, "PUT", f"{DEFINITIONS}/tables.example.com", established)
    assert refused.status == 422
    causes = refused.json()["details"]["causes"]
    assert [cause["field"] for cause in causes] == ["spec.names.kind"]


@pytest.mark.apiserver(controllers=[])
def test_conflicting_names_are_not_accepted(apiserver: Server) -> None:
    """Names that another definition of the group has are accepted only once that definition is gone."""
    request(apiserver, "POST", DEFINITIONS, definition("tables", "Table"))
    until(apiserver, DEFINITIONS, lambda have: conditions(have.get("tables.example.com")) == ESTABLISHED)
    for other in (definition("desks", "Table"), definition("tables", "Table", "other.example.com")):
        request(apiserver, "POST", DEFINITIONS, other)
    taken = {"NamesAccepted": ("False", "ListKindConflict"), "Established": ("False", "NotAccepted")}
    until(
        apiserver,
        DEFINITIONS,
        lambda have: (
            (conditions(have.get("desks.example.com")), conditions(have.get("tables.other.example.com")))
            == (taken, ESTABLISHED)
        ),
    )
    gone = request(apiserver, "DELETE", f"{DEFINITIONS}/tables.example.com")
    assert gone["metadata"]["finalizers"] == ["customresourcecleanup.apiextensions.k8s.io"]
    assert conditions(gone)["Terminating"] == ("True", "InstanceDeletionPending")
    until(
        apiserver,
        DEFINITIONS,
        lambda have: "tables.example.com" not in have and conditions(have["desks.example.com"]) == ESTABLISHED,
    )


FLOW = "/apis/flowcontrol.apiserver.k8s.io/v1"


@pytest.mark.apiserver(controllers=[])
def test_flow_schema_reports_a_missing_priority_level(apiserver: Server) -> None:
    """A flow schema is Dangling while its priority level does not exist."""
    kinds = {"apiVersion": "flowcontrol.apiserver.k8s.io/v1", "metadata": {"name": "mine"}}
    spec = {"type": "Limited", "limited": {"limitResponse": {"type": "Reject"}}}
    level = {**kinds, "kind": "PriorityLevelConfiguration", "spec": spec}
    schema = {**kinds, "kind": "FlowSchema", "spec": {"priorityLevelConfiguration": {"name": "mine"}}}

    def until_dangling(status: str, reason: str) -> Obj:
        dangling = {"Dangling": (status, reason)}
        return until(apiserver, f"{FLOW}/flowschemas", lambda have: conditions(have["mine"]) == dangling)["mine"]

    request(apiserver, "POST", f"{FLOW}/flowschemas", schema)
    until_dangling("True", "NotFound")
    request(apiserver, "POST", f"{FLOW}/prioritylevelconfigurations", level)
    until_dangling("False", "Found")
    request(apiserver, "DELETE", f"{FLOW}/prioritylevelconfigurations/mine")
    owner = until_dangling("True", "NotFound")["metadata"]["managedFields"][0]
    manager = (owner["manager"], owner["operation"], owner["subresource"])
    assert manager == ("api-priority-and-fairness-config-consumer-v1", "Apply", "status")
