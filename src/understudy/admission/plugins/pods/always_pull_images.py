"""AlwaysPullImages: let every container pull its image, whatever is on its node."""

from __future__ import annotations

from collections.abc import Iterator

from understudy.admission.chain import Attributes, Operation, Point
from understudy.kinds.context import Context
from understudy.kinds.core.pods.containers_of import containers, with_paths
from understudy.machinery import errors
from understudy.machinery.golang.text import aggregate
from understudy.machinery.types import Obj
from understudy.machinery.validation.field import FieldError, Path, not_supported

ALWAYS = "Always"
_SPEC = Path("spec")


class AlwaysPullImages:
    """Sets the pull policy of containers and image volumes to Always, in new pods and where an image changes."""

    name = "AlwaysPullImages"

    def handles(self, point: Point) -> bool:
        return point[1:4] == ("", "pods", "") and point.operation in (Operation.CREATE, Operation.UPDATE)

    async def admit(self, attributes: Attributes, ctx: Context) -> None:
        if _has_new_image(attributes):
            for container in containers(attributes.new["spec"]):
                container["imagePullPolicy"] = ALWAYS
            for volume in attributes.new["spec"].get("volumes") or ():
                if "image" in volume:
                    volume["image"]["pullPolicy"] = ALWAYS

    async def validate(self, attributes: Attributes, ctx: Context) -> None:
        """Raise 500, as upstream does, for another policy, which something has set since."""
        if _has_new_image(attributes):
            texts = [attributes.forbidden(error.text(ctx.release)).message for error in _wrong(attributes.new["spec"])]
            if texts:
                raise errors.unknown_error(aggregate(texts))


def _has_new_image(attributes: Attributes) -> bool:
    """Report whether a pod is new, or has a container with an image that the stored pod does not have."""
    if attributes.old_object is None:
        return True
    images, before = ({c.get("image") for c in containers(pod["spec"])} for pod in (attributes.new, attributes.old))
    return not images <= before


def _wrong(spec: Obj) -> Iterator[FieldError]:
    for container, path in with_paths(spec, _SPEC):
        policy = container.get("imagePullPolicy", "")
        if policy != ALWAYS:
            yield not_supported(path.child("imagePullPolicy"), policy, [ALWAYS])
    for i, volume in enumerate(spec.get("volumes") or ()):
        if "image" in volume and (policy := volume["image"].get("pullPolicy", "")) != ALWAYS:
            yield not_supported(_SPEC.child("volumes").index(i).child("image", "pullPolicy"), policy, [ALWAYS])
