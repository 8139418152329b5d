"""The decisions of the node authorizer, by what is stored: those of kube-apiserver 1.32.5 and 1.36.4."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import pytest

from tests.http import send
from understudy import Server
from understudy.apiserver.authorization.metrics import AuthorizationMetrics
from understudy.apiserver.authorization.modes import new_authorization
from understudy.apiserver.authorization.node.authorizer import NodeAuthorizer
from understudy.apiserver.authorization.rbac.bootstrap_policy import node_rules
from understudy.cel.library.authorization import AuthorizerValue, ResourceCheck
from understudy.cel.library.authorization_selectors import FUNCTIONS
from understudy.machinery.auth.authorization import Attributes, Decision, field_terms
from understudy.machinery.auth.users import User
from understudy.machinery.releases.features import Gates
from understudy.machinery.releases.version import V1_32, V1_33, V1_36, V1_37, Version
from understudy.machinery.types import Obj


class Stored:
    """Objects by group and resource."""

    def __init__(self, objects: Mapping[tuple[str, str], list[Obj]]) -> None:
        self._objects = objects
        self.calls: dict[tuple[str, str], Callable[[], None]] = {}

    def stored(self, group: str, resource: str) -> Sequence[Obj]:
        return self._objects.get((group, resource), [])

    def on_change(self, group: str, resource: str, call: Callable[[], None]) -> None:
        self.calls[group, resource] = call


def named(name: str, namespace: str = "", **fields: Any) -> Obj:
    return {"metadata": {"name": name, **({"namespace": namespace} if namespace else {})}, **fields}


SPEC = {
    "nodeName": "n",
    "serviceAccountName": "robot",
    "imagePullSecrets": [{"name": "pull"}],
    "initContainers": [{"envFrom": [{"secretRef": {"name": "init"}}, {"configMapRef": {"name": "init-map"}}]}],
    "containers": [
        {
            "env": [
                {"name": "A", "value": "1"},
                {"name": "B", "valueFrom": {"secretKeyRef": {"name": "key"}}},
                {"name": "C", "valueFrom": {"configMapKeyRef": {"name": "key-map"}}},
            ]
        }
    ],
    "ephemeralContainers": [{"envFrom": [{"secretRef": {"name": "debug"}}]}],
    "volumes": [
        {"name": "a", "secret": {"secretName": "volume"}},
        {"name": "b", "azureFile": {"secretName": "file"}},
        {"name": "c", "rbd": {"secretRef": {"name": "rbd"}}},
        {"name": "d", "storageos": {"secretRef": {"name": "storageos"}}},
        {"name": "e", "csi": {"nodePublishSecretRef": {"name": "csi"}}},
        {"name": "f", "projected": {"sources": [{"secret": {"name": "part"}}, {"configMap": {"name": "part-map"}}]}},
        {"name": "g", "configMap": {"name": "volume-map"}},
        {"name": "h", "persistentVolumeClaim": {"claimName": "data"}},
        {"name": "i", "ephemeral": {"volumeClaimTemplate": {}}},
    ],
    "resourceClaims": [
        {"name": "x", "resourceClaimName": "gpu"},
        {"name": "y", "resourceClaimTemplateName": "t"},
        {"name": "z", "resourceClaimTemplateName": "t"},
    ],
}
STATUS = {
    "resourceClaimStatuses": [{"name": "y", "resourceClaimName": "made"}, {"name": "z"}],
    "extendedResourceClaimStatus": {"resourceClaimName": "extended"},
}
MIRROR = named("mirror", "ns", spec={"nodeName": "n", "serviceAccountName": "mirrored"})
MIRROR["metadata"]["annotations"] = {"kubernetes.io/config.mirror": "x"}
CLAIM = {"namespace": "ns", "name": "data"}
CSI = {
    "nodeStageSecretRef": {"namespace": "other", "name": "stage"},
    "controllerPublishSecretRef": {"namespace": "other", "name": "controller"},
}
OBJECTS = {
    ("", "pods"): [
        named("pod", "ns", spec=SPEC, status=STATUS),
        named("foreign", "ns", spec={"nodeName": "m", "serviceAccountName": "foreign"}),
        named("pending", "ns", spec={"serviceAccountName": "waiting"}),
        MIRROR,
    ],
    ("", "persistentvolumes"): [
        named("bound", spec={"claimRef": CLAIM, "cephfs": {"secretRef": {"name": "ceph"}}}),
        named("csi", spec={"claimRef": CLAIM, "csi": CSI}),
        named("azure", spec={"claimRef": CLAIM, "azureFile": {"secretName": "azure", "secretNamespace": "other"}}),
        named("cinder", spec={"claimRef": CLAIM, "cinder": {"secretRef": {"name": "cinder"}}}),
        named("free", spec={"rbd": {"secretRef": {"namespace": "ns", "name": "free"}}}),
    ],
    ("storage.k8s.io", "volumeattachments"): [named("va", spec={"nodeName": "n"}), named("vb", spec={"nodeName": "m"})],
    ("resource.k8s.io", "resourceslices"): [named("slice", spec={"nodeName": "n"}), named("all", spec={})],
    ("certificates.k8s.io", "podcertificaterequests"): [named("pcr", "ns", spec={"nodeName": "n"})],
}
UNRELATED = "no relationship found between node 'n' and this object"
NODE = User("system:node:n", ["system:nodes"])
GROUPS = {
    "resourceclaims": "resource.k8s.io",
    "resourceslices": "resource.k8s.io",
    "volumeattachments": "storage.k8s.io",
    "csinodes": "storage.k8s.io",
    "csidrivers": "storage.k8s.io",
    "leases": "coordination.k8s.io",
    "podcertificaterequests": "certificates.k8s.io",
}


def decide(
    question: str, release: Version = V1_32, gates: Mapping[str, bool] | None = None, user: User = NODE
) -> Decision:
    """Ask for `VERB RESOURCE[/SUBRESOURCE] [NAMESPACE/][NAME] [FIELD SELECTOR]`; `-` is no name."""
    verb, resource, where, selector = (*question.split(), "", "")[:4]
    resource, _, subresource = resource.partition("/")
    namespace, _, name = where.rpartition("/")
    switched = Gates.of(release, gates or {})
    authorizer = NodeAuthorizer(Stored(OBJECTS), release, switched, node_rules(release, switched))
    attributes = Attributes(
        "",
        verb,
        True,
        GROUPS.get(resource, ""),
        "v1",
        namespace,
        resource,
        subresource,
        name.removeprefix("-"),
        field_terms(selector),
    )
    return authorizer.authorize(user, attributes)


SECRETS = ["pull", "init", "key", "debug", "volume", "file", "rbd", "storageos", "csi", "part", "ceph"]
MAPS = ["init-map", "key-map", "part-map", "volume-map"]


@pytest.mark.parametrize(
    "question",
    [
        *(f"get secrets ns/{name}" for name in SECRETS),
        *(f"get configmaps ns/{name}" for name in MAPS),
        "list secrets ns/volume",
        "watch configmaps ns/volume-map",
        "get secrets other/stage",
        "get secrets other/azure",
        "get persistentvolumeclaims ns/data",
        "get persistentvolumeclaims ns/pod-i",
        "patch persistentvolumeclaims/status ns/data",
        "get persistentvolumes bound",
        *(f"get resourceclaims ns/{name}" for name in ("gpu", "made", "extended")),
        "get volumeattachments va",
        "create serviceaccounts/token ns/robot",
        "update leases kube-node-lease/n",
        "create leases kube-node-lease/-",
        "delete csinodes n",
        "create csinodes -",
        "create resourceslices -",
        "delete resourceslices slice",
        "deletecollection resourceslices - spec.nodeName=n,spec.driver=d",
        "get nodes n",
        "list nodes n",
        "create nodes -",
        "patch nodes/status n",
        "get pods ns/pod",
        "get pods ns/mirror",
        "list pods ns/pod",
        "list pods - spec.nodeName=n",
        "watch pods ns/- status.phase=Running,spec.nodeName==n",
        "delete pods ns/foreign",
        "patch pods/status ns/foreign",
        "create pods/eviction ns/foreign",
        "list services -",
        "watch csidrivers -",
    ],
)
def test_allowed(question: str) -> None:
    """A node may use what its pods name, what names the node, and what every node needs."""
    assert decide(question) == Decision(True)


@pytest.mark.parametrize(
    ("question", "reason"),
    [
        ("get secrets ns/absent", UNRELATED),
        ("get secrets other/volume", UNRELATED),
        ("get secrets other/controller", UNRELATED),
        ("get secrets ns/free", UNRELATED),
        ("get secrets ns/cinder", UNRELATED),
        ("get secrets ns/volume-map", UNRELATED),
        ("list secrets ns/-", "No Object name found"),
        ("list secrets -", "can only read namespaced object of this type"),
        ("update secrets ns/volume", "can only read resources of this type"),
        ("get configmaps/x ns/volume-map", "cannot read subresource"),
        ("list persistentvolumeclaims ns/data", "can only get individual resources of this type"),
        ("get persistentvolumes/status bound", "cannot get subresource"),
        ("get persistentvolumes free", UNRELATED),
        ("get persistentvolumeclaims/status ns/data", "can only get/update/patch this type"),
        ("get persistentvolumeclaims ns/pod-h", UNRELATED),
        ("get resourceclaims ns/z", UNRELATED),
        ("get resourceclaims ns/t", UNRELATED),
        ("get volumeattachments vb", UNRELATED),
        ("get volumeattachments ns/va", UNRELATED),
        ("create serviceaccounts/token ns/foreign", UNRELATED),
        ("create serviceaccounts/token ns/waiting", UNRELATED),
        ("create serviceaccounts/token ns/mirrored", UNRELATED),
        ("create serviceaccounts ns/robot", "can only create token subresource of serviceaccount"),
        ("get serviceaccounts ns/robot", "can only create tokens for individual service accounts"),
        ("list leases kube-node-lease/-", "can only get, create, update, patch, or delete a node lease"),
        ("get leases ns/n", 'can only access leases in the "kube-node-lease" system namespace'),
        ("get leases kube-node-lease/m", "can only access node lease with the same name as the requesting node"),
        ("list csinodes -", "can only get, create, update, patch, or delete a CSINode"),
        ("get csinodes/status n", "cannot authorize CSINode subresources"),
        ("get csinodes m", "can only access CSINode with the same name as the requesting node"),
        ("get resourceslices/status slice", "cannot authorize ResourceSlice subresources"),
        ("get resourceslices all", UNRELATED),
        (
            "list resourceslices - spec.nodeName!=n",
            "can only list/watch/deletecollection resourceslices with nodeName field selector",
        ),
        (
            "proxy resourceslices slice",
            "only the following verbs are allowed for a ResourceSlice: get, watch, list, create, update, patch, "
            "delete, deletecollection",
        ),
        ("get nodes m", "node 'n' cannot read 'm', only its own Node object"),
        ("list nodes -", "node 'n' cannot read all nodes, only its own Node object"),
        ("delete nodes n", ""),
        ("get pods ns/foreign", UNRELATED),
        ("list pods -", "can only list/watch pods with spec.nodeName field selector"),
        ("list pods ns/- spec.nodeName=m", "can only list/watch pods with spec.nodeName field selector"),
        ("list pods ns/foreign", UNRELATED),
        ("update pods ns/pod", ""),
        ("get pods/log ns/pod", ""),
        ("list namespaces -", ""),
        ("get podcertificaterequests ns/pcr", ""),
    ],
)
def test_refused(question: str, reason: str) -> None:
    """Anything else is refused, with a reason where the rule is about single objects."""
    assert decide(question) == Decision(False, reason)


@pytest.mark.parametrize(
    ("question", "release", "gates", "decision"),
    [
        ("list pods -", V1_32, {"AuthorizeNodeWithSelectors": False}, (True, "")),
        ("get nodes m", V1_32, {"AuthorizeNodeWithSelectors": False}, (True, "")),
        ("list resourceslices -", V1_32, {"AuthorizeNodeWithSelectors": False}, (True, "")),
        ("get serviceaccounts ns/robot", V1_33, {}, (False, "not allowed to get service accounts")),
        ("get serviceaccounts ns/robot", V1_36, {}, (True, "")),
        ("get serviceaccounts ns/foreign", V1_36, {}, (False, UNRELATED)),
        ("get podcertificaterequests ns/pcr", V1_36, {}, (False, "")),
        *(
            (question, V1_36, {"PodCertificateRequest": True}, decision)
            for question, decision in (
                ("create podcertificaterequests ns/-", (True, "")),
                ("get podcertificaterequests ns/pcr", (True, "")),
                ("get podcertificaterequests ns/other", (False, UNRELATED)),
                ("list podcertificaterequests - spec.nodeName=n", (True, "")),
                (
                    "watch podcertificaterequests -",
                    (False, "can only list/watch podcertificaterequests with nodeName field selector"),
                ),
                ("patch podcertificaterequests ns/pcr", (False, "nodes may not patch podcertificaterequests")),
                (
                    "get podcertificaterequests/status ns/pcr",
                    (False, "nodes may not access the status subresource of PodCertificateRequests"),
                ),
            )
        ),
    ],
)
def test_gates(question: str, release: Version, gates: dict[str, bool], decision: tuple[bool, str]) -> None:
    """Releases and feature gates decide about selectors, service accounts and certificate requests."""
    assert decide(question, release, gates) == Decision(*decision)


@pytest.mark.parametrize(
    ("user", "reason"),
    [
        (User("system:node:", ["system:nodes"]), 'unknown node for user "system:node:"'),
        (User("system:node:n", []), ""),
        (User("n", ["system:nodes"]), ""),
    ],
)
def test_users(user: User, reason: str) -> None:
    """A node is known by its name and its group."""
    assert decide("get nodes n", user=user) == Decision(False, reason)


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    tokens: Path = tmp_path_factory.mktemp("tokens") / "tokens.csv"
    tokens.write_text('root,root,1,system:masters\nn,system:node:n,2,"system:nodes"\n')
    with Server(emulated_version="1.32", authorization_mode="Node,RBAC", token_auth_file=tokens, tls=False) as running:
        yield running


@pytest.mark.parametrize(
    ("method", "path", "status"),
    [
        ("GET", "/api/v1/pods?fieldSelector=spec.nodeName%3Dn", 200),
        ("GET", "/api/v1/watch/pods?fieldSelector=spec.nodeName%3Dn&timeoutSeconds=1", 200),
        ("GET", "/api/v1/pods?fieldSelector=spec.nodeName%3Dm", 403),
        ("GET", "/api/v1/pods?fieldSelector=a%3Db%3Dc", 403),
        ("DELETE", "/apis/resource.k8s.io/v1beta1/resourceslices?fieldSelector=spec.nodeName%3Dn", 200),
        ("DELETE", "/apis/resource.k8s.io/v1beta1/resourceslices", 403),
        ("GET", "/version", 200),
    ],
)
def test_requests(server: Server, method: str, path: str, status: int) -> None:
    """Requests are judged by their field selector, and what the authorizer refuses is left to RBAC."""
    assert send(server, method, path, headers={"Authorization": "Bearer n"}).status == status


@pytest.mark.parametrize(
    ("selector", "allowed"),
    [
        ({"requirements": [{"key": "spec.nodeName", "operator": "In", "values": ["n"]}]}, True),
        ({"requirements": [{"key": "spec.nodeName", "operator": "NotIn", "values": ["n"]}]}, False),
        ({"requirements": [{"key": "spec.nodeName", "operator": "Exists"}]}, False),
        ({"rawSelector": "spec.nodeName=n"}, True),
        ({"rawSelector": "spec.nodeName=m"}, False),
    ],
)
def test_reviews(server: Server, selector: Obj, allowed: bool) -> None:
    """Access reviews may hold a field selector, in parts or as text."""
    resource = {"verb": "list", "resource": "pods", "fieldSelector": selector}
    spec = {"user": "system:node:n", "groups": ["system:nodes"], "resourceAttributes": resource}
    body = {"apiVersion": "authorization.k8s.io/v1", "kind": "SubjectAccessReview", "spec": spec}
    path = "/apis/authorization.k8s.io/v1/subjectaccessreviews"
    answer = send(server, "POST", path, body, headers={"Authorization": "Bearer root"})
    assert answer.json()["status"]["allowed"] is allowed


@pytest.mark.parametrize(("node", "allowed"), [("n", True), ("m", False)])
def test_check_of_a_policy(node: str, allowed: bool) -> None:
    """The CEL library `authorizer` hands on the field selector of a check."""
    gates = Gates.of(V1_32)
    authorizer = AuthorizerValue(NodeAuthorizer(Stored(OBJECTS), V1_36, gates, []), NODE)
    check = ResourceCheck(authorizer, "", "pods")
    selected = FUNCTIONS["authorizer_fieldselector"](check, f"spec.nodeName={node}")
    assert selected.check("list").decision.allowed is allowed


def test_answers_follow_writes() -> None:
    """A pod that is bound to a node makes a secret its own with the next question after the write."""
    objects: dict[tuple[str, str], list[Obj]] = {("", "pods"): []}
    stored = Stored(objects)
    gates = Gates.of(V1_36)
    authorizer = NodeAuthorizer(stored, V1_36, gates, [])
    question = Attributes("", "get", True, "", "v1", "ns", "secrets", name="init")
    assert not authorizer.authorize(NODE, question).allowed
    objects["", "pods"].append(named("p", "ns", spec=SPEC))
    stored.calls["", "pods"]()
    assert authorizer.authorize(NODE, question).allowed


def test_reasons_name_the_authorizer() -> None:
    """Since 1.37 the reason of a refusal begins with the name of who gave it; no opinion has no reason."""
    question = Attributes("", "get", True, "", "v1", "ns", "secrets", name="other")
    reasons = [
        new_authorization(["Node", "AlwaysDeny"], Stored(OBJECTS), release, Gates.of(release), AuthorizationMetrics())
        .authorizer.authorize(NODE, question)
        .reason.splitlines()
        for release in (V1_36, V1_37)
    ]
    assert reasons[0][1] == "Everything is forbidden."
    assert reasons[1] == [f"node: {reasons[0][0]}", f"alwaysdeny: {reasons[0][1]}"]
