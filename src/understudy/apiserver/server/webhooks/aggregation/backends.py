"""The servers behind APIServices, and what the aggregator needs to know of them."""

from __future__ import annotations

from understudy.admission.webhooks import Service
from understudy.apiserver.controllers.custom_resources.api_services import AUTOMANAGED
from understudy.apiserver.endpoints.requestinfo import group_version_path
from understudy.machinery.types import NamedTuple, Obj, condition_is_true, nested_field

_DEFAULT_PORT = 443
UNAVAILABLE = "service unavailable"


class Backend(NamedTuple):
    """The server behind an APIService (upstream: `proxyHandlingInfo`).

    ca_bundle     certificates in PEM, base64; "" for those that the system trusts
    insecure      whether any certificate is trusted
    is_available  whether the APIService is said to be available
    """

    service: Service
    ca_bundle: str
    insecure: bool
    is_available: bool


def is_local(api_service: Obj) -> bool:
    """Report whether an APIService is served by this server, not by one behind a Service."""
    return api_service["spec"].get("service") is None


def adds_version(api_service: Obj) -> bool:
    """Report whether an APIService is neither of a release nor of a definition."""
    return AUTOMANAGED not in (api_service["metadata"].get("labels") or {}) or not is_local(api_service)


def backend_of(api_service: Obj) -> Backend | None:
    """Return the server behind an APIService, None for one that is served locally."""
    if is_local(api_service):
        return None
    spec = api_service["spec"]
    service = spec["service"]
    return Backend(
        Service(service.get("namespace", ""), service.get("name", ""), service.get("port") or _DEFAULT_PORT),
        spec.get("caBundle") or "",
        bool(spec.get("insecureSkipTLSVerify")),
        condition_is_true(api_service, "Available"),
    )


def path_of(api_service: Obj) -> str:
    """Return the path below which an APIService is answered."""
    return group_version_path(
        nested_field(api_service, "spec", "group", default=""), nested_field(api_service, "spec", "version", default="")
    )


class Backends:
    """The servers behind the APIServices of a server, by the paths of their group-versions."""

    def __init__(self) -> None:
        self._by_path: dict[str, Backend] = {}

    def __bool__(self) -> bool:
        """Report whether there are any."""
        return bool(self._by_path)

    def put(self, path: str, backend: Backend | None) -> None:
        """Answer what is below a path by a server from now on; None for a path that is answered here."""
        if backend is None:
            self._by_path.pop(path, None)
        else:
            self._by_path[path] = backend

    def clear(self) -> None:
        """Answer everything here."""
        self._by_path.clear()

    def find(self, path: str) -> Backend | None:
        """Return the server that answers a path, None for this one."""
        return self._by_path.get("/".join(path.split("/", 4)[: 3 if path.startswith("/api/") else 4]))
