"""Kubeconfig files as connections, and what is wrong with those that cannot be used."""

from __future__ import annotations

from base64 import b64encode
from pathlib import Path
from typing import Any

import orjson
import pytest

from understudy.apiserver.client.connection import Connection
from understudy.apiserver.client.external.kubeconfig_reader import KubeconfigError, read_kubeconfig
from understudy.apiserver.client.external.webhook_kubeconfig import read_webhook_kubeconfig


def write(folder: Path, cluster: dict[str, Any], user: dict[str, Any] | None = None, context: str = "c") -> Path:
    """Write a kubeconfig with one cluster, user and context; return its path."""
    config = {
        "current-context": context,
        "clusters": [{"name": "k", "cluster": cluster}],
        "users": [{"name": "u", "user": user}] if user is not None else [],
        "contexts": [{"name": "c", "context": {"cluster": "k", "user": "u" if user is not None else ""}}],
    }
    path = folder / "config"
    path.write_bytes(orjson.dumps(config))
    return path


def test_data_and_files(tmp_path: Path) -> None:
    """Certificates and tokens come from base64, or from files beside the kubeconfig."""
    for name in ("ca", "crt", "key", "token"):
        (tmp_path / name).write_text(f"{name} of a file\n")
    files = {"client-certificate": "crt", "client-key": "key", "tokenFile": "token"}
    path = write(tmp_path, {"server": "https://h:1/", "certificate-authority": "ca"}, files)
    assert read_kubeconfig(path) == Connection(
        url="https://h:1",
        certificate_authority=b"ca of a file\n",
        token="token of a file",
        client_certificate=b"crt of a file\n",
        client_key=b"key of a file\n",
    )
    data = {f"{name}-data": b64encode(name.encode()).decode() for name in ("client-certificate", "client-key")}
    path = write(tmp_path, {"server": "https://h:1", "insecure-skip-tls-verify": True}, {**data, "token": "t"})
    assert read_kubeconfig(path) == Connection(
        url="https://h:1", insecure=True, token="t", client_certificate=b"client-certificate", client_key=b"client-key"
    )


EXEC = "user 'u' logs in by exec, which is not supported: `kubectl proxy` does it, and is a server without credentials"


@pytest.mark.parametrize(
    ("cluster", "user", "context", "message"),
    [
        ({"server": "u"}, None, "", "has no current-context"),
        ({"server": "u"}, None, "other", "has no context 'other'"),
        ({}, None, "c", "cluster 'k' has no server"),
        ({"server": "u"}, {"exec": {"command": "x"}}, "c", EXEC),
        ({"server": "u", "certificate-authority": "none"}, None, "c", "none: No such file or directory"),
        ({"server": "u", "certificate-authority-data": "?"}, None, "c", "certificate-authority-data is not base64"),
    ],
)
def test_errors(
    tmp_path: Path, cluster: dict[str, Any], user: dict[str, Any] | None, context: str, message: str
) -> None:
    """An unusable kubeconfig is refused in one line that names the file."""
    path = write(tmp_path, cluster, user, context)
    with pytest.raises(KubeconfigError) as error:
        read_kubeconfig(path)
    assert str(error.value) == f"{path}: {message}"


@pytest.mark.parametrize("field", [{"as-uid": "7"}, {"as-groups": ["g"]}, {"as-user-extra": {"k": ["v"]}}])
def test_more_about_nobody(tmp_path: Path, field: dict[str, Any]) -> None:
    """A user who acts as another names that one, too."""
    path = write(tmp_path, {"server": "u"}, field)
    with pytest.raises(KubeconfigError, match="invalid configuration: requesting uid, groups or user-extra"):
        read_kubeconfig(path)
    assert read_kubeconfig(write(tmp_path, {"server": "u"}, {**field, "as": "jane"})).impersonation


@pytest.mark.parametrize("text", ["[]", "a: b: c"])
def test_other_files(tmp_path: Path, text: str) -> None:
    """A file that is no kubeconfig, no YAML, or not there is refused in one line that names it."""
    path = tmp_path / "config"
    path.write_text(text)
    for file in (path, tmp_path / "none"):
        with pytest.raises(KubeconfigError, match=f"^{file}: .+$"):
            read_kubeconfig(file)


PLUGIN = {"apiVersion": "client.authentication.k8s.io/v1", "command": "x", "interactiveMode": "Never"}
USED = "must be specified for u to use exec authentication plugin"
GONE = "The gcp auth plugin has been removed.\nPlease use the "


@pytest.mark.parametrize(
    ("user", "message"),
    [
        ({"auth-provider": {"name": "x"}}, 'no Auth Provider found for name "x"'),
        ({"auth-provider": {"name": "gcp"}}, GONE),
        ({"auth-provider": {"name": "oidc", "config": {}}}, "Must provide idp-issuer-url"),
        (
            {"token": "t", "username": "u", "password": "p"},
            "invalid configuration: more than one authentication method found for u; found [token basicAuth], only one "
            "is allowed",
        ),
        (
            {"exec": PLUGIN, "auth-provider": {"name": "x"}},
            "invalid configuration: authProvider cannot be provided in combination with an exec plugin for u",
        ),
        ({"exec": {**PLUGIN, "command": ""}}, f"invalid configuration: command {USED}"),
        ({"exec": {**PLUGIN, "apiVersion": ""}}, f"invalid configuration: apiVersion {USED}"),
        ({"exec": {**PLUGIN, "interactiveMode": ""}}, f"invalid configuration: interactiveMode {USED}"),
        (
            {"exec": {**PLUGIN, "interactiveMode": "Odd"}},
            'invalid configuration: invalid interactiveMode for u: "Odd"',
        ),
        (
            {"exec": {**PLUGIN, "command": "", "env": [{"value": "v"}, {"value": "w"}]}},
            f"invalid configuration: [command {USED}, env variable name {USED}]",
        ),
        ({"exec": {**PLUGIN, "apiVersion": "v1"}, "token": "t"}, 'exec plugin: invalid apiVersion "v1"'),
        (
            {"client-certificate-data": "eA=="},
            "invalid configuration: client-key-data or client-key must be specified for u to use the clientCert "
            "authentication method.",
        ),
        (
            {
                "client-certificate": "c",
                "client-certificate-data": "eA==",
                "client-key": "k",
                "client-key-data": "eA==",
            },
            "invalid configuration: [client-cert-data and client-cert are both specified for u. client-cert-data will "
            "override., client-key-data and client-key are both specified for u; client-key-data will override, unable "
            "to read client-cert DIR/c for u due to open DIR/c: no such file or directory, unable to read client-key "
            "DIR/k for u due to open DIR/k: no such file or directory]",
        ),
    ],
)
def test_users_of_webhooks_with_errors(tmp_path: Path, user: dict[str, Any], message: str) -> None:
    """A user who cannot log in is refused as kube-apiserver 1.32 refuses it at its start."""
    path = write(tmp_path, {"server": "https://h"}, user)
    with pytest.raises(ValueError, match=r"\w") as error:
        read_webhook_kubeconfig(path)
    text = str(error.value).replace(str(tmp_path), "DIR")
    assert text.startswith(message) if message is GONE else text == message


def test_users_of_webhooks(tmp_path: Path) -> None:
    """A password or a command is for servers with TLS only; a command's path begins at the folder of the file."""
    user = {"exec": {**PLUGIN, "command": "./bin/x", "installHint": "a\x1bb"}}
    connection = read_webhook_kubeconfig(write(tmp_path, {"server": "https://h"}, user))
    assert connection.plugin is not None
    assert (connection.plugin.command, connection.plugin.hint) == (f"{tmp_path}/bin/x", "aU+001Bb")
    for scheme, password in (("https", "me:p"), ("http", "")):
        path = write(tmp_path, {"server": f"{scheme}://h"}, {"username": "me", "password": "p"})
        assert read_webhook_kubeconfig(path).password == password
    assert read_webhook_kubeconfig(write(tmp_path, {"server": "http://h"}, user)).plugin is None
