"""Send requests of every operation, and tell how often /metrics says that each admission plugin was asked.

    python -m tests.apiserver.server.pages.counted_admission URL TOKEN > admission/RELEASE.txt

Each line is a sample that changed, and by how much. All plugins are on but for those that refuse everything, need a
configuration, or are `ServiceAccount`.
"""

from __future__ import annotations

import re
import sys
from collections.abc import Iterator
from typing import Any

from tests.http import send

OPT_IN = (
    *("AlwaysAdmit", "AlwaysPullImages", "DenyServiceExternalIPs", "ExtendedResourceToleration"),
    *("LimitPodHardAntiAffinityTopology", "NamespaceAutoProvision", "NamespaceExists", "NodeRestriction"),
    *("OwnerReferencesPermissionEnforcement", "PodNodeSelector", "PodTolerationRestriction"),
)
HOME = "/api/v1/namespaces/default"
MAP: dict[str, Any] = {"metadata": {"name": "one"}}
# Has no IP address, for which kube-apiserver 1.33 and later would send itself requests.
OUTSIDE: dict[str, Any] = {
    "metadata": {"name": "out"},
    "spec": {"ports": [{"port": 80}], "clusterIP": "None", "externalIPs": ["10.1.1.1"]},
}
REQUESTS: tuple[tuple[str, str, Any], ...] = (
    ("POST", f"{HOME}/configmaps", MAP),
    ("POST", f"{HOME}/configmaps", MAP),  # 409
    ("POST", f"{HOME}/configmaps?dryRun=All", {"metadata": {"name": "dry"}}),
    ("POST", f"{HOME}/configmaps", {"metadata": {"name": "No"}}),  # 422, between both steps
    ("POST", f"{HOME}/services", OUTSIDE),  # 403 by a validating plugin
    ("PUT", f"{HOME}/configmaps/one", {**MAP, "data": {"a": "b"}}),
    ("PUT", f"{HOME}/configmaps/one", {**MAP, "data": {"a": "b"}}),  # changes nothing
    ("PUT", f"{HOME}/configmaps/none", {"metadata": {"name": "none"}}),
    ("PATCH", f"{HOME}/configmaps/one", {"data": {"x": "y"}}),
    ("PATCH", f"{HOME}/configmaps/none", {"data": {"x": "y"}}),
    ("POST", f"{HOME}/pods/none/exec?command=ls&stdout=true", None),
    ("POST", "/apis/authorization.k8s.io/v1/selfsubjectaccessreviews", {"spec": {"nonResourceAttributes": {
        "path": "/", "verb": "get"}}}),
    ("DELETE", HOME, None),  # 403 by a mutating plugin
    ("DELETE", f"{HOME}/configmaps/one", None),
    ("DELETE", f"{HOME}/configmaps/none", None),
    ("DELETE", f"{HOME}/configmaps?labelSelector=no%3Dsuch", None),
    ("POST", "/api/v1/nodes", {"metadata": {"name": "n"}}),
    ("DELETE", "/api/v1/nodes/n", None),
)  # fmt: skip
COUNT = re.compile(r"^(apiserver_admission_(?:controller|step)_\w+_count\{.*\}) (.*)$", re.MULTILINE)


def counts(url: str, headers: dict[str, str]) -> dict[str, int]:
    text = send(url, "GET", "/metrics", headers=headers).body.decode()
    return {sample: int(float(number)) for sample, number in COUNT.findall(text)}


def ask_all(url: str, token: str = "") -> Iterator[str]:
    """Send REQUESTS; yield a line for each count that changed."""
    headers = {"Authorization": f"Bearer {token}"} if token else {}
    before = counts(url, headers)
    for method, path, body in REQUESTS:
        media = "application/merge-patch+json" if method == "PATCH" else None
        send(url, method, path, body, media, headers=headers)
    for sample, number in counts(url, headers).items():
        if change := number - before.get(sample, 0):
            yield f"{sample} {change}"


if __name__ == "__main__":
    print(*ask_all(*sys.argv[1:]), sep="\n")
