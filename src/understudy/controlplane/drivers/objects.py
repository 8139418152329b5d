"""The objects that a test of a driver creates: a class, claims, pods, taints."""

from __future__ import annotations

from copy import deepcopy

from understudy.controlplane.client.resources import RESOURCE_API, Resource
from understudy.machinery.releases.version import V1_34, Version
from understudy.machinery.types import Obj, dataclass

NAMESPACE, DEVICE_CLASS, TAINT = "default", "drivers-test", "understudy.dev/drivers-test"
# Up to 1.33 namespaces allow admin access by the first, from 1.34 on by the second.
ADMIN_LABELS = {f"resource.{domain}/admin-access": "true" for domain in ("k8s.io", "kubernetes.io")}
PREFIX = "understudy: "  # of what is told on stderr


@dataclass(frozen=True)
class ClaimForm:
    """Spec of the claims of a test.

    api_version  "resource.k8s.io/v1", the version in which the spec is written
    spec         of a ResourceClaim, for one device
    """

    api_version: str
    spec: Obj

    @classmethod
    def of_one_device(cls, version: Version) -> ClaimForm:
        """Return a claim for any one device of the test's class, in the version that a release prefers."""
        request: Obj = {"deviceClassName": DEVICE_CLASS}
        asked = {"exactly": request} if version >= V1_34 else request
        return cls(f"resource.k8s.io/{RESOURCE_API[version]}", {"devices": {"requests": [{"name": "device", **asked}]}})

    @classmethod
    def read(cls, manifest: Obj) -> ClaimForm:
        """Read the spec of a ResourceClaim or ResourceClaimTemplate. Raises ValueError for anything else."""
        kind, api_version = manifest.get("kind"), str(manifest.get("apiVersion", ""))
        spec = manifest.get("spec") or {}
        spec = spec.get("spec") if kind == "ResourceClaimTemplate" else spec
        if kind not in ("ResourceClaim", "ResourceClaimTemplate") or not api_version.startswith("resource.k8s.io/"):
            raise ValueError(f"a claim is a ResourceClaim or ResourceClaimTemplate, not {kind} of {api_version}")
        if not isinstance(spec, dict) or not (spec.get("devices") or {}).get("requests"):
            raise ValueError("the claim asks for no devices")
        return cls(api_version, spec)

    def with_admin_access(self) -> ClaimForm:
        """Return the same with admin access to all devices it asks for."""
        spec = deepcopy(self.spec)
        for request in spec["devices"]["requests"]:
            request.get("exactly", request)["adminAccess"] = True
        return ClaimForm(self.api_version, spec)

    @property
    def claims(self) -> Resource:
        """Return the resource of claims in this version."""
        return Resource("resource.k8s.io", self.api_version.partition("/")[2], "resourceclaims", "ResourceClaim")

    @property
    def templates(self) -> Resource:
        """Return the resource of templates in this version."""
        return self.claims._replace(plural="resourceclaimtemplates", kind="ResourceClaimTemplate")

    def claim(self, name: str) -> Obj:
        """Return a claim."""
        return {"metadata": {"name": name, "namespace": NAMESPACE}, "spec": self.spec}

    def template(self, name: str) -> Obj:
        """Return a template of such claims."""
        return {"metadata": {"name": name, "namespace": NAMESPACE}, "spec": {"spec": self.spec}}


def device_class(driver: str) -> Obj:
    """Return the class of all devices of a driver."""
    selector = {"cel": {"expression": f'device.driver == "{driver}"'}}
    return {"metadata": {"name": DEVICE_CLASS}, "spec": {"selectors": [selector]}}


def pod(name: str, **claim: str) -> Obj:
    """Return a pod that uses a claim: `resourceClaimName` or `resourceClaimTemplateName`."""
    container = {"name": "c", "image": "i", "resources": {"claims": [{"name": "device"}]}}
    spec = {"containers": [container], "resourceClaims": [{"name": "device", **claim}]}
    return {"metadata": {"name": name, "namespace": NAMESPACE}, "spec": spec}


def taint_rule(device: Obj) -> Obj:
    """Return a rule that evicts the pods of a device, which is a result of an allocation."""
    selector = {name: device[name] for name in ("driver", "pool", "device")}
    spec = {"deviceSelector": selector, "taint": {"key": TAINT, "effect": "NoExecute"}}
    return {"metadata": {"name": "drivers-test"}, "spec": spec}
