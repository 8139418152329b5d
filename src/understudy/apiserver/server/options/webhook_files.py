"""Kubeconfig files that name the servers outside which a server asks: auditors, authorizers."""

from __future__ import annotations

import base64
from collections.abc import Iterable
from pathlib import Path

from understudy.admission.generic_webhook import Endpoint
from understudy.admission.webhooks import Caller, Target
from understudy.apiserver.client.external.kubeconfig_reader import read_kubeconfig

NO_CONFIGURATION = "no configuration has been provided, try setting KUBERNETES_MASTER environment variable"


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

    Raises ValueError, with the texts of client-go for a file that is missing or empty, no name of one, or a user who
    cannot log in."""
    path = Path(file)
    try:
        is_empty = not file or not path.stat().st_size
    except OSError as why:
        raise ValueError(f"stat {path}: {(why.strerror or str(why)).lower()}") from None
    if is_empty:
        raise ValueError(f"invalid configuration: {NO_CONFIGURATION}")
    connection = read_kubeconfig(path, for_webhook=True)
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
