"""The options of a server that keeps its objects in an etcd, which are kube-apiserver's."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import field
from urllib.parse import urlsplit

from understudy.apiserver.authentication.options import flag
from understudy.apiserver.storage.engine import Engine
from understudy.machinery.types import dataclass

SCHEMES = ("http", "https", "unix")


@dataclass(frozen=True, kw_only=True, init=False, repr=False, eq=False)
class EtcdOptions:
    """The options of a server that keeps its objects in an etcd. Raises ValueError for options that make no sense.

    etcd_servers   URLs of the members: http://HOST:PORT, https://HOST:PORT or unix:///PATH; with them nothing else says
                   where objects are kept. Several servers, and kube-apiservers of that release, may share one etcd.
    etcd_cafile    PEM of the authorities that the members' certificates are from
    etcd_certfile, etcd_keyfile
                   PEM of this server's own certificate and key
    etcd_prefix    what all keys begin with
    """

    etcd_servers: Sequence[str] = field(
        default=(),
        metadata=flag("members of an etcd to keep objects in, such as http://127.0.0.1:2379", "URL,URL"),
    )
    etcd_cafile: str = field(default="", metadata=flag("authorities of etcd's certificates (PEM)", "FILE"))
    etcd_certfile: str = field(default="", metadata=flag("certificate that is shown to etcd (PEM)", "FILE"))
    etcd_keyfile: str = field(default="", metadata=flag("key of that certificate (PEM)", "FILE"))
    etcd_prefix: str = field(
        default="/registry", metadata=flag("what the keys in etcd begin with (default: %(default)s)", "PREFIX")
    )

    def check_etcd(self) -> None:
        """Raise ValueError for options that make no sense."""
        for url in self.etcd_servers:
            if urlsplit(url).scheme not in SCHEMES:
                raise ValueError(f"--etcd-servers: want URLs such as http://127.0.0.1:2379, not {url!r}")
        if bool(self.etcd_certfile) != bool(self.etcd_keyfile):
            raise ValueError("--etcd-certfile and --etcd-keyfile are given together")

    def etcd_engine(self) -> Engine:
        """Return the engine on etcd. Raises ValueError without the library that it needs."""
        try:
            from understudy.apiserver.storage.engines.etcd.client import Files
            from understudy.apiserver.storage.engines.etcd.engine import EtcdEngine
        except ImportError as why:
            from understudy.machinery.serializer.rpc.installation import install_command

            raise ValueError(f"--etcd-servers needs grpcio: {install_command('etcd')}") from why
        files = Files(self.etcd_cafile, self.etcd_certfile, self.etcd_keyfile)
        return EtcdEngine(self.etcd_servers, files, self.etcd_prefix)

    def generated_in_etcd(self, name: str, make: Callable[[], bytes]) -> bytes:
        """Return a key or certificate that the servers on the etcd share. Raises StorageError."""
        from understudy.apiserver.storage.engines.etcd.client import Files
        from understudy.apiserver.storage.engines.etcd.generated import generated

        files = Files(self.etcd_cafile, self.etcd_certfile, self.etcd_keyfile)
        return generated(self.etcd_servers, files, self.etcd_prefix, name, make)
