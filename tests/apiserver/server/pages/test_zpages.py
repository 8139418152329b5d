"""/statusz and /flagz in the forms of each release, as the real servers answer them."""

from __future__ import annotations

from typing import Any

import pytest

from tests.clock import FixedClock
from tests.http import send
from tests.releases import NEWEST, RELEASES, since
from understudy import Server
from understudy.machinery.releases.version import V1_32, V1_34, V1_35, V1_36, Version

WARNING = (
    "Warning: This endpoint is not meant to be machine parseable, has no formatting compatibility guarantees and is "
    "for debugging purposes only.\n"
)
ON = {"ComponentStatusz": True, "ComponentFlagz": True}


def started(release: Version, **options: Any) -> Server:
    gates = ON if release >= V1_32 else {}
    clock = FixedClock.at("2026-11-02T12:00:00Z")
    return Server(emulated_version=str(release), feature_gates=gates, clock=clock, **options)


@pytest.mark.parametrize("release", since(V1_32), ids=str)
def test_pages_are_text(release: Version) -> None:
    """Names, headings and the list of pages changed over time."""
    with started(release, enable_admission_plugins=["ServiceAccount"]) as server:
        lines = ["Started: Mon Nov  2 12:00:00 UTC 2026", "Up: 0 hr 00 min 00 sec", "Go version: "]
        status = send(server, "GET", "/statusz", accept="text/plain").body.decode()
        name = "apiserver" if release >= V1_34 else "kube-apiserver"
        assert status.startswith("\n".join([f"\n{name} statusz\n{WARNING}", *lines]))
        pages = "/flagz /healthz /livez /metrics /readyz /statusz /version\n"
        assert status.endswith(pages if release >= V1_34 else f"\nEmulation version: {release}\n")
        flags = send(server, "GET", "/flagz", accept="*/*").body.decode()
        heading = "\napiserver flagz" if release >= V1_36 else "\nkube-apiserver fla"
        assert flags.startswith(heading)
        assert "\nenable-admission-plugins: [ServiceAccount]\n" in flags
        assert "\nfeature-gates: ComponentFlagz=true,ComponentStatusz=true\n" in flags


def test_flags_of_the_program_are_shown() -> None:
    """A server in the place of a program shows that program's flags, too, in the order of all names."""
    with started(NEWEST, program_flags={"v": "2", "cert-dir": "/x"}) as server:
        flags = send(server, "GET", "/flagz", accept="application/json;g=config.k8s.io;v=v1beta1;as=Flagz").json()
    assert (flags["flags"]["v"], flags["flags"]["cert-dir"]) == ("2", "/x")
    assert [*flags["flags"]] == sorted(flags["flags"])


@pytest.mark.parametrize("release", [r for r in since(V1_32) if r < V1_35], ids=str)
def test_pages_were_nothing_but_text(release: Version) -> None:
    """A client has to accept it before 1.35."""
    with started(release) as server:
        for accept in ("application/json", "", "text/html"):
            answer = send(server, "GET", "/statusz", accept=accept)
            assert (answer.status, answer.body) == (406, b"media type not acceptable, must be: text/plain\n")


@pytest.mark.parametrize("release", since(V1_35), ids=str)
def test_pages_are_objects_for_clients_that_name_their_kind(release: Version) -> None:
    """1.36 has them in two versions, and warns of the older one."""
    with started(release) as server:
        versions = ["v1beta1", "v1alpha1"] if release >= V1_36 else ["v1alpha1"]
        for version in versions:
            media = f"application/json;g=config.k8s.io;v={version};as=Statusz"
            answer = send(server, "GET", "/statusz", accept=media)
            assert answer.headers["Content-Type"] == media
            status = answer.json()
            assert (status["kind"], status["apiVersion"]) == ("Statusz", f"config.k8s.io/{version}")
            assert (status["startTime"], status["emulationVersion"]) == ("2026-11-02T12:00:00Z", str(release))
            warning = "This version of the statusz endpoint is deprecated. Please use a newer version."
            assert answer.warnings == ([warning] if version != versions[0] else [])
        flags = send(server, "GET", "/flagz", accept=f"application/yaml;g=config.k8s.io;v={versions[0]};as=Flagz")
        assert f'emulated-version: "{release}"' in flags.body.decode()
        for accept in ("application/json", "text/plain;as=x", f"application/json;g=config.k8s.io;v={version};as=Flagz"):
            answer = send(server, "GET", "/statusz", accept=accept)
            message = "only the following media types are accepted: application/json, application/yaml, text/plain"
            assert (answer.status, answer.json()["message"]) == (406, message)


@pytest.mark.parametrize("release", RELEASES, ids=str)
def test_pages_need_their_gates(release: Version) -> None:
    """/statusz and /flagz have gates that are on since 1.36; without them there is no page, and / does not list it."""
    with Server(emulated_version=str(release)) as server:
        listed = send(server, "GET", "/").json()["paths"]
        for path in ("/statusz", "/flagz"):
            assert (path in listed) is (release >= V1_36)
            assert send(server, "GET", path, accept="*/*").status == (200 if release >= V1_36 else 404)
    with Server(emulated_version=str(NEWEST), feature_gates={"ComponentFlagz": False}) as server:
        assert "Paths: /healthz /livez" in send(server, "GET", "/statusz", accept="*/*").body.decode()
