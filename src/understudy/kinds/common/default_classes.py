"""Default classes: which of the storage or ingress classes is taken by objects that name none."""

from __future__ import annotations

from collections.abc import Callable, Iterable

from understudy.machinery.types import Obj, nested_field


def annotated(*annotations: str) -> Callable[[Obj], bool]:
    """Return a function that reports whether one of the annotations of an object is "true"."""

    def is_true(obj: Obj) -> bool:
        values = nested_field(obj, "metadata", "annotations", default={})
        return any(values.get(annotation) == "true" for annotation in annotations)

    return is_true


is_default_storage_class = annotated(
    "storageclass.kubernetes.io/is-default-class", "storageclass.beta.kubernetes.io/is-default-class"
)
is_default_ingress_class = annotated("ingressclass.kubernetes.io/is-default-class")


def newest_name(classes: Iterable[Obj]) -> str | None:
    """Return the name of the newest of some classes, the first by name if several are as new; None if there is none."""
    by_name = sorted((class_["metadata"] for class_ in classes), key=lambda metadata: str(metadata["name"]))
    newest = max(by_name, key=lambda metadata: str(metadata.get("creationTimestamp")), default=None)
    return newest and str(newest["name"])
