"""Component statuses: the health of the parts of a control plane. Deprecated; nothing is stored.

No scheduler or controller manager runs here: their statuses are those of a real server that cannot reach them.
"""

from __future__ import annotations

from understudy.apiserver.endpoints.negotiation import LIST
from understudy.apiserver.endpoints.request import Request, Response
from understudy.apiserver.endpoints.responsewriters.lists import list_response
from understudy.apiserver.endpoints.responsewriters.writers import negotiate_output, object_response
from understudy.apiserver.endpoints.scope import RequestScope, selector_of
from understudy.apiserver.endpoints.server_state import ServerState
from understudy.apiserver.registry.list import Page
from understudy.apiserver.storage.interface import Entry
from understudy.machinery import errors
from understudy.machinery.options import list_options, minimum_version
from understudy.machinery.releases import features
from understudy.machinery.releases.version import V1_33
from understudy.machinery.types import Obj

PORTS = {"controller-manager": 10257, "scheduler": 10259}  # of health checks, by name of the part


def _component(name: str, metadata: Obj) -> Entry:
    """Return the status of a part: etcd is healthy, the others cannot be reached."""
    condition: Obj = {"type": "Healthy", "status": "True", "message": "ok"}
    if name in PORTS:
        host = f"127.0.0.1:{PORTS[name]}"
        why = f'Get "https://{host}/healthz": dial tcp {host}: connect: connection refused'
        condition = {"type": "Healthy", "status": "False", "message": why}
    return Entry(name, {"metadata": {"name": name, **metadata}, "conditions": [condition]}, 0)


def _components(state: ServerState) -> dict[str, Entry]:
    return {name: _component(name, state.schemas.uncreated_metadata) for name in (*PORTS, "etcd-0")}


async def get(state: ServerState, request: Request, scope: RequestScope) -> Response:
    """Answer GET of a part. Raises 406, then 400, then for an unknown one 404, before 1.33 500."""
    negotiate_output(request)
    minimum_version(request.query)
    component = _components(state).get(scope.name)
    if component is None:
        if request.release >= V1_33:
            raise errors.not_found("", "componentstatus", scope.name)
        raise errors.unknown_error(f"Component not found: {scope.name}")
    return await object_response(request, scope, component)


async def list_(state: ServerState, request: Request, scope: RequestScope) -> Response:
    """Answer GET of all parts that a selector matches."""
    negotiate_output(request, LIST)
    options = list_options(request.query, request.release, watch=False, watch_list=state.gates[features.WATCH_LIST])
    selector = selector_of(scope, options)
    return await list_response(
        request, scope, Page([c for c in _components(state).values() if selector.matches(c.object)], 0, "", None)
    )


async def watch(state: ServerState, request: Request, scope: RequestScope) -> Response:
    """Refuse to watch. Raises 405."""
    raise errors.watch_not_supported(scope.kind.resource)
