"""Builds the authorizers of a server from its options."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

from understudy.admission.reloads import server_identity
from understudy.admission.webhooks import WebhookClient
from understudy.apiserver.authorization.metrics import AuthorizationMetrics
from understudy.apiserver.authorization.modes import (
    ABAC,
    DEFAULT,
    WEBHOOK,
    Authorization,
    escalation_check,
    new_authorization,
    new_authorizer,
)
from understudy.apiserver.server.options.config import ServerConfig
from understudy.machinery.auth.authorization import Authorizer, StoredObjects
from understudy.machinery.releases import features
from understudy.machinery.releases.features import Gates
from understudy.machinery.typeinfo.go_types import Schemas

if TYPE_CHECKING:
    from understudy.admission.generic_webhook import Endpoint
    from understudy.apiserver.authorization.configuration.file import AuthorizerConfiguration


def authorization_of(
    config: ServerConfig, objects: StoredObjects, client: WebhookClient, gates: Gates, metrics: AuthorizationMetrics
) -> Authorization:
    """Return the authorization that the options ask for. Raises ValueError.

    objects, gates  those of the server
    client          asks webhooks
    metrics         count what is authorized
    """
    others: Mapping[str, Callable[[], Authorizer]] = {
        ABAC: partial(_policy_authorizer, config),
        WEBHOOK: partial(_webhook_authorizer, config, client, gates, metrics),
    }
    if not config.authorization_config:
        return new_authorization(config.authorization_mode, objects, config.release.version, gates, metrics, others)
    return _configured(config, objects, client, gates, metrics, others)


def _configured(
    config: ServerConfig,
    objects: StoredObjects,
    client: WebhookClient,
    gates: Gates,
    metrics: AuthorizationMetrics,
    others: Mapping[str, Callable[[], Authorizer]],
) -> Authorization:
    """Return the authorization of `--authorization-config`, and the file, which is read again when it changes."""
    from understudy.apiserver.authorization.configuration.reloadable import AuthorizationFile, ReloadableAuthorizer

    assert config.authorization_config is not None
    version, selectors = config.release.version, gates[features.AUTHORIZE_WITH_SELECTORS]
    data, configuration = config.authorization_configuration
    types = [each.type for each in configuration if each.type != WEBHOOK]
    lasting = {type_: new_authorizer(type_, objects, version, gates, others) for type_ in types}
    new_webhook = partial(_configured_webhook, config, client, selectors, metrics)
    try:
        authorizer = ReloadableAuthorizer(configuration, lasting, new_webhook, version, metrics)
    except ValueError as why:
        raise ValueError(f"invalid authorization config: {why}") from None
    file = AuthorizationFile(
        Path(config.authorization_config),
        data,
        authorizer,
        types,
        version,
        config.clock.now,
        selectors=selectors,
        server=server_identity() if gates[features.API_SERVER_IDENTITY] else "",
    )
    return Authorization(authorizer, escalation_check(authorizer, lasting.values(), version), True, (file,))


def _policy_authorizer(config: ServerConfig) -> Authorizer:
    """Return the authorizer that asks the policies of `--authorization-policy-file`."""
    from understudy.apiserver.authorization.abac.authorizer import ABACAuthorizer

    return ABACAuthorizer(config.authorization_policies)


def _webhook_authorizer(
    config: ServerConfig, client: WebhookClient, gates: Gates, metrics: AuthorizationMetrics
) -> Authorizer:
    """Return the authorizer that asks the server of `--authorization-webhook-config-file`."""
    from understudy.admission.generic_webhook import GenericWebhook
    from understudy.apiserver.authorization.webhook.authorizer import Caching, WebhookAuthorizer
    from understudy.apiserver.authorization.webhook.review import KINDS

    assert config.authorization_webhook is not None
    version = config.authorization_webhook_version
    webhook = GenericWebhook(config.authorization_webhook, client, KINDS[version], Schemas.of(config.release.version))
    selectors = gates[features.AUTHORIZE_WITH_SELECTORS]
    return WebhookAuthorizer(
        DEFAULT,
        webhook,
        version,
        Caching(*config.authorization_ttls),
        config.clock,
        metrics.webhooks,
        selectors=selectors,
    )


def _configured_webhook(
    config: ServerConfig,
    client: WebhookClient,
    selectors: bool,
    metrics: AuthorizationMetrics,
    authorizer: AuthorizerConfiguration,
) -> Authorizer:
    """Return the authorizer that asks a webhook of a configuration. Raises ValueError."""
    from understudy.admission.generic_webhook import GenericWebhook
    from understudy.apiserver.authorization.configuration.validation import DENY
    from understudy.apiserver.authorization.webhook.authorizer import Caching, WebhookAuthorizer
    from understudy.apiserver.authorization.webhook.match_conditions import MatchConditions, compile_condition
    from understudy.apiserver.authorization.webhook.review import KINDS

    webhook, release = authorizer.webhook, config.release.version
    assert webhook is not None
    compiled = [compile_condition(each, release, selectors=selectors) for each in webhook.conditions]
    return WebhookAuthorizer(
        authorizer.name,
        GenericWebhook(
            _endpoint(webhook.connection[1]),
            client,
            KINDS[webhook.version],
            Schemas.of(release),
            webhook.timeout / 1e9,
        ),
        webhook.version,
        Caching(
            webhook.authorized_ttl / 1e9 if webhook.caches_authorized else 0,
            webhook.unauthorized_ttl / 1e9 if webhook.caches_unauthorized else 0,
        ),
        config.clock,
        metrics.webhooks,
        denies_errors=webhook.failure_policy == DENY,
        selectors=selectors,
        conditions=MatchConditions(authorizer.name, compiled, metrics.conditions) if compiled else None,
    )


def _endpoint(kubeconfig: str | None) -> Endpoint:
    """Return the server of a kubeconfig. Raises ValueError."""
    from understudy.apiserver.server.options.webhook_files import read_endpoint  # YAML

    if kubeconfig is None:
        raise ValueError("connectionInfo InClusterConfig is not allowed for kube-apiserver, which ends with it")
    return read_endpoint(Path(kubeconfig))
