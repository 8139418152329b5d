"""Health checks: /healthz, /livez, /readyz, and each check below them.

The checks have the names of the real server's. Most of them check nothing: what is started here is ready.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from typing import TypeAlias

from understudy.apiserver.controllers.replicas.storage_versions import HOOK as UPDATER
from understudy.apiserver.endpoints.request import Request, Response
from understudy.apiserver.storage.interface import StorageError, Store
from understudy.machinery.golang.text import go_quote
from understudy.machinery.releases import features
from understudy.machinery.releases.features import Gates

TEXT = "text/plain; charset=utf-8"
NO_SNIFF = ("X-Content-Type-Options", "nosniff")

# The names of the checks below each of healthz, livez and readyz, in order (`Release.health_checks`).
Checks: TypeAlias = Mapping[str, Sequence[str]]
NONE: Mapping[str, str] = {}
UPDATER_FOLLOWS = "poststarthook/apiservice-discovery-controller"

# The checks of what the server only starts with a feature gate.
_GATES = {
    "poststarthook/peer-endpoint-reconciler-controller": features.UNKNOWN_VERSION_INTEROPERABILITY_PROXY,
    "poststarthook/start-kube-apiserver-identity-lease-controller": features.API_SERVER_IDENTITY,
    "poststarthook/start-kube-apiserver-identity-lease-garbage-collector": features.API_SERVER_IDENTITY,
}


def started(checks: Checks, gates: Gates) -> Checks:
    """Return the checks of a release without those of what feature gates turn off, and with that of what they turn
    on."""
    writes_versions = gates[features.STORAGE_VERSION_API] and gates[features.API_SERVER_IDENTITY]

    def begun(below: Sequence[str]) -> Iterator[str]:
        for check in below:
            if check not in _GATES or gates[_GATES[check]]:
                yield check
            if check == UPDATER_FOLLOWS and writes_versions:
                yield UPDATER

    return {name: [*begun(below)] for name, below in checks.items()}


def paths(checks: Checks) -> list[str]:
    """Return the paths of the pages: of all checks together, and of each."""
    return [path for name, below in checks.items() for path in (f"/{name}", *(f"/{name}/{check}" for check in below))]


ETCD = ("etcd", "etcd-readiness")
SHUTDOWN = "shutdown"


async def answer_with_store(
    checks: Checks, store: Store, request: Request, fails: Callable[[], Mapping[str, str]]
) -> Response:
    """Answer a request for one of the `paths`, of which those in ETCD ask the store.

    `fails` returns the checks that fail since the server has not begun, or comes to its end, with the reason.
    """
    name, _, check = request.path[1:].partition("/")
    asked = [below for below in ([check] if check else checks[name]) if below in ETCD]
    failing = dict(fails())
    if asked and store.suspends:
        try:
            await store.check()
        except StorageError as why:
            failing |= dict.fromkeys(asked, str(why))
    return answer(checks, request, failing)


def answer(checks: Checks, request: Request, failing: Mapping[str, str] = NONE) -> Response:
    """Answer a request for one of the `paths`: a check, or all of them.

    `failing` maps the checks that fail to the reason: such as "etcd" while the store does not answer, "shutdown" while
    the server stops.
    """
    name, _, check = request.path[1:].partition("/")
    if not check:
        return _summary(name, checks[name], request, failing)
    if check in failing:
        return Response(500, f"internal server error: {failing[check]}\n".encode(), TEXT, [NO_SNIFF])
    return Response(200, b"ok", TEXT)


def _summary(name: str, checks: Sequence[str], request: Request, failing: Collection[str]) -> Response:
    excluded = set(request.query.all("exclude"))
    failed = [check for check in checks if check in failing and check not in excluded]
    lines = [_line(check, excluded, failed) for check in checks]
    unknown = sorted(excluded - set(checks))
    if unknown:
        quoted = ", ".join(go_quote(text) for text in unknown)
        lines.append(f"warn: some health checks cannot be excluded: no matches for {quoted}")
    if failed:
        lines.append(f"{name} check failed")
    elif "verbose" in request.query:
        lines.append(f"{name} check passed")
    else:
        return Response(200, b"ok", TEXT, [NO_SNIFF])
    return Response(500 if failed else 200, "".join(f"{line}\n" for line in lines).encode(), TEXT, [NO_SNIFF])


def _line(check: str, excluded: Collection[str], failed: Collection[str]) -> str:
    if check in excluded:
        return f"[+]{check} excluded: ok"
    return f"[-]{check} failed: reason withheld" if check in failed else f"[+]{check} ok"
