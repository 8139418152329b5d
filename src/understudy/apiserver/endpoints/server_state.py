"""The state of a server that all request handlers share."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from copy import copy
from dataclasses import field, replace
from functools import partial
from ipaddress import IPv4Network
from itertools import chain
from typing import TYPE_CHECKING

from understudy.admission.chain import Chain
from understudy.admission.manifest.settings import NO_SETTINGS, AdmissionSettings
from understudy.admission.metrics import AdmissionMetrics
from understudy.admission.reloads import ReloadedFile
from understudy.admission.webhooks import NoWebhooks, WebhookClient
from understudy.apiserver.authentication.counted.metrics import AuthenticationMetrics
from understudy.apiserver.authentication.tokens import Tokens
from understudy.apiserver.authorization.metrics import AuthorizationMetrics
from understudy.apiserver.authorization.webhook.awaited import Decide, at_once
from understudy.apiserver.encoding.interest import Interests
from understudy.apiserver.encoding.versions import Versions
from understudy.apiserver.endpoints.kubelets import KubeletClient, NoKubelets
from understudy.apiserver.endpoints.object_interfaces import RegistryObjects
from understudy.apiserver.endpoints.request import Request
from understudy.apiserver.endpoints.responsewriters.shared_items import SharedItems
from understudy.apiserver.endpoints.scope import RequestScope
from understudy.apiserver.extensions.metrics import (
    AvailabilityMetrics,
    ConversionMetrics,
    DocumentMetrics,
    rule_families,
)
from understudy.apiserver.extensions.serving import Serving
from understudy.apiserver.permissions.audit.metrics import AuditMetrics
from understudy.apiserver.permissions.log import NotingAuthorizer, PermissionLog
from understudy.apiserver.registry.quota_status import QuotaStatus
from understudy.apiserver.registry.rest import strategy_of
from understudy.apiserver.registry.store import Registry
from understudy.apiserver.serving.monitoring import WatchMetrics
from understudy.apiserver.serving.release import Release
from understudy.kinds.certificates import metrics as certificate_metrics
from understudy.kinds.context import Context
from understudy.kinds.core.services import metrics as service_metrics
from understudy.kinds.core.services.held_numbers import CLUSTER_IPS, NODE_PORTS, SERVICE_CIDR
from understudy.kinds.core.services.ip_allocators import allocated_addresses
from understudy.kinds.declarations.kind import Kind
from understudy.machinery.auth.always_allow import AlwaysAllow
from understudy.machinery.auth.authorization import Authorizer
from understudy.machinery.patch.apply.field_manager import FieldManager
from understudy.machinery.releases.features import Gates
from understudy.machinery.releases.version import V1_37
from understudy.machinery.typeinfo.go_types import Schemas
from understudy.machinery.types import dataclass
from understudy.machinery.util.clock import Clock, SystemClock, timestamp
from understudy.machinery.util.metrics import AnyFamily, Gauge, NamedFamilies

if TYPE_CHECKING:
    from understudy.apiserver.authorization.rbac.escalation import EscalationCheck


@dataclass(slots=True)
class ServerState:
    """The parts of a server that every request handler uses.

    serving   what is served now; `serve` replaces it
    tokens    know the users of bearer tokens
    anonymous whether requests without credentials are those of `system:anonymous`
    webhooks  calls webhooks for admission and conversion
    kubelets  asks kubelets for logs, commands and ports
    settings  of admission plugins, from their file
    reloaded  files of authentication and authorization, which are read again when they change
    dialled   the metrics of connections to other servers
    asks_outside
              whether webhooks may have to be asked who a user is and may do what: `decided` of
              `apiserver.authorization.webhook.awaited` waits for them
    decide    calls a function that asks who a user is, and returns its result; in a thread the event loop calls it, and
              waits for webhooks
    escalation
              checks who grants which rights, None where no rights are needed
    permissions
              notes what users ask for
    interests are those of the open watches
    list_items
              of lists that are sent, for equal ones
    """

    serving: Serving
    gates: Gates
    registry: Registry
    tokens: Tokens
    authorizer: Authorizer = field(default_factory=AlwaysAllow)
    escalation: EscalationCheck | None = None
    asks_outside: bool = False
    decide: Decide = field(default=at_once, init=False)
    permissions: PermissionLog = field(default_factory=PermissionLog)
    anonymous: bool = False
    clock: Clock = field(default_factory=SystemClock)
    event_ttl: float = 0.0
    webhooks: WebhookClient = field(default_factory=NoWebhooks)
    kubelets: KubeletClient = field(default_factory=NoKubelets)
    enable_admission_plugins: Sequence[str] = ()
    disable_admission_plugins: Sequence[str] = ()
    settings: AdmissionSettings = NO_SETTINGS
    authentication_metrics: AuthenticationMetrics = field(default_factory=AuthenticationMetrics)
    authorization_metrics: AuthorizationMetrics = field(default_factory=AuthorizationMetrics)
    reloaded: Sequence[ReloadedFile] = ()
    dialled: Sequence[AnyFamily] = ()
    interests: Interests = field(default_factory=Interests, init=False)
    list_items: SharedItems = field(default_factory=SharedItems, init=False)
    admission_metrics: AdmissionMetrics = field(init=False)
    audit_metrics: AuditMetrics = field(default_factory=AuditMetrics, init=False)
    availability_metrics: AvailabilityMetrics = field(default_factory=AvailabilityMetrics, init=False)
    conversion_metrics: ConversionMetrics = field(default_factory=ConversionMetrics, init=False)
    document_metrics: DocumentMetrics = field(default_factory=DocumentMetrics, init=False)
    kind_metrics: NamedFamilies = field(init=False)
    watch_metrics: WatchMetrics = field(init=False)
    versions: Versions = field(init=False)
    _chain: Chain | None = field(default=None, init=False)
    _chain_lasts: bool = field(default=True, init=False)
    _field_managers: dict[tuple[Kind, str, str], FieldManager] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self.admission_metrics = AdmissionMetrics(self.release.version)
        self.watch_metrics = WatchMetrics(self.release.version)
        self.kind_metrics = NamedFamilies(
            *certificate_metrics.families(), *service_metrics.families(), *rule_families()
        )
        self.versions = Versions(self.release.kinds)

    @property
    def chain(self) -> Chain:
        """Return the admission chain, made once. One that does not last misses changes of policies and webhooks."""
        if self._chain is None:
            self._chain = self._new_chain()
        return self._chain

    def _new_chain(self) -> Chain:
        from understudy.admission.plugins.ordered import new_chain  # imports all plugins, which only writes need

        return new_chain(
            self.enable_admission_plugins,
            self.disable_admission_plugins,
            QuotaStatus(self.registry),
            RegistryObjects(self.registry, self.schemas, lasts=self._chain_lasts),
            self.authorizer,
            self.webhooks,
            self.admission_metrics,
            self.release.version,
            self.gates,
            self.settings,
        )

    def for_thread(self, registry: Registry, webhooks: WebhookClient) -> ServerState:
        """Return the state of the same server for one request in a thread, with another way to objects and webhooks."""
        other = copy(self)
        other.registry, other.webhooks = registry, webhooks
        other.tokens = replace(self.tokens, lookup=registry.lookup)
        other._chain, other._chain_lasts = None, False
        return other

    def ask(self, authorizer: Authorizer) -> None:
        """Ask for decisions in another way."""
        self.authorizer = authorizer
        self.escalation = self.escalation and self.escalation.asking(authorizer)

    @property
    def counted_families(self) -> Sequence[AnyFamily]:
        """Return the metrics of admission, of users and their rights, of the audit log, of files that are read again,
        of tokens of service accounts, of APIServices, of events, of custom resources, of other kinds, of connections to
        other servers and of storage.
        """
        files = (family for file in self.reloaded for family in file.families)
        manifests = self.settings.manifests.metrics.families
        tokens = self.tokens.accounts.uses.families
        counted = self.admission_metrics.families, manifests, files, tokens, self.audit_metrics.families
        users = *self.authentication_metrics.families, *self.tokens.cache.families, *self.authorization_metrics.families
        listed = self.registry.listing("apiregistration.k8s.io", "apiservices")
        available = self.availability_metrics.families(listed)
        custom = *self.document_metrics.families, *self.conversion_metrics.families
        kinds = *self.kind_metrics.families, *self._allocation_gauges()
        served = *self.watch_metrics.families, *custom, *kinds, *self.dialled
        return [*chain(*counted, users, available, served, self.registry.metrics.families(self.release.version))]

    def _allocation_gauges(self) -> Iterator[Gauge]:
        """Yield the families of what is allocated to services: of ports as soon as one was, of addresses of each range
        that one was allocated of, which the Service `kubernetes` has of the first."""
        bitmap = self.registry.allocations.ranges.allocated
        names = [obj["metadata"]["name"] for obj in self.registry.listing("networking.k8s.io", "ipaddresses")]
        networks = {SERVICE_CIDR, *(IPv4Network(cidr) for cidr, _ in self.kind_metrics[service_metrics.IPS])}
        addresses = {each: allocated_addresses(self.gates, bitmap(CLUSTER_IPS), names, each) for each in networks}
        allocated = bitmap(NODE_PORTS).bit_count()
        has_ports = bool(self.kind_metrics[service_metrics.PORTS])
        yield from service_metrics.gauges(addresses, (allocated, NODE_PORTS.size - allocated) if has_ports else (0, 0))

    @property
    def release(self) -> Release:
        """Return the release that the server emulates, with its built-in kinds."""
        return self.serving.release

    def serve(self, serving: Serving) -> None:
        """Serve other custom resources than before."""
        if serving is not self.serving:
            self.serving = self.registry.resources = serving
            self._field_managers.clear()

    @property
    def schemas(self) -> Schemas:
        """Return the Go types and schemas of the release."""
        return Schemas.of(self.release.version)

    def timestamp(self) -> str:
        """Return the time of this server's clock as objects hold it (RFC 3339, whole seconds)."""
        return timestamp(self.clock.now())

    def context(self, request: Request, scope: RequestScope) -> Context:
        """Return the context of a request for validation, strategies and admission."""
        context = Context(
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
            catch_up=self.registry.store.catch_up,
            pending_services=self.registry.pending_services,
            allocated=self.registry.allocations.ranges.allocated,
            allocate=self.registry.allocations.allocate,
            action=request.info,
            count=self.kind_metrics.count,
            observe=self.kind_metrics.observe,
            authorizer=self._authorizer_of(request),
        )
        context.writes, context.track = request.writes, request.track
        if request.audit is not None:
            context.annotate = request.audit.annotate
        return context

    def _authorizer_of(self, request: Request) -> Authorizer:
        """Return the authorizer of the rights that a request needs besides that for its path."""
        if request.is_internal or not self.permissions.on:
            return self.authorizer
        return NotingAuthorizer(self.authorizer, self.permissions)

    def field_manager(self, scope: RequestScope) -> FieldManager:
        """Return the field manager for the bodies of a scope, which is built once for all its requests."""
        key = scope.kind, scope.version, scope.subresource
        manager = self._field_managers.get(key)
        if manager is None:
            decoder = scope.decoder
            manager = self._field_managers[key] = FieldManager(
                decoder.object_type,
                decoder.kind.api_version,
                subresource=scope.subresource,
                reset=strategy_of(scope.kind, scope.subresource).reset_fields,
                convert=partial(self.versions.convert, scope.kind),
                keeps_owners=scope.kind.release >= V1_37,
            )
        return manager
