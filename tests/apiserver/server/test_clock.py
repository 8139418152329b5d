"""The clock of a server: it stands still, is set and moved on, and governs what is Kubernetes' time."""

from __future__ import annotations

import threading
import time
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from tests.http import exchange, send, watch
from tests.waiting import wait_until
from understudy import Fault, Server, StatusError
from understudy.machinery.types import Obj
from understudy.machinery.util.clock import parse_timestamp, timestamp

START = "2030-01-02T03:04:05Z"
CONTROLLERS = ["scheduler", "resourceclaim", "device-taint-eviction"]
CONTROLLER = "system:serviceaccount:kube-system:device-taint-eviction-controller"
CONTAINERS = [{"name": "main", "image": "example.com/main"}]


@pytest.fixture(scope="module")
def running() -> Iterator[Server]:
    with Server(control=True, etcd_compaction_interval="0") as server:
        yield server


@pytest.fixture
def server(running: Server) -> Server:
    """Return a server whose clock stands still at START."""
    running.reset()
    running.clock.freeze(START)
    return running


def event(name: str, **fields: Any) -> Obj:
    return {"apiVersion": "v1", "kind": "Event", "metadata": {"name": name}, "involvedObject": {}, **fields}


def config_map(name: str) -> Obj:
    return {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": name}}


def names(server: Server, kind: str) -> list[str]:
    return [obj["metadata"]["name"] for obj in server.list(kind, namespace="default")]


# --- the clock -------------------------------------------------------------------------------------------------------


def test_timestamps_are_those_of_the_clock(server: Server) -> None:
    """Objects and managed fields have the time at which the clock stands, and the new one once it was moved on."""
    path = "/api/v1/namespaces/default/configmaps"
    metadata = exchange(server, "POST", path, config_map("a") | {"data": {"a": "b"}})[1]["metadata"]
    assert (metadata["creationTimestamp"], metadata["managedFields"][0]["time"]) == (START, START)
    assert server.clock.advance(timedelta(days=1), hours=2) == datetime(2030, 1, 3, 5, 4, 5, tzinfo=UTC)
    assert server.create(config_map("b"))["metadata"]["creationTimestamp"] == "2030-01-03T05:04:05Z"


def test_a_clock_that_runs_goes_on_from_where_it_was_moved_to(server: Server) -> None:
    """`resume` lets the clock run from where it stood, and `advance` leaves it running."""
    start = server.clock.now()
    assert start <= server.clock.resume() < start + timedelta(minutes=1)
    server.clock.advance(hours=1)
    now = server.clock.now()
    assert now >= datetime(2030, 1, 2, 4, 4, 5, tzinfo=UTC)
    assert wait_until(server.clock.now, lambda later: later > now)
    assert not server.clock.is_frozen


def test_an_earlier_time_is_only_shown(server: Server) -> None:
    """A clock that is set back shows that; nothing that waits is done, now or again."""
    server.create(event("e"))
    assert server.clock.set("2020-01-01T00:00:00Z") == datetime(2020, 1, 1, tzinfo=UTC)
    assert server.create(config_map("a"))["metadata"]["creationTimestamp"] == "2020-01-01T00:00:00Z"
    server.clock.advance(minutes=59)
    assert names(server, "events") == ["e"]


def test_reset_shows_the_machines_time_again(server: Server) -> None:
    """`reset` of the server resets the clock: nothing of it is seen by the next test."""
    server.reset()
    assert not server.clock.is_frozen
    assert abs(server.clock.now().timestamp() - time.time()) < 60
    server.clock.advance(hours=2)
    assert server.clock.reset().timestamp() - time.time() < 60


@pytest.mark.parametrize(
    ("wrong", "text"),
    [
        (lambda clock: clock.advance(), "want a time ahead, such as hours=1, not 0:00:00"),
        (lambda clock: clock.advance(hours=-1), "want a time ahead, such as hours=1, not -1 day, 23:00:00"),
        (lambda clock: clock.set("tomorrow"), "want a time such as \"2030-01-01T00:00:00Z\", not 'tomorrow'"),
        (lambda clock: clock.freeze(datetime(2030, 1, 1)), "want a datetime with a time zone"),
    ],
)
def test_wrong_times_are_refused(server: Server, wrong: Any, text: str) -> None:
    """A time that makes no sense raises ValueError with an example, and changes nothing."""
    with pytest.raises(ValueError, match="want") as refused:
        wrong(server.clock)
    assert text in str(refused.value)
    assert server.clock.now() == datetime(2030, 1, 2, 3, 4, 5, tzinfo=UTC)


def test_a_clock_of_ones_own_is_not_moved() -> None:
    """A server with the option `clock` shows that clock, and says so when it is to be moved."""

    class Clock:
        def now(self) -> float:
            return parse_timestamp(START)

        def monotonic(self) -> float:
            return 0.0

    with Server(clock=Clock()) as server, pytest.raises(RuntimeError, match="option `clock`"):
        server.clock.advance(hours=1)


def test_other_languages_steer_the_clock(server: Server) -> None:
    """`/understudy/clock` tells the time, sets it, moves it on, and lets it stand still or run; 400 for all else."""
    path = "/understudy/clock"
    assert exchange(server, "GET", path) == (200, {"now": "2030-01-02T03:04:05.000000Z", "frozen": True})
    server.create(event("e"))
    moved = {"set": "2030-01-02T04:00:00Z", "advance": "5m", "frozen": True}
    assert exchange(server, "POST", path, moved) == (200, {"now": "2030-01-02T04:05:00.000000Z", "frozen": True})
    assert names(server, "events") == []
    assert exchange(server, "POST", path, {"frozen": False})[1]["frozen"] is False
    wrongs: list[Any] = [{}, [], {"advance": "1"}, {"advance": "-1h"}, {"set": 1}, {"frozen": 1}, {"advanse": "1h"}]
    for wrong in wrongs:
        status, answer = exchange(server, "POST", path, wrong)
        assert (status, answer["reason"]) == (400, "BadRequest"), wrong
    assert send(server, "PUT", path, {}).status == 405


# --- what it governs -------------------------------------------------------------------------------------------------


def test_events_end_after_an_hour(server: Server) -> None:
    """Events are deleted an hour after they were last written, and watches are told."""
    server.create(event("a"))
    server.create(event("b"))
    server.clock.advance(minutes=30)
    server.patch("events", "b", {"count": 2})
    with server.watch("events", resource_version=server.list("events").resource_version) as events:
        server.clock.advance(minutes=30)
        assert names(server, "events") == ["b"]
        assert [(next(events))[:1], server.clock.advance(minutes=30).minute] == [("DELETED",), 34]
    assert names(server, "events") == []


@pytest.mark.parametrize(("kept", "left"), [("10m", ["b"]), ("0", ["a", "b"])])
def test_events_are_kept_as_long_as_the_flag_says(kept: str, left: list[str]) -> None:
    """`--event-ttl` says how long events are kept; 0 for ever."""
    with Server(event_ttl=kept) as server:
        server.clock.freeze()
        server.create(event("a"))
        server.clock.advance(minutes=9)
        server.create(event("b"))
        server.clock.advance(minutes=1)
        assert names(server, "events") == left


@pytest.mark.parametrize(("kind", "selector"), [("Namespace", ""), ("ConfigMap", "&labelSelector=app")])
def test_watches_end_at_their_timeout(server: Server, kind: str, selector: str) -> None:
    """A watch lasts for its timeoutSeconds by the clock; until then bookmarks come once a minute, if there is news."""
    path, query = "/api/v1/namespaces/default/configmaps", f"{selector}&timeoutSeconds=600&allowWatchBookmarks=true"
    lines: list[Obj] = []
    version = server.list("configmaps").resource_version

    def follow() -> None:
        with watch(server, path, f"{query}&resourceVersion={version}") as events:
            lines.extend(events)

    thread = threading.Thread(target=follow)
    thread.start()
    wait_until(lambda: server.state.registry.store.watching("/registry/configmaps/default/"))
    server.create({"apiVersion": "v1", "kind": kind, "metadata": {"name": "n"}})
    server.clock.advance(seconds=61)
    wait_until(lambda: lines)
    server.clock.advance(minutes=8)
    assert thread.is_alive()
    server.clock.advance(minutes=1)
    thread.join(60)
    assert not thread.is_alive()
    assert [line["type"] for line in lines] == ["BOOKMARK"]


def test_tokens_expire(server: Server) -> None:
    """A token of a service account is refused once its time by the clock is over."""
    server.create({"apiVersion": "v1", "kind": "ServiceAccount", "metadata": {"name": "s"}})
    path = "/api/v1/namespaces/default/serviceaccounts/s/token"
    request = {"apiVersion": "authentication.k8s.io/v1", "kind": "TokenRequest", "spec": {"expirationSeconds": 600}}
    status = exchange(server, "POST", path, request)[1]["status"]
    assert status["expirationTimestamp"] == "2030-01-02T03:14:05Z"
    review = {"apiVersion": "authentication.k8s.io/v1", "kind": "TokenReview", "spec": {"token": status["token"]}}
    reviews = "/apis/authentication.k8s.io/v1/tokenreviews"
    assert exchange(server, "POST", reviews, review)[1]["status"]["authenticated"]
    server.clock.advance(minutes=11, seconds=1)  # a minute more, since clocks may differ
    assert "authenticated" not in exchange(server, "POST", reviews, review)[1]["status"]


def test_a_lease_that_has_expired_gets_another_holder(server: Server) -> None:
    """A lease expires by the clock: another holder, who asks it for the time, takes it over then."""

    def take(holder: str) -> bool:
        """Take a lease that is free or has expired. Report whether it was so."""
        now = server.clock.now()
        spec = {
            "holderIdentity": holder,
            "leaseDurationSeconds": 15,
            "renewTime": now.strftime("%Y-%m-%dT%H:%M:%S.%fZ"),
        }
        lease = {"apiVersion": "coordination.k8s.io/v1", "kind": "Lease", "metadata": {"name": "l"}, "spec": spec}
        try:
            held = server.get("leases", "l")
        except StatusError:
            server.create(lease)
            return True
        if parse_timestamp(held["spec"]["renewTime"]) + held["spec"]["leaseDurationSeconds"] > now.timestamp():
            return False
        server.update({**held, "spec": spec})
        return True

    assert (take("a"), take("b")) == (True, False)
    server.clock.advance(seconds=15)
    assert take("b")
    assert server.get("leases", "l")["spec"]["holderIdentity"] == "b"


def test_history_is_compacted() -> None:
    """The history of a server is compacted by the clock: a version from before is answered with 410 then."""
    with Server(etcd_compaction_interval="5m") as server:
        server.clock.freeze()
        version = server.list("configmaps").resource_version
        server.create(config_map("a"))
        server.clock.advance(minutes=4)
        server.watch("configmaps", resource_version=version).close()
        server.clock.advance(minutes=6)
        with pytest.raises(StatusError, match="too old resource version"):
            list(server.watch("configmaps", resource_version=version, timeout=60))


def test_deadlines_of_requests_are_real(server: Server) -> None:
    """A request that waits while the clock is moved on is answered: its deadline protects the server."""
    begun, go_on = threading.Event(), threading.Event()

    @server.webhook("configmaps")
    def slow(request: Obj) -> None:
        begun.set()
        go_on.wait(60)

    answers: list[int] = []
    path = "/api/v1/namespaces/default/configmaps"
    thread = threading.Thread(target=lambda: answers.append(send(server, "POST", path, config_map("a")).status))
    thread.start()
    assert begun.wait(60)
    advancing = threading.Thread(target=lambda: server.clock.advance(hours=1))
    advancing.start()
    go_on.set()
    thread.join(60)
    advancing.join(60)
    assert answers == [201]
    assert server.get("configmaps", "a")["metadata"]["creationTimestamp"] == START  # the clock waited for the request


# --- controllers, scheduler and kubelet -------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def cluster() -> Iterator[Server]:
    """Return a server with its controllers, whose clock stands still, with a pod that has a GPU of node-1."""
    with Server(controllers=CONTROLLERS, load=["gpu-cluster"]) as server:
        server.clock.freeze(START)
        yield server


def pod_with_gpu(name: str, **device: Any) -> list[Obj]:
    """Return a pod and its claim for a GPU."""
    requests = [{"name": "gpu", "exactly": {"deviceClassName": "gpu.example.com", **device}}]
    claim = {
        "apiVersion": "resource.k8s.io/v1",
        "kind": "ResourceClaim",
        "metadata": {"name": name},
        "spec": {"devices": {"requests": requests}},
    }
    claims = [{"name": "gpu", "resourceClaimName": name}]
    spec = {"containers": CONTAINERS, "resourceClaims": claims, "terminationGracePeriodSeconds": 0}
    return [claim, {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": name}, "spec": spec}]


@pytest.mark.parametrize("bytes_per_second", [None, 20_000])
def test_device_taints_evict_after_the_time_that_they_are_tolerated(
    cluster: Server, bytes_per_second: int | None
) -> None:
    """A pod whose device has a NoExecute taint goes when the tolerationSeconds are over, and not a second before.

    The clock waits for the controller, for however long an answer to it takes.
    """
    tolerated = {"key": "example.com/bad", "operator": "Exists", "effect": "NoExecute", "tolerationSeconds": 300}
    for obj in pod_with_gpu("tolerant", tolerations=[tolerated]):
        cluster.create(obj)
    cluster.wait_for("pods", "tolerant", lambda pod: pod["spec"]["nodeName"])
    [result] = cluster.get("resourceclaims", "tolerant")["status"]["allocation"]["devices"]["results"]
    [pool] = [each for each in cluster.list("resourceslices") if each["spec"]["pool"]["name"] == result["pool"]]
    devices = pool["spec"]["devices"]
    taint = {
        "key": "example.com/bad",
        "effect": "NoExecute",
        "timeAdded": timestamp(cluster.clock.now().timestamp()),
    }
    [device] = [each for each in devices if each["name"] == result["device"]]
    device["taints"] = [taint]
    cluster.update(pool)
    cluster.clock.advance(seconds=299)
    assert names(cluster, "pods") == ["tolerant"]
    if bytes_per_second is not None:
        cluster.faults.add(Fault.slow(bytes_per_second), times=1, verb="get", user=CONTROLLER)
    cluster.clock.advance(seconds=2)
    assert names(cluster, "pods") == []
    cluster.faults.clear()
    del device["taints"]
    cluster.update({**cluster.get("resourceslices", pool["metadata"]["name"]), "spec": pool["spec"]})
    cluster.delete("resourceclaims", "tolerant")


def test_the_scheduler_tries_again_by_the_clock(cluster: Server) -> None:
    """A pod that fits nowhere waits for its backoff by the clock; the scheduler looks again after five minutes."""
    pod = {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "big"}, "spec": {"containers": CONTAINERS}}
    pod["spec"] = {"containers": CONTAINERS, "nodeSelector": {"no": "node"}}
    cluster.create(pod)
    waits = cluster.wait_for("pods", "big", "PodScheduled=False")
    assert waits["status"]["conditions"][0]["lastTransitionTime"] == timestamp(cluster.clock.now().timestamp())
    cluster.patch("nodes", "node-1", {"metadata": {"labels": {"no": "node"}}})
    cluster.clock.advance(seconds=11)
    assert cluster.get("pods", "big")["spec"]["nodeName"] == "node-1"
