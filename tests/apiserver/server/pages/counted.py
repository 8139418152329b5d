"""Send requests, and tell what /metrics has counted of them.

    python -m tests.apiserver.server.pages.counted URL TOKEN > RELEASE.txt

Each line is a sample that changed, and by how much; of a histogram, what fell into a bucket. Of durations only the
number counts.
"""

from __future__ import annotations

import re
import sys
from collections.abc import Iterator
from typing import Any

from tests.http import send

MAPS, HOME = "/api/v1/namespaces/default/configmaps", "/api/v1/namespaces/default"
ONE: dict[str, Any] = {"metadata": {"name": "one"}, "data": {"a": "b"}}
SERVICE: dict[str, Any] = {"metadata": {"name": "web"}, "spec": {"ports": [{"port": 80}], "type": "NodePort"}}
MERGE, APPLY = "application/merge-patch+json", "application/apply-patch+yaml"
TABLE = "application/json;as=Table;v=v1;g=meta.k8s.io"
AGGREGATED = "application/json;g=apidiscovery.k8s.io;v=v2;as=APIGroupDiscoveryList"
APPLIED = b'{"apiVersion":"v1","kind":"ConfigMap","metadata":{"name":"ap"},"data":{"x":"y"}}'
# Method, path, body, media type of the body, what is accepted.
REQUESTS: tuple[tuple[str, str, Any, str | None, str | None], ...] = (
    ("GET", "/version", None, None, None),
    ("GET", "/healthz", None, None, None),
    ("GET", "/readyz", None, None, None),
    ("GET", "/api", None, None, None),
    ("GET", "/apis", None, None, None),
    ("GET", "/api/v1", None, None, None),
    ("GET", "/apis/apps/v1", None, None, None),
    ("GET", "/apis/apps", None, None, None),
    ("GET", "/nosuch", None, None, None),
    ("GET", HOME, None, None, None),
    ("HEAD", HOME, None, None, None),
    ("OPTIONS", HOME, None, None, None),
    ("GET", f"{MAPS}?limit=5", None, None, None),
    ("POST", MAPS, ONE, None, None),
    ("POST", MAPS, ONE, None, None),
    ("POST", f"{MAPS}?dryRun=All&fieldValidation=Strict", {**ONE, "metadata": {"name": "dry"}}, None, None),
    ("POST", f"{MAPS}?fieldValidation=Nosuch", {**ONE, "metadata": {"name": "no"}}, None, None),
    ("POST", MAPS, {**ONE, "metadata": {"name": "big"}, "data": {"a": "x" * 70000}}, None, None),
    ("PUT", f"{MAPS}/one", {**ONE, "data": {"a": "c"}}, None, None),
    ("PUT", f"{MAPS}/one", {**ONE, "data": {"a": "c"}}, None, None),
    ("PATCH", f"{MAPS}/one", {"data": {"x": "y"}}, MERGE, None),
    ("PATCH", f"{MAPS}/one?fieldValidation=Warn", {"data": {"x": "y"}}, MERGE, None),
    ("GET", f"{MAPS}/one", None, None, None),
    ("GET", f"{MAPS}/big", None, None, None),
    ("GET", MAPS, None, None, None),
    ("GET", "/api/v1/configmaps", None, None, None),
    ("GET", f"{MAPS}?resourceVersion=0", None, None, None),
    ("GET", f"{MAPS}/none", None, None, None),
    ("PATCH", f"{MAPS}/ap?fieldManager=me", APPLIED, APPLY, None),
    ("PATCH", f"{MAPS}/ap?fieldManager=me", APPLIED, APPLY, None),
    ("PUT", f"{MAPS}/none", {"metadata": {"name": "none"}}, None, None),
    ("POST", MAPS, b"nojson", None, None),
    ("GET", HOME, None, None, "application/vnd.kubernetes.protobuf"),
    ("GET", MAPS, None, None, TABLE),
    ("GET", f"{MAPS}?fieldSelector=metadata.name%3Done", None, None, None),
    ("GET", f"{MAPS}?watch=1&timeoutSeconds=1", None, None, None),
    ("GET", "/api/v1/watch/namespaces/default/configmaps?timeoutSeconds=1", None, None, None),
    ("GET", f"{MAPS}?watch=1&timeoutSeconds=1&fieldSelector=metadata.name%3Done", None, None, None),
    ("GET", f"{MAPS}?watch=1&timeoutSeconds=1&sendInitialEvents=true&resourceVersionMatch=NotOlderThan"
            "&allowWatchBookmarks=true", None, None, None),
    ("POST", "/api/v1/namespaces/default/services", SERVICE, None, None),
    ("DELETE", "/api/v1/namespaces/default/services/web", None, None, None),
    ("POST", "/api/v1/namespaces", {"metadata": {"name": "other"}}, None, None),
    ("PUT", "/api/v1/namespaces/other/finalize", {"metadata": {"name": "other"}, "spec": {}}, None, None),
    ("PATCH", "/api/v1/namespaces/other/status", {"metadata": {"labels": {"a": "b"}}}, MERGE, None),
    ("DELETE", f"{MAPS}/one", None, None, None),
    ("DELETE", f"{MAPS}?labelSelector=no%3Dsuch", None, None, None),
    ("DELETE", MAPS, None, None, None),
    ("GET", "/api/v1/nosuch", None, None, None),
    ("GET", "/apis/no.such/v1/things", None, None, None),
    ("GET", "/api/v1/namespaces/default/pods/none/log", None, None, None),
    ("POST", "/apis/authorization.k8s.io/v1/selfsubjectaccessreviews", {"spec": {"nonResourceAttributes": {
        "path": "/", "verb": "get"}}}, None, None),
    ("GET", "/openapi/v3/api/v1", None, None, None),
    ("GET", "/api", None, None, AGGREGATED),
    ("GET", "/apis", None, None, AGGREGATED),
    ("GET", "/readyz/ping", None, None, None),
)  # fmt: skip
# The families that are compared. Of others kube-apiserver counts more, as its own controllers make requests.
COUNTED = re.compile(
    "apiserver_(request|response_sizes|longrunning|watch_events_(sizes|total)|watch_list)|authenticat|authorization_"
)
KINDS = re.compile('(?<!sub)resource="(configmaps|namespaces|pods|selfsubjectaccessreviews.*)?"|kind="ConfigMap"')
# Those that the server's own controllers change, and one that depends on whether a second has passed between updates.
UNTOLD = re.compile('.*subresource="openapi/v3"|apiserver_watch_events.*"namespaces"|apiserver_request_timestamp')
# Those that count the server's own requests, too, which are of no user that is known by name.
OF_USERS = re.compile('.*result="(success|allowed)"|.*filter="')
OTHERS = 'authenticated_user_requests{username="other"}'
_BUCKET = re.compile(r'^(\w+)_bucket\{(.*?),?le="([^"]+)"\}$')

Samples = dict[str, float]


def is_told(sample: str) -> bool:
    """Report whether a sample is compared."""
    of_kind = re.search(r"\b(resource|kind)=", sample) is not None
    return bool(COUNTED.match(sample) and not UNTOLD.match(sample) and (KINDS.search(sample) or not of_kind))


def page(url: str, token: str) -> tuple[dict[str, str], Samples]:
    """Return the types of families, and all samples of /metrics: of a histogram what fell into each bucket."""
    headers = {"Authorization": f"Bearer {token}"} if token else {}
    text = send(url, "GET", "/metrics", headers=headers).body.decode()
    samples, seen = Samples(), 0.0
    for line in text.splitlines():
        name, _, value = line.rpartition(" ")
        if is_told(name):
            if bucket := _BUCKET.match(name):
                labels = bucket[2] + ("," if bucket[2] else "")
                samples[f'{bucket[1]}{{{labels}le="{bucket[3]}"}}'] = float(value) - seen
                seen = 0.0 if bucket[3] == "+Inf" else float(value)
            else:
                samples[name] = float(value)
    return dict(re.findall(r"^# TYPE (\w+) (\w+)$", text, re.MULTILINE)), samples


def ask_all(url: str, token: str) -> Iterator[str]:
    """Send REQUESTS, and one of nobody; yield a line for each sample that changed."""
    headers = {"Authorization": f"Bearer {token}"} if token else {}
    _, before = page(url, token)
    for method, path, body, media, accept in REQUESTS:
        send(url, method, path, body, media, accept=accept, headers=headers)
    send(url, "GET", HOME, headers={"Authorization": "Bearer nobody"})
    kinds, after = page(url, token)
    others = after.pop(OTHERS, 0) - before.get(OTHERS, 0)
    for sample, value in after.items():
        name = sample.partition("{")[0]
        family = name if name in kinds else re.sub("_(bucket|sum|count)$", "", name)
        is_time = kinds[family] == "histogram" and re.search("_seconds|_time$", family) is not None
        change = value - before.get(sample, 0) - (others if OF_USERS.match(sample) else 0)
        if change and not name.endswith("_sum") and (name.endswith("_count") or not is_time):
            yield f"{sample} {change:g}"


if __name__ == "__main__":
    print(*ask_all(*sys.argv[1:]), sep="\n")
