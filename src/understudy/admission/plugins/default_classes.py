"""DefaultStorageClass and DefaultIngressClass: name the newest default class in objects that name no class."""

from __future__ import annotations

from collections.abc import Callable

from understudy.admission.chain import Attributes, Operation, Point
from understudy.kinds.common.default_classes import is_default_ingress_class, is_default_storage_class, newest_name
from understudy.kinds.context import Context
from understudy.kinds.core.pods.volumes import persistent_volumes
from understudy.kinds.networking import ingresses
from understudy.machinery.types import Obj


class DefaultClass:
    """Fills in the class of a new object that names none, be it in its field or in an annotation.

    resource    ("", "persistentvolumeclaims")
    field       field of the spec, such as "storageClassName"; an empty text in it is a choice
    annotation  annotation that named the class before there was a field; one that is empty is a choice as well
    classes     group and resource of the classes
    is_default  reports whether a class is marked as the default
    """

    def __init__(
        self,
        name: str,
        resource: tuple[str, str],
        field: str,
        annotation: str,
        classes: tuple[str, str],
        is_default: Callable[[Obj], bool],
    ) -> None:
        self.name = name
        self._resource = resource
        self._field = field
        self._annotation = annotation
        self._classes = classes
        self._is_default = is_default

    def handles(self, point: Point) -> bool:
        return point[:4] == (Operation.CREATE, *self._resource, "")

    async def admit(self, attributes: Attributes, ctx: Context) -> None:
        spec, annotations = attributes.new["spec"], attributes.new["metadata"].get("annotations") or {}
        if spec.get(self._field) is None and self._annotation not in annotations:
            name = self._default(ctx)
            if name is not None:
                spec[self._field] = name

    def _default(self, ctx: Context) -> str | None:
        """Return the name of the newest class that is a default."""
        return newest_name(filter(self._is_default, ctx.listing(*self._classes, "")))


DEFAULT_STORAGE_CLASS = DefaultClass(
    "DefaultStorageClass",
    ("", "persistentvolumeclaims"),
    "storageClassName",
    persistent_volumes.CLASS_ANNOTATION,
    ("storage.k8s.io", "storageclasses"),
    is_default_storage_class,
)
DEFAULT_INGRESS_CLASS = DefaultClass(
    "DefaultIngressClass",
    ("networking.k8s.io", "ingresses"),
    "ingressClassName",
    ingresses.CLASS_ANNOTATION,
    ("networking.k8s.io", "ingressclasses"),
    is_default_ingress_class,
)
