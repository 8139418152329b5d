"""Health checks: /healthz, /livez, /readyz, and each check below them.

The checks have the names of the real server's. Nothing stands behind most of them: what is started here is ready.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping

from understudy.apiserver.endpoints.request import Request, Response
from understudy.machinery.golang.text import go_quote

TEXT = "text/plain; charset=utf-8"
NO_SNIFF = ("X-Content-Type-Options", "nosniff")

BASIC = ("ping", "log", "etcd")
READY_ONLY = ("etcd-readiness", "informer-sync")
HOOKS = (
    "poststarthook/start-apiserver-admission-initializer",
    "poststarthook/generic-apiserver-start-informers",
    "poststarthook/priority-and-fairness-config-consumer",
    "poststarthook/priority-and-fairness-filter",
    "poststarthook/storage-object-count-tracker-hook",
    "poststarthook/start-apiextensions-informers",
    "poststarthook/start-apiextensions-controllers",
    "poststarthook/crd-informer-synced",
    "poststarthook/start-system-namespaces-controller",
    "poststarthook/start-cluster-authentication-info-controller",
    "poststarthook/start-kube-apiserver-identity-lease-controller",
    "poststarthook/start-kube-apiserver-identity-lease-garbage-collector",
    "poststarthook/start-legacy-token-tracking-controller",
    "poststarthook/start-service-ip-repair-controllers",
    "poststarthook/scheduling/bootstrap-system-priority-classes",
    "poststarthook/priority-and-fairness-config-producer",
    "poststarthook/bootstrap-controller",
    "poststarthook/start-kube-aggregator-informers",
    "poststarthook/apiservice-status-local-available-controller",
    "poststarthook/apiservice-status-remote-available-controller",
    "poststarthook/apiservice-registration-controller",
    "poststarthook/apiservice-discovery-controller",
    "poststarthook/kube-apiserver-autoregistration",
    "autoregister-completion",
    "poststarthook/apiservice-openapi-controller",
    "poststarthook/apiservice-openapiv3-controller",
)
CHECKS: Mapping[str, tuple[str, ...]] = {
    "healthz": (*BASIC, *HOOKS),
    "livez": (*BASIC, *HOOKS),
    "readyz": (*BASIC, *READY_ONLY, *HOOKS, "shutdown"),
}


PATHS = tuple(
    path for name, checks in CHECKS.items() for path in (f"/{name}", *(f"/{name}/{check}" for check in checks))
)


def answer(request: Request, failing: Collection[str] = ()) -> Response:
    """Answer one of PATHS: a check, or all of them.

    `failing` names the checks that fail: such as "etcd" while the store does not answer, "shutdown" while the server
    stops.
    """
    name, _, check = request.path[1:].partition("/")
    if not check:
        return _summary(request, name, failing)
    if check in failing:
        return Response(500, b"internal server error: " + check.encode() + b" failed\n", TEXT, [NO_SNIFF])
    return Response(200, b"ok", TEXT)


def _summary(request: Request, name: str, failing: Collection[str]) -> Response:
    excluded = set(request.query.all("exclude"))
    failed = [check for check in CHECKS[name] if check in failing and check not in excluded]
    lines = [_line(check, excluded, failed) for check in CHECKS[name]]
    unknown = sorted(excluded - set(CHECKS[name]))
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
