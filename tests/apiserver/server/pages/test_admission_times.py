"""How often /metrics says that each admission plugin was asked, and for how long."""

from __future__ import annotations

import re
import time
from pathlib import Path

import pytest

from tests.apiserver.server.pages.counted_admission import HOME, MAP, OPT_IN, ask_all
from tests.http import send
from understudy import Server
from understudy.machinery.types import Obj

RECORDED = Path(__file__).parent / "admission"
PLUGIN = "apiserver_admission_controller_admission_duration_seconds"
STEP = "apiserver_admission_step_admission_duration_seconds"


def test_plugins_that_wait_are_timed() -> None:
    """Each call of a webhook is in the time of its plugin, and in that of the step, be it one of few that are slow."""
    with Server() as server:

        @server.webhook("configmaps")
        def hook(request: Obj) -> None:
            time.sleep(0.006)

        send(server, "POST", f"{HOME}/services", {"metadata": {"name": "a"}, "spec": {"ports": [{"port": 80}]}})
        assert send(server, "POST", f"{HOME}/configmaps", MAP).status == 201
        assert send(server, "POST", "/api/v1/namespaces/none/configmaps", MAP).status == 404
        text = send(server, "GET", "/metrics").body.decode()
    passed = 'operation="CREATE",rejected="false",type="validate"'
    quick = 'operation="CREATE",rejected="{}",type="admit"'
    for name, labels, in_time, count in (
        (PLUGIN, f'name="ValidatingAdmissionWebhook",{passed}', 2, 3),  # of three, with that of the configuration
        (STEP, passed, 2, 3),
        (PLUGIN, f'name="ResourceQuota",{passed}', 3, 3),
        (PLUGIN, f'name="NamespaceLifecycle",{quick.format("true")}', 1, 1),
        (PLUGIN, f'name="LimitRanger",{quick.format("false")}', 3, 3),
    ):
        assert f'{name}_bucket{{{labels},le="0.005"}} {in_time}\n' in text
        assert f"{name}_count{{{labels}}} {count}\n" in text
    slow = re.search(rf'^{STEP}_summary{{{passed},quantile="0.99"}} (.*)$', text, re.MULTILINE)
    assert slow
    assert float(slow[1]) > 0.005


@pytest.mark.maintenance
@pytest.mark.parametrize("release", ["1.32", "1.37"])
def test_plugins_are_asked_as_recorded(release: str) -> None:
    """Plugins are asked about whole operations, whatever the resource, until one refuses the request."""
    with Server(emulated_version=release, enable_admission_plugins=OPT_IN) as server:
        counted = sorted(ask_all(server.url))
    assert counted == sorted((RECORDED / f"{release}.txt").read_text().splitlines())
