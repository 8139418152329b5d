"""Kill and stop API servers and members of their etcd while others write and watch, and check that nothing is wrong.

    python -m scripts.torture replicas --seconds 600
    python -m scripts.torture replicas --kube-apiserver v1.37.2         and a kube-apiserver on the same etcd
    python -m scripts.torture replicas --old-reads 0.05                 shows that the check of histories finds these

Three servers share an etcd of three members. Writers reserve claims: each reads one at some server and adds an entry to
`reservedFor` with a patch, which must be refused if somebody else was faster. Watchers begin at one server and go on at
another. Every few seconds a server or a member is ended by SIGKILL and started again, or stopped by SIGSTOP for a
while. At the end each acknowledged entry must be in its claim, all watchers must have seen the same events in order,
each acknowledged write among them, and the history of each claim must be linearizable: porcupine checks that, for which
Go is needed. A write without an answer may have been done; it counts as done if anybody has read it.

With `--old-reads` a share of the reads are such that may be old (`resourceVersion=0`), and the check has to fail.
"""

from __future__ import annotations

import argparse
import asyncio
import random
import signal
import subprocess
import tempfile
import time
from array import array
from collections.abc import Sequence
from contextlib import ExitStack
from dataclasses import dataclass, field
from itertools import count, pairwise
from pathlib import Path
from typing import Any

import orjson

from scripts.common.etcd import Member, installed_etcd, running_etcd, urls_of
from scripts.common.ports import free_port
from scripts.common.server_process import ServerProcess
from scripts.record.upstream.modules import Modules, build_etcd
from scripts.record.upstream.server import TOKEN, api_server
from scripts.torture.shared import Client, Ledger, revision_of
from understudy.machinery.releases.version import Version

CLAIMS = "/apis/resource.k8s.io/v1/namespaces/default/resourceclaims"
STRATEGIC = "application/strategic-merge-patch+json"
CHECKER = Path(__file__).parent / "linearizability"
FULL = 24  # entries of a claim, after which the next one is written
AT_ONCE = 4  # claims that are written at the same time
PATIENCE = 12.0  # seconds that a request may take
CATCH_UP = 60.0  # seconds that watchers have at the end
PAUSE, STOPPED = (2.0, 5.0), (1.0, 6.0)  # seconds between disturbances, and that a process is stopped
ALLOCATION = {"devices": {"results": [{"request": "r", "driver": "d.example.com", "pool": "p", "device": "a"}]}}


def state_of(claim: Any) -> str:
    """Return a name of the state of a claim, which is that of its entries; "" without any."""
    entries = (claim.get("status") or {}).get("reservedFor") or ()
    return " ".join(sorted(entry["name"] for entry in entries))


@dataclass
class Operation:
    """A read or an append of a history; `returned` is 0 if there was no answer."""

    client: int
    object: str
    call: int
    kind: str
    origin: str = ""
    state: str = ""
    done: bool = True
    returned: int = 0


@dataclass
class Run:
    """Notes each operation, each acknowledged entry, and each event.

    active   the number of the first claim that is written
    seen     the event of each revision, as the first watcher has seen it
    """

    ledger: Ledger
    history: list[Operation] = field(default_factory=list)
    entries: dict[str, str] = field(default_factory=dict)  # acknowledged: the claim of each
    active: int = 0
    seen: dict[int, tuple[str, str, int]] = field(default_factory=dict)

    @property
    def wrong(self) -> list[str]:
        return self.ledger.wrong


# --- writers and watchers


async def write(run: Run, client: Client, number: int, old_reads: float) -> None:
    """Add entries until the time is over."""
    for turn in count():
        if run.ledger.is_over:
            return
        name = f"claim-{run.active + random.randrange(AT_ONCE)}"
        claim = await read(run, client, number, name, old_reads)
        if claim is None:
            continue
        entries = (claim.get("status") or {}).get("reservedFor") or ()
        if not (claim.get("status") or {}).get("allocation"):
            allocated = {**claim, "status": {"allocation": ALLOCATION}}
            await client.send("PUT", f"{CLAIMS}/{name}/status", allocated)
        elif len(entries) >= FULL:
            run.active = max(run.active, int(name.partition("-")[2]) + 1)
        else:
            await append(run, client, number, claim, f"w{number}-{turn}")


async def read(run: Run, client: Client, number: int, name: str, old_reads: float) -> Any:
    """Read a claim, which is created if it is missing; return None if there is no answer."""
    operation = Operation(number, name, time.monotonic_ns(), "read")
    version = "?resourceVersion=0" if random.random() < old_reads else ""
    status, claim = await client.send("GET", f"{CLAIMS}/{name}{version}")
    if status == 404:
        spec = {"devices": {"requests": [{"name": "r", "exactly": {"deviceClassName": "c"}}]}}
        new = {"apiVersion": "resource.k8s.io/v1", "kind": "ResourceClaim", "metadata": {"name": name}, "spec": spec}
        await client.send("POST", CLAIMS, new)
    if status in (200, 404):
        operation.returned, operation.state = time.monotonic_ns(), state_of(claim) if status == 200 else ""
        run.history.append(operation)
    else:
        run.ledger.numbers[f"reads answered {status}"] += 1
        await asyncio.sleep(0.02)
    return claim if status == 200 else None


async def append(run: Run, client: Client, number: int, claim: Any, entry: str) -> None:
    """Add an entry to a claim that was read, if nobody has written it since."""
    name, version = claim["metadata"]["name"], claim["metadata"]["resourceVersion"]
    added = {"resource": "pods", "name": entry, "uid": entry}
    patch = {"metadata": {"resourceVersion": version}, "status": {"reservedFor": [added]}}
    before = state_of(claim)
    after = " ".join(sorted([*before.split(), entry]))
    operation = Operation(number, name, time.monotonic_ns(), "append", before, after)
    run.history.append(operation)
    status, written = await client.send("PATCH", f"{CLAIMS}/{name}/status", patch, STRATEGIC)
    run.ledger.numbers[f"patches answered {status}"] += 1
    if status in (200, 409):
        operation.returned, operation.done = time.monotonic_ns(), status == 200
    if status == 200:
        run.entries[entry] = name
        run.ledger.writes[revision_of(written)] = name, "MODIFIED"
        if state_of(written) != after:
            run.wrong.append(f"{name}: {entry} was added to {before!r}, which gave {state_of(written)!r}")


async def watch(run: Run, client: Client, version: int, revisions: array[int]) -> None:
    """Note the revisions of the events that a client receives, without end."""
    async for kind, obj in client.follow(CLAIMS, version):
        seen = obj["metadata"]["name"], kind, hash(state_of(obj))
        if run.seen.setdefault(revision_of(obj), seen) != seen:
            run.wrong.append(f"{seen[:2]} at {revision_of(obj)} was another event for another watcher")
        revisions.append(revision_of(obj))


# --- disturbances


class Replica:
    """A server that may be killed and stopped, and is started again at the same address."""

    def __init__(self, flags: Sequence[str]) -> None:
        self._flags = ("--port", str(free_port()), *flags)
        self.server = ServerProcess(*self._flags)

    def signal(self, number: int) -> None:
        self.server.process.send_signal(number)

    def kill(self) -> None:
        self.server.process.kill()
        self.server.process.wait()

    def start(self) -> None:
        self.server = ServerProcess(*self._flags)


async def disturb(run: Run, what: str, targets: Sequence[Replica | Member]) -> None:
    """Kill or stop one of the targets after the other, until the time is over; then all of them run."""
    while not run.ledger.is_over:
        await asyncio.sleep(random.uniform(*PAUSE))
        target = random.choice(targets)
        if random.random() < 0.5:
            run.ledger.numbers[f"{what} killed"] += 1
            target.kill()
            await asyncio.sleep(random.uniform(0, 2))
            await asyncio.to_thread(target.start)
        else:
            run.ledger.numbers[f"{what} stopped"] += 1
            target.signal(signal.SIGSTOP)
            await asyncio.sleep(random.uniform(*STOPPED))
            target.signal(signal.SIGCONT)


# --- the checks


def check_watches(run: Run, streams: Sequence[array[int]]) -> None:
    """Compare what the watchers have seen with what was acknowledged, and with each other."""
    latest = max(run.ledger.writes)
    whole = max(streams, key=len)
    whole = array("Q", [revision for revision in whole if revision <= latest])
    if any(later <= earlier for earlier, later in pairwise(whole)):
        run.wrong.append("events are doubled or out of order")
    for number, stream in enumerate(streams):
        mine = array("Q", [revision for revision in stream if revision <= latest])
        if mine != whole:
            run.wrong.append(f"watcher {number}: {len(mine)} events, and not the {len(whole)} of another")
    lost = [revision for revision, write in run.ledger.writes.items() if run.seen.get(revision, ("", ""))[:2] != write]
    if lost:
        run.wrong.append(f"{len(lost)} acknowledged writes were not seen, such as {lost[:3]}")


def check_entries(run: Run, claims: Sequence[Any]) -> None:
    """Compare the claims with the entries that were acknowledged: each is there once."""
    found = [entry["name"] for claim in claims for entry in claim["status"]["reservedFor"]]
    states = {claim["metadata"]["name"]: state_of(claim).split() for claim in claims}
    lost = [entry for entry, name in run.entries.items() if entry not in states.get(name, ())]
    if lost or len(found) != len(set(found)):
        run.wrong.append(f"{len(lost)} acknowledged entries are lost, such as {lost[:3]}; {len(found)} are there")


def check_history(run: Run, file: Path) -> None:
    """Let porcupine look for an order of the operations on each claim."""
    observed = {(each.object, each.state) for each in run.history if each.kind == "read"}
    observed |= {(each.object, each.origin) for each in run.history if each.kind == "append" and each.returned}
    end = time.monotonic_ns()
    with file.open("wb") as lines:
        for each in run.history:
            if not each.returned and (each.object, each.state) not in observed:
                continue  # it was not done, or else the last read of the claim would have seen it
            operation = {"client": each.client, "object": each.object, "call": each.call, "kind": each.kind}
            result = {"from": each.origin, "state": each.state, "done": each.done, "return": each.returned or end}
            lines.write(orjson.dumps(operation | result) + b"\n")
    done = subprocess.run(["go", "run", ".", file], cwd=CHECKER, capture_output=True, text=True, check=False)
    print(done.stdout.strip() or done.stderr.strip(), flush=True)
    if done.returncode:
        run.wrong.append("the history is not linearizable")


async def torture(
    args: argparse.Namespace, servers: Sequence[str], replicas: Sequence[Replica], members: Sequence[Member]
) -> int:
    """Write, watch and disturb, then check; return the exit status."""
    run = Run(Ledger())
    clients = [Client(servers, TOKEN, run.ledger, PATIENCE) for _ in range(args.writers + args.watchers + 1)]
    first = await read_all(run, clients[0])
    run.ledger.ends = time.monotonic() + args.seconds
    streams = [array("Q") for _ in range(args.watchers)]
    watchers = [
        asyncio.create_task(watch(run, client, first, stream))
        for client, stream in zip(clients[args.writers :], streams, strict=False)
    ]
    disturbed: dict[str, Sequence[Replica | Member]] = {"servers": replicas, "members": members}
    disturbing = [] if args.undisturbed else [disturb(run, what, targets) for what, targets in disturbed.items()]
    writing = [write(run, clients[number], number, args.old_reads) for number in range(args.writers)]
    await asyncio.gather(*writing, *disturbing)
    claims = [await last_read(run, clients[-1], f"claim-{number}") for number in range(run.active + AT_ONCE)]
    end, latest = time.monotonic() + CATCH_UP, max(run.ledger.writes)
    while time.monotonic() < end and any(not stream or stream[-1] < latest for stream in streams):
        await asyncio.sleep(0.2)
    for task in watchers:
        task.cancel()
    await asyncio.wait(watchers)
    check_watches(run, streams)
    check_entries(run, [claim for claim in claims if claim and "reservedFor" in claim.get("status", ())])
    with tempfile.TemporaryDirectory() as folder:
        check_history(run, args.history or Path(folder) / "history")
    print(f"{len(run.entries)} acknowledged entries, {sum(map(len, streams))} events, {dict(run.ledger.numbers)}")
    print("\n".join(run.wrong[:20]) or "nothing is lost, doubled, out of order or stale")
    return 1 if run.wrong or not run.entries else 0


async def read_all(run: Run, client: Client) -> int:
    """Return the revision of a list of claims, once some server answers."""
    while True:
        status, claims = await client.send("GET", CLAIMS)
        if status == 200:
            return revision_of(claims)
        await asyncio.sleep(0.2)


async def last_read(run: Run, client: Client, name: str) -> Any:
    """Read a claim at the end; return None if it was never created."""
    while True:
        claim = await read(run, client, 1 << 20, name, 0)
        if claim is not None or (run.history[-1].object == name and run.history[-1].kind == "read"):
            return claim


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--seconds", type=float, default=180)
    parser.add_argument("--writers", type=int, default=16)
    parser.add_argument("--watchers", type=int, default=100)
    parser.add_argument("--servers", type=int, default=3)
    parser.add_argument("--old-reads", type=float, default=0.0, metavar="SHARE", help="of reads that may be old")
    parser.add_argument("--undisturbed", action="store_true", help="kill and stop nothing")
    parser.add_argument("--kube-apiserver", metavar="VERSION", help="serves the etcd as well, and is not disturbed")
    parser.add_argument("--history", type=Path, metavar="FILE", help="where the history is kept")


def run(args: argparse.Namespace) -> int:
    """Run the command; return the exit status."""
    with ExitStack() as stack:
        folder = Path(stack.enter_context(tempfile.TemporaryDirectory()))
        members = stack.enter_context(running_etcd(installed_etcd() or build_etcd(), folder, 3))
        (folder / "tokens").write_text(f"{TOKEN},admin,admin,system:masters\n")
        flags = [f"--etcd-servers={urls_of(members)}", f"--token-auth-file={folder}/tokens"]
        servers = []
        if args.kube_apiserver:
            flags.append(f"--emulated-version={Version.of_build(args.kube_apiserver)}")
            program = Modules(args.kube_apiserver).build(("kube-apiserver",)) / "kube-apiserver"
            real = stack.enter_context(api_server(program, None, f"--etcd-servers={urls_of(members)}"))
            servers.append(real.url)
        replicas = [Replica(flags) for _ in range(args.servers)]
        for replica in replicas:
            stack.callback(replica.kill)
        servers += [replica.server.url for replica in replicas]
        return asyncio.run(torture(args, servers, replicas, members))
