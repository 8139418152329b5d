"""Commands of users of kubeconfigs that print credentials (`exec`).

https://kubernetes.io/docs/reference/access-authn-authz/authentication/#client-go-credential-plugins
"""

from __future__ import annotations

import os
from pathlib import Path
from unicodedata import category

from understudy.machinery.golang.json_writer import encode
from understudy.machinery.golang.text import go_quote
from understudy.machinery.types import NamedTuple, Obj

GROUP = "client.authentication.k8s.io"
EXTENSION = f"{GROUP}/exec"  # of a cluster: what is passed on to the plugin as `config`
VERSIONS = ("v1", "v1beta1")
NEVER, IF_AVAILABLE, ALWAYS = "Never", "IfAvailable", "Always"
MODES = (NEVER, IF_AVAILABLE, ALWAYS)
_WITHOUT_MODE = (f"{GROUP}/v1beta1", f"{GROUP}/v1alpha1")  # versions in which the mode has a default
_CLUSTER = (
    *("tls-server-name", "insecure-skip-tls-verify"),
    *("certificate-authority-data", "proxy-url", "disable-compression"),
)
_OTHERS = ("token", "tokenFile", "username", "password", "client-certificate", "client-certificate-data")


class ExecPlugin(NamedTuple):
    """A command that prints credentials. Upstream: `ExecConfig`.

    version  that of what it is told and prints
    mode     whether it reads the standard input: "Never", "IfAvailable" or "Always"
    hint     how to install it
    cluster  the server that the credentials are for (JSON), b"" if the command is not told
    """

    command: str
    arguments: tuple[str, ...]
    environment: tuple[tuple[str, str], ...]
    version: str
    mode: str
    hint: str
    cluster: bytes


def exec_plugin(user: Obj, folder: Path, cluster: Obj) -> ExecPlugin | None:
    """Return the command that prints the credentials of a user of a kubeconfig, None if there is none.

    It is not asked for a user who has others. Raises ValueError for an unknown version.

    folder   that of the kubeconfig, at which a path begins
    cluster  the server that the credentials are for, in the words of `exec_cluster`
    """
    fields = user.get("exec")
    if not fields:
        return None
    command, version = fields.get("command") or "", fields.get("apiVersion") or ""
    if version not in [f"{GROUP}/{known}" for known in VERSIONS]:
        raise ValueError(f"exec plugin: invalid apiVersion {go_quote(version)}")
    if any(user.get(name) for name in _OTHERS):
        return None
    return ExecPlugin(
        os.path.normpath(folder / command) if os.sep in command else command,
        tuple(fields.get("args") or ()),
        tuple((each.get("name") or "", each.get("value") or "") for each in fields.get("env") or ()),
        version.rpartition("/")[2],
        interactive_mode(fields),
        fields.get("installHint") or "",
        encode(cluster) if fields.get("provideClusterInfo") else b"",
    )


def exec_cluster(server: str, authority: str, cluster: Obj) -> Obj:
    """Return a server as commands are told of it (`ConfigToExecCluster`).

    server     its URL
    authority  the certificates that it is verified with (PEM, base64)
    cluster    its entry in the kubeconfig
    """
    named = {**{name: cluster.get(name) for name in _CLUSTER}, "certificate-authority-data": authority}
    extensions = {each.get("name"): each.get("extension") for each in cluster.get("extensions") or ()}
    filled = {name: value for name, value in named.items() if value}
    return {"server": server, **filled, "config": extensions.get(EXTENSION)}


def printable(text: str) -> str:
    """Return a text with the names of control characters in their place (`cleanANSIEscapeCodes`)."""
    return "".join(char if category(char)[0] != "C" or "\t" <= char <= "\r" else f"U+{ord(char):04X}" for char in text)


def interactive_mode(fields: Obj) -> str:
    """Return the mode of a command; in older versions it has a default (`SetDefaults_ExecConfig`)."""
    mode: str = fields.get("interactiveMode") or ""
    return mode or (IF_AVAILABLE if fields.get("apiVersion") in _WITHOUT_MODE else "")
