"""Kubeconfig files that point to a server.

https://kubernetes.io/docs/concepts/configuration/organize-cluster-access-kubeconfig/
"""

from __future__ import annotations

import base64
import errno
import os
import stat
from pathlib import Path
from typing import Any

import orjson

from understudy.apiserver.client.connection import Connection
from understudy.machinery.types import Obj

NAME = "understudy"  # of cluster, user and context


def write_kubeconfig(path: str | os.PathLike[str], connection: Connection) -> None:
    """Write a kubeconfig (mode 0600) of one server and one user.

    Raises OSError, also for a symbolic link to a file, which would be overwritten.
    """
    cluster: Obj = {"server": connection.url}
    if connection.certificate_authority:
        cluster["certificate-authority-data"] = base64.b64encode(connection.certificate_authority).decode()
    else:  # plain HTTP, for which some clients insist on this
        cluster["insecure-skip-tls-verify"] = True
    content = {
        "apiVersion": "v1",
        "kind": "Config",
        "clusters": [{"name": NAME, "cluster": cluster}],
        "users": [{"name": NAME, "user": {"token": connection.token} if connection.token else {}}],
        "contexts": [{"name": NAME, "context": {"cluster": NAME, "user": NAME}}],
        "current-context": NAME,
    }
    with os.fdopen(_opened(path), "wb") as file:
        if stat.S_ISREG(os.fstat(file.fileno()).st_mode):
            os.fchmod(file.fileno(), 0o600)
            file.truncate()
        file.write(orjson.dumps(content, option=orjson.OPT_INDENT_2) + b"\n")


def _opened(path: str | os.PathLike[str]) -> int:
    """Return a descriptor of a file to write, which may be new, or of what a link such as /dev/stdout points to that is
    no file."""
    no_follow = getattr(os, "O_NOFOLLOW", 0)  # Windows has none
    try:
        return os.open(path, os.O_WRONLY | os.O_CREAT | no_follow, 0o600)
    except OSError as error:
        if error.errno != errno.ELOOP:
            raise
        refusal = OSError(errno.ELOOP, "is a symbolic link to a file, which would be overwritten", os.fspath(path))
    try:
        descriptor = os.open(path, os.O_WRONLY)
    except FileNotFoundError:
        raise refusal from None
    if stat.S_ISREG(os.fstat(descriptor).st_mode):
        os.close(descriptor)
        raise refusal
    return descriptor


class KubeconfigPath(str):
    """The path of a kubeconfig: a `str`, since that is all that some clients take, with the methods of `pathlib.Path`.

        kubernetes.config.load_kube_config(path)
        path.read_text()

    `replace` is that of `str`.
    """

    __slots__ = ()

    def __fspath__(self) -> str:
        return str(self)

    def __getattr__(self, name: str) -> Any:
        return getattr(Path(self), name)


class TemporaryKubeconfigs:
    """Kubeconfig files (mode 0600) that are deleted together."""

    def __init__(self) -> None:
        self._paths: dict[Connection, KubeconfigPath] = {}

    def path(self, connection: Connection) -> KubeconfigPath:
        """Return a file for a connection, which is written once."""
        if connection not in self._paths:
            import tempfile  # takes its time to import

            handle, name = tempfile.mkstemp(prefix="understudy-", suffix=".kubeconfig")
            os.close(handle)
            self._paths[connection] = KubeconfigPath(name)
            write_kubeconfig(name, connection)
        return self._paths[connection]

    def delete(self) -> None:
        """Delete all files."""
        for path in self._paths.values():
            path.unlink(missing_ok=True)
        self._paths.clear()
