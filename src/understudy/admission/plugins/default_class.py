"""DefaultStorageClass and DefaultIngressClass: what names no class gets the newest of those marked as default."""

from __future__ import annotations

from understudy.admission.context import Context
from understudy.admission.validation.core.volumes.persistent_volumes import CLASS_ANNOTATION
from understudy.admission.validation.networking import ingresses
from understudy.machinery.types import Obj

_STORAGE = ("storageclass.kubernetes.io/is-default-class", "storageclass.beta.kubernetes.io/is-default-class")
_INGRESS = ("ingressclass.kubernetes.io/is-default-class",)


def of_claim(claim: Obj, ctx: Context) -> None:
    """The storage class of a volume claim; an empty one is chosen, too."""
    if claim["spec"].get("storageClassName") is None and not _annotated(claim, CLASS_ANNOTATION):
        _choose(claim["spec"], "storageClassName", _newest(ctx, "storage.k8s.io", "storageclasses", _STORAGE))


def of_ingress(ingress: Obj, ctx: Context) -> None:
    """The class of an ingress; the annotation of old is a choice, too."""
    if ingress["spec"].get("ingressClassName") is None and not _annotated(ingress, ingresses.CLASS_ANNOTATION):
        _choose(ingress["spec"], "ingressClassName", _newest(ctx, "networking.k8s.io", "ingressclasses", _INGRESS))


def _annotated(obj: Obj, key: str) -> bool:
    return key in (obj["metadata"].get("annotations") or {})


def _choose(spec: Obj, field: str, name: str | None) -> None:
    if name is not None:
        spec[field] = name


def _newest(ctx: Context, group: str, resource: str, marks: tuple[str, ...]) -> str | None:
    """The name of the newest class with a mark, the first by name if several are; None without one."""
    found = [
        c["metadata"]
        for c in ctx.listing(group, resource, "")
        if any((c["metadata"].get("annotations") or {}).get(mark) == "true" for mark in marks)
    ]
    newest = max(found, key=lambda metadata: str(metadata["creationTimestamp"]), default=None)
    return newest and str(newest["name"])
