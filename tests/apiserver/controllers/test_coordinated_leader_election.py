"""Leaders are elected among LeaseCandidates as by kube-apiserver 1.32 and 1.37, whose Leases these are."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

import pytest

from tests.http import send
from tests.waiting import wait_until
from understudy import Server
from understudy.apiserver.controllers.coordinated_leader_election import OLDEST, ElectionError, best_of, strategy_of
from understudy.machinery.types import Obj

LEASES = "/apis/coordination.k8s.io/v1/namespaces/default/leases"
GATE = {"CoordinatedLeaderElection": True}


def candidate(name: str, emulation: str, binary: str, strategy: str = OLDEST, created: str = "") -> Obj:
    versions = {"emulationVersion": emulation, "binaryVersion": binary}
    metadata = {"name": name, "creationTimestamp": created}
    return {"metadata": metadata, "spec": {"leaseName": "work", "strategy": strategy, **versions}}


class Programs:
    """Speaks for the programs that want to lead."""

    def __init__(self, server: Server, version: str) -> None:
        self._server = server
        self._path = f"/apis/coordination.k8s.io/{version}/namespaces/default/leasecandidates"

    def now(self) -> str:
        return f"{self._server.clock.now():%Y-%m-%dT%H:%M:%S.%fZ}"

    def join(self, obj: Obj) -> None:
        """Create a candidate that is there now."""
        metadata, spec = {"name": obj["metadata"]["name"]}, {**obj["spec"], "renewTime": self.now()}
        answer = send(self._server, "POST", self._path, {"metadata": metadata, "spec": spec})
        assert answer.status == 201, answer.body

    def asked(self) -> list[str]:
        """Return the names of candidates that have not answered."""
        specs = {each["metadata"]["name"]: each["spec"] for each in self.all()}
        return [name for name, spec in specs.items() if spec.get("pingTime", "") > spec["renewTime"]]

    def answer(self, name: str) -> None:
        """Say that a candidate is there."""
        send(self._server, "PATCH", f"{self._path}/{name}", {"spec": {"renewTime": self.now()}})

    def lease_once_answered(self) -> Obj:
        """Return the spec of the Lease after the older candidate has answered if it was asked."""
        if "older" in self.asked():
            self.answer("older")
        return self.lease()

    def all(self) -> list[Any]:
        return list(send(self._server, "GET", self._path).json()["items"])

    def lease(self) -> Obj:
        """Return the spec of the Lease, nothing while it is missing."""
        spec: Obj = send(self._server, "GET", f"{LEASES}/work").json().get("spec", {})
        return spec


def test_times_of_the_server_that_elects() -> None:
    """The Lease of the server that elects lasts as long as `--coordinated-leadership-lease-duration` says."""
    times = {"lease_duration": "5s", "renew_deadline": "3s", "retry_period": "1s"}
    options: Any = {f"coordinated_leadership_{name}": time for name, time in times.items()}
    with Server(feature_gates=GATE, **options) as server:
        path = f"{LEASES.replace('/default/', '/kube-system/')}/leader-election-controller"
        lease = wait_until(lambda: send(server, "GET", path).json().get("spec", {}))
        assert lease["leaseDurationSeconds"] == 5


@pytest.mark.parametrize(("release", "version"), [("1.32", "v1alpha2"), ("1.37", "v1beta1")])
def test_leader_with_the_oldest_emulation_version_is_elected(release: str, version: str) -> None:
    """The first one leads, a better one is preferred to it, and leads when the Lease is over and it still answers."""
    with Server(emulated_version=release, feature_gates=GATE) as server:
        programs = Programs(server, version)
        programs.join(candidate("first", "1.31.0", "1.32.0"))
        lease = wait_until(programs.lease)
        assert lease.pop("renewTime")
        assert lease == {"holderIdentity": "first", "leaseDurationSeconds": 5, "strategy": OLDEST}

        programs.join(candidate("older", "1.30.0", "1.32.0"))
        wait_until(programs.lease, lambda lease: lease.get("preferredHolder") == "older")
        assert programs.lease()["holderIdentity"] == "first"

        server.clock.advance(seconds=11)  # the Lease is over, and both have not answered for 5 seconds
        wait_until(programs.asked, lambda names: names == ["first", "older"])
        programs.answer("older")
        server.clock.advance(seconds=5)  # "first" has not answered, "older" is asked again
        lease = wait_until(programs.lease_once_answered, lambda lease: lease["holderIdentity"] == "older")
        assert lease.keys() == {"holderIdentity", "leaseDurationSeconds", "renewTime", "strategy"}

        server.clock.set(server.clock.now() + timedelta(minutes=31))
        wait_until(programs.all, lambda candidates: candidates == [])


def test_other_strategies_are_left_to_others() -> None:
    """A Lease for a strategy of somebody else is made, and nobody holds it."""
    with Server(feature_gates=GATE) as server:
        programs = Programs(server, "v1beta1")
        programs.join(candidate("first", "1.31.0", "1.32.0", "example.com/mine"))
        lease = wait_until(programs.lease)
        assert (lease["strategy"], lease.get("holderIdentity")) == ("example.com/mine", None)


@pytest.mark.parametrize(
    ("candidates", "name"),
    [
        ([candidate("a", "1.30.0", "1.32.0"), candidate("b", "1.29.0", "1.33.0")], "b"),
        ([candidate("a", "1.30.0", "1.32.0"), candidate("b", "1.30.0", "1.31.0")], "b"),
        ([candidate("a", "1.9.0", "1.32.0"), candidate("b", "1.10.0", "1.32.0")], "a"),
        ([candidate("a", "1.30.0", "1.32.0", created="2030-01-01T00:00:01Z"),
          candidate("b", "1.30.0", "1.32.0", created="2030-01-01T00:00:00Z")], "b"),
        ([candidate("a", "", "1.32.0"), candidate("b", "1.30.0", "1.32.0")], "b"),
    ],
)  # fmt: skip
def test_best_candidate(candidates: list[Obj], name: str) -> None:
    """Emulation versions count first, then binary versions, then the age; a candidate needs both versions."""
    elected = best_of(candidates)
    assert elected is not None
    assert elected["metadata"]["name"] == name


def test_strategy_is_that_of_the_newest_binary() -> None:
    """Candidates of the newest binary decide, and have to agree."""
    old, new = candidate("a", "1.30.0", "1.31.0"), candidate("b", "1.30.0", "1.32.0", "example.com/mine")
    assert strategy_of([old, new]) == "example.com/mine"
    with pytest.raises(ElectionError, match="differing strategies"):
        strategy_of([old, new, candidate("c", "1.30.0", "1.32.0")])
