"""Builds the parts of a server from its options: what handlers use, and the front door."""

from __future__ import annotations

import os
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

from understudy.admission.manifest.settings import (
    NEED_CONFIGURATION,
    NO_SETTINGS,
    AdmissionSettings,
    Reader,
    load_settings,
)
from understudy.admission.manifest.source import manifest_metrics
from understudy.admission.reloads import ReloadedFile, server_identity
from understudy.admission.webhooks import WebhookClient
from understudy.apiserver.authentication.authenticator import Authenticator
from understudy.apiserver.authentication.counted.metrics import AuthenticationMetrics
from understudy.apiserver.authentication.loopback import LoopbackTokens
from understudy.apiserver.authentication.service_accounts.account_tokens import AccountTokens
from understudy.apiserver.authentication.service_accounts.legacy_tokens import LAST_USED
from understudy.apiserver.authentication.tokens import Tokens
from understudy.apiserver.authorization.metrics import AuthorizationMetrics
from understudy.apiserver.client.loopback import ClientBuilder, SendWatch
from understudy.apiserver.controllers.controller import APISERVER_AGENT
from understudy.apiserver.controllers.custom_resources.served_definitions import ServedDefinitions
from understudy.apiserver.controllers.replicas.storage_versions import StorageVersionManager, storage_versions
from understudy.apiserver.endpoints.object_interfaces import RegistryObjects
from understudy.apiserver.endpoints.requestinfo import resource_path
from understudy.apiserver.endpoints.server_state import ServerState
from understudy.apiserver.extensions.serving import Serving
from understudy.apiserver.flowcontrol.classification import FlowControl
from understudy.apiserver.permissions.log import PermissionLog
from understudy.apiserver.registry.store import Registry
from understudy.apiserver.registry.stored_values import StoredValues
from understudy.apiserver.server.bootstrap import issuers
from understudy.apiserver.server.director import Director
from understudy.apiserver.server.filters.faults.faults import Faults
from understudy.apiserver.server.filters.hints.hints import Hints
from understudy.apiserver.server.filters.limits.limiter import Limiter
from understudy.apiserver.server.filters.limits.max_in_flight import MaxInFlight
from understudy.apiserver.server.filters.request_log.log import RequestLog
from understudy.apiserver.server.options.authorizers import authorization_of
from understudy.apiserver.server.options.config import ServerConfig
from understudy.apiserver.server.pages.control import Control
from understudy.apiserver.server.pages.loop_pauses import LoopPauses
from understudy.apiserver.server.pages.mux import Page
from understudy.apiserver.server.webhooks.aggregation.aggregator import Aggregator
from understudy.apiserver.server.webhooks.client import HttpWebhookClient
from understudy.apiserver.server.webhooks.egress.dialing import CLUSTER
from understudy.apiserver.server.webhooks.kubelets import Kubelets
from understudy.apiserver.server.webhooks.services import ServiceResolver
from understudy.apiserver.serving.release import Release
from understudy.machinery.auth.users import MASTERS, User
from understudy.machinery.golang.text import go_quote
from understudy.machinery.releases import features
from understudy.machinery.releases.features import Gates
from understudy.machinery.releases.version import V1_31, V1_32, V1_37, ByRelease
from understudy.machinery.typeinfo.go_types import Schemas
from understudy.machinery.types import NamedTuple, Obj

if TYPE_CHECKING:
    from understudy.apiserver.authentication.bootstrap_tokens import BootstrapTokens
    from understudy.apiserver.authentication.certificates.client_certificates import ClientCertificates
    from understudy.apiserver.authentication.certificates.request_headers import FrontProxies
    from understudy.apiserver.authentication.oidc.configuration import Configuration
    from understudy.apiserver.authentication.oidc.downloads import Connect
    from understudy.apiserver.authentication.oidc.jwt_authenticator import JWTAuthenticator
    from understudy.apiserver.authentication.webhook import WebhookTokens
    from understudy.apiserver.permissions.audit.policy import Policy
    from understudy.apiserver.server.filters.audit.backends import Backend
    from understudy.apiserver.server.filters.audit.filter import Auditor
    from understudy.apiserver.server.filters.audit.kept import KeptEvents
    from understudy.apiserver.server.filters.audit.log import Rotation
    from understudy.apiserver.server.http.tracing.tracing import Tracing
    from understudy.apiserver.server.webhooks.egress.tunnels import Egress

    NewAuthenticators = Callable[[Configuration], list[JWTAuthenticator]]

_ROTATION = ByRelease({V1_37: (100, 100, 366), V1_31: (0, 0, 0)})  # megabytes, files and days, by default
_LISTS_CERTIFICATES = ByRelease({V1_37: False, V1_31: True})  # in /metrics where there are none
_SIZE_OF_NONE = ByRelease({V1_37: 0, V1_31: 100})  # megabytes that a limit of 0 stands for
ADMIN = User("system:admin", [MASTERS])


class Parts(NamedTuple):
    """The parts of a server that has not started yet.

    webhooks     calls webhooks, once it is opened
    kubelets     asks kubelets
    definitions  keeps the state's `serving` up to date
    aggregator   asks aggregated API servers
    storage_versions
                 are written by the server, None where they are not
    tracing      tells where the time of requests goes, None where nobody wants to know
    egress       connects to other servers through proxies, None where there are no proxies
    """

    state: ServerState
    webhooks: HttpWebhookClient
    kubelets: Kubelets
    definitions: ServedDefinitions
    aggregator: Aggregator
    storage_versions: StorageVersionManager | None
    tracing: Tracing | None
    egress: Egress | None


def new_parts(config: ServerConfig) -> Parts:
    """Return the parts of a server with a new store. Raises ValueError for manifests with errors."""
    serving, version, gates = Serving(config.release), config.release.version, config.gates()
    tracing, egress = _tracing(config, gates), _egress(config)
    registry = Registry(
        (config.store or partial(config.new_store, partial(_values, config, gates), config.event_seconds))(),
        serving,
        metrics=None if tracing is None else tracing.storage,
        caches=config.watch_cache,
    )
    is_routed = config.proxies.get(CLUSTER) is not None
    services = ServiceResolver(registry.lookup, registry.listing, config.addresses, is_routed=is_routed)
    webhooks = HttpWebhookClient(services, version, egress) if tracing is None else tracing.webhooks(services, egress)
    dial = None if egress is None else egress.cluster
    kubelets = Kubelets(config.kubelet_tls, config.kubelet_preferred_address_types, config.addresses, dial)
    objects = RegistryObjects(registry, Schemas.of(version))
    metrics = AuthorizationMetrics()
    authorization = authorization_of(config, objects, webhooks, gates, metrics)
    has_certificates = config.client_authorities is not None or _LISTS_CERTIFICATES[version]
    users = AuthenticationMetrics(_identity(gates), has_certificates=has_certificates)
    new_authenticators = partial(_jwt_authenticators, config, users, egress)
    tokens = _tokens(config, registry, webhooks, new_authenticators, gates)
    state = ServerState(
        serving,
        gates,
        registry,
        tokens,
        authorization.authorizer,
        authorization.escalation,
        authorization.waits or config.token_webhook is not None,
        PermissionLog(on=config.permission_report is not None),
        anonymous=config.anonymous,
        clock=config.clock,
        event_ttl=config.event_seconds,
        webhooks=webhooks,
        kubelets=kubelets,
        enable_admission_plugins=config.enable_admission_plugins,
        disable_admission_plugins=config.disable_admission_plugins,
        settings=_settings(config, gates),
        authentication_metrics=users,
        authorization_metrics=metrics,
        reloaded=(*_authentication_files(config, tokens, gates, new_authenticators), *authorization.files),
    )
    tells_uid = version >= V1_32 and gates[features.REMOTE_REQUEST_HEADER_UID]
    aggregator = Aggregator(services, config.proxy_certificate, tells_uid=tells_uid, dial=dial)
    dialled = () if egress is None else egress.metrics.families
    state.dialled = (*webhooks.certificates.families, *aggregator.certificates.families, *dialled)
    versions = _storage_versions(config, state)
    return Parts(state, webhooks, kubelets, ServedDefinitions(state), aggregator, versions, tracing, egress)


def _egress(config: ServerConfig) -> Egress | None:
    """Return the connections through the proxies of `--egress-selector-config-file`, None without any."""
    if not any(config.proxies.values()):
        return None
    from understudy.apiserver.server.webhooks.egress.tunnels import Egress

    return Egress(config.proxies)


def _tracing(config: ServerConfig, gates: Gates) -> Tracing | None:
    """Return the traces of a server, None for one without `--tracing-config-file`."""
    if config.tracing is None:
        return None
    from understudy.apiserver.server.http.tracing.tracing import Tracing  # OpenTelemetry, which few servers need

    return Tracing(config.tracing, _identity(gates), config.release.version, _values(config, gates).encode)


def _storage_versions(config: ServerConfig, state: ServerState) -> StorageVersionManager | None:
    """Return the writer of StorageVersions, None where the gate or a read-only store rules it out."""
    gates = state.gates
    if config.is_read_only or not (gates[features.STORAGE_VERSION_API] and gates[features.API_SERVER_IDENTITY]):
        return None
    versions = storage_versions(state.release.groups, state.schemas)
    return StorageVersionManager(versions, server_identity(), state.clock)


def _values(config: ServerConfig, gates: Gates) -> StoredValues:
    """Return the form in which objects of all kinds of the release, served or not, are stored."""
    release = Release.named(config.emulated_version)
    return StoredValues(release, release.version, gates, config.storage_media_type)


def _settings(config: ServerConfig, gates: Gates) -> AdmissionSettings:
    """Return the configurations of admission plugins. Raises ValueError."""
    file = config.admission_control_config_file
    if not file and NEED_CONFIGURATION.isdisjoint(config.enable_admission_plugins):
        return NO_SETTINGS
    from understudy.admission.plugins.ordered import READERS, configured_plugins  # imports all plugins
    from understudy.admission.plugins.pods.image_policy import ImagePolicyWebhook, read_image_policy
    from understudy.apiserver.server.options.webhook_files import read_endpoint

    version, path = config.release.version, Path(file) if file else None
    plugins = configured_plugins(config.enable_admission_plugins, config.disable_admission_plugins, version)
    metrics = manifest_metrics(_identity(gates))
    readers: Mapping[str, Reader] = {**READERS, ImagePolicyWebhook.name: partial(read_image_policy, read_endpoint)}
    return load_settings(path, plugins, readers, version, gates, metrics, config.clock)


def _tokens(
    config: ServerConfig,
    registry: Registry,
    client: WebhookClient,
    new_authenticators: NewAuthenticators,
    gates: Gates,
) -> Tokens:
    options = replace(config.account_tokens, generated=config.generated)
    accounts = AccountTokens(config.clock, config.release.version, options, gates)
    webhook = _webhook_tokens(config, accounts.audiences, client)
    return Tokens(
        accounts,
        registry.lookup,
        config.tokens or {},
        [] if config.authentication is None else new_authenticators(config.authentication),
        webhook,
        _bootstrap_tokens(config),
    )


def _bootstrap_tokens(config: ServerConfig) -> BootstrapTokens | None:
    """Return the authenticator of bootstrap tokens, None where these are not accepted."""
    if not config.enable_bootstrap_token_auth:
        return None
    from understudy.apiserver.authentication.bootstrap_tokens import BootstrapTokens

    return BootstrapTokens(config.clock)


def _webhook_tokens(config: ServerConfig, audiences: Sequence[str], client: WebhookClient) -> WebhookTokens | None:
    """Return the client of the server of `--authentication-token-webhook-config-file`, None without one."""
    if config.token_webhook is None:
        return None
    from understudy.admission.generic_webhook import GenericWebhook
    from understudy.apiserver.authentication.webhook import KINDS, WebhookTokens

    kind = KINDS[config.authentication_token_webhook_version]
    webhook = GenericWebhook(config.token_webhook, client, kind, Schemas.of(config.release.version))
    return WebhookTokens(webhook, audiences, config.token_webhook_seconds, config.clock)


def _jwt_authenticators(
    config: ServerConfig, metrics: AuthenticationMetrics, egress: Egress | None, configuration: Configuration
) -> list[JWTAuthenticator]:
    """Return the authenticators for tokens of the issuers in a configuration. Raises ValueError for an issuer in a
    network to which there is no way."""
    from understudy.apiserver.authentication.oidc.jwt_authenticator import JWTAuthenticator  # CEL

    algorithms, version = configuration.algorithms, config.release.version

    def observe(issuer: str, document: str) -> None:
        metrics.observe_keys(issuer, document, config.clock.now())

    watching = observe if config.gates()[features.JWKS_METRICS] else None
    return [
        JWTAuthenticator(
            spec,
            expressions,
            algorithms,
            config.clock,
            version,
            metrics,
            watching,
            _issuer_connect(config, egress, spec["issuer"].get("egressSelectorType", "")),
        )
        for spec, expressions in configuration.authenticators
    ]


def _issuer_connect(config: ServerConfig, egress: Egress | None, network: str) -> Connect | None:
    """Return the way to issuers in a network, None where they are reached directly. Raises ValueError for a
    network that the egress configuration does not name (`egressLookupForType`)."""
    if not network:
        return None
    if not config.proxies:
        raise ValueError(f"oidc: egress lookup required with egress selector type {go_quote(network)}")
    if network not in config.proxies:
        raise ValueError(f"oidc: egress lookup for {go_quote(network)} is not configured")
    return None if egress is None else egress.of_threads(network)


def _authentication_files(
    config: ServerConfig, tokens: Tokens, gates: Gates, new_authenticators: NewAuthenticators
) -> Sequence[ReloadedFile]:
    """Return the file of `--authentication-config`, whose issuers are those that know the users of tokens."""
    if not config.authentication_config:
        return ()
    from understudy.apiserver.authentication.jose import ALGORITHMS  # cryptography
    from understudy.apiserver.authentication.oidc.configuration import checked  # CEL
    from understudy.apiserver.authentication.oidc.reloadable import AuthenticationFile

    version, own = config.release.version, config.service_account_issuer
    file = AuthenticationFile(
        Path(config.authentication_config),
        config.authentication_data,
        partial(checked, algorithms=ALGORITHMS, version=version, gates=gates, issuers=own),
        new_authenticators,
        issuers.reach,
        tokens.jwt_authenticators,
        version,
        config.clock.now,
        _identity(gates),
    )
    return (file,)


def _identity(gates: Gates) -> str:
    """Return the name by which the metrics of a server know it, "" where servers have none."""
    return server_identity() if gates[features.API_SERVER_IDENTITY] else ""


def new_authenticator(config: ServerConfig, state: ServerState, loopback: LoopbackTokens) -> Authenticator:
    """Return the authenticator of requests; `loopback` has the tokens of clients inside this process."""
    return Authenticator(
        state.tokens.user_of,
        loopback,
        _client_certificates(config, state),
        _front_proxies(config),
        is_open=not config.authenticated,
        anonymous=config.anonymous,
        anonymous_paths=(config.authentication and config.authentication.anonymous_paths) or (),
    )


def _client_certificates(config: ServerConfig, state: ServerState) -> ClientCertificates | None:
    """Return the authenticator for client certificates, None for a server that asks for none."""
    if config.client_authorities is None:
        return None
    from understudy.apiserver.authentication.certificates.client_certificates import ClientCertificates  # cryptography

    return ClientCertificates(
        config.client_authorities, config.clock, state.gates, state.release.version, state.authentication_metrics
    )


def _front_proxies(config: ServerConfig) -> FrontProxies | None:
    """Return the authenticator of users whom front proxies name, None for a server that believes none."""
    if config.front_proxies is None:
        return None
    from understudy.apiserver.authentication.certificates.request_headers import FrontProxies  # cryptography

    return FrontProxies(config.front_proxies, config.clock)


def new_flow_control(config: ServerConfig, state: ServerState) -> tuple[FlowControl | None, Limiter | None]:
    """Return the classification of requests and their limiter, None for a server that has none."""
    if not config.enable_priority_and_fairness:
        flow_control = FlowControl(state.registry, state.release.version, config.concurrency)
        limits = config.in_flight
        limiter = None if limits is None else MaxInFlight(*limits, state.clock.monotonic)
        return (flow_control if config.classifies else None), limiter
    from understudy.apiserver.server.filters.limits.wiring import new_fair_queuing  # few servers need it

    return new_fair_queuing(state, config.concurrency)


class FrontDoor(NamedTuple):
    """The director that answers at a server's address, and the clients that ask it from the inside.

    limiter  limits requests, if they are limited
    hints    tell users why what they ask for does not happen
    tokens   those of clients inside this process
    clients  makes such clients
    token    of the first user of --token-auth-file, else of an administrator; "" where none is needed: everybody may do
             everything, and over plain HTTP kubectl does not ask for a user
    """

    director: Director
    limiter: Limiter | None
    hints: Hints
    tokens: LoopbackTokens
    clients: ClientBuilder
    token: str


def new_front_door(
    config: ServerConfig,
    state: ServerState,
    url: str,
    aggregator: Aggregator,
    control: Control | None,
    controllers: Collection[str],
    request_log: RequestLog,
    faults: Faults,
    pauses: LoopPauses,
    send_watch: SendWatch,
    auditor: Auditor | None,
    ui: Page | None,
    parts: Parts,
) -> FrontDoor:
    """Return the front door of a server that has a URL; `controllers` are the names of those that run behind it."""
    tokens, hints = LoopbackTokens(), Hints(state, controllers)
    authenticator = new_authenticator(config, state, tokens)
    hosts, flags = config.accepted_hosts, config.flags()
    flow_control, limiter = new_flow_control(config, state)
    director = Director(
        state,
        authenticator,
        url,
        aggregator,
        control,
        hosts,
        flags,
        hints,
        request_log,
        faults,
        pauses,
        auditor,
        ui,
        flow_control,
        limiter,
        parts.storage_versions,
        parts.tracing,
        config.metric_settings(),
    )
    clients = ClientBuilder(director, state, tokens, send_watch)
    state.tokens.accounts.legacy.mark_used = partial(_mark_used, clients)
    token = next(iter(state.tokens.users), "")
    if config.tokens is None and (config.authenticated or url.startswith("https:")):
        token = tokens.issue(ADMIN)
    return FrontDoor(director, limiter, hints, tokens, clients, token)


async def _mark_used(clients: ClientBuilder, secret: Obj, day: str) -> None:
    """Note in a Secret when the token that it holds was used last. Raises StatusError."""
    metadata = secret["metadata"]
    named = {name: metadata[name] for name in ("name", "namespace", "uid")}
    changes = {"kind": "Secret", "apiVersion": "v1", "metadata": {**named, "labels": {LAST_USED: day}}}
    path = resource_path("", "v1", "secrets", metadata["namespace"], metadata["name"])
    await clients.client(APISERVER_AGENT).patch(path, changes)


def new_auditor(
    config: ServerConfig, policy: Policy, state: ServerState, kept: KeptEvents, client: HttpWebhookClient
) -> Auditor:
    """Open the audit log; return what logs requests there and in `kept`. Raises OSError."""
    from understudy.apiserver.server.filters.audit.backends import backend_of
    from understudy.apiserver.server.filters.audit.filter import Auditor
    from understudy.apiserver.server.filters.audit.log import LogPlugin
    from understudy.apiserver.server.filters.audit.webhook import WebhookPlugin

    client.open()
    metrics, of_token = state.audit_metrics, state.tokens.annotations
    backends: list[Backend] = []
    if config.audit_log_path:
        path, rotation = os.fspath(config.audit_log_path), _rotation(config)
        plugin = LogPlugin(path, config.audit_log_format, rotation)
        backends.append(backend_of(plugin, config.audit_backend("log"), metrics.report, at_once=False))
    if config.audit_webhook is not None:
        hook = WebhookPlugin(config.audit_webhook, client, config.audit_backoff, Schemas.of(config.release.version))
        backends.append(backend_of(hook, config.audit_backend("webhook"), metrics.report, at_once=True))
    return Auditor(policy, kept, backends, state.clock, state.release.version, of_token, metrics)


def _rotation(config: ServerConfig) -> Rotation:
    """Return the limits of files of the audit log; the defaults are those of the release."""
    from understudy.apiserver.server.filters.audit.log import Rotation

    size, backups, age = _ROTATION[config.release.version]
    return Rotation(
        (size if config.audit_log_maxsize is None else config.audit_log_maxsize)
        or _SIZE_OF_NONE[config.release.version],
        backups if config.audit_log_maxbackup is None else config.audit_log_maxbackup,
        age if config.audit_log_maxage is None else config.audit_log_maxage,
        config.audit_log_compress,
    )
