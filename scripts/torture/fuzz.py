"""Send random requests to a server, valid ones and broken ones, and check that none stops, fills or confuses it.

    python -m scripts.torture fuzz --requests 100000 --seed 1 --emulated-version 1.32
    python -m scripts.torture fuzz … --first 4711 --requests 1              the request 4711 of that seed once more
    python -m scripts.torture fuzz … --against https://127.0.0.1:6443 --token TOKEN
    python -m scripts.torture fuzz … --server http://127.0.0.1:8001         a server that runs already
    python -m scripts.torture fuzz cel --count 300000                        CEL expressions, in this process
    python -m scripts.torture fuzz tokens --count 300000                     tokens, in this process

The script starts a server of its own and sends its requests over a few connections that are kept alive. It checks:

- every request is answered, and a connection is closed only after an answer that says so;
- no answer has a status of 5xx, but those that kube-apiserver gives as well: `KNOWN` lists them, and with --against a
  real server is sent the same request;
- /healthz is answered meanwhile, and no moment without an answer takes a second of CPU;
- after each round of requests the server is reset, and its memory is no more than after the second round;
- the server prints nothing on stderr, and ends with status 0.

CPU, memory and stderr are those of the script's own server. The exit status is 1 if a check fails.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import re
import time
from collections import Counter
from collections.abc import Iterator
from contextlib import closing
from dataclasses import dataclass, field, replace

from scripts.common.comparing import Server
from scripts.common.connection import Answer, Connection, DroppedError
from scripts.common.server_process import ServerProcess
from scripts.torture.inputs import inside
from scripts.torture.inputs.requests import RequestGenerator, Sent, read_corpus
from understudy.apiserver.server.worker.loop_thread import new_loop

ROUND = 20_000  # requests between two resets
CPU_SECONDS = 1.0  # that the server may use without an answer to anybody
GROWTH = 64.0  # MiB that the server may have more at the end than after its second round
STREAM_SECONDS = 0.05  # that a watch is read before its connection is closed
HEALTH_SECONDS = 0.02  # between two questions to /healthz
PRINTED = 30  # failures
TRACEBACK = re.compile(r"  File \"(.*)\", line (\d+), in .*\n(?:    .*\n)*([\w.]+: .*)")  # its end
# Answers of kube-apiserver with a status of 5xx: the status, a text in the answer, and when the real server gives it.
KNOWN: tuple[tuple[int, str, str], ...] = (
    (500, "failed to create typed patch object", "apply of fields that the schema does not have"),
    (500, "failed to convert new object", "apply of a value that the schema allows and Go's type does not"),
    (500, "failed to create manager for existing fields", "apply to a list that has no keys"),
    (500, "failed to prune fields", "the same, while an earlier manager's fields are removed"),
    (500, "provided data does not appear to be a protobuf message", "protobuf without its first bytes"),
    (500, "yaml: ", "a text that is no YAML"),
    (500, "no kind ", "options of a deletion have a kind of their own"),
    (500, "json: cannot unmarshal ", "options of a deletion have a field of another type"),
    (500, " get version/kind; json parse error", "options of a deletion have no text as kind, or are no JSON"),
    (500, "unexpected GroupVersion string", "options of a deletion have an apiVersion with two slashes"),
    (500, "without impersonating a user", "a group, uid or extra is impersonated, but no user"),
    (500, "failed to create RequestInfo", "a path that ends in watch"),
    (500, "target.name: Required value", "a binding has no target"),
    (500, "target.name: Invalid value", "a binding has a target that no node can be"),
    (500, "target.kind: Unsupported value", "a binding has no node as target"),
    (500, "unknown patch type: ", "$patch of a strategic merge patch is unknown"),
    (500, "expected a []interface {}, but received ", "a directive of a strategic merge patch has no list"),
    (500, "expected a map[string]interface {}, but received ", "an item of a strategic merge patch is no object"),
    (500, "expected slice or array type, but got", "a directive of a strategic merge patch names no list"),
    (500, "merging an object in json but data type is not struct", "a directive of a strategic merge patch in a map"),
    (500, "does not contain declared merge key", "an item of a strategic merge patch has no merge key"),
    (500, "no elements in any of the given slices", "an order is set of items that are not there"),
    (500, "list element types are not identical", "items of a strategic merge patch have different types"),
    (500, "cannot merge lists without merge key", "a strategic merge patch of a list in no object"),
    (500, "The order in patch list", "items of a strategic merge patch stand in another order than it says"),
    (500, "merging lists cannot yet be specified in the patch", "$patch of a list's item is merge"),
    (500, "unable to find api field in struct", "a directive of a strategic merge patch names no field"),
    (500, "strconv.ParseUint: parsing", "resourceVersion of an object is no number"),
    (500, "resourceVersion: Invalid value", "resourceVersion of a query is no number"),
    (500, "resourceVersion should not be set on objects to be created", "a new object has a resourceVersion"),
    (500, "Component not found", "a component status that does not exist"),
    (500, "resource name may not be empty", "a pod names the runtime class ''"),
    (500, "no preferred addresses found", "the proxy of a node without an address"),
    (500, "invalid byte in chunk length", "a chunk's length is no number"),
    (500, "failed to allocate a serviceIP: range is full", "more services than the range has addresses"),
    (501, "Unsupported transfer encoding", "another transfer coding than chunked"),
    (505, "HTTP Version Not Supported", "a version of HTTP that there is not"),
    (503, "no endpoints available for service", "the proxy of a service; nothing runs behind it"),
    (503, "error trying to reach service", "the proxy of a node with an address; nothing runs there"),
)
BUGS = ("the server met a bug of its own", "Server got itself in trouble")  # in answers that are never right
TRACEBACK = re.compile(r"  File \"(.*)\", line (\d+), in .*\n(?:    .*\n)*([\w.]+: .*)")  # its end


async def ask(connection: Connection, sent: Sent, *headers: tuple[str, str]) -> Answer:
    """Send a request with other headers in place of its own, and return the answer. Raises DroppedError."""
    seconds = STREAM_SECONDS if sent.is_watch else None
    answer = await connection.send(sent.encoded(*headers), is_head=sent.method == "HEAD", stream_seconds=seconds)
    if sent.raw:
        connection.close()  # a server may have understood less, or more, than one request
    return answer


def message(body: bytes) -> str:
    """Return the message of an answer in one line; the whole answer if it is no Status in JSON."""
    try:
        text = str(json.loads(body)["message"])
    except (ValueError, LookupError, TypeError):
        text = body.decode(errors="replace")
    return " ".join(text.split())


def last_crash(log: str) -> str:
    """Return the place and the exception of the last traceback in a log; nothing if there is none."""
    crashes = TRACEBACK.findall(log)
    return " ".join(crashes[-1]) if crashes else ""


@dataclass
class Report:
    """Counts the answers, and keeps the failures; failures of one kind are printed once."""

    answers: Counter[int] = field(default_factory=Counter)
    failures: Counter[str] = field(default_factory=Counter)
    known: Counter[str] = field(default_factory=Counter)

    def fail(self, what: str, number: int | None = None, sent: Sent | None = None) -> None:
        """Count a failure; print it if it is the first of its kind."""
        kind = re.sub(r"\d+|\"[^\"]*\"", "N", what)[:160]
        self.failures[kind] += 1
        if self.failures[kind] == 1 and len(self.failures) <= PRINTED:
            print(f"FAILED: {what[:600]}" + (f"\n    request {number}: {sent}" if sent else ""), flush=True)


class Fuzzer:
    """Sends the requests of a generator to a server, and checks its answers.

    `process` is the server's, if it is the script's own; `real` is a real server that is asked about errors.
    """

    def __init__(
        self,
        url: str,
        generator: RequestGenerator,
        report: Report,
        process: ServerProcess | None,
        real: tuple[str, str],
    ) -> None:
        self._url = url
        self._generator = generator
        self.report = report
        self._process = process
        self._real_url, self._real_token = real
        self._flying: dict[int, Sent] = {}
        self._answered = 0

    async def run(self, numbers: range, connections: int) -> None:
        """Send the requests of these numbers over some connections, and ask /healthz beside them."""
        queue = iter(numbers)
        beside = asyncio.create_task(self._ask_health())
        try:
            async with asyncio.TaskGroup() as workers:
                for _ in range(connections):
                    workers.create_task(self._work(queue))
        finally:
            beside.cancel()
            await asyncio.gather(beside, return_exceptions=True)

    async def _work(self, queue: Iterator[int]) -> None:
        with closing(Connection(self._url)) as connection:
            for number in queue:
                await self._check(connection, number)

    async def _check(self, connection: Connection, number: int) -> None:
        """Send the request of a number, and check its answer."""
        sent = self._flying[number] = self._generator.request(number)
        try:
            answer = await ask(connection, sent)
        except DroppedError as why:
            if "/controllerrevisions" in sent.target and (sent.body or b"").startswith(b"k8s\0"):
                self.report.answers[0] += 1
                self.report.known["no answer: the data of a revision is no JSON, in protobuf"] += 1
            else:
                self.report.fail(f"no answer: {why}", number, sent)
        else:
            self.report.answers[answer.status] += 1
            if answer.status >= 500:
                await self._check_error(number, sent, answer)
        finally:
            del self._flying[number]

    async def _check_error(self, number: int, sent: Sent, answer: Answer) -> None:
        """Fail for an answer of 5xx that the real server does not give."""
        if sent.method == "HEAD":  # its answer has no text
            sent = replace(sent, method="GET")
            with closing(Connection(self._url)) as connection:
                answer = await ask(connection, sent)
        text = message(answer.body)
        if any(bug in text for bug in BUGS):
            crash = last_crash(self._process.stderr()) if self._process else ""
            self.report.fail(f"a bug: {crash or text}", number, sent)
            return
        if reason := next((why for status, begin, why in KNOWN if answer.status == status and begin in text), ""):
            self.report.known[f"{answer.status} {reason}"] += 1
            return
        real = await self._real_status(sent) if self._real_url else 0
        if real == answer.status:
            self.report.known[f"{answer.status} {text[:40]}"] += 1
            return
        self.report.fail(f"{answer.status}{f' (real: {real})' if real else ''} {text}", number, sent)

    async def _real_status(self, sent: Sent) -> int:
        """Return the status with which the real server answers a request; 0 if it gives no answer.

        An object that it does not have is created there first, as it is here.
        """
        token = ("Authorization", self._real_token)
        path = sent.target.partition("?")[0].split("/")
        length = (7 if path[1] == "api" else 8) if "namespaces" in path[:-1] else (5 if path[1] == "api" else 6)
        item, collection = "/".join(path[:length]), "/".join(path[: length - 1])
        try:
            with closing(Connection(self._url)) as ours, closing(Connection(self._real_url)) as real:
                if (answer := await ask(real, sent, token)).status == 404:
                    if (stored := await ask(ours, Sent("GET", item))).status == 200:
                        obj = json.loads(stored.body)
                        for name in ("resourceVersion", "uid", "managedFields"):
                            obj["metadata"].pop(name, None)
                        media = [("Content-Type", "application/json")]
                        await ask(real, Sent("POST", collection, media, json.dumps(obj).encode()), token)
                        answer = await ask(real, sent, token)
        except DroppedError as why:
            print(f"the real server: {why!r}", flush=True)
            return 0
        return answer.status

    async def _ask_health(self) -> None:
        """Ask /healthz again and again; fail if a second of CPU passes before it is answered."""
        with closing(Connection(self._url)) as connection:
            while True:
                before, began, flying = self._cpu(), time.monotonic(), dict(self._flying)
                try:
                    if (answer := await ask(connection, Sent("GET", "/healthz"))).status != 200:
                        self.report.fail(f"/healthz: {answer.status} {answer.body!r}")
                except DroppedError as why:
                    self.report.fail(f"/healthz: {why!r}")
                if (used := self._cpu() - before) > CPU_SECONDS:
                    suspects = [f"{number}: {sent}" for number, sent in {**flying, **self._flying}.items()]
                    what = f"nobody was answered for {used:.1f} s of CPU, {time.monotonic() - began:.1f} s"
                    self.report.fail("\n    ".join((f"{what}; one of:", *suspects)))
                await asyncio.sleep(HEALTH_SECONDS)

    def _cpu(self) -> float:
        return self._process.cpu_seconds() if self._process else 0.0


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("what", nargs="?", default="http", choices=("http", *inside.INPUTS))
    parser.add_argument("--requests", "--count", type=int, default=20_000, help="inputs of any kind")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--first", type=int, default=0, help="number of the first request")
    parser.add_argument("--emulated-version", default="", help="release of the script's own server")
    parser.add_argument("--connections", type=int, default=16, help="requests in flight")
    parser.add_argument("--server", default="", metavar="URL", help="a server that runs already")
    parser.add_argument("--against", default="", metavar="URL", help="a real server that is asked about every 5xx")
    parser.add_argument("--token", default="", help="bearer token for the real server")


def run(options: argparse.Namespace) -> int:
    if options.what in inside.INPUTS:
        return 1 if inside.fuzz(options.what, options.seed, options.first, options.requests).kinds else 0
    report = Report()
    if options.server:
        fuzz(options, options.server, None, report)
    else:
        release = ("--emulated-version", options.emulated_version) if options.emulated_version else ()
        with ServerProcess("--control", *release) as process:
            fuzz(options, process.url, process, report)
            if process.process.poll() is not None:
                report.fail(f"the server has ended with status {process.process.returncode}")
            elif status := process.stop():
                report.fail(f"the server ended with status {status} on SIGTERM")
            if text := process.stderr():
                crashes = Counter(f"{place}:{line} {what}" for place, line, what in TRACEBACK.findall(text))
                report.fail(f"stderr, {len(text)} bytes: {dict(crashes)} {text[-300:]}")
    print("answers: " + ", ".join(f"{status} {count}" for status, count in sorted(report.answers.items())))
    print(f"errors of the real server: {dict(report.known)}")
    if sum(report.answers.values()) + report.failures.total() < options.requests:
        report.fail("requests are missing")
    for kind, count in report.failures.most_common():
        print(f"FAILED {count} times: {kind}")
    return 1 if report.failures else 0


def fuzz(options: argparse.Namespace, url: str, process: ServerProcess | None, report: Report) -> None:
    """Send all requests, in rounds; the script's own server is reset and its memory compared after each."""
    with Server(url) as client:
        corpus = read_corpus(client)
    print(f"{len(corpus.resources)} resources, {sum(len(r.samples) for r in corpus.resources)} objects, "
          f"{sum(len(r.encoded) for r in corpus.resources)} in protobuf", flush=True)  # fmt: skip
    fuzzer = Fuzzer(
        url, RequestGenerator(corpus, options.seed), report, process, (options.against, f"Bearer {options.token}")
    )
    memory: list[float] = []
    last = options.first + options.requests
    for first in range(options.first, last, ROUND):
        began, cpu = time.monotonic(), process.cpu_seconds() if process else 0.0
        numbers = range(first, min(first + ROUND, last))
        with asyncio.Runner(loop_factory=new_loop) as runner:
            runner.run(fuzzer.run(numbers, options.connections))
        seconds = time.monotonic() - began
        line = f"{numbers.stop} requests, {len(numbers) / seconds:.0f}/s"
        if process:
            line += f", {(process.cpu_seconds() - cpu) / len(numbers) * 1e3:.2f} ms of CPU each"
            with Server(url) as client:
                client.must("POST", "/understudy/reset")
            memory.append(process.memory_mib())
            line += f", memory {memory[-1]:.0f} MiB"
            if len(memory) > 2 and memory[-1] > memory[1] + GROWTH:
                report.fail(f"memory: {memory[-1]:.0f} MiB, {memory[1]:.0f} after the second round")
        print(line + f", {report.failures.total()} failures", flush=True)
