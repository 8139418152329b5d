"""Takes out of objects what a server sets, so that they can be created again."""

from __future__ import annotations

from typing import Any

from understudy.machinery.types import Obj

# Fields of metadata that a server sets. The uid stays: what refers to it follows the new one when the world is loaded.
SET_BY_SERVER = ("resourceVersion", "generation", "creationTimestamp", "managedFields", "selfLink")
# Kinds whose status a server works out by itself.
DERIVED_STATUS = {
    *("Namespace", "CustomResourceDefinition", "FlowSchema", "PriorityLevelConfiguration"),
    *("ValidatingAdmissionPolicy", "Service", "PodDisruptionBudget", "ResourceQuota"),
}
LAST_APPLIED = "kubectl.kubernetes.io/last-applied-configuration"
CONTROLLER_UIDS = ("controller-uid", "batch.kubernetes.io/controller-uid")

# What every server, or each namespace of one, has by itself: by kind and name, and by label or annotation.
OF_SERVERS = {
    *(("Namespace", name) for name in ("default", "kube-system", "kube-public", "kube-node-lease")),
    *(("ConfigMap", name) for name in ("kube-root-ca.crt", "extension-apiserver-authentication")),
    ("ConfigMap", "kube-apiserver-legacy-service-account-token-tracking"),
    ("ServiceAccount", "default"),
    ("Service", "kubernetes"),
    ("ServiceCIDR", "kubernetes"),
    ("PriorityClass", "system-cluster-critical"),
    ("PriorityClass", "system-node-critical"),
}
MARKS_OF_SERVERS = {
    *("kubernetes.io/bootstrapping", "apf.kubernetes.io/autoupdate-spec"),
    "kube-aggregator.kubernetes.io/automanaged",
}


def is_made_by_servers(obj: Obj) -> bool:
    """Report whether a new server has an object by itself."""
    metadata = obj["metadata"]
    marks = {*(metadata.get("labels") or ()), *(metadata.get("annotations") or ())}
    return (obj["kind"], metadata["name"]) in OF_SERVERS or not marks.isdisjoint(MARKS_OF_SERVERS)


def cleaned(obj: Obj) -> Obj:
    """Return an object without what a server sets and works out."""
    metadata = {name: value for name, value in obj["metadata"].items() if name not in SET_BY_SERVER}
    annotations = {
        name: text for name, text in (metadata.pop("annotations", None) or {}).items() if name != LAST_APPLIED
    }
    if annotations:
        metadata["annotations"] = annotations
    out = {**obj, "metadata": metadata}
    if obj["kind"] in DERIVED_STATUS:
        out.pop("status", None)
    if clean := _OF_KIND.get((str(obj["apiVersion"]).partition("/")[0], obj["kind"])):
        out["spec"] = clean(obj["spec"])
    return out


def _service(spec: Obj) -> Obj:
    """Return the spec of a service without addresses, which are of the ranges of its cluster; headless ones stay so."""
    if spec.get("clusterIP") == "None":
        return spec
    return {name: value for name, value in spec.items() if name not in ("clusterIP", "clusterIPs")}


def _job(spec: Obj) -> Obj:
    """Return the spec of a job without the selector that the server made of its uid."""
    if spec.get("manualSelector"):
        return spec
    template = spec["template"]
    labels = (template.get("metadata") or {}).get("labels") or {}
    kept = {name: text for name, text in labels.items() if name not in CONTROLLER_UIDS}
    metadata = {**(template.get("metadata") or {}), "labels": kept}
    rest = {name: value for name, value in spec.items() if name != "selector"}
    return {**rest, "template": {**template, "metadata": metadata}}


def _namespace(spec: Obj) -> Obj:
    """Return the spec of a namespace without the finalizer that every one has."""
    return {name: value for name, value in spec.items() if name != "finalizers"}


_OF_KIND: dict[tuple[str, str], Any] = {
    ("v1", "Service"): _service,
    ("batch", "Job"): _job,
    ("v1", "Namespace"): _namespace,
}
