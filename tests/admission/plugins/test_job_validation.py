"""JobValidation, as 1.36 answered: the parallelism of a job stays while its pods are scheduled as a gang."""

from __future__ import annotations

from typing import Any

import pytest

from tests.http import Response, send
from understudy import Server
from understudy.machinery.types import Obj

GROUPS = "/apis/scheduling.k8s.io/v1alpha2/namespaces/default/podgroups"
JOBS = "/apis/batch/v1/namespaces/default/jobs"

pytestmark = pytest.mark.apiserver(emulated_version="1.36", feature_gates={"GenericWorkload": True})


def group(apiserver: Server, name: str, policy: Obj, **metadata: Any) -> None:
    head = {"apiVersion": "scheduling.k8s.io/v1alpha2", "kind": "PodGroup", "metadata": {"name": name, **metadata}}
    response = send(apiserver, "POST", GROUPS, {**head, "spec": {"schedulingPolicy": policy}})
    assert response.status == 201, response.body


def job(apiserver: Server, **spec: Any) -> Obj:
    template = {"spec": {"restartPolicy": "Never", "containers": [{"name": "a", "image": "b"}], **spec}}
    head = {"apiVersion": "batch/v1", "kind": "Job", "metadata": {"name": "j"}}
    body: Obj = send(apiserver, "POST", JOBS, {**head, "spec": {"parallelism": 2, "template": template}}).json()
    return body


def patch(apiserver: Server, spec: Obj, **metadata: Any) -> Response:
    return send(apiserver, "PATCH", f"{JOBS}/j", {"spec": spec, "metadata": metadata})


@pytest.mark.parametrize(("name", "status"), [("gang", 403), ("basic", 200), ("missing", 200)])
def test_parallelism_of_named_gang_stays(apiserver: Server, name: str, status: int) -> None:
    """The group that the template names decides; a group that is missing allows the change."""
    group(apiserver, "gang", {"gang": {"minCount": 2}})
    group(apiserver, "basic", {"basic": {}})
    job(apiserver, schedulingGroup={"podGroupName": name})
    assert patch(apiserver, {"parallelism": 2}, labels={"a": "b"}).status == 200
    response = patch(apiserver, {"parallelism": 3})
    assert response.status == status, response.body
    if status == 403:
        why = 'cannot change parallelism for a Job referencing gang-scheduled PodGroup "gang"'
        assert response.json()["message"] == f'jobs.batch "j" is forbidden: {why}'


@pytest.mark.parametrize(("controls", "status"), [(True, 403), (False, 200)])
def test_parallelism_of_owned_gang_stays(apiserver: Server, controls: bool, status: int) -> None:
    """Without a group in the template, the groups decide that the job controls."""
    owner = {"apiVersion": "batch/v1", "kind": "Job", "name": "j", "uid": job(apiserver)["metadata"]["uid"]}
    group(apiserver, "g", {"gang": {"minCount": 2}}, ownerReferences=[{**owner, "controller": controls}])
    response = patch(apiserver, {"parallelism": 3})
    assert response.status == status, response.body
