"""Compare what an API server asks webhooks that authorize and authenticate, and what it makes of their answers.

    python -m scripts.compare access --program kube-apiserver --etcd etcd --release 1.37 [--save FILE]

Plays the stories of `cases/access_stories.py`: for each it starts the real server and this one with the same flags, a
webhook that answers as the story says and keeps what it is asked, and sends the same requests to both. The answers must
agree, and the calls of the webhook with paths, headers and bodies. `--save` writes what the real server did, which
`tests/apiserver/authorization/webhook` plays again.
"""

from __future__ import annotations

import argparse
import json
import re
import socket
import tempfile
import time
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import AbstractContextManager, contextmanager
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple

from scripts.common.comparing import PATIENCE, Answer, Obj, Server, Tally, differences, print_difference
from scripts.compare.cases.access_stories import STORIES as ACCESS
from scripts.compare.cases.access_stories import TOKENS, Ask, Hook, Story, review
from scripts.compare.cases.configuration_stories import CONFIGURED, Metrics, Write
from scripts.compare.cases.webhook_server import WebhookServer
from scripts.compare.sequences.answers import mask
from scripts.record.upstream.server import api_server
from understudy import Server as Understudy

STORIES = {**ACCESS, **CONFIGURED}
CLIENT = re.compile(r"127\.0\.0\.1:\d+->")
ADMIN = TOKENS.partition(",")[0]
SENT = ("content-type", "accept", "user-agent", "authorization")


class Real(NamedTuple):
    """The programs of a real server."""

    program: Path
    etcd: Path


def filled(text: str, words: Obj) -> str:
    """Return a text with words in the place of their names."""
    for name, word in words.items():
        text = text.replace(f"{{{{{name}}}}}", word)
    return text


@contextmanager
def refused_address() -> Iterator[str]:
    """Give an address at which nothing listens: its port is taken, but not listened to."""
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        yield f"127.0.0.1:{taken.getsockname()[1]}"


def started(story: Story, words: Obj, real: Real | None, release: str) -> AbstractContextManager[Any]:
    """Return the server of a story: a real one, or this one."""
    folder = Path(words["dir"])
    for name, content in story.files.items():
        (folder / name).write_text(filled(content, words))
    options: Obj = {name: filled(value, words) for name, value in story.options.items()}
    if real is not None:
        flags = [f"--{name.replace('_', '-')}={value}" for name, value in options.items()]
        return api_server(real.program, real.etcd, *flags, tokens=TOKENS)
    tokens = folder / "tokens.csv"
    tokens.write_text(TOKENS)
    return Understudy(emulated_version=release, token_auth_file=tokens, **options)


def played(story: Story, real: Real | None, release: str) -> list[Obj]:
    """Send the requests of a story; return their outcome: the answer, and the calls of the webhook."""
    with tempfile.TemporaryDirectory() as folder, WebhookServer() as hook, refused_address() as refused:
        words = {"dir": folder, "hook": f"127.0.0.1:{hook.port}", "refused": refused, "ca": hook.bundle}
        with started(story, words, real, release) as server, Server(server.url) as client:
            hook.taken()
            lines: list[Obj] = []
            for step in story.steps:
                if isinstance(step, Hook):
                    hook.answers[step.path] = step.answer or review(step.status)
                    continue
                if isinstance(step, Write):
                    rewrite(client, folder, step, words)
                    continue
                if isinstance(step, Metrics):
                    lines.append(
                        {"request": step.prefix, "body": [without_time(line) for line in counted(client, step)]}
                    )
                    continue
                answer = asked(client, step)
                calls = [call_of(call) for call in hook.taken()]
                lines.append({"request": f"{step.method} {step.path}", **compared(answer), "calls": calls})
        return [hidden(line, words) for line in lines]


def rewrite(client: Server, folder: str, step: Write, words: Obj) -> None:
    """Change a file, and wait until the server has read it."""
    before = counted(client, Metrics(step.metrics))
    file = Path(folder) / f"{step.name}.new"
    file.write_text(filled(step.content, words))
    file.replace(Path(folder) / step.name)  # no server sees half of it
    until = time.monotonic() + PATIENCE
    while counted(client, Metrics(step.metrics)) == before:
        if time.monotonic() > until:
            raise TimeoutError(f"{step.name} was not read again")
        time.sleep(0.02)


def counted(client: Server, step: Metrics) -> list[str]:
    """Return the lines of metrics, but for those that are times or depend on them."""
    answer = client.exchange("GET", "/metrics", {"Authorization": f"Bearer {ADMIN}"})
    lines = [line for line in answer.body.decode().splitlines() if step.prefix in line]
    return sorted(line for line in lines if "_bucket" not in line and "_sum" not in line)


def without_time(line: str) -> str:
    """Return a line of metrics without hashes of what differs between two runs, and without the time."""
    return re.sub(r"(_seconds\{.*\}) .*", r"\1 TIME", re.sub(r"sha256:[0-9a-f]{64}", "HASH", line))


def call_of(call: Obj) -> Obj:
    """Return a call of the webhook with the headers that are compared."""
    return {**call, "headers": {name: call["headers"].get(name) for name in SENT}}


def asked(client: Server, step: Ask) -> Answer:
    """Return the answer to the request of a step."""
    token = f"Bearer {step.token}" if step.token else ""
    headers: Obj = {"Accept": "application/json", "User-Agent": "stories", "Authorization": token, **step.headers}
    body = None
    if step.body is not None:
        headers["Content-Type"], body = step.media, json.dumps(step.body).encode()
    return client.exchange(step.method, step.path, headers, body)


def compared(answer: Answer) -> Obj:
    """Return the part of an answer that servers must agree on: what they store is compared elsewhere."""
    text = answer.body.decode()
    body: Any = text
    if text and any("json" in value for value in answer.all("content-type")):
        body = json.loads(text)
        if answer.status < 300 and not str(body.get("kind")).endswith("Review"):
            body = body.get("kind")
    return {"status": answer.status, "type": answer.all("content-type"), "body": body}


def hidden(line: Obj, words: Obj) -> Obj:
    """Return a line without what differs between two runs."""
    text = json.dumps(line)
    for name in ("hook", "refused", "dir"):
        text = text.replace(words[name], name.upper())
    line = json.loads(mask(CLIENT.sub("CLIENT->", text)))
    if isinstance(line["body"], dict):
        (line["body"].get("metadata") or {}).pop("managedFields", None)
    return line


def add_arguments(parser: argparse.ArgumentParser, stories: Iterable[str] = STORIES) -> None:
    parser.add_argument("--program", required=True, type=Path, help="kube-apiserver of the release")
    parser.add_argument("--etcd", required=True, type=Path, help="its etcd")
    parser.add_argument("--release", required=True, metavar="VERSION", help="the release, such as 1.37")
    parser.add_argument("--story", action="append", choices=stories, help="only this story; may be repeated")
    parser.add_argument("--save", type=Path, metavar="FILE", help="write what the real server did there")


def run(options: argparse.Namespace) -> int:
    names = [name for name in options.story or STORIES if options.release in STORIES[name].releases]
    return compare_stories(options, {name: partial(played, STORIES[name]) for name in names})


def compare_stories(options: argparse.Namespace, stories: Mapping[str, Callable[[Real | None, str], list[Obj]]]) -> int:
    """Play stories with both servers, print what differs, and return the exit status."""
    tally, recorded = Tally(), []
    for name, play in stories.items():
        both = play(Real(options.program, options.etcd), options.release), play(None, options.release)
        recorded += [{"story": name, **line} for line in both[0]]
        for left, right in zip(*both, strict=True):
            lines = list(differences(left, right, ""))
            tally.count(lines)
            if lines:
                print_difference(f"{name}: {left['request']}", lines)
    if options.save:
        options.save.write_text("".join(json.dumps(line, ensure_ascii=False) + "\n" for line in recorded))
    print(f"{tally.total} requests: {tally}")
    return tally.exit_status
