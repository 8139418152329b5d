"""The families of /metrics beside those of kube-apiserver."""

from __future__ import annotations

import re
from pathlib import Path
from typing import NamedTuple

import pytest

from tests.http import send
from understudy import Server

FOLDER = Path(__file__).parent / "families"  # NAME TYPE LABEL,LABEL HELP of each family, as kube-apiserver has them
WITHOUT_SCOPE = "apiserver_longrunning_requests"  # watches are counted by what they watch


class Family(NamedTuple):
    kind: str
    labels: str
    about: str


def families_of(text: str) -> dict[str, Family]:
    """Return the families of a page by their names; one without samples has no labels."""
    return {
        name: Family(kind, labels_of(name, text), about)
        for name, about, kind in re.findall(r"^# HELP (\w+) (.*)\n# TYPE \w+ (\w+)$", text, re.MULTILINE)
    }


def labels_of(name: str, text: str) -> str:
    sample = re.search(rf"^{name}(?:_bucket)?\{{(.*)\}} ", text, re.MULTILINE)
    labels = re.findall(r'(?:^|,)(\w+)="', sample[1]) if sample else []
    return ",".join(sorted({*labels} - {"le"})) or "-"


def recorded(release: str) -> dict[str, Family]:
    lines = (FOLDER / f"{release}.txt").read_text().splitlines()
    return {name: Family(*rest) for name, *rest in (line.split(" ", 3) for line in lines)}


@pytest.mark.parametrize("release", ["1.32", "1.37"])
def test_families_are_those_of_the_release(release: str) -> None:
    """Names, types, labels and help texts are those of kube-apiserver of the release after the same requests."""
    with Server(emulated_version=release) as server:
        send(server, "GET", "/api/v1/componentstatuses")
        own = families_of(send(server, "GET", "/metrics").body.decode())
    expected = recorded(release)
    compared = {*own} & {*expected} - {WITHOUT_SCOPE}
    assert {name: own[name] for name in compared} == {name: expected[name] for name in compared}
    assert {*expected} - {*own} == set()


@pytest.mark.parametrize(
    ("release", "resources"), [("1.32", ["componentstatuses"]), ("1.37", ["componentstatuses", "endpoints"])]
)
def test_deprecated_apis_that_were_requested(release: str, resources: list[str]) -> None:
    """A version that the release deprecates is named once it was asked for."""
    with Server(emulated_version=release) as server:
        for path in ("componentstatuses", "endpoints", "endpoints", "pods"):
            send(server, "GET", f"/api/v1/{path}")
        lines = send(server, "GET", "/metrics").body.decode().splitlines()
    samples = [line for line in lines if line.startswith("apiserver_requested_deprecated_apis{")]
    named = (
        'apiserver_requested_deprecated_apis{{group="",removed_release="",resource="{}",subresource="",version="v1"}} 1'
    )
    assert samples == [named.format(resource) for resource in resources]


@pytest.mark.parametrize(
    ("release", "samples"),
    [
        ("1.33", ['apiserver_storage_objects{resource="resourceclaims.resource.k8s.io"} 0']),
        ("1.34", ['apiserver_resource_objects{group="resource.k8s.io",resource="resourceclaims"} 0',
                  'apiserver_storage_objects{resource="resourceclaims.resource.k8s.io"} 0']),
        ("1.35", ['apiserver_resource_objects{group="resource.k8s.io",resource="resourceclaims"} 0']),
    ],
)  # fmt: skip
def test_stored_objects_by_release(release: str, samples: list[str]) -> None:
    """1.34 renames the family, and has both."""
    with Server(emulated_version=release) as server:
        lines = send(server, "GET", "/metrics").body.decode().splitlines()
    assert [line for line in lines if "_objects{" in line and "resourceclaims" in line] == samples
