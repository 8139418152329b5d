"""Kubeconfig files: the server and user of their current context.

https://kubernetes.io/docs/concepts/configuration/organize-cluster-access-kubeconfig/
"""

from __future__ import annotations

import os
from base64 import b64decode
from binascii import Error as Base64Error
from pathlib import Path
from typing import Any

import orjson

from understudy.apiserver.client.connection import Connection
from understudy.machinery.auth.impersonation import impersonation_headers
from understudy.machinery.auth.kubeconfig_user import user_errors
from understudy.machinery.golang.json_reader import DecodeError
from understudy.machinery.golang.text import aggregate
from understudy.machinery.golang.yaml_reader import to_json
from understudy.machinery.types import Obj
from understudy.machinery.util.spelling import did_you_mean

# Fields of a user that are ways to log in which clients here do not know.
UNSUPPORTED = ("exec", "auth-provider", "username")
PROXY = ": `kubectl proxy` does it, and is a server without credentials"


class KubeconfigError(ValueError):
    """A kubeconfig that cannot be used; its text is one line that begins with the file's name."""


def read_kubeconfig(path: str | os.PathLike[str], context: str = "") -> Connection:
    """Return the connection to the server of a file's context, by default its current one. Raises KubeconfigError.

    Names of files in it are relative to its folder.
    """
    return _Kubeconfig(Path(path)).connection(context)


def default_kubeconfig() -> Path:
    """Return the kubeconfig that kubectl reads first: of `KUBECONFIG`, else `~/.kube/config`."""
    named = [path for path in os.environ.get("KUBECONFIG", "").split(os.pathsep) if path]
    return Path(named[0]) if named else Path.home() / ".kube" / "config"


class _Kubeconfig:
    def __init__(self, path: Path) -> None:
        self._path = path
        try:
            config = orjson.loads(to_json(path.read_bytes())[0])
        except OSError as why:
            raise self._error(str(why.strerror)) from None
        except DecodeError as why:
            raise self._error(" ".join(str(why).splitlines())) from None
        if not isinstance(config, dict):
            raise self._error("is not a kubeconfig")
        self._config: Obj = config

    def connection(self, name: str = "") -> Connection:
        """Return the connection of a context, by default the current one."""
        cluster, name, user = self._context(name)
        for field in UNSUPPORTED:
            if user.get(field):
                raise self._error(f"user {name!r} logs in by {field}, which is not supported{PROXY}")
        if errors := user_errors(name, user, self._path.parent):
            raise KubeconfigError(f"invalid configuration: {aggregate(errors)}")
        return Connection(
            url=str(cluster["server"]).rstrip("/"),
            certificate_authority=self._bytes(cluster, "certificate-authority"),
            insecure=bool(cluster.get("insecure-skip-tls-verify")),
            token=self._token(user),
            client_certificate=self._bytes(user, "client-certificate"),
            client_key=self._bytes(user, "client-key"),
            impersonation=impersonation_headers(user),
        )

    def _context(self, name: str) -> tuple[Obj, str, Obj]:
        """Return the cluster of a context, by default the current one, and the name and the entry of its user."""
        name = name or self._config.get("current-context") or ""
        if not name:
            raise self._error("has no current-context")
        context = self._named("context", name)
        cluster = self._named("cluster", context.get("cluster"))
        user = self._named("user", context["user"]) if context.get("user") else {}
        if not cluster.get("server"):
            raise self._error(f"cluster {context['cluster']!r} has no server")
        return cluster, context.get("user") or "", user

    def _named(self, kind: str, name: Any) -> Obj:
        """Return the entry of a name in one of the lists `clusters`, `users` and `contexts`."""
        for entry in self._config.get(f"{kind}s") or ():
            if isinstance(entry, dict) and entry.get("name") == name:
                value: Obj = entry.get(kind) or {}
                return value
        names = [str(entry["name"]) for entry in self._config.get(f"{kind}s") or () if isinstance(entry, dict)]
        raise self._error(f"has no {kind} {name!r}{did_you_mean(str(name), names)}")

    def _token(self, user: Obj) -> str:
        if user.get("token"):
            return str(user["token"])
        return self._read(user["tokenFile"]).decode().strip() if user.get("tokenFile") else ""

    def _bytes(self, entry: Obj, field: str) -> bytes | None:
        """Return the bytes of `FIELD-data`, which is base64, or of the file that `FIELD` names; None without either."""
        if data := entry.get(f"{field}-data"):
            try:
                return b64decode(data, validate=True)
            except (Base64Error, ValueError):
                raise self._error(f"{field}-data is not base64") from None
        return self._read(entry[field]) if entry.get(field) else None

    def _read(self, name: str) -> bytes:
        try:
            return (self._path.parent / name).read_bytes()
        except OSError as why:
            raise self._error(f"{name}: {why.strerror}") from None

    def _error(self, message: str) -> KubeconfigError:
        return KubeconfigError(f"{self._path}: {message}")
