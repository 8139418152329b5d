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

Recordings that hold one case a line and have no head are told apart by their lines. Theirs are the new release's name,
and the lines that this server answers as before are left out of the first two:

    creates and updates of `tests/kinds/recorded`
    pairs of `tests/cel`, an expression and its error
    stories of `fixtures/controllers/recorded`: --controllers "kube-controller-manager --kubeconfig={kubeconfig} …" runs
        beside the server; the gates that they need are those of `tests/controlplane/test_controller_stories.py`
    allocations of `tests/controlplane/allocator/cases`: --oracle 1.37 "oracle 1.37" answers them, and no server is
        needed. `python -m scripts.compare allocator --help` tells what an oracle reads and writes
"""

from __future__ import annotations

import argparse
import json
import re
import shlex
import ssl
import subprocess
import sys
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from scripts.common.commands import UsageError
from scripts.common.comparing import Obj, Server
from scripts.record import allocations, rows, stories
from scripts.record.exchanges import Exchanges
from scripts.record.files import add_server_arguments, save
from scripts.record.flags import gates_of, written
from scripts.record.other_steps import session_lines, verdicts
from tests.recordings.client import Client
from understudy.apiserver.serving.release import previews, releases
from understudy.machinery.releases.features import Gates
from understudy.machinery.releases.version import Version

GATE = re.compile(r'^kubernetes_feature_enabled\{name="(\w+)",stage="(\w*)"\} (\d)', re.MULTILINE)
RELEASE = re.compile(r"\d\.\d+")
TurnGates = Callable[[Mapping[str, bool]], str]


@dataclass(frozen=True)
class Means:
    """The server and programs that recordings are made with.

    server        is asked; allocations need none
    turn_gates    turns feature gates on and off, and returns the address to go on with; without one, the server is
                  asked at its control API
    kubectl       records sessions of kubectl
    controllers   the command that runs beside the server, in which {kubeconfig} stands for a file that names it
    oracle        answers allocations: its release, and its command
    """

    server: Server | None = None
    turn_gates: TurnGates | None = None
    kubectl: str = "kubectl"
    controllers: str = ""
    oracle: tuple[str, str] | None = None

    @property
    def needed_server(self) -> Server:
        """Return the server. Raises UsageError without one."""
        if self.server is None:
            raise UsageError("--server is needed for this recording")
        return self.server


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("recordings", nargs="+", type=Path, metavar="FILE")
    add_server_arguments(parser, is_required=False)
    parser.add_argument("--kubectl", default="kubectl", help="what sessions of kubectl are recorded with")
    parser.add_argument(
        "--on-control",
        metavar="COMMAND",
        help="turns feature gates on and off, for a real server: gets {GATE: true, …} as its last argument, and prints"
        " the address to go on with. `python -m scripts.record corpora` needs none",
    )
    parser.add_argument("--controllers", default="", metavar="COMMAND", help="runs beside the server, for stories")
    parser.add_argument(
        "--oracle", nargs=2, metavar=("RELEASE", "COMMAND"), help="runs upstream's allocator, for allocations"
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
    means = Means(
        Server(options.server, options.token, options.ca) if options.server else None,
        gates_command(options.on_control) if options.on_control else None,
        options.kubectl,
        options.controllers,
        options.oracle,
    )
    for path in options.recordings:
        name, lines = record_again(path, means, dict(options.replace))
        if lines:
            options.output.mkdir(parents=True, exist_ok=True)
            save(options.output / name, lines)
        else:
            print(f"{path}: every row is answered as before")
    return 0


def gates_command(command: str) -> TurnGates:
    """Return a function that turns gates by running a command."""

    def turn(gates: Mapping[str, bool]) -> str:
        done = subprocess.run([*shlex.split(command), json.dumps(gates)], capture_output=True, text=True)
        if done.returncode:
            sys.exit(f"{command}: {done.stderr.strip()}")
        return done.stdout.strip()

    return turn


def record_again(path: Path, means: Means, changes: Mapping[str, str]) -> tuple[str, list[Any]]:
    """Return the name and the lines of a new recording. Raises SystemExit, with one line, for what is no recording.

    changes   texts that are replaced in the recording first, such as a version of a group that is no longer served
    """
    lines = lines_of(path, changes)
    head = lines[0]
    if "answers" in head:
        if means.oracle is None:
            raise UsageError("--oracle RELEASE COMMAND is needed for allocations")
        release, command = means.oracle
        return named(path, release), allocations.again(lines, shlex.split(command))
    server = means.needed_server
    if isinstance(head, list) or "object" in head:
        return named(path, release_of(server)), rows.again(path, lines, server)
    if "story" in head:
        if not means.controllers:
            raise UsageError("--controllers COMMAND is needed for stories")
        version = Version.parse(release_of(server))
        return named(path, str(version)), stories.again(path, version, server, means.controllers)
    if "server" not in head:
        sys.exit(f"{path}: its first line is no head of a recording, which names the version of its `server`")
    return path.name, [headed(head, server), *steps_again(lines, server, means)]


def lines_of(path: Path, changes: Mapping[str, str]) -> list[Any]:
    """Return the lines of a recording, with texts replaced. Raises SystemExit, with one line, for another file."""
    try:
        text = path.read_text(encoding="utf-8")
        for old, new in changes.items():
            text = text.replace(old, new)
        lines = [json.loads(line) for line in text.splitlines() if line.strip()]
        if not isinstance(lines[0], dict | list):
            raise ValueError(f"its first line is {lines[0]!r}")
    except (OSError, ValueError, LookupError) as why:
        sys.exit(f"{path}: not a recording: {why}")
    return lines


def named(path: Path, release: str) -> str:
    """Return the name of a file of another release, which ends in it if the name had none: that of 1.32 may not."""
    stem, count = RELEASE.subn(release, path.stem)
    return f"{stem}{path.suffix}" if count else f"{stem}-{release}{path.suffix}"


def release_of(server: Server) -> str:
    return str(Version.of_build(server.must("GET", "/version")["gitVersion"]))


def steps_again(lines: list[Obj], server: Server, means: Means) -> list[Obj]:
    """Return the lines after the head of a recording that has one."""
    if "session" in lines[0]:
        return session_lines(lines[1:], server, means.kubectl)
    context = ssl.create_default_context(cafile=server.ca) if server.ca else None
    client = Client(server.url, server.token, context)
    if "expression" in lines[1]:
        return verdicts(lines[0]["path"], lines[1:], client)
    version = Version.of_build(server.must("GET", "/version")["gitVersion"])
    if version in (*releases(), *previews()):
        lines = [with_gates_of(version, line) for line in lines]
    return Exchanges(client, control_of(server, client, means.turn_gates)).record(lines)


def with_gates_of(version: Version, line: Obj) -> Obj:
    """Return a line whose control step, if it is one, turns only gates that a release has, and lets be turned so."""
    if "feature-gates" not in line.get("control", ()):
        return line
    return {**line, "control": {"feature-gates": gates_of(version, line["control"]["feature-gates"])}}


def headed(head: Obj, server: Server) -> Obj:
    """Return the first line of the new recording."""
    about: Obj = dict(head.get("about", {}))
    version = server.must("GET", "/version")["gitVersion"]
    if gates := gates_in_force(server, version, set(re.findall(r"(\w+)=", about.get("feature-gates", "")))):
        about["feature-gates"] = written(gates)
    return {**head, "server": version} | ({"about": about} if about else {})


def gates_in_force(server: Server, version: str, named: set[str]) -> dict[str, bool]:
    """Return the gates among `named` that a server knows, and those that are not as by default.

    Of a release that understudy does not know, alpha gates are off by default, and the others on.
    """
    release = Version.of_build(version)
    usual = Gates.of(release).in_force() if release in (*releases(), *previews()) else {}
    page = server.exchange("GET", "/metrics").body.decode()
    gates = {}
    for name, stage, on in sorted(GATE.findall(page)):
        default = usual.get(name, stage not in ("ALPHA", "DEPRECATED"))
        if name in named or (on == "1") != default:
            gates[name] = on == "1"
    return gates


def control_of(server: Server, client: Client, turn_gates: TurnGates | None) -> Callable[[str, dict[str, bool]], None]:
    """Return the function that carries out control steps."""

    def control(what: str, body: dict[str, bool]) -> None:
        if turn_gates is None:
            server.must("POST", f"/understudy/{what}", body)
        elif what == "feature-gates":
            client.reconnect(turn_gates(body))
            server.close()
        else:
            sys.exit(f"a step changes {what}, which only the control API does")

    return control
