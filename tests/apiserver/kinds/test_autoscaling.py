"""Autoscalers of autoscaling/v1, whose newer fields are annotations."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

import pytest

from tests.http import send
from understudy import Server
from understudy.apiserver.kinds.autoscaling import v1


@pytest.mark.parametrize(
    ("pods", "status"), [({"metricName": "m"}, 422), ({"metricName": "m", "targetAverageValue": "1k"}, 201)]
)
def test_target_of_a_metric_in_an_annotation(apiserver: Server, pods: dict[str, str], status: int) -> None:
    """A metric in an annotation that has no target has the target zero, which is not positive."""
    annotation = {"autoscaling.alpha.kubernetes.io/metrics": json.dumps([{"type": "Pods", "pods": pods}])}
    spec = {"maxReplicas": 5, "scaleTargetRef": {"apiVersion": "apps/v1", "kind": "Deployment", "name": "d"}}
    body = {"metadata": {"name": "a", "annotations": annotation}, "spec": spec}
    response = send(apiserver, "POST", "/apis/autoscaling/v1/namespaces/default/horizontalpodautoscalers", body)
    assert response.status == status
    causes = [(cause["field"], cause["reason"]) for cause in response.json().get("details", {}).get("causes", [])]
    expected = [("spec.metrics[0].pods.target.averageValue", "FieldValueInvalid")]
    assert causes == (expected if status == 422 else [])


@pytest.mark.parametrize("convert", [v1.to_internal, v1.from_internal])
def test_parts_that_apply_has_removed_are_empty(convert: Callable[[dict[str, Any]], dict[str, Any]]) -> None:
    """An object whose metadata and spec apply has removed is converted like one that has them empty."""
    empty: dict[str, Any] = {"metadata": {}, "spec": {}}
    assert convert({}) == convert(empty) == convert({"metadata": None, "spec": None})
