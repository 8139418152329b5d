"""The webhooks in force: those of configurations in files, and of stored ones, as they are until they change.

Source: k8s.io/apiserver/pkg/admission/{configuration,plugin/webhook/generic}. There, configurations take effect within
a second of their write; here, with it.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from understudy.admission.chain import Attributes, Point
from understudy.admission.manifest.loader import StaticObject
from understudy.admission.manifest.static_hooks import StaticHooks
from understudy.admission.matching import rules
from understudy.admission.matching.resources import Match, match_resources
from understudy.admission.metrics import AdmissionMetrics
from understudy.admission.objects import ObjectInterfaces, VersionedAttributes
from understudy.kinds.admissionregistration.matching import EXCLUDED
from understudy.kinds.context import Context
from understudy.machinery.auth.authorization import Authorizer
from understudy.machinery.errors import StatusError, internal_error
from understudy.machinery.releases import features
from understudy.machinery.types import GroupVersionKind, Obj, dataclass

ADMIT, VALIDATING = "admit", "validating"  # types of admission, as metrics call them
_EXCLUDED_AS = {ADMIT: "admit", VALIDATING: "validate"}
GROUP = "admissionregistration.k8s.io"
# Webhooks of stored configurations are never asked about these, so that none can keep its own from being mended.
_EXEMPT = frozenset(
    (GROUP, resource)
    for resource in (
        "validatingwebhookconfigurations",
        "mutatingwebhookconfigurations",
        "validatingadmissionpolicies",
        "validatingadmissionpolicybindings",
        "mutatingadmissionpolicies",
        "mutatingadmissionpolicybindings",
    )
)
# Returns the objects of a request in the version of a kind.
Versioned = Callable[[GroupVersionKind], VersionedAttributes]


@dataclass(frozen=True, eq=False)
class Hook:
    """One webhook of a configuration. `key` is CONFIGURATION/NAME/INDEX, which no other has; of one in a
    file, it has `manifest/` in front."""

    key: str
    fields: Obj

    @property
    def name(self) -> str:
        """Return the name of the webhook, such as `validate.example.com`."""
        name: str = self.fields["name"]
        return name

    @property
    def title(self) -> str:
        """Return the name of the webhook for people, as an error that it causes has it."""
        return f"webhook {self.name}"

    @property
    def configuration(self) -> str:
        """Return the name of the configuration that the webhook stands in."""
        return self.key.removesuffix(f"/{self.key.rpartition('/')[2]}").removesuffix(f"/{self.name}")

    @property
    def ignores_failures(self) -> bool:
        """Report whether a request goes on if the webhook cannot be asked."""
        return self.fields.get("failurePolicy") == "Ignore"


class HookSource:
    """The webhooks of one kind of configuration.

    resource  "validatingwebhookconfigurations" or "mutatingwebhookconfigurations"
    type_     of admission, as metrics call it: VALIDATING or ADMIT
    static    returns the configurations that stand in files: the same sequence, until others do
    """

    def __init__(
        self,
        resource: str,
        type_: str,
        objects: ObjectInterfaces,
        authorizer: Authorizer,
        metrics: AdmissionMetrics,
        static: Callable[[], Sequence[StaticObject]],
    ) -> None:
        self._resource = resource
        self._type = type_
        self._metrics = metrics
        self._objects = objects
        self._authorizer = authorizer
        self._hooks: tuple[Hook, ...] | None = None
        self._static = StaticHooks(static, lambda configuration: _webhooks_of(configuration.object, "manifest/"))
        self.on_change(self._forget)

    def on_change(self, call: Callable[[], None]) -> None:
        """Call a function when other webhooks of stored configurations are in force than before, as
        `ObjectInterfaces.on_change` does."""
        self._objects.on_change(GROUP, self._resource, call)

    def _forget(self) -> None:
        self._hooks = None

    def hooks(self, point: Point) -> Sequence[Hook]:
        """Return the webhooks that may be asked about a kind of request: those of configurations in files, then of
        stored ones; either by the names of their configurations, then in their order there."""
        if (point.group, point.resource) in _EXEMPT:
            return self._static.hooks()
        if self._hooks is None:
            stored = self._objects.stored(GROUP, self._resource)
            ordered = sorted(stored, key=lambda obj: str(obj["metadata"]["name"]))
            self._hooks = tuple(hook for configuration in ordered for hook in _webhooks_of(configuration))
        return (*self._static.hooks(), *self._hooks)

    def handles(self, point: Point) -> bool:
        hooks = self.hooks(point)
        return any(rules.may_match(rule, point) for hook in hooks for rule in hook.fields.get("rules") or ())

    async def match(self, hook: Hook, attributes: Attributes, ctx: Context, versioned: Versioned) -> Match | None:
        """Return in which version a webhook is to be called about a request, None if it is not (`ShouldCallHook`).

        Raises 403 for match conditions that fail, 404 for a namespace that does not exist.
        """
        is_review = (attributes.point.group, attributes.point.resource) in EXCLUDED
        if is_review and ctx.gates[features.EXCLUDE_ADMISSION_WEBHOOK_VIRTUAL_RESOURCES]:
            return None
        resource_rules = hook.fields.get("rules")
        if not resource_rules:  # as constraints of a policy, these would include every request
            return None
        match = match_resources({**hook.fields, "resourceRules": resource_rules}, attributes, ctx, self._objects)
        if match is None:
            return None
        return match if await self._conditions_hold(hook, ctx, versioned, match) else None

    async def _conditions_hold(self, hook: Hook, ctx: Context, versioned: Versioned, match: Match) -> bool:
        """Report whether the match conditions of a webhook are true. Raises 403 if they fail."""
        conditions = tuple(item["expression"] for item in hook.fields.get("matchConditions") or ())
        if not conditions:
            return True
        from understudy.admission.matching.conditions import Observed
        from understudy.admission.plugins.webhook.match_conditions import conditions_hold  # and CEL with them

        policy, asked = "Ignore" if hook.ignores_failures else "Fail", versioned(match.kind)
        observed = Observed(self._metrics, "webhook", hook.name, str(asked.attributes.point.operation), self._type)
        if await conditions_hold(conditions, policy, asked, ctx, self._authorizer, observed):
            return True
        self._metrics.condition_exclusions.add(*observed[1:4], _EXCLUDED_AS[self._type])
        return False


def _webhooks_of(configuration: Obj, prefix: str = "") -> list[Hook]:
    """Return the webhooks of a configuration. `prefix` is in front of their keys."""
    hooks: list[Hook] = []
    seen: dict[str, int] = {}
    for fields in configuration.get("webhooks") or ():
        index = seen[fields["name"]] = seen.get(fields["name"], -1) + 1
        hooks.append(Hook(f"{prefix}{configuration['metadata']['name']}/{fields['name']}/{index}", fields))
    return hooks


def supports_dry_run(hook: Hook) -> bool:
    """Report whether a webhook may be called about a dry run."""
    return hook.fields.get("sideEffects") in ("None", "NoneOnDryRun")


def versions_by_kind(attributes: Attributes, objects: ObjectInterfaces) -> Versioned:
    """Return a function that converts the objects of a request, once for each kind."""
    made: dict[GroupVersionKind, VersionedAttributes] = {}

    def versioned(kind: GroupVersionKind) -> VersionedAttributes:
        if kind not in made:
            try:
                made[kind] = VersionedAttributes(attributes, kind, objects)
            except StatusError as error:  # a conversion webhook has failed
                raise internal_error(error.message) from None
        return made[kind]

    return versioned
