"""Compare how two API servers pass requests on to an aggregated one, and what they say of it.

    python -m scripts.compare aggregation https://127.0.0.1:6443 https://127.0.0.1:8001 --token T --alice A \\
        --front-ca CA

The script plays the aggregated server itself, behind a Service of the type ExternalName. Both are started with
`--proxy-client-cert-file` and `--proxy-client-key-file`. The tokens are those of a
member of `system:masters`, and of anybody else. Compared are the condition of the APIService at each turn, and whole
answers, but for dates and what names a build; the aggregated server tells in them what it was asked. Differences are
printed, then how many exchanges agree. With `--save FILE` the exchanges of the left server are written there. The exit
status is 1 if there are differences.
"""

from __future__ import annotations

import argparse
import json
import socket
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, BinaryIO

from scripts.common.comparing import Answer, Obj, Server, Tally, add_saving_arguments, require_servers
from scripts.compare.cases import aggregation_discovery, aggregation_openapi, aggregation_requests
from scripts.compare.cases.aggregated_server import AggregatedServer
from scripts.compare.cases.aggregation_steps import API_SERVICES, Ask, Reason, Serve, Step, Write

Story = Callable[[int, str, str], Iterator[Step]]
STORIES: Mapping[str, Story] = {
    "requests": aggregation_requests.steps,
    "discovery": aggregation_discovery.steps,
    "openapi": aggregation_openapi.steps,
    "conversion": aggregation_openapi.steps_without_v3,
}
CLOSE = 8  # opcode of the frame that ends a WebSocket
PATIENCE = 60.0  # seconds until a condition or an answer is there
LAG = 0.5
UNKEPT = (
    "date",
    "server",
    "connection",
    "transfer-encoding",
    "content-length",
    "etag",
    "last-modified",
    "accept-ranges",
)


class Scene:
    """Plays the steps at one server, to which another user than the administrator has the token `alice`.

    lag    seconds that the server may take to act upon a condition that it shows
    words  what is shown instead of texts that differ each time
    """

    def __init__(
        self,
        server: Server,
        alice: str,
        aggregated: AggregatedServer,
        lag: float = 0.0,
        words: Mapping[str, str] | None = None,
    ) -> None:
        self.server, self.alice, self.aggregated, self.lag = server, alice, aggregated, lag
        self._words = {str(aggregated.port): "PORT", server.url.partition("//")[2]: "SERVER"} | dict(words or {})

    def story(self, name: str, release: str) -> Iterator[Obj]:
        """Yield the things that are compared in a story."""
        return self.exchanges(STORIES[name](self.aggregated.port, self.aggregated.bundle, release))

    def exchanges(self, steps: Iterable[Step]) -> Iterator[Obj]:
        """Yield the things that are compared at some steps: a request with its answer, or a condition."""
        for number, step in enumerate(steps):
            if isinstance(step, Write):
                self._write(step)
            elif isinstance(step, Serve):
                self.aggregated.serve(step.path, step.page, step.media)
            elif isinstance(step, Reason):
                yield {"condition": self._masked(self._condition(step))}
            else:
                exchange = {"request": f"{step.method} {step.path}", "answer": self._answer(step, f"step-{number}")}
                if not step.waits:
                    yield self._masked(exchange)

    def _write(self, step: Write) -> None:
        media = "application/merge-patch+json" if step.method == "PATCH" else "application/json"
        status, answer = self.server.call(step.method, step.path, step.body, media)
        if status not in (200, 201, 409):  # the namespace may be there
            raise SystemExit(f"{self.server.url}: {step.method} {step.path}: {status} {answer}")

    def _condition(self, step: Reason) -> Obj:
        """Return the condition once it has a reason."""
        end = time.monotonic() + PATIENCE
        while True:
            conditions = self.server.must("GET", f"{API_SERVICES}/{step.name}")["status"].get("conditions", [])
            for condition in conditions:
                if condition["reason"] == step.reason:
                    time.sleep(self.lag)
                    return {name: value for name, value in condition.items() if name != "lastTransitionTime"}
            if time.monotonic() > end:
                raise SystemExit(f"{self.server.url}: no {step.reason}: {conditions}")
            time.sleep(0.02)

    def _answer(self, ask: Ask, audit_id: str) -> Obj:
        """Return the parts of an answer that are compared."""
        end = time.monotonic() + PATIENCE
        while True:
            answer = self._exchange(ask, audit_id)
            if ask.is_answered_by(answer.status, answer.body):
                break
            if time.monotonic() > end:
                raise SystemExit(f"{self.server.url}: {ask}: {answer}")
            time.sleep(0.02)
        headers = [(name.lower(), value) for name, value in answer.headers]
        kept = [[name, value] for name, value in headers if name not in UNKEPT and not name.startswith("x-kubernetes-")]
        return {"status": answer.status, "headers": sorted(kept), "body": shown(answer.body.decode())}

    def _exchange(self, ask: Ask, audit_id: str) -> Answer:
        headers = {"Authorization": f"Bearer {self.alice if ask.alice else self.server.token}", "Audit-ID": audit_id}
        headers |= {"User-Agent": "compare", **ask.headers}
        body = None if ask.body is None else json.dumps(ask.body).encode()
        if "Upgrade" not in ask.headers:
            return self.server.exchange(ask.method, ask.path, headers, body)
        connection = self.server.connect()
        connection.request(ask.method, ask.path, body, headers)
        answer = connection.getresponse()
        text = b""
        if answer.status == 101 and "Sec-WebSocket-Key" in ask.headers:
            text = b"\n".join(messages(answer.fp, connection.sock))
        elif answer.status == 101:
            text = answer.fp.readline()
            connection.sock.sendall(b"hello\n")
            text += answer.fp.readline()
        elif answer.getheader("Content-Length"):
            text = answer.read()
        connection.close()
        return Answer(answer.status, answer.getheaders(), text)

    def _masked(self, value: Any) -> Any:
        text = json.dumps(value)
        for actual, shown_word in self._words.items():
            text = text.replace(actual, shown_word)
        return json.loads(text)


def messages(answer: BinaryIO, sock: socket.socket) -> Iterator[bytes]:
    """Yield the first two messages of a WebSocket, fewer if it ends before, and send one between them."""
    for number in range(2):
        head = answer.read(2)
        if len(head) < 2 or head[0] & 0x0F == CLOSE:
            return
        length = head[1] if head[1] < 126 else int.from_bytes(answer.read(2 if head[1] == 126 else 8), "big")
        yield answer.read(length).removesuffix(b"\n")
        if number == 0:
            sock.sendall(b"\x82\x86\0\0\0\0hello\n")


def shown(body: str) -> Any:
    """Return a body as JSON if it is, with the headers that the aggregated server tells in the order of their names,
    and without what depends on which groups a server has besides."""
    first, _, rest = (body, "", "") if body.startswith("{\n") else body.partition("\n")
    if not first.startswith("{") or first.startswith('{"type"'):
        return body
    told = aggregation_discovery.trimmed(json.loads(first))
    if "swagger" in told or "paths" in told:
        return aggregation_openapi.trimmed(told)
    if "headers" in told:
        told["headers"] = sorted(told["headers"], key=lambda header: header[0])
    return [told, rest] if rest else told


def add_arguments(parser: argparse.ArgumentParser) -> None:
    add_saving_arguments(parser)
    parser.add_argument("--alice", default="", help="bearer token of another user")
    parser.add_argument("--front-ca", required=True, metavar="FILE", help="authorities of --proxy-client-cert-file")
    parser.add_argument("--story", choices=STORIES, default="requests", help="what happens (default: %(default)s)")
    parser.add_argument("--release", default="1.37", help="the release of both (default: %(default)s)")


def run(options: argparse.Namespace) -> int:
    servers = Server(options.left, options.token), Server(options.right, options.token)
    require_servers(*servers)
    with AggregatedServer(options.front_ca) as aggregated:
        scenes = [Scene(server, options.alice, aggregated, LAG) for server in servers]
        left, right = (list(scene.story(options.story, options.release)) for scene in scenes)
    return judge(left, right, options.save)


def judge(left: Sequence[Obj], right: Sequence[Obj], file: str | None) -> int:
    """Print what differs between the exchanges of two servers, and save the left ones; return the exit status."""
    tally = Tally()
    for one, other in zip(left, right, strict=True):
        tally.compare(one.get("request", "condition"), one, other)
    if file:
        Path(file).write_text("".join(f"{json.dumps(exchange)}\n" for exchange in left))
    print(f"{tally.total} exchanges: {tally}")
    return tally.exit_status
