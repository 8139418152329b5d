"""ImagePolicyWebhook: ask a server outside whether pods may run their images.

Source: k8s.io/kubernetes/plugin/pkg/admission/imagepolicy.
"""

from __future__ import annotations

from collections.abc import Callable

from understudy.admission.chain import Attributes, Operation, Point
from understudy.admission.generic_webhook import Endpoint, GenericWebhook
from understudy.admission.webhooks import CallError, WebhookClient
from understudy.kinds.context import Context
from understudy.kinds.core.pods.containers_of import containers
from understudy.machinery.errors import StatusError
from understudy.machinery.golang.json_writer import encode
from understudy.machinery.golang.times import duration_text
from understudy.machinery.golang.yaml_reader import to_json
from understudy.machinery.releases.version import Version
from understudy.machinery.serializer.configuration import TYPE_META, ConfigurationTypes
from understudy.machinery.serializer.json import DecodeError, decode_parsed, parse_json
from understudy.machinery.typeinfo.go_types import Schemas, Struct
from understudy.machinery.typeinfo.scheme import registered
from understudy.machinery.types import GroupVersionKind, NamedTuple, Obj
from understudy.machinery.util.clock import Clock
from understudy.machinery.util.expiring import ExpiringResults
from understudy.machinery.validation.names import qualified_name_texts

FORBIDDEN = 403
KEPT = 1024  # answers that are kept
_KIND = GroupVersionKind("imagepolicy.k8s.io", "v1alpha1", "ImageReview")
_AUDIT_PREFIX = "imagepolicywebhook.image-policy.k8s.io/"
_FAILED_OPEN = "alpha.image-policy.k8s.io/failed-open"
_TOLD = ".image-policy.k8s.io/"  # in the annotations that the webhook is told
_EPHEMERAL = "ephemeralcontainers"
_CONTAINERS = {"": ("containers", "initContainers"), _EPHEMERAL: ("ephemeralContainers",)}

_PACKAGE = "k8s.io/kubernetes/plugin/pkg/admission/imagepolicy"
_REVIEW_PACKAGE = "k8s.io/api/imagepolicy/v1alpha1"
_TYPES = ConfigurationTypes(
    {f"{_KIND.api_version}/{_KIND.kind}": f"{_REVIEW_PACKAGE}.ImageReview"},
    {
        f"{_PACKAGE}.AdmissionConfig": [
            ["ImagePolicyWebhook", "imagePolicy", "", f"{_PACKAGE}.imagePolicyWebhookConfig", 0]
        ],
        f"{_PACKAGE}.imagePolicyWebhookConfig": [
            ["KubeConfigFile", "kubeConfigFile", "", "string", 0],
            *([name, name, "", "time.Duration", 0] for name in ("allowTTL", "denyTTL", "retryBackoff")),
            ["DefaultAllow", "defaultAllow", "", "bool", 0],
        ],
        f"{_REVIEW_PACKAGE}.ImageReview": [
            TYPE_META,
            ["Status", "status", "o", f"{_REVIEW_PACKAGE}.ImageReviewStatus", 0],
        ],
        f"{_REVIEW_PACKAGE}.ImageReviewStatus": [
            ["Allowed", "allowed", "", "bool", 0],
            ["Reason", "reason", "o", "string", 0],
            ["AuditAnnotations", "auditAnnotations", "o", "map[string]string", 0],
        ],
    },
    {"time.Duration": "int64"},
)
_SECOND = 10**9  # nanoseconds


class Duration(NamedTuple):
    """A duration of the configuration, in nanoseconds: the unit in which it is written, its bounds, its default."""

    unit: int
    least: int
    most: int
    default: int

    def seconds(self, value: int) -> float:
        """Return the seconds of a written value: 0 stands for the default, -1 for none. Raises ValueError."""
        if value in (0, -1):
            return self.default / _SECOND if value == 0 else 0.0
        if not self.least <= value * self.unit <= self.most:
            bounds = f"{duration_text(self.least)} and {duration_text(self.most)}"
            raise ValueError(f"valid value is between {bounds}, got {duration_text(value * self.unit)}")
        return value * self.unit / _SECOND


_DURATIONS = {
    "retryBackoff": Duration(10**6, 1, 300 * _SECOND, _SECOND // 2),
    "allowTTL": Duration(_SECOND, _SECOND, 1800 * _SECOND, 300 * _SECOND),
    "denyTTL": Duration(_SECOND, _SECOND, 1800 * _SECOND, 30 * _SECOND),
}


class ImagePolicy(NamedTuple):
    """The configuration of the plugin.

    endpoint       the server that is asked; None, of no configuration, is never asked
    allow, deny    seconds that its answers are kept
    pause          seconds until it is asked again
    default_allow  whether pods may run when it cannot be asked
    """

    endpoint: Endpoint | None = None
    allow: float = 0.0
    deny: float = 0.0
    pause: float = 0.0
    default_allow: bool = False


def read_image_policy(read_endpoint: Callable[[str], Endpoint], data: bytes | None, version: Version) -> ImagePolicy:
    """Return the policy of a configuration (`NewImagePolicyWebhook`). Raises ValueError.

    read_endpoint  returns the server of a kubeconfig. Raises ValueError
    """
    if data is None:
        raise ValueError("no config specified")
    config = _decoded(data).get("imagePolicy") or {}
    pause, allow, deny = (each.seconds(config.get(name) or 0) for name, each in _DURATIONS.items())
    endpoint = read_endpoint(config.get("kubeConfigFile") or "")
    return ImagePolicy(endpoint, allow, deny, pause, bool(config.get("defaultAllow")))


def _decoded(data: bytes) -> Obj:
    """Return an AdmissionConfig in JSON or YAML. Raises ValueError with the texts of `YAMLOrJSONDecoder`."""
    if not data.strip():
        raise ValueError("EOF")
    if not data.lstrip().startswith(b"{"):
        return _from_yaml(data)
    try:
        return _from_json(data)
    except DecodeError as error:
        try:
            return _from_yaml(data)
        except DecodeError:
            raise error from None


def _from_yaml(data: bytes) -> Obj:
    try:
        json = to_json(data)[0]
    except DecodeError as error:
        raise DecodeError(f"error converting YAML to JSON: {error}") from None
    try:
        return _from_json(json)
    except DecodeError as error:
        raise DecodeError(f"error unmarshaling JSON: while decoding JSON: {error}") from None


def _from_json(json: bytes) -> Obj:
    return decode_parsed(parse_json(json), _TYPES.struct(f"{_PACKAGE}.AdmissionConfig"))[0]


def new_image_policy_webhook(
    policy: ImagePolicy, client: WebhookClient, clock: Clock, version: Version
) -> ImagePolicyWebhook:
    """Return the plugin for a policy, which must have a server."""
    assert policy.endpoint is not None
    schemas = Schemas.of(version)
    webhook = GenericWebhook(policy.endpoint, client, _KIND, schemas, delay=policy.pause, registered=_type_of)
    return ImagePolicyWebhook(policy, webhook, clock)


def _type_of(schemas: Schemas, gvk: GroupVersionKind, expected: GroupVersionKind) -> Struct:
    """Return the type of a kind in the scheme of the API server. Raises DecodeError."""
    return _TYPES.find(gvk) or registered(schemas, gvk, "")


class ImagePolicyWebhook:
    """Refuses pods with images that a webhook does not allow."""

    name = "ImagePolicyWebhook"

    def __init__(self, policy: ImagePolicy, webhook: GenericWebhook, clock: Clock) -> None:
        self._policy = policy
        self._webhook = webhook
        self._answers: ExpiringResults[bytes, Obj] = ExpiringResults(KEPT, clock)

    def handles(self, point: Point) -> bool:
        is_write = point.operation in (Operation.CREATE, Operation.UPDATE)
        return is_write and point[1:3] == ("", "pods") and point.subresource in _CONTAINERS

    async def validate(self, attributes: Attributes, ctx: Context) -> None:
        """Raise 403 for images that the webhook refuses, or for all if it cannot be asked, unless that is allowed."""
        try:
            status = await self._status(_spec_of(attributes))
        except CallError as error:
            if not self._policy.default_allow:
                raise _refusal(attributes, error) from None
            ctx.annotate(f"{_AUDIT_PREFIX}failed-open", "true")
            attributes.object = _failed_open(attributes.new)
            return
        for name, value in (status.get("auditAnnotations") or {}).items():
            if not qualified_name_texts(f"{_AUDIT_PREFIX}{name}"):
                ctx.annotate(f"{_AUDIT_PREFIX}{name}", value)
        if status.get("allowed"):
            return
        if reason := status.get("reason"):
            raise attributes.forbidden(f"image policy webhook backend denied one or more images: {reason}")
        raise attributes.forbidden("one or more images rejected by webhook backend")

    async def _status(self, spec: Obj) -> Obj:
        """Return the status of the review of a spec, which may be kept. Raises CallError."""
        key = encode(spec)
        status = self._answers.get(key)
        if status is None:
            review = await self._webhook.create({"spec": spec, "status": {"allowed": False}})
            status = review.get("status") or {}
            self._answers.add(key, status, self._policy.allow if status.get("allowed") else self._policy.deny)
        return status


def _refusal(attributes: Attributes, error: CallError) -> StatusError:
    """Return the error of a request whose images could not be reviewed: a 403 of the webhook itself, as it is."""
    if error.code == FORBIDDEN:
        return StatusError(FORBIDDEN, error.reason, str(error), error.details, metadata=error.metadata)
    return attributes.forbidden(str(error))


def _spec_of(attributes: Attributes) -> Obj:
    """Return the spec of the review of a pod: its images, those of its annotations that are for it, its namespace."""
    spec, annotations = attributes.new["spec"], attributes.new["metadata"].get("annotations") or {}
    images = [container.get("image") for container in containers(spec, *_CONTAINERS[attributes.point.subresource])]
    fields = {
        "containers": [{"image": image} if image else {} for image in images],
        "annotations": {name: annotations[name] for name in sorted(annotations) if _TOLD in name},
        "namespace": attributes.namespace,
    }
    return {name: value for name, value in fields.items() if value}


def _failed_open(pod: Obj) -> Obj:
    """Return a pod as later plugins see it that was not reviewed: with an annotation, which is not stored."""
    metadata = pod["metadata"]
    annotations = {**(metadata.get("annotations") or {}), _FAILED_OPEN: "true"}
    return {**pod, "metadata": {**metadata, "annotations": annotations}}
