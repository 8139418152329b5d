"""Autoscalers of autoscaling/v1, whose newer fields are annotations."""

from __future__ import annotations

import json

import pytest

from tests.http import send
from understudy import Server


@pytest.mark.parametrize(
    ("pods", "status"), [({"metricName": "m"}, 422), ({"metricName": "m", "targetAverageValue": "1k"}, 201)]
)
def test_target_of_a_metric_in_an_annotation(apiserver: Server, pods: dict[str, str], status: int) -> None:
    """A metric in an annotation that has no target has the target zero, which is not positive."""
    annotation = {"autoscaling.alpha.kubernetes.io/metrics": json.dumps([{"type": "Pods", "pods": pods}])}
    spec = {"maxReplicas": 5, "scaleTargetRef": {"kind": "Deployment", "name": "d"}}
    body = {"metadata": {"name": "a", "annotations": annotation}, "spec": spec}
    response = send(apiserver, "POST", "/apis/autoscaling/v1/namespaces/default/horizontalpodautoscalers", body)
    assert response.status == status
    causes = [(cause["field"], cause["reason"]) for cause in response.json().get("details", {}).get("causes", [])]
    expected = [("spec.metrics[0].pods.target.averageValue", "FieldValueInvalid")]
    assert causes == (expected if status == 422 else [])
