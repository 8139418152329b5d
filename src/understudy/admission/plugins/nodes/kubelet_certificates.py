"""Certificates that kubelets may ask for: their own, and those of pods on their own nodes."""

from __future__ import annotations

from understudy.admission.chain import Attributes, Operation
from understudy.kinds.certificates.signing_requests import common_name
from understudy.kinds.context import Context
from understudy.kinds.core.pods.pod_references import is_mirror
from understudy.machinery import errors
from understudy.machinery.auth.users import NODE
from understudy.machinery.errors import StatusError
from understudy.machinery.golang.text import go_quote
from understudy.machinery.releases import features
from understudy.machinery.types import Obj

_SIGNERS = ("kubernetes.io/kubelet-serving", "kubernetes.io/kube-apiserver-client-kubelet")


def check_signing_request(node: str, attributes: Attributes, ctx: Context) -> None:
    """Raise 403 for a new certificate of a kubelet that is not for this node. Upstream: `admitCSR`."""
    if ctx.gates[features.ALLOW_INSECURE_KUBELET_CERTIFICATE_SIGNING_REQUESTS]:
        return
    if attributes.point.operation != Operation.CREATE or attributes.new["spec"].get("signerName") not in _SIGNERS:
        return
    try:
        name = common_name(attributes.new["spec"].get("request"))
    except ValueError as error:
        raise attributes.forbidden(f"unable to parse csr: {error}") from None
    if name != f"{NODE}{node}":
        raise attributes.forbidden(f"can only create a node CSR with CN={NODE}{node}")


def check_pod_certificate_request(node: str, attributes: Attributes, ctx: Context) -> None:
    """Raise 403 or 500 for a certificate of a pod that does not run on the node. Upstream:
    `admitPodCertificateRequest`."""
    if not ctx.gates[features.POD_CERTIFICATE_REQUEST]:
        raise attributes.forbidden("PodCertificateRequest feature gate is disabled")
    if attributes.point.operation != Operation.CREATE:
        raise attributes.forbidden(f"unexpected operation {attributes.point.operation}")
    if attributes.point.subresource:
        raise attributes.forbidden(f"unexpected subresource {attributes.point.subresource}")
    spec = attributes.new["spec"]
    if spec.get("nodeName", "") != node:
        text = f"PodCertificateRequest.Spec.NodeName={go_quote(spec.get('nodeName', ''))}"
        raise attributes.forbidden(f"{text}, which is not the requesting node {go_quote(node)}")
    stored = ctx.lookup("", "nodes", "", node)
    if stored is None:
        raise _not_found("node", go_quote(node), "node", node)
    pod_name = go_quote(f"{attributes.namespace}/{spec.get('podName', '')}")
    uid = spec.get("nodeUID", "")
    if uid != stored["metadata"]["uid"]:
        raise errors.unknown_error(
            f"PodCertificateRequest for pod {pod_name} names node UID {go_quote(uid)}, inconsistent with the running "
            f"node ({go_quote(stored['metadata']['uid'])})"
        )
    _check_account(_checked_pod(node, pod_name, attributes, ctx), pod_name, attributes, ctx)


def _checked_pod(node: str, pod_name: str, attributes: Attributes, ctx: Context) -> Obj:
    """Return the pod of a request. Raises 500 for another pod of that name, 403 for one that is not on the node."""
    spec = attributes.new["spec"]
    pod = ctx.lookup("", "pods", attributes.namespace, spec.get("podName", ""))
    if pod is None:
        raise _not_found("pod", pod_name, "pod", spec.get("podName", ""))
    uid, actual = spec.get("podUID", ""), pod["metadata"]["uid"]
    if uid != actual:
        raise errors.unknown_error(
            f"PodCertificateRequest for pod {pod_name} contains pod UID ({go_quote(uid)}) which differs from running "
            f"pod {go_quote(actual)}"
        )
    if pod["spec"].get("nodeName", "") != node:
        text = f"pod {pod_name} is not running on node {go_quote(node)} named in the PodCertificateRequest"
        raise attributes.forbidden(text)
    if is_mirror(pod):
        raise attributes.forbidden(f"pod {pod_name} is a mirror pod")
    return pod


def _check_account(pod: Obj, pod_name: str, attributes: Attributes, ctx: Context) -> None:
    """Raise 403 for another service account than that of the pod, 500 for one that is gone or was made again."""
    spec = attributes.new["spec"]
    name, uid = spec.get("serviceAccountName", ""), spec.get("serviceAccountUID", "")
    actual_name = pod["spec"].get("serviceAccountName", "")
    if name != actual_name:
        text = f"PodCertificateRequest for pod {pod_name} contains serviceAccountName ({go_quote(name)}) that differs"
        raise attributes.forbidden(f"{text} from running pod ({go_quote(actual_name)})")
    account = ctx.lookup("", "serviceaccounts", attributes.namespace, name)
    if account is None:
        raise _not_found("service account", go_quote(f"{attributes.namespace}/{name}"), "serviceaccount", name)
    actual = account["metadata"]["uid"]
    if uid != actual:
        raise errors.unknown_error(
            f"PodCertificateRequest for pod {pod_name} names service account UID {go_quote(uid)}, which differs from "
            f"the running service account ({go_quote(actual)})"
        )


def _not_found(what: str, quoted: str, singular: str, name: str) -> StatusError:
    text = errors.not_found("", singular, name).message
    return errors.unknown_error(f"while retrieving {what} {quoted} named in the PodCertificateRequest: {text}")
