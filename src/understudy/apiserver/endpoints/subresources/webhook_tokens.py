"""Tokens that are bound to a configuration of webhooks (1.37, alpha), for API servers to show to them.

Such a token attests of which API group the objects are that its webhooks are asked about.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from understudy.apiserver.authentication.service_accounts.account_tokens import ADMISSION_REVIEW_API_GROUPS, WEBHOOKS
from understudy.apiserver.endpoints.server_state import ServerState
from understudy.kinds.context import Context
from understudy.machinery import errors
from understudy.machinery.auth.authorization import Attributes
from understudy.machinery.auth.forbidden import forbidden
from understudy.machinery.auth.users import User, account_groups, account_name
from understudy.machinery.releases import features
from understudy.machinery.releases.version import V1_37, Version
from understudy.machinery.types import Obj
from understudy.machinery.util.clock import parse_timestamp
from understudy.machinery.validation.bad_values import Typed
from understudy.machinery.validation.field import Errors, Path, invalid, not_supported
from understudy.machinery.validation.names import dns_subdomain_texts

LONGEST = 10 * 60  # seconds; upstream: `maxAdmissionReviewWebhookTokenExpirationSeconds`
EVERY_GROUP = "*"
_GROUP = "admissionregistration.k8s.io"
_VERSION = f"{_GROUP}/v1"
_VALUES = "k8s.io/kubernetes/pkg/apis/authentication.AttestationValue"
_AUDIENCES, _ATTESTATIONS = Path("spec", "audiences"), Path("spec", "attestations")


def is_webhook(bound: Obj | None, release: Version) -> bool:
    """Report whether a reference is to a configuration of webhooks. Upstream: `isWebhookRef`."""
    if release < V1_37 or not bound or bound.get("apiVersion") != _VERSION:
        return False
    return bound.get("kind") in WEBHOOKS.values()


def validate(spec: Obj, audiences: Sequence[str], release: Version) -> Errors:
    """Find errors in what a request for a token that is bound to webhooks wants to be attested."""
    if not is_webhook(spec.get("boundObjectRef"), release):
        return []
    return [*_audience_errors(audiences), *_attestation_errors(spec)]


def misplaced_attestations(spec: Obj, release: Version) -> Errors:
    """Find attestations in a request for another token; no other error is reported then."""
    if not spec.get("attestations") or is_webhook(spec.get("boundObjectRef"), release):
        return []
    text = "attestations may only be specified with a webhook bound object reference"
    return [invalid(_ATTESTATIONS, _attestations(spec), text)]


def _attestations(spec: Obj) -> Typed:
    return Typed.of_field(spec, "attestations", f"map[string]{_VALUES}")


def _audience_errors(audiences: Sequence[str]) -> Errors:
    if len(audiences) == 1:
        return []
    return [invalid(_AUDIENCES, Typed(audiences, "[]string"), "must be length 1 when bound to a webhook config")]


def _attestation_errors(spec: Obj) -> Errors:
    """Find errors in attestations. Upstream: `validateWebhookAttestations`."""
    attestations = spec.get("attestations") or {}
    if len(attestations) != 1:
        text = "webhook bound requests require exactly one admissionReviewAPIGroups attestation"
        return [invalid(_ATTESTATIONS, _attestations(spec), text)]
    [(key, values)] = attestations.items()
    path = _ATTESTATIONS.key(key)
    if key != ADMISSION_REVIEW_API_GROUPS:
        return [not_supported(path, key, [ADMISSION_REVIEW_API_GROUPS])]
    if len(values or ()) != 1:
        return [invalid(path, Typed(values, _VALUES), "must specify a single value")]
    [group] = values
    path = path.index(0)
    if not group:
        return [invalid(path, group, "may not be an empty string")]
    texts = [] if group == EVERY_GROUP else dns_subdomain_texts(group)
    return [invalid(path, group, f"must specify a valid API Group: {text}") for text in texts]


async def bound_to_webhook(
    state: ServerState, ctx: Context, account: Obj, spec: Obj, audiences: Sequence[str]
) -> dict[str, Obj]:
    """Return the metadata of the configuration that a valid request names, by claim.

    account  metadata of the service account, which needs the permission to attest

    Raises 400, 403.
    """
    bound = spec["boundObjectRef"]
    gate = features.API_SERVER_WEBHOOK_AUTHENTICATION_TOKEN
    if not state.gates[gate]:
        gvk = f"{_VERSION}, Kind={bound['kind']}"
        raise errors.bad_request(f"cannot bind token to object of type {gvk} (feature gate {gate} is disabled)")
    if not set(audiences).isdisjoint(state.tokens.accounts.audiences):
        raise errors.bad_request("api server audiences are invalid for webhook token requests")
    [attested] = spec["attestations"][ADMISSION_REVIEW_API_GROUPS]
    _authorize(ctx, account, attested)
    configuration = await _configuration(state, bound)
    if configuration is None or not _has_webhook(configuration, attested, audiences[0], state.clock.now()):
        raise errors.forbidden("", "serviceaccounts/token", account["name"], "token request denied")
    return {bound["kind"].lower(): configuration["metadata"]}


def _authorize(ctx: Context, account: Obj, attested: str) -> None:
    """Raise 403 if the account may not attest. Upstream: `authorizeAdmissionWebhookAuthnTokenRequest`."""
    namespace = account["namespace"]
    user = User(account_name(namespace, account["name"]), account_groups(namespace), account["uid"])
    attributes = Attributes(
        "",
        "attest",
        is_resource=True,
        group="authentication.k8s.io",
        version="*",
        resource=ADMISSION_REVIEW_API_GROUPS,
        name=attested,
    )
    decision = ctx.authorizer.authorize(user, attributes)
    if not decision.allowed:
        raise forbidden(user, attributes, decision.refusal)


async def _configuration(state: ServerState, bound: Obj) -> Obj | None:
    """Return a configuration of webhooks, None for one that cannot be read: the client is not told why."""
    kind = state.release.kind(_GROUP, bound["kind"])
    assert kind is not None
    try:
        return (await state.registry.get(kind, "", bound.get("name", ""))).object
    except errors.StatusError:
        return None


def _has_webhook(configuration: Obj, attested: str, audience: str, now: float) -> bool:
    """Report whether a token may be for a webhook of a configuration. Upstream: `getAndValidateWebhookConfig`."""
    deleted = configuration["metadata"].get("deletionTimestamp")
    if deleted is not None and now > parse_timestamp(deleted):
        return False
    if attested == EVERY_GROUP:
        return True
    webhooks = configuration.get("webhooks") or ()
    return any(_reviews(webhook, attested) and audience in _addresses(webhook["clientConfig"]) for webhook in webhooks)


def _reviews(webhook: Obj, attested: str) -> bool:
    """Report whether rules of a webhook name an API group. Upstream: `validateAttestationAPIGroup`."""
    groups = {group for rule in webhook.get("rules") or () for group in rule.get("apiGroups") or ()}
    return not groups.isdisjoint((EVERY_GROUP, attested))


def _addresses(client: Obj) -> Iterator[str]:
    """Yield the audiences that stand for a webhook. Upstream: `validateWebhookAudience`."""
    if (url := client.get("url")) is not None:
        yield url
    if service := client.get("service"):
        host = f"{service['name']}.{service['namespace']}.svc"
        yield f"https://{host}:{service.get('port') or 443}{service.get('path') or '/'}"
