"""The scope of a request (its resource and version), and the state of the server that all handlers share."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from copy import copy
from dataclasses import dataclass, field, replace
from functools import partial
from typing import TYPE_CHECKING

from understudy.admission.chain import Attributes, Chain, Operation, Point
from understudy.admission.metrics import AdmissionMetrics
from understudy.admission.plugins.ordered import new_chain
from understudy.admission.webhooks import NoWebhooks, WebhookClient
from understudy.apiserver.authentication.errors import TokenError
from understudy.apiserver.authentication.service_account_tokens import AccountTokenOptions, AccountTokens
from understudy.apiserver.authorization.rbac.escalation import EscalationCheck
from understudy.apiserver.encoding.conversion import bare, from_internal, to_internal, typed
from understudy.apiserver.encoding.go_codec import GoDecoder
from understudy.apiserver.endpoints.object_interfaces import RegistryObjects
from understudy.apiserver.endpoints.request import Request
from understudy.apiserver.endpoints.requestinfo import RequestInfo
from understudy.apiserver.extensions.serving import Serving
from understudy.apiserver.permissions.log import NotingAuthorizer, PermissionLog
from understudy.apiserver.registry.quota_status import QuotaStatus
from understudy.apiserver.registry.rest import strategy_of
from understudy.apiserver.registry.store import Registry
from understudy.apiserver.serving.release import Release
from understudy.kinds.context import Context
from understudy.kinds.declarations.codec import Codec, Decoder
from understudy.kinds.declarations.kind import Behavior, Kind
from understudy.machinery.auth.always_allow import AlwaysAllow
from understudy.machinery.auth.authorization import Authorizer
from understudy.machinery.auth.users import User
from understudy.machinery.errors import StatusError, bad_request
from understudy.machinery.options import ListOptions
from understudy.machinery.patch.apply.field_manager import FieldManager
from understudy.machinery.patch.apply.object_type import UnconvertibleError
from understudy.machinery.releases.features import Gates
from understudy.machinery.selectors.fields import FieldTerm
from understudy.machinery.selectors.selector import Selector
from understudy.machinery.typeinfo.go_types import Schemas
from understudy.machinery.types import GroupVersionKind, Obj
from understudy.machinery.util.clock import Clock, SystemClock, timestamp

if TYPE_CHECKING:
    from understudy.apiserver.authentication.oidc.jwt_authenticator import JWTAuthenticator


@dataclass(frozen=True, slots=True)
class RequestScope:
    """A resource, or an object of it, in the version that the path names."""

    info: RequestInfo
    kind: Kind
    version: str
    namespace: str
    name: str
    subresource: str

    @property
    def api_version(self) -> str:
        """Return the apiVersion of the path, such as "apps/v1"."""
        return self.kind.gvk(self.version).api_version

    @property
    def codec(self) -> Codec:
        """Return what reads and writes objects of the resource in the version of the path."""
        return self.kind.codec(self.version)

    @property
    def behavior(self) -> Behavior:
        """Return the strategy of the kind."""
        return self.kind.behavior

    @property
    def body_kind(self) -> GroupVersionKind:
        """Return the kind of the body: that of the resource, or that of a subresource such as Scale."""
        part = self.kind.subresources.get(self.subresource)
        return self.kind.subresource_kind(part, self.version) if part else self.kind.gvk(self.version)

    def point(self, operation: Operation) -> Point:
        """Return the place in the admission chain where a request of this scope is asked."""
        kind = self.kind
        return Point(operation, kind.group, kind.resource, self.subresource, kind.namespaced)

    def attributes(
        self,
        operation: Operation,
        ctx: Context,
        obj: Obj | None = None,
        old: Obj | None = None,
        *,
        options: Obj | None = None,
        dry_run: bool = False,
    ) -> Attributes:
        """Describe a request of this scope to admission plugins.

        A new object may have its name in the body; the objects of a deleted collection are not named.
        """
        metadata = (obj or {}).get("metadata") or {}
        name = self.name or metadata.get("name", "")
        is_namespace = (self.kind.group, self.kind.resource) == ("", "namespaces")
        return Attributes(
            self.point(operation),
            self.body_kind,
            name if is_namespace else self.namespace or metadata.get("namespace", ""),
            name,
            obj,
            old,
            options or {},
            dry_run,
            ctx.requester,
            self.version,
        )


@dataclass(slots=True)
class ServerState:
    """The parts of a server that every request handler uses.

    serving   what is served now; `serve` replaces it
    webhooks  calls webhooks for admission and conversion
    tokens    users of --token-auth-file by their tokens
    anonymous whether requests without credentials are those of `system:anonymous`
    jwt_authenticators
              know users by tokens of other issuers
    account_token_options
              issuers and keys of service accounts' tokens
    escalation
              checks who grants which rights, None where nobody needs any
    permissions
              notes what users ask for
    """

    serving: Serving
    gates: Gates
    registry: Registry
    authorizer: Authorizer = field(default_factory=AlwaysAllow)
    tokens: Mapping[str, User] = field(default_factory=dict)
    clock: Clock = field(default_factory=SystemClock)
    webhooks: WebhookClient = field(default_factory=NoWebhooks)
    enable_admission_plugins: Sequence[str] = ()
    disable_admission_plugins: Sequence[str] = ()
    escalation: EscalationCheck | None = None
    permissions: PermissionLog = field(default_factory=PermissionLog)
    account_token_options: AccountTokenOptions | None = None
    anonymous: bool = False
    jwt_authenticators: Sequence[JWTAuthenticator] = ()
    account_tokens: AccountTokens = field(init=False)
    admission_metrics: AdmissionMetrics = field(init=False)
    chain: Chain = field(init=False)
    _forms: dict[Kind, dict[str, tuple[Kind, str]]] = field(default_factory=dict)
    _field_managers: dict[tuple[Kind, str, str], FieldManager] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self.account_tokens = AccountTokens(self.clock, self.release.version, self.account_token_options)
        self.admission_metrics = AdmissionMetrics(self.release.version)
        self.chain = self._new_chain(lasts=True)

    def _new_chain(self, *, lasts: bool) -> Chain:
        """Return the admission chain. One that does not last misses changes of policies and webhooks."""
        quotas = QuotaStatus(self.registry)
        return new_chain(
            self.enable_admission_plugins,
            self.disable_admission_plugins,
            quotas,
            RegistryObjects(self.registry, self.schemas, lasts=lasts),
            self.authorizer,
            self.webhooks,
            self.admission_metrics,
            self.release.version,
            self.gates,
        )

    def for_thread(self, registry: Registry, webhooks: WebhookClient) -> ServerState:
        """Return the state of the same server for one request in a thread, with another way to objects and webhooks."""
        other = copy(self)
        other.registry, other.webhooks = registry, webhooks
        other.chain = other._new_chain(lasts=False)
        return other

    @property
    def release(self) -> Release:
        """Return the release that the server emulates, with its built-in kinds."""
        return self.serving.release

    def serve(self, serving: Serving) -> None:
        """Serve other custom resources than before."""
        self.serving = self.registry.resources = serving
        self._forms.clear()
        self._field_managers.clear()

    @property
    def schemas(self) -> Schemas:
        """Return the Go types and schemas of the release."""
        return Schemas.of(self.release.version)

    def user_of(self, token: str, audiences: Sequence[str] = ()) -> tuple[User, list[str]]:
        """Return the user of a bearer token, and which of the audiences the token is for; without any, the server's.

        Tokens of --token-auth-file and of other issuers are for this server only. Raises TokenError, KeysAwaitedError.
        """
        own = self.account_tokens.audiences
        known = self.tokens.get(token)
        if known is None:
            try:
                return self.account_tokens.user(token, audiences or own, self.registry.lookup)
            except TokenError as error:
                known = self._jwt_user(token, error)
        meant = [audience for audience in audiences or own if audience in own]
        if not meant:
            raise TokenError
        return known, meant

    def _jwt_user(self, token: str, error: TokenError) -> User:
        """Return whose a token of another issuer is. Raises TokenError with all reasons, beginning with `error`."""
        reasons = [str(error)]
        for authenticator in self.jwt_authenticators:
            try:
                return authenticator.user(token)
            except TokenError as reason:
                reasons.append(str(reason))
        raise TokenError(", ".join(filter(None, reasons)))

    def timestamp(self) -> str:
        """Return the time of this server's clock as objects hold it (RFC 3339, whole seconds)."""
        return timestamp(self.clock.now())

    def context(self, request: Request, scope: RequestScope) -> Context:
        """Return the context of a request for validation, strategies and admission."""
        return Context(
            release=self.release.version,
            gates=self.gates,
            version=scope.version,
            requester=request.user.info(),
            subresource=scope.subresource,
            dry_run="dryRun" in request.query,
            now=self.timestamp(),
            seconds_left=request.seconds_left,
            payload=len(request.content) if isinstance(request.content, bytes) else 0,
            warnings=request.warnings,
            lookup=self.registry.lookup,
            listing=self.registry.listing,
            action=request.info,
            authorizer=self.authorizer_of(request),
        )

    def authorizer_of(self, request: Request) -> Authorizer:
        """Return who decides about the rights that a request needs besides that for its path."""
        if request.is_internal or not self.permissions.on:
            return self.authorizer
        return NotingAuthorizer(self.authorizer, self.permissions)

    def decoder(self, scope: RequestScope) -> Decoder:
        """Return what decodes bodies of a scope: objects of the resource, or of a subresource such as Scale."""
        part = scope.kind.subresources.get(scope.subresource)
        if part is None or part.kind.kind == scope.kind.name:
            return scope.codec
        return GoDecoder(self.schemas, scope.body_kind)

    def field_manager(self, scope: RequestScope) -> FieldManager:
        """Return the field manager for the bodies of a scope, which is built once for all its requests."""
        key = scope.kind, scope.version, scope.subresource
        manager = self._field_managers.get(key)
        if manager is None:
            decoder = self.decoder(scope)
            manager = self._field_managers[key] = FieldManager(
                decoder.object_type,
                decoder.kind.api_version,
                subresource=scope.subresource,
                reset=strategy_of(scope.kind, scope.subresource).reset_fields,
                convert=partial(self.convert, scope.kind),
            )
        return manager

    def convert(self, kind: Kind, obj: Obj, source: str, target: str) -> Obj | None:
        """Convert an object of a kind between API versions. Returns None if one of them is not served.

        Raises UnconvertibleError for a webhook that does not convert it.
        """
        if source == target:
            return obj
        if kind.custom is not None:
            try:
                return kind.custom.convert(obj, target)
            except StatusError as error:
                raise UnconvertibleError(error.message) from None
        versions = self._versions(kind)
        if source not in versions or target not in versions:
            return None
        (from_kind, from_version), (to_kind, to_version) = versions[source], versions[target]
        return from_internal(to_kind, to_version, to_internal(from_kind, from_version, obj))

    def defaulted(self, scope: RequestScope, obj: Obj, api_version: str, ctx: Context) -> Obj:
        """Set the defaults of an object's own API version, and return it in the version of the scope."""
        if scope.kind.custom is not None:
            return obj
        kind, version = self._versions(scope.kind).get(api_version, (scope.kind, scope.version))
        obj = typed(kind, version, bare(obj))
        kind.behavior.defaults(obj, ctx if version == ctx.version else replace(ctx, version=version))
        if (kind, version) == (scope.kind, scope.version):
            return obj
        return from_internal(scope.kind, scope.version, to_internal(kind, version, obj))

    def _versions(self, kind: Kind) -> dict[str, tuple[Kind, str]]:
        """Return the kinds and versions that serve the objects stored as this kind, by apiVersion.

        Events are served in two groups.
        """
        versions = self._forms.get(kind)
        if versions is None:
            same = [k for k in self.release.kinds if k.stored == kind.stored]
            versions = self._forms[kind] = {k.gvk(v).api_version: (k, v) for k in same for v in k.versions}
        return versions


def selector_of(scope: RequestScope, options: ListOptions) -> Selector:
    """Return the selector of a list, a watch or a deletecollection. Raises 400 for fields without a selector."""
    terms = options.fields
    for term in terms:
        _check_label(scope, term)
    if scope.info.watch_path and scope.name:
        named = FieldTerm("metadata.name", scope.name, True)
        if terms and named not in terms:
            raise bad_request("fieldSelector metadata.name doesn't match requested name")
        terms = terms or (named,)
    return Selector(options.labels, terms, scope.behavior.selectable)


def _check_label(scope: RequestScope, term: FieldTerm) -> None:
    """Raise 400 for a field that the kind cannot be selected by."""
    label, selectable = term.label, scope.behavior.selectable
    if label == "metadata.name" or label in selectable:
        return
    if not selectable and scope.kind.custom is None:
        if label != "metadata.namespace":
            only = '"metadata.name", "metadata.namespace"'
            raise bad_request(f'"{label}" is not a known field selector: only {only}')
    elif label != "metadata.namespace" or not scope.kind.namespaced:
        text = scope.behavior.unknown_field.format(label=label, api_version=scope.api_version, kind=scope.kind.name)
        raise bad_request(text)
