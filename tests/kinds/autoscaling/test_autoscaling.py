"""Autoscalers of autoscaling/v1, whose newer fields are annotations."""

from __future__ import annotations

import json
from typing import Any

import pytest

from tests.http import send
from tests.releases import NEWEST
from understudy import Server
from understudy.kinds.autoscaling import v1
from understudy.machinery.releases.version import V1_31, V1_35, V1_36, Version


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


@pytest.mark.parametrize("method", ["POST", "PATCH"])
@pytest.mark.parametrize("rules", [{"policies": []}, {"policies": [], "selectPolicy": "Min"}])
def test_policies_that_are_sent_empty(apiserver: Server, method: str, rules: dict[str, Any]) -> None:
    """No policies are an error, where those that are not sent get the defaults."""
    target = {"apiVersion": "apps/v1", "kind": "Deployment", "name": "d"}
    spec = {"maxReplicas": 5, "scaleTargetRef": target, "behavior": {"scaleDown": rules}}
    path = "/apis/autoscaling/v2/namespaces/default/horizontalpodautoscalers"
    body = {"apiVersion": "autoscaling/v2", "kind": "HorizontalPodAutoscaler", "metadata": {"name": "a"}, "spec": spec}
    path, media = (path, None) if method == "POST" else (f"{path}/a?fieldManager=m", "application/apply-patch+yaml")
    refused = send(apiserver, method, path, body, media).json()
    assert [cause["field"] for cause in refused["details"]["causes"]] == ["spec.behavior.scaleDown.policies"]


@pytest.mark.parametrize("convert", ["to_internal", "from_internal"])
def test_parts_that_apply_has_removed_are_empty(convert: str) -> None:
    """An object whose metadata and spec apply has removed is converted like one that has them empty."""
    converted = getattr(v1.conversion(NEWEST), convert)
    empty: dict[str, Any] = {"metadata": {}, "spec": {}}
    assert converted({}) == converted(empty) == converted({"metadata": None, "spec": None})


def internal_spec(release: Version, key: str, annotation: str) -> dict[str, Any]:
    """Return the internal form of the spec of a v1 autoscaler with an annotation."""
    metadata = {"annotations": {f"autoscaling.alpha.kubernetes.io/{key}": annotation}}
    spec: dict[str, Any] = v1.conversion(release).to_internal({"metadata": metadata, "spec": {}})["spec"]
    return spec


@pytest.mark.parametrize("annotation", ["", "{", "7", '{"a":1}', "[1]", '[{"type":3}]', '[{"type":"Pods","pods":1}]'])
def test_undecodable_metrics_are_ignored(annotation: str) -> None:
    """An annotation that Go cannot decode counts for nothing."""
    assert internal_spec(NEWEST, "metrics", annotation) == {"metrics": v1.cpu_metric(80)}


def test_names_in_annotations_have_any_case() -> None:
    """Fields in an annotation are found whatever the case of their names, as Go's decoder does."""
    metric = {"Type": "Pods", "PODS": {"metricname": "m", "TargetAverageValue": "2000m", "unknown": 1}}
    (decoded,) = internal_spec(NEWEST, "metrics", json.dumps([metric]))["metrics"]
    target = {"type": "AverageValue", "averageValue": "2"}
    assert decoded == {"type": "Pods", "pods": {"metric": {"name": "m"}, "target": target}}
    rules = '{"scaleup":{"policies":[{"type":"Pods","PeriodSeconds":5}]}}'
    behavior = internal_spec(NEWEST, "behavior", rules)["behavior"]
    assert behavior == {"scaleUp": {"policies": [{"type": "Pods", "value": 0, "periodSeconds": 5}]}}


OBJECT = {"target": {"kind": "K", "name": "n"}, "metricName": "m", "averageValue": "5"}


@pytest.mark.parametrize(
    ("release", "value", "kept"),
    [(V1_36, "0", None), (V1_36, "3", "3"), (V1_35, "0", "0"), (V1_35, None, "0"), (V1_31, "3", "3")],
)
def test_zero_value_beside_an_average_value(release: Version, value: str | None, kept: str | None) -> None:
    """The value zero of an object's metric, which v1 cannot leave out, is dropped beside an average value from 1.36."""
    metric = {"type": "Object", "object": OBJECT | ({"targetValue": value} if value else {})}
    (decoded,) = internal_spec(release, "metrics", json.dumps([metric]))["metrics"]
    assert decoded["object"]["target"].get("value") == kept


def test_every_source_of_a_metric_is_shown(apiserver: Server) -> None:
    """A metric of the status with several sources, and one of a type without its source, are in v1's annotation."""
    path = "/apis/autoscaling/{}/namespaces/default/horizontalpodautoscalers"
    spec = {"maxReplicas": 5, "scaleTargetRef": {"apiVersion": "apps/v1", "kind": "Deployment", "name": "d"}}
    send(apiserver, "POST", path.format("v2"), {"metadata": {"name": "a"}, "spec": spec})
    sources = {"external": {"metric": {"name": "e"}, "current": {}}, "pods": {"metric": {"name": "p"}, "current": {}}}
    status = {"desiredReplicas": 1, "currentMetrics": [{"type": "Pods", **sources}, {"type": "Resource"}]}
    body = {"metadata": {"name": "a"}, "status": status}
    assert send(apiserver, "PUT", path.format("v2") + "/a/status", body).status == 200
    annotations = send(apiserver, "GET", path.format("v1") + "/a").json()["metadata"]["annotations"]
    assert annotations["autoscaling.alpha.kubernetes.io/current-metrics"] == (
        '[{"type":"Pods","pods":{"metricName":"p","currentAverageValue":"0"},'
        '"external":{"metricName":"e","currentValue":"0"}},{"type":"Resource"}]'
    )


def test_behavior_in_the_annotation_has_every_field(apiserver: Server) -> None:
    """The behavior of a v1 autoscaler gets its defaults when it is stored, and is shown with Go's names."""
    path = "/apis/autoscaling/v1/namespaces/default/horizontalpodautoscalers"
    key = "autoscaling.alpha.kubernetes.io/behavior"
    rules = '{"ScaleUp":{"Policies":[{"Type":"Pods","Value":2,"PeriodSeconds":5}]}}'
    spec = {"maxReplicas": 5, "scaleTargetRef": {"apiVersion": "apps/v1", "kind": "Deployment", "name": "d"}}
    body = {"metadata": {"name": "a", "annotations": {key: rules}}, "spec": spec}
    assert send(apiserver, "POST", path, body).json()["metadata"]["annotations"][key] == (
        '{"ScaleUp":{"StabilizationWindowSeconds":0,"SelectPolicy":"Max",'
        '"Policies":[{"Type":"Pods","Value":2,"PeriodSeconds":5}],"Tolerance":null},'
        '"ScaleDown":{"StabilizationWindowSeconds":null,"SelectPolicy":"Max",'
        '"Policies":[{"Type":"Percent","Value":100,"PeriodSeconds":15}],"Tolerance":null}}'
    )
