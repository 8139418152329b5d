"""Compare what an API server answers while it holds as many requests as it may.

    python -m scripts.compare limits --program kube-apiserver --etcd etcd --release 1.37 [--save FILE]

Plays the stories of `cases/limit_stories.py`: for each it starts the real server and this one with the same flags and a
webhook that authorizes everything, some requests only when the story says so. The answers must agree. `--save` writes
those of the real server, which `tests/apiserver/server/flow_control` plays again.
"""

from __future__ import annotations

import argparse
import json
import queue
import re
import tempfile
import threading
import time
from collections import defaultdict
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass, field
from functools import partial

from scripts.common.comparing import Answer, Obj, Server
from scripts.compare import access
from scripts.compare.access import Real, asked, compared, started
from scripts.compare.cases.access_stories import FILES, WEBHOOK, Ask, Story, review
from scripts.compare.cases.limit_stories import FLOW, STORIES, Begin, Dump, Finish, LimitStory, Next, Pause, Queue, Step
from scripts.compare.cases.webhook_server import Answer as HookAnswer
from scripts.compare.cases.webhook_server import WebhookServer
from tests.waiting import wait_until

_LAG = 0.5  # seconds after which a real server knows what it was told of flow control
PATIENCE = 60  # seconds that a request may take until it is held, or answered
HEADERS = ("retry-after", "x-content-type-options")
UIDS = ("x-kubernetes-pf-flowschema-uid", "x-kubernetes-pf-prioritylevel-uid")
DEBUG = "/debug/api_priority_and_fairness"
TIMES = re.compile(r"\d{4}-\d\d-\d\dT[\d:.]+Z|\d+\.\d{8}ss")
SPACES = re.compile(" +")
METRICS = re.compile(
    "apiserver_flowcontrol_(rejected|dispatched|current_(inqueue|executing)_|(current|nominal|lower|upper)_limit|"
    "request_wait_duration_seconds_count|request_execution_seconds_count|request_queue_length_after_enqueue_|"
    "work_estimated_seats_|watch_count_samples_)"
)


@dataclass(frozen=True)
class Gate(HookAnswer):
    """The answer of the webhook: everything is allowed, requests whose path has "held" in it once they may."""

    arrived: defaultdict[str, threading.Event] = field(default_factory=lambda: defaultdict(threading.Event))
    opened: defaultdict[str, threading.Event] = field(default_factory=lambda: defaultdict(threading.Event))
    order: queue.Queue[str] = field(default_factory=queue.Queue)

    def body(self, asked: Obj) -> bytes:
        """Return the review, when the request may go on."""
        held = held_word(json.dumps(asked["spec"]))
        if held:
            self.arrived[held].set()
            self.order.put(held)
            assert self.opened[held].wait(PATIENCE)
        return review({"allowed": True}).raw.encode()


def held_word(text: str) -> str:
    """Return the name of a held request in a text, "" if there is none."""
    _, held, rest = text.partition("held-")
    return held + rest[:1]


def played(story: LimitStory, real: Real | None, release: str) -> list[Obj]:
    """Send the requests of a story; return their answers."""
    options = {**WEBHOOK, **story.options}
    with tempfile.TemporaryDirectory() as folder, WebhookServer() as hook, ThreadPoolExecutor(32) as threads:
        gate = hook.answers["/authz"] = Gate()
        words = {"dir": folder, "hook": f"127.0.0.1:{hook.port}", "ca": hook.bundle}
        with started(Story(options, (), FILES), words, real, release) as server, Server(server.url) as client:
            return _Player(client, gate, threads, 0 if real is None else _LAG).play(story)


class _Player:
    """Sends the requests of a story, the held ones in threads."""

    def __init__(self, client: Server, gate: Gate, threads: ThreadPoolExecutor, lag: float) -> None:
        self._lag = lag
        self._client = client
        self._gate = gate
        self._threads = threads
        self._held: dict[str, Future[Answer]] = {}
        self._names: dict[str, str] = {}  # of flow schemas and priority levels, by their uids

    def play(self, story: LimitStory) -> list[Obj]:
        """Return the answers to the requests of a story, in the order in which they come."""
        try:
            for kind in ("flowschemas", "prioritylevelconfigurations"):
                for item in json.loads(self._read(f"{FLOW}/{kind}"))["items"]:
                    self._note(item)
            return [line for step in story.steps for line in self._take(step)]
        finally:
            for path in self._held:
                self._gate.opened[held_word(path)].set()

    def _take(self, step: Step) -> list[Obj]:
        match step:
            case Ask():
                answer = asked(self._client, step)
                if step.path.startswith(FLOW):
                    self._note(json.loads(answer.body))
                    time.sleep(self._lag)
                return [self._line(f"{step.method} {step.path}", answer)]
            case Begin(ask):
                self._begin(ask)
                assert self._gate.arrived[held_word(ask.path)].wait(PATIENCE), ask
                assert self._gate.order.get() == held_word(ask.path)
                return []
            case Queue(ask):
                waiting = self._waiting()
                self._begin(ask)
                wait_until(lambda: self._waiting() > waiting)
                return []
            case Next(ends):
                held = self._gate.order.get(timeout=PATIENCE)
                if ends:
                    self._gate.opened[held].set()
                return [{"request": "next", "name": held}]
            case Pause(seconds):
                time.sleep(seconds)
                return []
            case Dump(page):
                return [{"request": f"dump {page}", "rows": self._rows(page)}]
            case Finish(path):
                self._gate.opened[held_word(path)].set()
                return [self._line(f"end of {path}", self._held[path].result(PATIENCE))]

    def _begin(self, ask: Ask) -> None:
        self._held[ask.path] = self._threads.submit(asked, self._client, ask)

    def _read(self, path: str) -> str:
        """Read a page as an administrator."""
        return asked(self._client, Ask("GET", path, token="admintoken")).body.decode()

    def _note(self, item: Obj) -> None:
        """Note the name of a flow schema or priority level."""
        if "uid" in item["metadata"]:
            self._names[item["metadata"]["uid"]] = item["metadata"]["name"]

    def _waiting(self) -> int:
        """Return the number of requests that wait."""
        _, *rows = self._read(f"{DEBUG}/dump_priority_levels").splitlines()
        return sum(int(row.split(",")[4]) for row in rows)

    def _rows(self, page: str) -> list[str]:
        """Return the rows about `tiny` of a page, or of the metrics, without times."""
        text = self._read(f"{DEBUG}/{page}" if page else "/metrics")
        known = [row for row in text.splitlines() if not page and METRICS.match(row) and '="tiny"' in row]
        head, *rows = text.splitlines()
        shown = [head, *(row for row in rows if row.startswith("tiny"))] if page else known
        return sorted(SPACES.sub(" ", TIMES.sub("TIME", row)) for row in shown)

    def _line(self, request: str, answer: Answer) -> Obj:
        headers: Obj = {name: values for name in HEADERS if (values := answer.all(name))}
        headers |= {name: [self._names[uid] for uid in values] for name in UIDS if (values := answer.all(name))}
        return masked({"request": request, **compared(answer), "headers": headers})


def masked(line: Obj) -> Obj:
    """Return a line without what a server makes up."""
    if isinstance(line["body"], dict):
        (line["body"].get("details") or {}).pop("uid", None)
    return line


def add_arguments(parser: argparse.ArgumentParser) -> None:
    access.add_arguments(parser, STORIES)


def run(options: argparse.Namespace) -> int:
    stories = {name: partial(played, STORIES[name]) for name in options.story or STORIES}
    return access.compare_stories(options, stories)
