"""Compare what an API server answers while it holds as many requests as it may.

    python -m scripts.compare limits --program kube-apiserver --etcd etcd --release 1.37 [--save FILE]

Plays the stories of `cases/limit_stories.py`: for each it starts the real server and this one with the same flags and a
webhook that authorizes everything, some requests only when the story says so. The answers must agree. `--save` writes
those of the real server, which `tests/apiserver/server/flow_control` plays again.
"""

from __future__ import annotations

import argparse
import json
import tempfile
import threading
from collections import defaultdict
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass, field
from functools import partial

from scripts.common.comparing import Answer, Obj, Server
from scripts.compare import access
from scripts.compare.access import Real, asked, compared, started
from scripts.compare.cases.access_stories import FILES, WEBHOOK, Ask, Story, review
from scripts.compare.cases.limit_stories import STORIES, Begin, Finish, LimitStory
from scripts.compare.cases.webhook_server import Answer as HookAnswer
from scripts.compare.cases.webhook_server import WebhookServer

PATIENCE = 60  # seconds that a request may take until it is held, or answered
HEADERS = ("retry-after", "x-content-type-options")


@dataclass(frozen=True)
class Gate(HookAnswer):
    """The answer of the webhook: everything is allowed, requests whose path has "held" in it once they may."""

    arrived: defaultdict[str, threading.Event] = field(default_factory=lambda: defaultdict(threading.Event))
    opened: defaultdict[str, threading.Event] = field(default_factory=lambda: defaultdict(threading.Event))

    def body(self, asked: Obj) -> bytes:
        """Return the review, when the request may go on."""
        held = held_word(json.dumps(asked["spec"]))
        if held:
            self.arrived[held].set()
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
            return _Player(client, gate, threads).play(story)


class _Player:
    """Sends the requests of a story, the held ones in threads."""

    def __init__(self, client: Server, gate: Gate, threads: ThreadPoolExecutor) -> None:
        self._client = client
        self._gate = gate
        self._threads = threads
        self._held: dict[str, Future[Answer]] = {}

    def play(self, story: LimitStory) -> list[Obj]:
        """Return the answers to the requests of a story, in the order in which they come."""
        try:
            return [line for step in story.steps for line in self._take(step)]
        finally:
            for path in self._held:
                self._gate.opened[held_word(path)].set()

    def _take(self, step: Ask | Begin | Finish) -> list[Obj]:
        match step:
            case Ask():
                return [self._line(f"{step.method} {step.path}", asked(self._client, step))]
            case Begin(ask):
                self._held[ask.path] = self._threads.submit(asked, self._client, ask)
                assert self._gate.arrived[held_word(ask.path)].wait(PATIENCE), ask
                return []
            case Finish(path):
                self._gate.opened[held_word(path)].set()
                return [self._line(f"end of {path}", self._held[path].result(PATIENCE))]

    def _line(self, request: str, answer: Answer) -> Obj:
        headers = {name: values for name in HEADERS if (values := answer.all(name))}
        return {"request": request, **compared(answer), "headers": headers}


def add_arguments(parser: argparse.ArgumentParser) -> None:
    access.add_arguments(parser, STORIES)


def run(options: argparse.Namespace) -> int:
    stories = {name: partial(played, STORIES[name]) for name in options.story or STORIES}
    return access.compare_stories(options, stories)
