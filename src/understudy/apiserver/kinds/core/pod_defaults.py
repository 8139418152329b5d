"""Defaults of pods and of pod templates, in the form of core/v1.

A pod gets more than a template: requests from limits, ports of the host's network, service links. Everything else is
filled in for both, so that a template shows what its pods will be.
"""

from __future__ import annotations

import re
from typing import Any

from understudy.admission.validation.core.pods.containers_of import KINDS_OF_CONTAINERS, containers
from understudy.apiserver.kinds.core import resource_lists
from understudy.machinery.releases import features
from understudy.machinery.releases.features import Gates
from understudy.machinery.types import Obj, set_absent, set_empty

SPEC = {
    "dnsPolicy": "ClusterFirst",
    "restartPolicy": "Always",
    "terminationGracePeriodSeconds": 30,
    "schedulerName": "default-scheduler",
}
CONTAINER = {"terminationMessagePath": "/dev/termination-log", "terminationMessagePolicy": "File"}
PROBE = {"timeoutSeconds": 1, "periodSeconds": 10, "successThreshold": 1, "failureThreshold": 3}
PROBES = ("livenessProbe", "readinessProbe", "startupProbe")

# What a volume source defaults to; those of kinds that take a mode are files readable by all.
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
_IMAGE = re.compile(
    rf"(?:{_HOST}/)?{_PATH}(?:/{_PATH})*(?::(?P<tag>\w[\w.-]{{0,127}}))?(?P<digest>@[A-Za-z][A-Za-z0-9]*(?:[-_+.][A-Za-z][A-Za-z0-9]*)*:[0-9a-fA-F]{{32,}})?",
    re.ASCII,
)


def pull_policy(image: str) -> str:
    """Always for the tag `latest`, given or implied; IfNotPresent for others and for what is no reference."""
    match = _IMAGE.fullmatch(image)
    if not match:
        return "IfNotPresent"
    tag = match["tag"] or ("" if match["digest"] else "latest")
    return "Always" if tag == "latest" else "IfNotPresent"


def pod(obj: Obj, gates: Gates) -> None:
    """Defaults of a Pod."""
    spec = obj.setdefault("spec", {})
    for container in containers(spec, "containers", "initContainers"):
        _requests_from_limits(container)
    if gates[features.IN_PLACE_POD_VERTICAL_SCALING]:
        for container in spec.get("containers") or []:
            _resize_policies(container)
    set_absent(spec, "enableServiceLinks", True)
    if spec.get("hostNetwork"):
        for container in containers(spec, "containers", "initContainers"):
            for port in container.get("ports") or []:
                set_empty(port, {"hostPort": port.get("containerPort", 0)})
    pod_spec(spec, gates)


def template(obj: Obj | None, gates: Gates) -> None:
    """Defaults of a PodTemplateSpec."""
    if obj is not None:
        pod_spec(obj.setdefault("spec", {}), gates)


def pod_spec(spec: Obj, gates: Gates) -> None:
    """Defaults that pods and templates share."""
    for key, value in SPEC.items():
        if spec.get(key) is None or spec.get(key) == "":
            spec[key] = value
    set_absent(spec, "securityContext", {})
    _mirror_service_account(spec)
    resource_lists.round_up(spec, "overhead")
    resource_lists.round_up_requirements(spec.get("resources"))
    for volume in spec.get("volumes") or []:
        _volume(volume, gates)
    for kind in KINDS_OF_CONTAINERS:
        for container in spec.get(kind) or []:
            _container(container)


def _requests_from_limits(container: Obj) -> None:
    resources = container.get("resources") or {}
    if resources.get("limits"):
        resources["requests"] = {**resources["limits"], **(resources.get("requests") or {})}


def _resize_policies(container: Obj) -> None:
    requests = (container.get("resources") or {}).get("requests") or {}
    policies = container.get("resizePolicy") or []
    there = {p.get("resourceName") for p in policies}
    added = [
        {"resourceName": r, "restartPolicy": "NotRequired"}
        for r in ("cpu", "memory")
        if r in requests and r not in there
    ]
    if added:
        container["resizePolicy"] = [*policies, *added]


def _mirror_service_account(spec: Obj) -> None:
    """The deprecated `serviceAccount` always says the same as `serviceAccountName`."""
    account = spec.get("serviceAccountName") or spec.get("serviceAccount")
    if account:
        spec["serviceAccountName"] = spec["serviceAccount"] = account


def _container(container: Obj) -> None:
    set_empty(container, CONTAINER)
    resource_lists.round_up_requirements(container.get("resources"))
    set_empty(container, {"imagePullPolicy": pull_policy(container.get("image", ""))})
    for port in container.get("ports") or []:
        set_empty(port, {"protocol": "TCP"})
    for env in container.get("env") or []:
        _field_version(env.get("valueFrom"))
    for name in PROBES:
        _probe(container.get(name))
    for hook in (container.get("lifecycle") or {}).values():
        _http_get(hook)


def _field_version(source: Obj | None) -> None:
    field = (source or {}).get("fieldRef")
    if field is not None:
        set_empty(field, {"apiVersion": "v1"})


def _probe(probe: Obj | None) -> None:
    if probe is None:
        return
    set_empty(probe, PROBE)
    _http_get(probe)
    if probe.get("grpc") is not None:
        set_absent(probe["grpc"], "service", "")


def _http_get(handler: Obj | None) -> None:
    action = (handler or {}).get("httpGet")
    if action is not None:
        set_empty(action, {"path": "/", "scheme": "HTTP"})


def volume_source(volume: Obj) -> None:
    """Defaults of the sources of a volume, a pod's or a persistent one."""
    for source, defaults in VOLUME_SOURCES.items():
        found = volume.get(source)
        if found is not None:
            for key, value in defaults.items():
                if found.get(key) is None or (found[key] == "" and value):
                    found[key] = value


def _volume(volume: Obj, gates: Gates) -> None:
    if not any(value is not None for key, value in volume.items() if key != "name"):
        volume["emptyDir"] = {}
    volume_source(volume)
    _volume_items(volume)
    image = volume.get("image")
    if gates[features.IMAGE_VOLUME] and image is not None:
        set_empty(image, {"pullPolicy": pull_policy(image.get("reference", ""))})
    claim = (volume.get("ephemeral") or {}).get("volumeClaimTemplate")
    if claim is not None:
        claim_spec(claim.setdefault("spec", {}))


def claim_spec(spec: Obj) -> None:
    """Defaults of the spec of a persistent volume claim."""
    set_absent(spec, "volumeMode", "Filesystem")
    resource_lists.round_up_requirements(spec.get("resources"))


def _volume_items(volume: Obj) -> None:
    for item in (volume.get("downwardAPI") or {}).get("items") or []:
        _field_version(item)
    for source in (volume.get("projected") or {}).get("sources") or []:
        for item in (source.get("downwardAPI") or {}).get("items") or []:
            _field_version(item)
        if source.get("serviceAccountToken") is not None:
            set_absent(source["serviceAccountToken"], "expirationSeconds", 3600)
