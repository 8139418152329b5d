"""Warnings of files in one volume whose paths overlap."""

from __future__ import annotations

from typing import Any

import pytest

from understudy.kinds.core.pods.volumes.path_warnings import overlapping
from understudy.machinery.releases.version import V1_32

TOKEN = {"serviceAccountToken": {"path": "t"}}
BUNDLE = {"clusterTrustBundle": {"signerName": "s", "path": "c/b"}}


def items(*paths: str) -> list[dict[str, str]]:
    return [{"key": "k", "path": path} for path in paths]


def projected(*sources: Any) -> Any:
    return {"projected": {"sources": list(sources)}}


@pytest.mark.parametrize(
    ("volume", "texts"),
    [
        ({"configMap": {"name": "c"}}, []),
        ({"configMap": {"name": "c", "items": items("a", "ab", "b/c")}}, []),
        ({"configMap": {"name": "c", "items": items("a", "a")}}, ['(ConfigMap "c"): overlapping paths: "a" with "a"']),
        (
            {"secret": {"secretName": "s", "items": items("a/b", "a/")}},
            ['(Secret "s"): overlapping paths: "a" with "a/b"'],
        ),
        ({"downwardAPI": {"items": items("a", "a/b")}}, ['(DownwardAPI): overlapping paths: "a/b" with "a"']),
        (
            projected(TOKEN, {"configMap": {"name": "c", "items": items("t/x")}}),
            ['(Projected): overlapping paths: "t/x" (ConfigMap "c") with "t" (ServiceAccountToken)'],
        ),
        (
            projected(TOKEN, {"configMap": {"name": "c"}}),
            ['(Projected): overlapping paths: "t" (ServiceAccountToken) with "t" (ServiceAccountToken)'],
        ),
        (
            projected(BUNDLE, {"downwardAPI": {"items": items("c")}}),
            ['(Projected): overlapping paths: "c" (DownwardAPI) with "c/b" (ClusterTrustBundle "s")'],
        ),
        (projected({}, TOKEN), ["(Projected) has no sources provided"]),
    ],
)
def test_overlapping_paths_get_warnings(volume: Any, texts: list[str]) -> None:
    """Two files overlap if they have the same path or one is inside the other.

    A source without files repeats the last one, as 1.32 did.
    """
    assert list(overlapping([{"name": "v", **volume}], V1_32)) == [f'volume "v" {text}' for text in texts]
