"""Labels and selectors of jobs."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any

import pytest

from tests.http import MERGE_PATCH, exchange, send
from tests.releases import RELEASES
from understudy import Server
from understudy.machinery.releases.version import V1_34

JOBS = "/apis/batch/v1/namespaces/default/jobs"
LONG = "j" * 63 + "x"
TOO_LONG = re.compile("must be no more than 63 (characters|bytes)")


@pytest.fixture(scope="module", params=RELEASES, ids=str)
def server(request: pytest.FixtureRequest) -> Iterator[Server]:
    with Server(emulated_version=str(request.param)) as running:
        yield running


def job(name: str, labels: dict[str, str] | None = None) -> Any:
    spec = {"restartPolicy": "Never", "containers": [{"name": "c", "image": "i"}]}
    template = {"metadata": {"labels": labels}, "spec": spec} if labels else {"spec": spec}
    return {"apiVersion": "batch/v1", "kind": "Job", "metadata": {"name": name}, "spec": {"template": template}}


@pytest.mark.parametrize(
    ("labels", "fields"),
    [(None, ["spec.template.labels"]), ({"a": "b"}, ["metadata.labels", "spec.template.labels"])],
)
def test_new_job_takes_the_labels_of_its_template(
    server: Server, labels: dict[str, str] | None, fields: list[str]
) -> None:
    """A valid job without labels gets the labels of its template."""
    status, answer = exchange(server, "POST", JOBS, job(LONG, labels))
    assert status == 422
    assert (
        list(dict.fromkeys(c["field"] for c in answer["details"]["causes"] if TOO_LONG.search(c["message"]))) == fields
    )
    status, made = exchange(server, "POST", f"{JOBS}?dryRun=All", job("j", labels))
    assert (status, made["metadata"]["labels"]) == (201, made["spec"]["template"]["metadata"]["labels"])


def test_removed_selector_is_shown_as_null(server: Server) -> None:
    """The error of a job whose selector was removed shows null."""
    null = "null" if server.state.release.version >= V1_34 else '"null"'
    send(server, "POST", JOBS, job("kept"))
    status, answer = exchange(server, "PUT", f"{JOBS}/kept", job("kept"))
    messages = [cause["message"] for cause in answer["details"]["causes"] if cause["field"] == "spec.selector"]
    assert (status, messages[-1]) == (422, f"Invalid value: {null}: field is immutable")


def test_status_of_conditions_in_cron_jobs(server: Server) -> None:
    """Since 1.34 the conditions of a pod failure policy get their status in cron jobs, too."""
    template = job("j")["spec"]
    template["podFailurePolicy"] = {"rules": [{"action": "Ignore", "onPodConditions": [{"type": "A"}]}]}
    spec = {"schedule": "* * * * *", "jobTemplate": {"spec": template}}
    body = {"apiVersion": "batch/v1", "kind": "CronJob", "metadata": {"name": "c"}, "spec": spec}
    code, answer = exchange(server, "POST", f"{JOBS.replace('jobs', 'cronjobs')}?dryRun=All", body)
    if server.state.release.version < V1_34:
        assert (code, answer["details"]["causes"][0]["field"].rpartition(".")[2]) == (422, "status")
    else:
        policy = answer["spec"]["jobTemplate"]["spec"]["podFailurePolicy"]
        assert policy["rules"][0]["onPodConditions"] == [{"type": "A", "status": "True"}]


def test_empty_volumes_in_errors() -> None:
    """Errors print empty volumes and mounts as none where image volumes may be dropped from them."""
    with Server(emulated_version="1.32") as server:
        assert exchange(server, "POST", JOBS, job("empty"))[0] == 201
        spec = {"volumes": [], "tolerations": [], "containers": [{"name": "c", "image": "z", "volumeMounts": []}]}
        patch = {"spec": {"template": {"spec": spec}}}
        message = exchange(server, "PATCH", f"{JOBS}/empty", patch, MERGE_PATCH)[1]["message"]
    for text in (
        "Volumes:[]core.Volume(nil)",
        "VolumeMounts:[]core.VolumeMount(nil)",
        "Tolerations:[]core.Toleration{}",
    ):
        assert text in message
