"""Tokens of service accounts that kubelets may ask for: those of pods on their own nodes."""

from __future__ import annotations

from understudy.admission.chain import Attributes, Operation
from understudy.kinds.context import Context
from understudy.kinds.core.pods.pod_references import claim_of
from understudy.machinery import errors
from understudy.machinery.auth import authorization
from understudy.machinery.auth.authorization import Authorizer
from understudy.machinery.auth.users import User
from understudy.machinery.golang.text import aggregate, go_quote
from understudy.machinery.releases import features
from understudy.machinery.releases.version import V1_33, V1_37
from understudy.machinery.types import Obj

# The CSI drivers that took over from volume plugins inside Kubernetes.
_MIGRATED = {
    "gcePersistentDisk": "pd.csi.storage.gke.io",
    "awsElasticBlockStore": "ebs.csi.aws.com",
    "cinder": "cinder.csi.openstack.org",
    "azureDisk": "disk.csi.azure.com",
    "azureFile": "file.csi.azure.com",
    "vsphereVolume": "csi.vsphere.vmware.com",
    "portworxVolume": "pxd.portworx.com",
}


class TokenRestriction:
    """Checks requests for tokens. `authorizer` decides about audiences that no volume of the pod asks for."""

    def __init__(self, authorizer: Authorizer) -> None:
        self._authorizer = authorizer

    def check(self, node: str, attributes: Attributes, ctx: Context) -> None:
        """Raise 403 for a token that is not bound to a pod of the node, 404 for a pod that does not exist."""
        if attributes.point.operation != Operation.CREATE or attributes.point.subresource != "token":
            return
        spec = attributes.new.get("spec") or {}
        bound = spec.get("boundObjectRef") or {}
        if (bound.get("apiVersion"), bound.get("kind")) != ("v1", "Pod") or not bound.get("name"):
            raise attributes.forbidden("node requested token not bound to a pod")
        uid = bound.get("uid")
        if not uid:
            raise attributes.forbidden("node requested token with a pod binding without a uid")
        pod = ctx.lookup("", "pods", attributes.namespace, bound["name"])
        if pod is None:
            raise errors.not_found("", "pod", bound["name"])
        if uid != pod["metadata"]["uid"]:
            raise attributes.forbidden(
                f"the UID in the bound object reference ({uid}) does not match the UID in record. "
                "The object might have been deleted and then recreated"
            )
        if pod["spec"].get("nodeName") != node:
            raise attributes.forbidden("node requested token bound to a pod scheduled on a different node")
        if ctx.gates[features.SERVICE_ACCOUNT_NODE_AUDIENCE_RESTRICTION]:
            self._check_audience(spec.get("audiences") or [], pod, attributes, ctx)

    def _check_audience(self, audiences: list[str], pod: Obj, attributes: Attributes, ctx: Context) -> None:
        """Check that a volume of the pod asks for the audience. Upstream: `validateNodeServiceAccountAudience`."""
        if len(audiences) > 1:
            raise attributes.forbidden("node may only request 0 or 1 audiences")
        audience = audiences[0] if audiences else ""
        texts: list[str] = []
        for volume in pod["spec"].get("volumes") or ():
            try:
                if audience in _audiences(pod, volume, ctx):
                    return
            except LookupError as error:
                texts.append(str(error.args[0]))
        if texts:
            raise attributes.forbidden(f"error validating audience {go_quote(audience)}: {aggregate(texts)}")
        text = f"audience {go_quote(audience)} not found in pod spec volume"
        if ctx.release >= V1_33:
            user = User.of_info(attributes.user)
            question = authorization.Attributes(
                "",
                "request-serviceaccounts-token-audience",
                is_resource=True,
                version="v1",
                namespace=attributes.namespace,
                resource=audience,
                name=attributes.name,
            )
            if self._authorizer.authorize(user, question).allowed:
                return
            if ctx.release >= V1_37:
                text = f"{user.name} is not authorized to request tokens for audience {go_quote(audience)}"
            else:
                text += f", {user.name} is not authorized to request tokens for this audience"
        raise attributes.forbidden(text)


def _audiences(pod: Obj, volume: Obj, ctx: Context) -> set[str]:
    """Return the audiences of the tokens that a volume asks for.

    Raises LookupError for a driver, claim or volume that is missing.
    """
    audiences = {
        source["serviceAccountToken"].get("audience", "")
        for source in (volume.get("projected") or {}).get("sources") or ()
        if "serviceAccountToken" in source
    }
    driver = _driver(pod, volume, ctx)
    if driver:
        requests = _stored("storage.k8s.io", "csidriver", "", driver, ctx)["spec"].get("tokenRequests") or ()
        audiences |= {request.get("audience", "") for request in requests}
    return audiences


def _driver(pod: Obj, volume: Obj, ctx: Context) -> str:
    """Return the name of the CSI driver of a volume of a pod, "" if it has none."""
    if claim := claim_of(pod, volume):
        stored = _stored("", "persistentvolumeclaim", pod["metadata"]["namespace"], claim, ctx)
        name = stored["spec"].get("volumeName", "")
        return _driver_of_source(_stored("", "persistentvolume", "", name, ctx)["spec"], ctx)
    return _driver_of_source(volume, ctx)


def _driver_of_source(source: Obj, ctx: Context) -> str:
    """Return the CSI driver that a volume names, or that took over from its plugin.

    Raises LookupError for an Azure disk that no driver knows.
    """
    if csi := source.get("csi"):
        return str(csi.get("driver", ""))
    if ctx.release < V1_33:
        return ""
    kind = (source.get("azureDisk") or {}).get("kind")
    if kind and kind.lower() != "managed":
        raise LookupError(f"kind({kind}) is not supported in csi migration")
    return next((name for field, name in _MIGRATED.items() if field in source), "")


def _stored(group: str, singular: str, namespace: str, name: str, ctx: Context) -> Obj:
    """Return a stored object. Raises LookupError with the text of a 404."""
    obj = ctx.lookup(group, f"{singular}s", namespace, name)
    if obj is None:
        raise LookupError(errors.not_found(group, singular, name).message)
    return obj
