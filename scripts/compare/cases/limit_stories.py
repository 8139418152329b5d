"""The stories of `compare limits`: requests that are held while others come, by a webhook that authorizes them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import NamedTuple

from scripts.compare.cases.access_stories import MAPS, Ask, config_map

PODS = "/api/v1/namespaces/default/pods"


class Begin(NamedTuple):
    """A request that the webhook holds: its path names it, and has "held" in it."""

    ask: Ask


class Finish(NamedTuple):
    """The end of what is held with a path, whose answer is compared."""

    path: str


class LimitStory(NamedTuple):
    """Steps that are taken with a server that is started for them, with flags by their names in Python."""

    options: Mapping[str, str]
    steps: Sequence[Ask | Begin | Finish]


def read(name: str, token: str = "alicetoken") -> Ask:
    """Return a request for a pod that is not there."""
    return Ask("GET", f"{PODS}/{name}", token=token)


def write(namespace: str, token: str = "alicetoken") -> Ask:
    """Return a write in a namespace that is not there."""
    return Ask("POST", f"/api/v1/namespaces/{namespace}/configmaps", config_map("a"), token=token)


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
    "no limits": LimitStory(
        {**WITHOUT, "max_requests_inflight": "0", "max_mutating_requests_inflight": "0"},
        [Begin(write("held-1")), write("other"), Finish(write("held-1").path)],
    ),
}
