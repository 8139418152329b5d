"""Record a recording again: send its requests to another server, and write down what that one answers.

    python -m scripts.record again tests/recordings/machinery/1.36/*.jsonl --server https://127.0.0.1:6443 --token T \\
        --output tests/recordings/machinery/1.37

Every file of `tests/recordings` is its own scenario. Its requests are sent as the replay sends them, with the values of
this server where placeholders stand. An answer that agrees with the recorded one stays as it stands, so that the new
file differs from the old one only where the servers do; of one that differs, the parts that agree stay. Values that the
old recording did not have get placeholders with higher numbers. The first line tells of the new server: its version,
and the feature gates that the old line named, as they are now, with those that are not as by default.

A request that sends back a value that this server never gave is sent with the placeholder itself, and told of on
stderr; so is something waited for that never came. Start the server empty, with the flags that the first line of the
recording tells, in that release's terms. What several servers would answer alike, one answers twice alike: recording a
server twice gives the same file.

Creates and updates of `tests/kinds/recorded`, which hold one case a line and have no head, can be recorded again as
well, as can verdicts on CEL selectors and sessions of kubectl.
"""

from __future__ import annotations

import argparse
import json
import re
import shlex
import ssl
import subprocess
import sys
import tempfile
import time
from bisect import bisect_right
from pathlib import Path
from typing import Any

from scripts.common.comparing import Obj, Server
from scripts.record import rows
from scripts.record.files import add_server_arguments, save, server_of
from scripts.record.placeholders import NUMBERED, Placeholders
from tests.recordings import selectors, sessions
from tests.recordings.client import Client
from tests.recordings.compare import Memory, manager, several_causes
from tests.recordings.replay import Replay, is_counted
from tests.recordings.replay import described as describe
from understudy.apiserver.serving.release import previews, releases
from understudy.machinery.releases.features import Gates
from understudy.machinery.releases.version import Version

PATIENCE = 2.0  # seconds beyond a recorded window that an event may take
GATE = re.compile(r'^kubernetes_feature_enabled\{name="(\w+)",stage="(\w*)"\} (\d)', re.MULTILINE)


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("recordings", nargs="+", type=Path, metavar="FILE")
    add_server_arguments(parser)
    parser.add_argument("--kubectl", default="kubectl", help="what sessions of kubectl are recorded with")
    parser.add_argument(
        "--on-control", default="", metavar="COMMAND", help="turns feature gates on and off, for a real server"
    )
    parser.add_argument(
        "--replace",
        nargs="+",
        type=replacement,
        default=[],
        metavar="OLD=NEW",
        help="replaces texts of the recording first: resource.k8s.io/v1alpha3=resource.k8s.io/v1",
    )


def replacement(text: str) -> tuple[str, str]:
    """Return the two parts of OLD=NEW."""
    old, _, new = text.partition("=")
    if not old or not new:
        raise argparse.ArgumentTypeError(f"want OLD=NEW, not {text!r}")
    return old, new


def run(options: argparse.Namespace) -> int:
    server = server_of(options)
    for path in options.recordings:
        if lines := record_again(path, server, options.kubectl, options.on_control, dict(options.replace)):
            save(options.output / path.name, lines)
        else:
            print(f"{path}: every row is answered as before")
    return 0


def record_again(path: Path, server: Server, kubectl: str, on_control: str, changes: dict[str, str]) -> list[Any]:
    """Return the lines of a recording of this server. Raises SystemExit, with one line, for what is no recording.

    changes      texts that are replaced in the recording first, such as a version of a group that is no longer served
    kubectl      records sessions of kubectl
    on_control   a command that gets {"feature-gates": …} as its last argument, turns them so and prints the address to
                 go on with; without one, the server is asked at its control API
    """
    try:
        text = path.read_text(encoding="utf-8")
        for old, new in changes.items():
            text = text.replace(old, new)
        lines = [json.loads(line) for line in text.splitlines() if line.strip()]
        head = lines[0]
    except (OSError, ValueError, LookupError) as why:
        sys.exit(f"{path}: not a recording: {why}")
    if isinstance(head, list) or "object" in head:
        return rows.again(path, lines, server)
    if "server" not in head:
        sys.exit(f"{path}: its first line is no head of a recording, which names the version of its `server`")
    context = ssl.create_default_context(cafile=server.ca) if server.ca else None
    client = Client(server.url, server.token, context)
    new_head = headed(head, server)
    if "session" in head:
        return [new_head, *session_lines(lines[1:], server, kubectl)]
    if "expression" in lines[1]:
        return [new_head, *verdicts(head["path"], lines[1:], client)]
    return [new_head, *Again(client, control_of(server, client, on_control)).record(lines)]


def headed(head: Obj, server: Server) -> Obj:
    """Return the first line of the new recording."""
    about: Obj = dict(head.get("about", {}))
    version = server.must("GET", "/version")["gitVersion"]
    if gates := gates_of(server, version, set(re.findall(r"(\w+)=", about.get("feature-gates", "")))):
        about["feature-gates"] = gates
    return {**head, "server": version} | ({"about": about} if about else {})


def gates_of(server: Server, version: str, named: set[str]) -> str:
    """Return, as a flag, the gates among `named` that a server knows, and those that are not as by default.

    Of a release that understudy does not know, alpha gates are off by default, and the others on.
    """
    release = Version.of_build(version)
    usual = Gates.of(release).in_force() if release in (*releases(), *previews()) else {}
    page = server.exchange("GET", "/metrics").body.decode()
    gates = []
    for name, stage, on in sorted(GATE.findall(page)):
        default = usual.get(name, stage not in ("ALPHA", "DEPRECATED"))
        if name in named or (on == "1") != default:
            gates.append(f"{name}={'true' if on == '1' else 'false'}")
    return ",".join(gates)


def control_of(server: Server, client: Client, command: str) -> Any:
    """Return the function that carries out control steps."""

    def control(what: str, body: dict[str, bool]) -> None:
        if command:
            done = subprocess.run([*shlex.split(command), json.dumps({what: body})], capture_output=True, text=True)
            if done.returncode:
                sys.exit(f"{command}: {done.stderr.strip()}")
            client.reconnect(done.stdout.strip())
            return
        server.must("POST", f"/understudy/{what}", body)

    return control


class Again:
    """Record the exchanges and watches of one recording again."""

    def __init__(self, client: Client, control: Any) -> None:
        self.replay = Replay(client, control, time.sleep, PATIENCE)
        self.memory: Memory = self.replay.memory
        self.placeholders = Placeholders()

    def record(self, lines: list[Obj]) -> list[Obj]:
        """Return the lines after the head."""
        self.placeholders.number_after(json.dumps(lines))
        if (status := self.replay.prepare(lines[0])) not in (0, 201):
            sys.exit(f"the namespace {lines[0]['namespace']} could not be made ({status}): start the server empty")
        new = []
        for number, line in enumerate(lines[1:], 2):
            if "resource_versions" not in line:
                new.append(self._step(number, line))
        order = lines[-1].get("resource_versions", {})
        return [*new, {"resource_versions": self._order(order, new)}]

    def _step(self, number: int, line: Obj) -> Obj:
        self._tell_of_missing(number, line)
        for kind in ("request", "watch", "start_watch", "probe"):
            self.placeholders.keep(line.get(kind))
        if not is_counted(line):
            if not self.replay.pass_by(line):
                print(f"line {number}: it never came: {json.dumps(line)[:300]}", file=sys.stderr)
            return line
        live, differences = self.replay.step(line)
        for holder, value in self.memory.values.items():
            self.placeholders.learn(holder, value)
        if not differences:
            return line
        print(f"line {number}: another answer: {describe(line)}", file=sys.stderr)
        return {**line, **{part: self.merged(line[part], answer) for part, answer in live.items()}}

    def _tell_of_missing(self, number: int, line: Obj) -> None:
        """Tell of the placeholders in a request for which this server gave no value."""
        sent = json.dumps([line.get(kind) for kind in ("request", "watch", "start_watch", "probe")])
        unbound = {match.group() for match in NUMBERED.finditer(sent)} - self.memory.values.keys()
        if unbound:
            print(f"line {number}: no answer gave {', '.join(sorted(unbound))}: sent as it stands", file=sys.stderr)

    # --- what differs

    def merged(self, old: Any, live: Any) -> Any:
        """Return a live value with placeholders: those of the recorded one in the parts that agree, else new ones."""
        if isinstance(old, dict) and isinstance(live, dict):
            if live.get("kind") == "Table":
                live = self.placeholders.mask_ages(live)
            if several_causes(live):
                live = in_recorded_order(old, live)
            fields = [*(name for name in old if name in live), *(name for name in live if name not in old)]
            return {name: self.merged(old.get(name), live[name]) for name in fields} if old else self._new(live)
        if isinstance(old, list) and isinstance(live, list) and len(old) == len(live):
            if live and all(isinstance(each, dict) and "manager" in each for each in live):
                live = sorted(live, key=manager)
                old = sorted(old, key=manager)
            return [self.merged(*pair) for pair in zip(old, live, strict=True)]
        if isinstance(old, str) and isinstance(live, str) and self.memory.same(old, live):
            self._learn(old)
            return old
        return old if type(old) is type(live) and old == live else self._new(live)

    def _learn(self, text: str) -> None:
        for match in NUMBERED.finditer(text):
            if match.group() in self.memory.values:
                self.placeholders.learn(match.group(), self.memory.values[match.group()])

    def _new(self, live: Any) -> Any:
        return self.placeholders.mask_response(live)

    def _order(self, recorded: dict[str, int], new: list[Obj]) -> dict[str, int]:
        """Return numbers that say in which order the resource versions stand: the recorded ones, if nothing is new.

        The version of a list is that of the newest object before it, since the server writes other objects meanwhile.
        """
        live = self.placeholders.resource_versions
        if live.keys() <= recorded.keys() and self.memory.in_order(recorded):
            return {holder: number for holder, number in recorded.items() if holder in live}
        lists = versions_of_lists(new)
        ranks = sorted({version for holder, version in live.items() if holder not in lists})
        return {holder: bisect_right(ranks, live[holder]) for holder in sorted(live, key=number_of)}


def number_of(placeholder: str) -> int:
    return int(placeholder.rpartition(":")[2].removesuffix(">"))


def versions_of_lists(node: Any) -> set[str]:
    """Return the placeholders of the resource versions of lists and bookmarks."""
    if isinstance(node, list):
        return set().union(*map(versions_of_lists, node))
    if not isinstance(node, dict):
        return set()
    metadata = node.get("metadata")
    is_list = isinstance(metadata, dict) and "uid" not in metadata and "resourceVersion" in metadata
    own = {str(metadata["resourceVersion"])} if is_list and metadata is not None else set()
    return own.union(*map(versions_of_lists, node.values()))


def in_recorded_order(old: Any, status: Obj) -> Obj:
    """Return a Status whose causes stand as the recorded ones do: their order comes out of Go's maps."""
    known = {json.dumps(cause): at for at, cause in enumerate((old.get("details") or {}).get("causes") or ())}
    causes = status["details"]["causes"]
    ordered = sorted(causes, key=lambda cause: (known.get(json.dumps(cause), len(known)), json.dumps(cause)))
    return {**status, "details": {**status["details"], "causes": ordered}}


# --- other kinds of steps


def verdicts(path: str, lines: list[Obj], client: Client) -> list[Obj]:
    """Return the verdicts of a server on CEL selectors."""
    new = []
    for number, line in enumerate(lines, 1):
        status, causes = selectors.verdict(client, path, f"cel-{number}", line["expression"])
        told = [{"field": field, "reason": reason, "message": message} for field, reason, message in causes]
        same = (status, causes) == (line["status"], selectors.in_order(line["causes"]))
        new.append(line if same else {**line, "status": status, "causes": told})
    return new


def session_lines(lines: list[Obj], server: Server, kubectl: str) -> list[Obj]:
    """Return the commands of a session of kubectl, with what it prints for this server."""
    with tempfile.TemporaryDirectory() as home:
        session = sessions.Session(server.url, server.token, kubectl, Path(home), lambda: 0)
        return [session_line(line, session.run(line)) for line in lines]


def session_line(line: Obj, live: Obj) -> Obj:
    """Return one command of a session with what it printed now."""
    new = {**line, **{part: live[part] for part in ("stdout", "stderr", "exit")}}
    if "meanwhile" in line:
        pairs = zip(line["meanwhile"], live["meanwhile"], strict=True)
        new["meanwhile"] = [session_line(*pair) for pair in pairs]
    return new
