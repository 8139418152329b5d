"""The ways of other people's clients to a server, as one user: what `Server` and each of its users offer to tests."""

from __future__ import annotations

import subprocess
from abc import ABC, abstractmethod
from collections.abc import Coroutine
from typing import TYPE_CHECKING, Any, Literal, overload

from understudy.apiserver.client.external.libraries import Library, new_client
from understudy.apiserver.client.kubeconfig import KubeconfigPath
from understudy.machinery.types import Obj

if TYPE_CHECKING:
    import kr8s
    import kr8s.asyncio
    import kubernetes.client
    import kubernetes_asyncio.client
    import lightkube


class ExternalClients(ABC):
    """Lets kubectl and Python libraries ask a server as one user."""

    @property
    @abstractmethod
    def kubeconfig(self) -> KubeconfigPath:
        """Return the path of a file (mode 0600) that names server and user."""

    @overload
    def client(self, library: Literal["kubernetes"] = "kubernetes") -> kubernetes.client.ApiClient: ...
    @overload
    def client(
        self, library: Literal["kubernetes_asyncio"]
    ) -> Coroutine[Any, Any, kubernetes_asyncio.client.ApiClient]: ...
    @overload
    def client(self, library: Literal["kr8s"]) -> kr8s.Api: ...
    @overload
    def client(self, library: Literal["kr8s.asyncio"]) -> Coroutine[Any, Any, kr8s.asyncio.Api]: ...
    @overload
    def client(self, library: Literal["lightkube"]) -> lightkube.Client: ...
    @overload
    def client(self, library: Literal["lightkube.AsyncClient"]) -> lightkube.AsyncClient: ...
    def client(self, library: Library = "kubernetes") -> Any:
        """Return a new client of a Python library that is installed; coroutines where the library has them.

            kubernetes.client.CoreV1Api(server.client()).list_namespace()
            server.client("lightkube").list(Pod)
            api = await server.client("kr8s.asyncio")

        Close it as the library wants that. Raises ModuleNotFoundError for a library that is not installed, ValueError
        for an unknown one.
        """
        __tracebackhide__ = True
        return new_client(library, self.kubeconfig)

    def kubectl(
        self, *arguments: str, stdin: str | Obj | None = None, check: bool = True, timeout: float = 60.0
    ) -> subprocess.CompletedProcess[str]:
        """Call kubectl, and return what it has printed: `stdout`, `stderr` and `returncode`.

            assert "web" in server.kubectl("get", "deployments", "-o", "name").stdout
            server.kubectl("apply", "-f", "-", stdin={"apiVersion": "v1", "kind": "ConfigMap", …})

        It is the one that $KUBECTL names, else that on PATH, and runs in the working directory. Raises KubectlError,
        with what it says, for an exit code other than 0; FileNotFoundError if there is none; subprocess.TimeoutExpired.

        stdin    a text, or an object that is given as JSON
        check    whether an exit code other than 0 is an error
        timeout  seconds
        """
        __tracebackhide__ = True
        from understudy.apiserver.client.external.kubectl import run_kubectl  # `tempfile` takes its time to import

        return run_kubectl(arguments, stdin, self.kubeconfig, check=check, timeout=timeout)
