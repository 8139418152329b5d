"""Previews: releases that are not there yet, recorded from an alpha, beta or release candidate."""

from __future__ import annotations

import logging

import pytest

from tests.http import send
from tests.releases import NEWEST_AND_PREVIEWS
from understudy import Server
from understudy.apiserver.endpoints.openapi.v3 import OpenAPI
from understudy.apiserver.extensions.serving import Serving
from understudy.apiserver.serving import release as module
from understudy.apiserver.serving.release import Release, UnknownReleaseError, previews, release_names, releases
from understudy.machinery.releases.recorded import read_release_file
from understudy.machinery.releases.version import V1_36, V1_37, Version

ALPHA = Version.parse("1.38-alpha")


@pytest.fixture
def recorded(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let there be two releases and a preview, whatever there is."""
    monkeypatch.setattr(module, "_recorded", lambda: (V1_36, V1_37, ALPHA))


@pytest.mark.usefixtures("recorded")
def test_previews_are_no_releases() -> None:
    """The newest release is not a preview, so none is the default; texts name previews last."""
    assert (releases(), previews()) == ((V1_36, V1_37), (ALPHA,))
    assert release_names() == "1.36, 1.37, and 1.38-alpha as a preview"


@pytest.mark.usefixtures("recorded")
@pytest.mark.parametrize(
    ("name", "version"),
    [
        *[(name, ALPHA) for name in ("1.38-alpha", "v1.38-alpha", "1.38.0-alpha.0", "v1.38.0-alpha.2")],
        *[(name, V1_37) for name in ("1.37", "1.37-rc", "v1.37.0-rc.1")],
    ],
)
def test_names_of_previews(name: str, version: Version) -> None:
    """A preview is named by its stage, or by any version of this stage; a candidate of a release is that release."""
    assert Release.named(name).version == version


@pytest.mark.usefixtures("recorded")
@pytest.mark.parametrize("name", ["1.38", "1.38.0", "1.38-beta", "1.38-", "1.38-alpha-1"])
def test_preview_is_asked_for_by_its_stage(name: str) -> None:
    """A request for the release itself, or for another stage, is refused with the names that there are."""
    with pytest.raises(UnknownReleaseError, match=f"unknown release {name!r}: there are 1.36, 1.37, and 1.38-alpha as"):
        Release.named(name)


def test_files_of_the_release_before() -> None:
    """A preview has the files of the release before, where it has none of its own."""
    nothing_recorded = Version(1, 38, "beta")
    for name in ("resources.json", "openapi/apis__resource.k8s.io__v1.json"):
        assert read_release_file(nothing_recorded, name) == read_release_file(V1_37, name)


@pytest.mark.parametrize("version", NEWEST_AND_PREVIEWS, ids=str)
def test_preview_is_served(version: Version, caplog: pytest.LogCaptureFixture) -> None:
    """A preview says what it is at the start, and answers /version as the recorded one; a release says nothing."""
    with caplog.at_level(logging.WARNING), Server(emulated_version=str(version)) as server:
        told = send(server, "GET", "/version").json()
        claim = {
            "apiVersion": "resource.k8s.io/v1",
            "kind": "ResourceClaim",
            "metadata": {"name": "c", "namespace": "default"},
            "spec": {"devices": {"requests": [{"name": "r", "exactly": {"deviceClassName": "gpu"}}]}},
        }
        server.apply(claim)
    assert (f"{version} is a preview: it serves what {told['gitVersion']} does" in caplog.text) == version.is_preview
    assert told["gitVersion"].startswith(f"v{version.number}.0-{version.stage}" if version.stage else f"v{version}.")


@pytest.mark.parametrize("version", NEWEST_AND_PREVIEWS, ids=str)
def test_documents_of_previews(version: Version) -> None:
    """Each group-version has an OpenAPI document with the number of the release."""
    pages = OpenAPI(Serving(Release.of(version)))
    for name in pages.hashes:
        document = pages.document(name)
        assert document["info"] == {"title": "Kubernetes", "version": version.number}
        assert document["paths"]
