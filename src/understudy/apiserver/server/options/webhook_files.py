"""Kubeconfig files that name the servers outside which a server asks: auditors, authorizers."""

from __future__ import annotations

import base64
from collections.abc import Iterable
from pathlib import Path

from understudy.admission.generic_webhook import Endpoint
from understudy.admission.webhooks import Caller, Target
from understudy.apiserver.client.external.webhook_kubeconfig import read_webhook_kubeconfig
from understudy.machinery.auth.kubeconfig_file import NO_CONFIGURATION


def read_reviewer(path: Path, version: str, versions: Iterable[str], what: str) -> Endpoint:
    """Return the server and the user of a kubeconfig for reviews in a version. Raises ValueError as `read_endpoint`.

    versions  the ones that there are; ValueError for another one calls the webhook `what`
    """
    endpoint = read_endpoint(path)
    if version not in versions:
        supported = ", ".join(f'"{known}"' for known in versions)
        raise ValueError(f'unsupported {what} version "{version}", supported versions are {supported}')
    return endpoint


def read_endpoint(file: str | Path) -> Endpoint:
    """Return the server and the user of a kubeconfig; over plain HTTP no credentials are sent.

    Raises ValueError with the texts of client-go."""
    path = Path(file)
    if not file:
        raise ValueError(f"invalid configuration: {NO_CONFIGURATION}")
    if not path.exists():
        raise ValueError(f"stat {path}: no such file or directory")
    connection = read_webhook_kubeconfig(path)
    authority = base64.b64encode(connection.certificate_authority or b"").decode()
    caller = Caller(
        "",
        connection.token,
        connection.insecure,
        connection.client_certificate,
        connection.client_key,
        connection.password,
        connection.impersonation,
        connection.plugin,
    )
    return Endpoint(Target(connection.url, authority, None), caller)
