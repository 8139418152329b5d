"""Defaults of pods and of pod templates, in the form of core/v1 (upstream: `pkg/apis/core/v1/defaults.go`).

A pod gets some defaults that a template does not: requests from limits, ports of the host's network, service links. All
others are set for both, so that a template shows what its pods will be.
"""

from __future__ import annotations

import re
from typing import Any

from understudy.kinds.context import Context
from understudy.kinds.core import resource_lists
from understudy.kinds.core.pods.containers import pod_resource_defaults
from understudy.kinds.core.pods.containers_of import KINDS_OF_CONTAINERS, containers, http_handlers
from understudy.machinery.releases import features
from understudy.machinery.releases.features import Gates
from understudy.machinery.releases.version import V1_33
from understudy.machinery.types import Obj, default_if_nil, default_if_zero
from understudy.machinery.util.regex import regex

SPEC = {
    "dnsPolicy": "ClusterFirst",
    "restartPolicy": "Always",
    "terminationGracePeriodSeconds": 30,
    "schedulerName": "default-scheduler",
}
CONTAINER = {"terminationMessagePath": "/dev/termination-log", "terminationMessagePolicy": "File"}
PROBE = {"timeoutSeconds": 1, "periodSeconds": 10, "successThreshold": 1, "failureThreshold": 3}
HOOKS = ("postStart", "preStop")
PROBES = ("livenessProbe", "readinessProbe", "startupProbe")

# Default values by volume source. Files are readable by all.
VOLUME_SOURCES: dict[str, dict[str, Any]] = {
    "secret": {"defaultMode": 0o644},
    "configMap": {"defaultMode": 0o644},
    "downwardAPI": {"defaultMode": 0o644},
    "projected": {"defaultMode": 0o644},
    "hostPath": {"type": ""},
    "iscsi": {"iscsiInterface": "default"},
    "rbd": {"pool": "rbd", "user": "admin", "keyring": "/etc/ceph/keyring"},
    "azureDisk": {"cachingMode": "ReadWrite", "fsType": "ext4", "readOnly": False, "kind": "Shared"},
    "scaleIO": {"storageMode": "ThinProvisioned", "fsType": "xfs"},
}

# A reference to an image as container registries write it: [host[:port]/]path[:tag][@digest].
_PATH = r"[a-z0-9]+(?:(?:\.|_|__|-+)[a-z0-9]+)*"
_HOST = r"(?:[a-zA-Z0-9](?:[a-zA-Z0-9.-]*[a-zA-Z0-9])?|\[[a-fA-F0-9:]+\])(?::[0-9]+)?"
_IMAGE = regex(
    rf"(?:{_HOST}/)?{_PATH}(?:/{_PATH})*(?::(?P<tag>\w[\w.-]{{0,127}}))?(?P<digest>@[A-Za-z][A-Za-z0-9]*(?:[-_+.][A-Za-z][A-Za-z0-9]*)*:[0-9a-fA-F]{{32,}})?",
    re.ASCII,
)


def pull_policy(image: str) -> str:
    """Return the default imagePullPolicy: Always for the tag `latest`, explicit or implied; IfNotPresent for other tags
    and invalid references."""
    match = _IMAGE.fullmatch(image)
    if not match:
        return "IfNotPresent"
    tag = match["tag"] or ("" if match["digest"] else "latest")
    return "Always" if tag == "latest" else "IfNotPresent"


def pod(obj: Obj, ctx: Context) -> None:
    """Set the defaults of a Pod, in place (upstream: `SetDefaults_Pod`)."""
    spec, gates = obj.setdefault("spec", {}), ctx.gates
    for container in containers(spec, "containers", "initContainers"):
        _requests_from_limits(container)
    if ctx.release < V1_33 and gates[features.IN_PLACE_POD_VERTICAL_SCALING]:
        for container in spec.get("containers") or []:
            _resize_policies(container)
    pod_resource_defaults.default_decoded(spec, gates, ctx.release)
    default_if_nil(spec, "enableServiceLinks", True)
    if spec.get("hostNetwork"):
        for container in containers(spec, "containers", "initContainers"):
            for port in container.get("ports") or []:
                default_if_zero(port, {"hostPort": port.get("containerPort", 0)})
    if gates[features.H2C_CONTAINER_PROBE]:
        for handler in http_handlers(spec):
            default_if_nil(handler["httpGet"], "protocol", "HTTP1")
    pod_spec(spec, ctx.gates)


def template(obj: Obj | None, gates: Gates) -> None:
    """Set the defaults of a PodTemplateSpec, in place."""
    if obj is not None:
        pod_spec(obj.setdefault("spec", {}), gates)


def pod_spec(spec: Obj, gates: Gates) -> None:
    """Set the defaults that pods and templates share, in place (upstream: `SetDefaults_PodSpec`)."""
    for key, value in SPEC.items():
        if spec.get(key) is None or spec.get(key) == "":
            spec[key] = value
    default_if_nil(spec, "securityContext", {})
    _mirror_service_account(spec)
    resource_lists.round_up(spec, "overhead")
    resource_lists.round_up_requirements(spec.get("resources"))
    for volume in spec.get("volumes") or []:
        _volume(volume, gates)
    for kind in KINDS_OF_CONTAINERS:
        for container in spec.get(kind) or []:
            _container(container)


def _requests_from_limits(container: Obj) -> None:
    """Set the requests that a container does not have to its limits."""
    resources = container.get("resources") or {}
    if resources.get("limits"):
        resources["requests"] = {**resources["limits"], **(resources.get("requests") or {})}


def _resize_policies(container: Obj) -> None:
    """Add a resize policy for cpu and memory if the container requests them."""
    requests = (container.get("resources") or {}).get("requests") or {}
    policies = container.get("resizePolicy") or []
    resources = {p.get("resourceName") for p in policies}
    added = [
        {"resourceName": r, "restartPolicy": "NotRequired"}
        for r in ("cpu", "memory")
        if r in requests and r not in resources
    ]
    if added:
        container["resizePolicy"] = [*policies, *added]


def _mirror_service_account(spec: Obj) -> None:
    """Set the deprecated `serviceAccount` to `serviceAccountName`, or the other way round."""
    account = spec.get("serviceAccountName") or spec.get("serviceAccount")
    if account:
        spec["serviceAccountName"] = spec["serviceAccount"] = account


def _container(container: Obj) -> None:
    """Set the defaults of a container, in place (upstream: `SetDefaults_Container`)."""
    default_if_zero(container, CONTAINER)
    resource_lists.round_up_requirements(container.get("resources"))
    if not container.get("imagePullPolicy"):
        container["imagePullPolicy"] = pull_policy(container.get("image", ""))
    for port in container.get("ports") or []:
        default_if_zero(port, {"protocol": "TCP"})
    for env in container.get("env") or []:
        if source := env.get("valueFrom"):
            _variable_source(source)
    for name in PROBES:
        _probe(container.get(name))
    lifecycle = container.get("lifecycle") or {}
    for name in HOOKS:
        _http_get(lifecycle.get(name))


def _variable_source(source: Obj) -> None:
    """Set the defaults of the source of an environment variable, in place."""
    _field_version(source)
    file = source.get("fileKeyRef")
    if file is not None:
        default_if_nil(file, "optional", False)


def _field_version(source: Obj) -> None:
    """Set the API version of a field reference."""
    field = source.get("fieldRef")
    if field is not None:
        default_if_zero(field, {"apiVersion": "v1"})


def _probe(probe: Obj | None) -> None:
    """Set the defaults of a probe, in place (upstream: `SetDefaults_Probe`)."""
    if probe is None:
        return
    default_if_zero(probe, PROBE)
    _http_get(probe)
    if probe.get("grpc") is not None:
        default_if_nil(probe["grpc"], "service", "")


def _http_get(handler: Obj | None) -> None:
    """Set the defaults of the httpGet action of a probe or a lifecycle hook."""
    action = (handler or {}).get("httpGet")
    if action is not None:
        default_if_zero(action, {"path": "/", "scheme": "HTTP"})


def volume_source(volume: Obj) -> None:
    """Set the defaults of the source of a volume, in a pod or persistent, in place; empty fields of `azureDisk` stay,
    which are pointers in Go."""
    for source, defaults in VOLUME_SOURCES.items():
        values = volume.get(source)
        if values is not None:
            for key, value in defaults.items():
                if values.get(key) is None or (values[key] == "" and value and source != "azureDisk"):
                    values[key] = value


def _volume(volume: Obj, gates: Gates) -> None:
    """Set the defaults of a volume of a pod, in place (upstream: `SetDefaults_Volume`)."""
    if not any(value is not None for key, value in volume.items() if key != "name"):
        volume["emptyDir"] = {}
    volume_source(volume)
    _volume_items(volume)
    image = volume.get("image")
    if gates[features.IMAGE_VOLUME] and image is not None:
        default_if_zero(image, {"pullPolicy": pull_policy(image.get("reference", ""))})
    claim = (volume.get("ephemeral") or {}).get("volumeClaimTemplate")
    if claim is not None:
        claim_spec(claim.setdefault("spec", {}))


def claim_spec(spec: Obj) -> None:
    """Set the defaults of the spec of a persistent volume claim, in place."""
    default_if_nil(spec, "volumeMode", "Filesystem")
    resource_lists.round_up_requirements(spec.get("resources"))


def _volume_items(volume: Obj) -> None:
    """Set the defaults of the items of downward API and projected volumes."""
    for item in (volume.get("downwardAPI") or {}).get("items") or []:
        _field_version(item)
    for source in (volume.get("projected") or {}).get("sources") or []:
        for item in (source.get("downwardAPI") or {}).get("items") or []:
            _field_version(item)
        if source.get("serviceAccountToken") is not None:
            default_if_nil(source["serviceAccountToken"], "expirationSeconds", 3600)
