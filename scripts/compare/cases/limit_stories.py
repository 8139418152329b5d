"""The stories of `compare limits`: requests that are held while others come, by a webhook that authorizes them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

from scripts.common.comparing import Obj
from scripts.compare.cases.access_stories import MAPS, Ask, config_map

FLOW = "/apis/flowcontrol.apiserver.k8s.io/v1"
PODS = "/api/v1/namespaces/default/pods"


class Begin(NamedTuple):
    """A request that the webhook holds: its path names it, and has "held" in it."""

    ask: Ask


class Finish(NamedTuple):
    """The end of what is held with a path, whose answer is compared."""

    path: str


class Queue(NamedTuple):
    """A request that waits for a seat."""

    ask: Ask


class Next(NamedTuple):
    """The next request that gets a seat, whose name is compared; it may end at once."""

    ends: bool = False


class Dump(NamedTuple):
    """A page about queues, of which the rows of `tiny` are compared."""

    page: str


class Pause(NamedTuple):
    """Seconds in which nothing happens, so that what is held lasts longer than requests do on a busy machine."""

    seconds: float


Step = Ask | Begin | Finish | Queue | Next | Dump | Pause


class LimitStory(NamedTuple):
    """Steps that are taken with a server that is started for them, with flags by their names in Python."""

    options: Mapping[str, str]
    steps: Sequence[Step]


def read(name: str, token: str = "alicetoken") -> Ask:
    """Return a request for a pod that is not there."""
    return Ask("GET", f"{PODS}/{name}", token=token)


def write(namespace: str, token: str = "alicetoken") -> Ask:
    """Return a write in a namespace that is not there."""
    return Ask("POST", f"/api/v1/namespaces/{namespace}/configmaps", config_map("a"), token=token)


def level(response: Obj, shares: int = 1, name: str = "tiny", **limited: Any) -> Ask:
    """Return the creation of a priority level that has one seat, as long as it borrows none."""
    limits = {"nominalConcurrencyShares": shares, "lendablePercent": 0, "borrowingLimitPercent": 0, **limited}
    spec = {"type": "Limited", "limited": {**limits, "limitResponse": response}}
    return created("PriorityLevelConfiguration", name, spec)


def schema(user: str, level: str = "tiny", method: str = "ByUser", precedence: int = 50) -> Ask:
    """Return the creation of a flow schema for all requests of a user."""
    everything = {"verbs": ["*"], "apiGroups": ["*"], "resources": ["*"], "namespaces": ["*"], "clusterScope": True}
    rule = {
        "subjects": [{"kind": "User", "user": {"name": user}}],
        "resourceRules": [everything],
        "nonResourceRules": [{"verbs": ["*"], "nonResourceURLs": ["*"]}],
    }
    spec = {"matchingPrecedence": precedence, "priorityLevelConfiguration": {"name": level}, "rules": [rule]}
    return created("FlowSchema", f"of-{user}", {**spec, "distinguisherMethod": {"type": method}})


def created(kind: str, name: str, spec: Obj) -> Ask:
    """Return the creation of an object of flow control."""
    body = {"apiVersion": FLOW.removeprefix("/apis/"), "kind": kind, "metadata": {"name": name}, "spec": spec}
    return Ask("POST", f"{FLOW}/{kind.lower()}s", body, token="admintoken")


def changed(name: str, limited: Obj) -> Ask:
    """Return a change of a priority level."""
    body = {"spec": {"limited": limited}}
    return Ask("PATCH", f"{FLOW}/prioritylevelconfigurations/{name}", body, "admintoken", {}, MERGE)


def removed(name: str) -> Ask:
    """Return the deletion of a priority level."""
    return Ask("DELETE", f"{FLOW}/prioritylevelconfigurations/{name}", token="admintoken")


def queues(number: int, length: int = 50, hand: int = 1) -> Obj:
    """Return the response of a level that queues."""
    return {"type": "Queue", "queuing": {"queues": number, "handSize": hand, "queueLengthLimit": length}}


REJECT = {"type": "Reject"}
MERGE = "application/merge-patch+json"
PAGES = [Dump("dump_priority_levels"), Dump("dump_queues"), Dump("dump_requests?includeRequestDetails=1"), Dump("")]
SMALL = {"enable_priority_and_fairness": "true", "max_requests_inflight": "15", "max_mutating_requests_inflight": "5"}
WITHOUT = {"enable_priority_and_fairness": "false"}
TWO = {**WITHOUT, "max_requests_inflight": "2", "max_mutating_requests_inflight": "1"}
WATCH = Ask("GET", f"{MAPS}?watch=1&timeoutSeconds=1")

STORIES = {
    "reads": LimitStory(
        TWO,
        [
            Begin(read("held-1")),
            read("second"),
            Begin(Ask("GET", "/apis/held-2", token="bobtoken")),
            read("third"),
            read("third", "bobtoken"),
            Ask("GET", PODS),
            Ask("GET", "/version"),
            Ask("HEAD", "/version"),
            Ask("GET", "/nothing"),
            Ask("GET", f"{PODS}/a", headers={"Accept": "application/yaml"}),
            Ask("GET", PODS, token=None),
            WATCH,
            Ask("GET", f"{PODS}/a/log"),
            read("third", "admintoken"),
            Ask("GET", f"{PODS}/third", token="admintoken", headers={"Impersonate-User": "carol"}),
            write("free"),
            Finish(f"{PODS}/held-1"),
            read("third"),
            Finish("/apis/held-2"),
        ],
    ),
    "writes": LimitStory(
        TWO,
        [
            Begin(write("held-1")),
            write("other"),
            Ask("DELETE", f"{PODS}/a"),
            Ask("DELETE", PODS),
            Ask("PATCH", f"{PODS}/a", {}, media="application/merge-patch+json"),
            Ask("POST", "/version"),
            Ask("OPTIONS", "/version"),
            Ask("POST", f"{PODS}/a/exec?command=x"),
            write("other", "admintoken"),
            read("a"),
            Finish(write("held-1").path),
            write("other"),
        ],
    ),
    "no limit for reads": LimitStory(
        {**TWO, "max_requests_inflight": "0"},
        [
            Begin(read("held-1")),
            Begin(read("held-2")),
            Begin(read("held-3")),
            Begin(write("held-4")),
            read("a"),
            write("other"),
            Finish(f"{PODS}/held-2"),
            Finish(f"{PODS}/held-1"),
            Finish(f"{PODS}/held-3"),
            write("other"),
            Finish(write("held-4").path),
        ],
    ),
    "rejected": LimitStory(
        SMALL,
        [
            level(REJECT),
            schema("alice"),
            read("free"),
            Begin(read("held-1")),
            *PAGES,
            read("other"),
            write("other"),
            Ask("GET", "/version"),
            WATCH,
            Ask("GET", f"{PODS}/a/log"),
            read("other", "bobtoken"),
            read("other", "admintoken"),
            *PAGES,
            Finish(f"{PODS}/held-1"),
            read("other"),
            WATCH,
            *PAGES,
        ],
    ),
    "queued": LimitStory(
        SMALL,
        [
            level(queues(1, 2)),
            schema("alice"),
            Begin(read("held-1")),
            Queue(write("held-2")),
            Queue(read("held-3")),
            read("full"),
            *PAGES,
            Finish(f"{PODS}/held-1"),
            Next(),
            *PAGES,
            Finish(write("held-2").path),
            Next(),
            Finish(f"{PODS}/held-3"),
            read("full"),
            *PAGES,
        ],
    ),
    "out of time": LimitStory(
        SMALL,
        [
            level(queues(2)),
            schema("alice"),
            Begin(read("held-1")),
            Ask("GET", f"{PODS}/a?timeout=1s"),
            Ask("POST", write("a").path + "?timeout=1s", config_map("a")),
            *PAGES,
            Finish(f"{PODS}/held-1"),
            Ask("GET", f"{PODS}/a?timeout=1s"),
        ],
    ),
    "fair": LimitStory(
        SMALL,
        [
            level(queues(64)),
            schema("alice"),
            schema("bob"),
            Begin(read("held-1")),
            Queue(read("held-2")),
            Queue(read("held-3")),
            Queue(read("held-4", "bobtoken")),
            Queue(read("held-5", "bobtoken")),
            *PAGES,
            Pause(3),  # what alice owes for it, so that bob's requests are next, however long they take
            Finish(f"{PODS}/held-1"),
            *[Next(ends=True)] * 4,
        ],
    ),
    "changed": LimitStory(
        SMALL,
        [
            level(queues(2)),
            schema("alice", method="ByNamespace"),
            Begin(read("held-1")),
            Queue(read("held-2")),
            changed("tiny", {"nominalConcurrencyShares": 25}),
            Next(),
            *PAGES,
            removed("tiny"),
            *PAGES,
            read("other"),
            Finish(f"{PODS}/held-1"),
            Finish(f"{PODS}/held-2"),
            Dump("dump_queues"),
            schema("bob", "gone"),
            read("other", "bobtoken"),
        ],
    ),
    "no limits": LimitStory(
        {**WITHOUT, "max_requests_inflight": "0", "max_mutating_requests_inflight": "0"},
        [Begin(write("held-1")), write("other"), Finish(write("held-1").path)],
    ),
}
