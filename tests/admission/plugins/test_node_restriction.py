"""The NodeRestriction plugin: what the kubelet of node "n" may write. Texts are those of kube-apiserver."""

from __future__ import annotations

import base64
from copy import deepcopy
from typing import Any

import pytest
from cryptography import x509
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.hazmat.primitives.hashes import SHA256
from cryptography.hazmat.primitives.serialization import Encoding
from cryptography.x509.oid import NameOID

from tests.admission.asking import ask
from understudy.admission.plugins.nodes.node_restriction import NodeRestriction
from understudy.apiserver.authorization.always_deny import AlwaysDeny
from understudy.kinds.context import Context
from understudy.machinery.auth.always_allow import AlwaysAllow
from understudy.machinery.auth.users import User
from understudy.machinery.errors import StatusError
from understudy.machinery.releases.features import Gates
from understudy.machinery.releases.version import V1_31, V1_32, V1_33, V1_34, V1_36, V1_37, Version
from understudy.machinery.types import Obj

KUBELET = User("system:node:n", ["system:nodes", "system:authenticated"])
PODS, NODES, SLICES = ("", "pods"), ("", "nodes"), ("resource.k8s.io", "resourceslices")
LEASES, CSI_NODES = ("coordination.k8s.io", "leases"), ("storage.k8s.io", "csinodes")
ACCOUNTS, CLAIMS = ("", "serviceaccounts"), ("", "persistentvolumeclaims")
SIGNING_REQUESTS = ("certificates.k8s.io", "certificatesigningrequests")
POD_CERTIFICATES = ("certificates.k8s.io", "podcertificaterequests")
OWNER = {"apiVersion": "v1", "kind": "Node", "name": "n", "uid": "node-uid", "controller": True}
CONTAINER = {"name": "c", "image": "i"}


def obj(name: str = "x", *, namespace: str = "ns", labels: Obj | None = None, **parts: Any) -> Obj:
    metadata = {"name": name, "namespace": namespace, **({"labels": labels} if labels else {})}
    return {"metadata": metadata, "spec": {}, **parts}


def mirror(owners: list[Obj] | None = None, *, annotated: bool = True, node: str = "n", **spec: Any) -> Obj:
    pod = obj("m", spec={"nodeName": node, "containers": [CONTAINER], **spec})
    pod["metadata"] |= {"annotations": {"kubernetes.io/config.mirror": "x"}} if annotated else {}
    pod["metadata"]["ownerReferences"] = [OWNER] if owners is None else owners
    return pod


def token(**spec: Any) -> Obj:
    return obj("robot", spec=spec)


STORED = {
    ("", "nodes", "", "n"): obj("n") | {"metadata": {"uid": "node-uid"}},
    ("", "pods", "ns", "mine"): {
        "metadata": {"name": "mine", "namespace": "ns", "uid": "pod-uid"},
        "spec": {
            "nodeName": "n",
            "serviceAccountName": "robot",
            "volumes": [
                {"name": "a", "projected": {"sources": [{"serviceAccountToken": {"audience": "vault"}}]}},
                {"name": "b", "csi": {"driver": "csi.example.com"}},
                {"name": "c", "persistentVolumeClaim": {"claimName": "data"}},
            ],
        },
    },
    ("", "pods", "ns", "theirs"): {"metadata": {"name": "theirs", "uid": "other-uid"}, "spec": {"nodeName": "o"}},
    ("storage.k8s.io", "csidrivers", "", "csi.example.com"): {"spec": {"tokenRequests": [{"audience": "of-driver"}]}},
    ("storage.k8s.io", "csidrivers", "", "disk.csi.azure.com"): {"spec": {"tokenRequests": [{"audience": "azure"}]}},
    ("", "persistentvolumeclaims", "ns", "data"): {"spec": {"volumeName": "volume"}},
    ("", "persistentvolumes", "", "volume"): {"spec": {"azureDisk": {"diskName": "d"}}},
    ("", "serviceaccounts", "ns", "robot"): {"metadata": {"uid": "robot-uid"}},
}


def context(release: Version, **gates: bool) -> Context:
    return Context(
        release,
        Gates.of(release, gates),
        "v1",
        lookup=lambda group, resource, namespace, name: deepcopy(STORED.get((group, resource, namespace, name))),
    )


def refusal(
    resource: tuple[str, str],
    new: Obj | None,
    old: Obj | None = None,
    subresource: str = "",
    *,
    release: Version = V1_36,
    user: User = KUBELET,
    allowed: bool = False,
    **gates: bool,
) -> str | None:
    """Return the text after `is forbidden: `, the whole message of another error, None if the write may go on."""
    plugin = NodeRestriction(AlwaysAllow() if allowed else AlwaysDeny())
    try:
        ask(plugin, resource, new, context(release, **gates), old=old, subresource=subresource, user=user)
    except StatusError as error:
        return error.message.partition(" is forbidden: ")[2] if error.code == 403 else f"{error.code} {error.message}"
    return None


ONLY_MIRRORS = 'pod does not have "kubernetes.io/config.mirror" annotation, node "n" can only create mirror pods'
MAY_NOT_REFER = 'node "n" can not create pods that reference '


@pytest.mark.parametrize(
    ("pod", "text"),
    [
        (mirror(), None),
        (mirror(annotated=False), ONLY_MIRRORS),
        (mirror(node="o"), 'node "n" can only create pods with spec.nodeName set to itself'),
        (mirror([]), 'node "n" can only create pods with an owner reference set to itself'),
        (mirror([OWNER, OWNER]), 'node "n" can only create pods with a single owner reference set to itself'),
        (mirror([{**OWNER, "name": "o"}]), 'node "n" can only create pods with an owner reference set to itself'),
        (
            mirror([{**OWNER, "controller": False}]),
            'node "n" can only create pods with a controller owner reference set to itself',
        ),
        (
            mirror([{**OWNER, "blockOwnerDeletion": True}]),
            'node "n" must not set blockOwnerDeletion on an owner reference',
        ),
        (mirror([{**OWNER, "uid": "1"}]), "node n UID mismatch: expected 1 got node-uid"),
        (mirror(serviceAccountName="a"), MAY_NOT_REFER + "serviceaccounts"),
        (mirror(imagePullSecrets=[{"name": "a"}]), MAY_NOT_REFER + "secrets"),
        (mirror(imagePullSecrets=[{"name": ""}]), None),
        (mirror(volumes=[{"name": "v", "configMap": {"name": "a"}}]), MAY_NOT_REFER + "configmaps"),
        (mirror(resourceClaims=[{"name": "a", "resourceClaimName": "b"}]), MAY_NOT_REFER + "resourceclaims"),
        (
            mirror(volumes=[{"name": "v", "csi": {"driver": "a"}}]),
            MAY_NOT_REFER + "csidrivers (via CSI volumes)",
        ),
        (
            mirror(volumes=[{"name": "v", "projected": {"sources": [{"serviceAccountToken": {"path": "t"}}]}}]),
            MAY_NOT_REFER + "serviceaccounts (via projected volumes)",
        ),
        (mirror(volumes=[{"name": "v", "hostPath": {"path": "/"}}]), None),
    ],
)
def test_node_creates_own_mirror_pods(pod: Obj, text: str | None) -> None:
    """A node creates mirror pods of its own that refer to no other objects."""
    assert refusal(PODS, pod) == text


CLAIMING = mirror(resourceClaims=[{"name": "a", "resourceClaimName": "b"}])
USES_CSI = mirror(volumes=[{"name": "v", "csi": {"driver": "a"}}])


@pytest.mark.parametrize(
    ("pod", "release", "text"),
    [
        (mirror(serviceAccountName="a"), V1_33, MAY_NOT_REFER + "a service account"),
        (mirror(serviceAccountName="a"), V1_34, MAY_NOT_REFER + "serviceaccounts"),
        (CLAIMING, V1_32, None),
        (CLAIMING, V1_33, MAY_NOT_REFER + "resourceclaims"),
        (USES_CSI, V1_33, None),
        (USES_CSI, V1_34, MAY_NOT_REFER + "csidrivers (via CSI volumes)"),
    ],
)
def test_what_mirror_pods_refer_to_depends_on_release(pod: Obj, release: Version, text: str | None) -> None:
    """Newer releases look for more that a mirror pod may not refer to, in other words."""
    assert refusal(PODS, pod, release=release) == text


MINE, THEIRS = obj("p", spec={"nodeName": "n"}), obj("p", spec={"nodeName": "o"})
WITH_CLAIM = {**MINE, "status": {"resourceClaimStatuses": [{"name": "a", "resourceClaimName": "b"}]}}
WITH_EXTENDED = {**MINE, "status": {"extendedResourceClaimStatus": {"resourceClaimName": "b"}}}


@pytest.mark.parametrize(
    ("new", "old", "subresource", "text"),
    [
        (None, MINE, "", None),
        (None, THEIRS, "", 'node "n" can only delete pods with spec.nodeName set to itself'),
        (MINE, MINE, "", 'unexpected operation "UPDATE", node "n" can only create and delete mirror pods'),
        (MINE, MINE, "resize", "unexpected pod subresource \"resize\", only 'status' and 'eviction' are allowed"),
        (MINE, MINE, "status", None),
        (THEIRS, THEIRS, "status", 'node "n" can only update pod status for pods with spec.nodeName set to itself'),
        (
            obj("p", labels={"a": "b"}, spec={"nodeName": "n"}),
            MINE,
            "status",
            'node "n" cannot update labels through pod status',
        ),
        (WITH_CLAIM, MINE, "status", 'node "n" cannot update resource claim statues'),
        (WITH_EXTENDED, MINE, "status", 'node "n" cannot update extended resource claim status'),
        (obj("mine"), None, "eviction", None),
        (obj("theirs"), None, "eviction", "node n can only evict pods with spec.nodeName set to itself"),
        (obj("absent"), None, "eviction", '404 pod "absent" not found'),
    ],
)
def test_node_writes_pods_of_its_own(new: Obj | None, old: Obj | None, subresource: str, text: str | None) -> None:
    """A node deletes and evicts the pods that are bound to it, and writes their status."""
    assert refusal(PODS, new, old, subresource) == text


TAINTED = obj("n", spec={"taints": [{"key": "k", "effect": "NoExecute"}]})
CONFIGURED = obj("n", spec={"configSource": {"configMap": {"name": "x"}}})
OWNED = {"metadata": {"name": "n", "ownerReferences": [OWNER]}, "spec": {}}
RESTRICTED = "node-restriction.kubernetes.io/a"


@pytest.mark.parametrize(
    ("new", "old", "text"),
    [
        (obj("n"), None, None),
        (obj("o"), None, 'node "n" is not allowed to modify node "o"'),
        (obj("o"), obj("o"), 'node "n" is not allowed to modify node "o"'),
        (None, obj("n"), None),
        (TAINTED, None, None),
        (TAINTED, obj("n"), 'node "n" is not allowed to modify taints'),
        (obj("n", spec={"taints": []}), obj("n"), None),
        (CONFIGURED, None, 'node "n" is not allowed to create pods with a non-nil configSource'),
        (CONFIGURED, obj("n"), 'node "n" is not allowed to update configSource to a new non-nil configSource'),
        (OWNED, obj("n"), 'node "n" is not allowed to modify ownerReferences'),
        (
            obj("n", labels={RESTRICTED: "b", "foo.k8s.io/a": "b", "example.com/a": "b", "a": "b"}),
            None,
            f'node "n" is not allowed to set the following labels: foo.k8s.io/a, {RESTRICTED}',
        ),
        (obj("n", labels={"kubernetes.io/os": "linux", "x.node.kubernetes.io/a": "b"}), obj("n"), None),
        (obj("n"), obj("n", labels={"a.kubernetes.io/b": "c"}), "is not allowed to modify labels: a.kubernetes.io/b"),
        (obj("n", labels={RESTRICTED: "b"}), obj("n", labels={RESTRICTED: "b"}), None),
    ],
)
def test_node_writes_its_own_node(new: Obj | None, old: Obj | None, text: str | None) -> None:
    """A node writes its own node, but no taints, owners and labels by which it would attract pods."""
    assert refusal(NODES, new, old) == text


def test_owners_of_nodes_could_change_before_1_33() -> None:
    """Releases before 1.33 let a node change the owners of its node."""
    assert refusal(NODES, OWNED, obj("n"), release=V1_32) is None


CLAIM = obj("c", spec={"accessModes": ["ReadWriteOnce"]}, status={"phase": "Bound"})
GROWN = {**CLAIM, "status": {"phase": "Bound", "capacity": {"storage": "2Gi"}, "conditions": [{"type": "Resizing"}]}}
ALLOCATED = {**CLAIM, "status": {"phase": "Bound", "allocatedResources": {"storage": "2Gi"}}}
LOST = {**CLAIM, "status": {"phase": "Lost"}}


def test_node_writes_sizes_of_volume_claims() -> None:
    """A node writes the size and the conditions of a claim, and allocated sizes if volumes can recover."""
    assert refusal(CLAIMS, GROWN, CLAIM, "status") is None
    assert refusal(CLAIMS, ALLOCATED, CLAIM, "status") is None
    only = 'node "n" is not allowed to update fields other than status.quantity and status.conditions: '
    for new, release in ((LOST, V1_36), (LOST, V1_31), (ALLOCATED, V1_31)):
        text = refusal(CLAIMS, new, CLAIM, "status", release=release)
        assert text is not None
        assert text.startswith(only)
        assert len(text) > len(only)
    assert refusal(CLAIMS, CLAIM, CLAIM) == "may only update PVC status"


def test_difference_of_volume_claims_is_shown() -> None:
    """The refusal ends with the difference: that of a pointer to a Go struct before 1.34, then that of JSON."""
    old, new = (refusal(CLAIMS, LOST, CLAIM, "status", release=release) or "" for release in (V1_33, V1_36))
    assert old.partition("conditions: ")[2].split()[0] == "&core.PersistentVolumeClaim{"
    assert new.partition("conditions: ")[2].startswith("@@ ")
    assert '-  "Phase": "Bound",\n+  "Phase": "Lost",\n' in new


@pytest.mark.parametrize(
    ("resource", "new", "old", "text"),
    [
        (LEASES, obj("n", namespace="kube-node-lease"), None, None),
        (LEASES, obj("n"), None, 'can only access leases in the "kube-node-lease" system namespace'),
        (
            LEASES,
            obj("o", namespace="kube-node-lease"),
            None,
            "can only access node lease with the same name as the requesting node",
        ),
        (CSI_NODES, obj("n"), None, None),
        (CSI_NODES, None, obj("o"), "can only access CSINode with the same name as the requesting node"),
        (SLICES, obj(spec={"nodeName": "n"}), None, None),
        (
            SLICES,
            obj(spec={"allNodes": True}),
            None,
            "can only create ResourceSlice with the same NodeName as the requesting node",
        ),
        (
            SLICES,
            None,
            obj(spec={"nodeName": "o"}),
            "can only delete ResourceSlice with the same NodeName as the requesting node",
        ),
        (SLICES, obj(spec={"nodeName": "o"}), obj(spec={"nodeName": "o"}), None),
        (("apps", "deployments"), obj(), None, None),
    ],
)
def test_node_writes_what_has_its_name(resource: tuple[str, str], new: Obj, old: Obj | None, text: str | None) -> None:
    """Leases and CSINodes have the name of their node, slices of devices say it."""
    assert refusal(resource, new, old) == text


BOUND = {"apiVersion": "v1", "kind": "Pod", "name": "mine", "uid": "pod-uid"}
NO_AUDIENCE = "system:node:n is not authorized to request tokens for this audience"


@pytest.mark.parametrize(
    ("spec", "release", "text"),
    [
        ({}, V1_36, "node requested token not bound to a pod"),
        ({"boundObjectRef": {**BOUND, "kind": "Secret"}}, V1_36, "node requested token not bound to a pod"),
        ({"boundObjectRef": {**BOUND, "uid": ""}}, V1_36, "node requested token with a pod binding without a uid"),
        ({"boundObjectRef": {**BOUND, "name": "absent"}}, V1_36, '404 pod "absent" not found'),
        (
            {"boundObjectRef": {**BOUND, "uid": "1"}},
            V1_36,
            "the UID in the bound object reference (1) does not match the UID in record. The object might have been "
            "deleted and then recreated",
        ),
        (
            {"boundObjectRef": {**BOUND, "name": "theirs", "uid": "other-uid"}},
            V1_36,
            "node requested token bound to a pod scheduled on a different node",
        ),
        ({"boundObjectRef": BOUND, "audiences": ["a", "b"]}, V1_36, "node may only request 0 or 1 audiences"),
        ({"boundObjectRef": BOUND, "audiences": ["a", "b"]}, V1_32, None),
        ({"boundObjectRef": BOUND, "audiences": ["vault"]}, V1_36, None),
        ({"boundObjectRef": BOUND, "audiences": ["of-driver"]}, V1_36, None),
        ({"boundObjectRef": BOUND, "audiences": ["azure"]}, V1_36, None),
        (
            {"boundObjectRef": BOUND, "audiences": ["x"]},
            V1_36,
            f'audience "x" not found in pod spec volume, {NO_AUDIENCE}',
        ),
        ({"boundObjectRef": BOUND}, V1_36, f'audience "" not found in pod spec volume, {NO_AUDIENCE}'),
        (
            {"boundObjectRef": BOUND, "audiences": ["x"]},
            V1_37,
            'system:node:n is not authorized to request tokens for audience "x"',
        ),
    ],
)
def test_node_asks_for_tokens_of_its_pods(spec: Obj, release: Version, text: str | None) -> None:
    """A node gets tokens that are bound to its pods, since 1.33 for audiences that their volumes ask for."""
    assert refusal(ACCOUNTS, token(**spec), None, "token", release=release) == text


def test_audiences_that_a_node_may_request_otherwise() -> None:
    """A node gets a token for any audience if roles allow it; not in 1.32, where a gate checks volumes only."""
    request = token(boundObjectRef=BOUND, audiences=["x"])
    assert refusal(ACCOUNTS, request, None, "token", allowed=True) is None
    gates: Obj = {"ServiceAccountNodeAudienceRestriction": True}
    text = refusal(ACCOUNTS, request, None, "token", release=V1_32, allowed=True, **gates)
    assert text == 'audience "x" not found in pod spec volume'


def test_missing_driver_of_a_volume_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    """An audience cannot be checked while a driver is missing."""
    monkeypatch.delitem(STORED, ("storage.k8s.io", "csidrivers", "", "csi.example.com"))
    text = refusal(ACCOUNTS, token(boundObjectRef=BOUND, audiences=["x"]), None, "token")
    assert text == 'error validating audience "x": csidriver.storage.k8s.io "csi.example.com" not found'


def test_shared_disks_of_azure_have_no_driver(monkeypatch: pytest.MonkeyPatch) -> None:
    """No driver took over shared disks of Azure: an audience cannot be checked for them."""
    monkeypatch.setitem(STORED, ("", "persistentvolumes", "", "volume"), {"spec": {"azureDisk": {"kind": "Shared"}}})
    text = refusal(ACCOUNTS, token(boundObjectRef=BOUND, audiences=["x"]), None, "token")
    assert text == 'error validating audience "x": kind(Shared) is not supported in csi migration'


def test_node_asks_for_its_own_certificate() -> None:
    """A certificate request of a kubelet that is none is refused, unless the gate lets everything pass."""
    request = obj(spec={"signerName": "kubernetes.io/kubelet-serving", "request": "aGVsbG8="})
    assert refusal(SIGNING_REQUESTS, request) == "unable to parse csr: PEM block type must be CERTIFICATE REQUEST"
    insecure: Obj = {"AllowInsecureKubeletCertificateSigningRequests": True}
    assert refusal(SIGNING_REQUESTS, request, **insecure) is None
    assert refusal(SIGNING_REQUESTS, obj(spec={"signerName": "example.com/x"})) is None


@pytest.mark.parametrize(
    ("name", "text"), [("system:node:n", None), ("system:node:o", "can only create a node CSR with CN=system:node:n")]
)
def test_node_asks_for_its_own_name(name: str, text: str | None) -> None:
    """The certificate of a kubelet has the name of its own node."""
    subject = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, name)])
    signed = x509.CertificateSigningRequestBuilder(subject).sign(ec.generate_private_key(ec.SECP256R1()), SHA256())
    request = base64.b64encode(signed.public_bytes(Encoding.PEM)).decode()
    new = obj(spec={"signerName": "kubernetes.io/kube-apiserver-client-kubelet", "request": request})
    assert refusal(SIGNING_REQUESTS, new) == text


CERTIFICATE = {
    "nodeName": "n",
    "nodeUID": "node-uid",
    "podName": "mine",
    "podUID": "pod-uid",
    "serviceAccountName": "robot",
    "serviceAccountUID": "robot-uid",
}


@pytest.mark.parametrize(
    ("changes", "text"),
    [
        ({}, None),
        ({"nodeName": "o"}, 'PodCertificateRequest.Spec.NodeName="o", which is not the requesting node "n"'),
        (
            {"nodeUID": "1"},
            '500 PodCertificateRequest for pod "ns/mine" names node UID "1", inconsistent with the running node '
            '("node-uid")',
        ),
        (
            {"podName": "absent"},
            '500 while retrieving pod "ns/absent" named in the PodCertificateRequest: pod "absent" not found',
        ),
        (
            {"podUID": "1"},
            '500 PodCertificateRequest for pod "ns/mine" contains pod UID ("1") which differs from running pod '
            '"pod-uid"',
        ),
        (
            {"podName": "theirs", "podUID": "other-uid"},
            'pod "ns/theirs" is not running on node "n" named in the PodCertificateRequest',
        ),
        (
            {"serviceAccountName": "x"},
            'PodCertificateRequest for pod "ns/mine" contains serviceAccountName ("x") that differs from running pod '
            '("robot")',
        ),
        (
            {"serviceAccountUID": "1"},
            '500 PodCertificateRequest for pod "ns/mine" names service account UID "1", which differs from the '
            'running service account ("robot-uid")',
        ),
    ],
)
def test_node_asks_for_certificates_of_its_pods(changes: Obj, text: str | None) -> None:
    """A node asks for certificates of its pods, and says exactly which pod, account and node it means."""
    request = obj(spec={**CERTIFICATE, **changes})
    assert refusal(POD_CERTIFICATES, request, PodCertificateRequest=True) == text


def test_certificates_of_pods_are_off_by_default() -> None:
    """A node asks for no certificates of pods while the feature is off."""
    assert refusal(POD_CERTIFICATES, obj(spec=CERTIFICATE)) == "PodCertificateRequest feature gate is disabled"


@pytest.mark.parametrize(
    ("user", "text"),
    [
        (User("system:node:", ["system:nodes"]), 'could not determine node from user "system:node:"'),
        (User("system:node:n", []), None),
        (User("alice", ["system:nodes"]), None),
    ],
)
def test_only_kubelets_are_restricted(user: User, text: str | None) -> None:
    """A user is a kubelet by its name and its group; one without a node may write nothing."""
    assert refusal(NODES, obj("o"), user=user) == text
