"""Compare the audit logs of two API servers, after the same requests to both.

    python -m scripts.compare audit https://127.0.0.1:6443 https://127.0.0.1:8001 --token T \\
        --left-log /tmp/left.log --right-log /tmp/right.log

Both servers are started with `--audit-policy-file scripts/compare/cases/audit.yaml`, with the log that is named here,
and with `--authorization-mode Node,RBAC`; the token is that of a member of `system:masters` on both. The flows have
writes of all kinds, subresources, other users and none, pages, pod security, policies and webhooks, which the script
plays itself. Of every request the events of both logs must agree: how many there are, of which stages, in which order,
with all fields in their order. Not compared are times, ids, addresses, and how long the latencies are; requests that
webhooks make slow must have the same ones, but for those that understudy does not measure. Answers must have the id of
the events in their header. Differences are printed by request. The exit status is 1 if there are any, or if nothing
agreed.
"""

from __future__ import annotations

import argparse
import json
import os
import re
import time
from collections.abc import Callable, Sequence
from contextlib import ExitStack
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

from scripts.common.comparing import (
    Obj,
    Server,
    Tally,
    add_pair_arguments,
    differences,
    end_namespace,
    print_difference,
    require_servers,
)
from scripts.compare.cases.audit_flows import FLOWS, HOOKS, NS, POLICY, Ask, Settle
from scripts.compare.cases.webhook_server import WebhookServer
from scripts.compare.sequences.answers import AGE, in_order, mask

PATIENCE = 60.0  # seconds until a policy or webhook is in force, and until the last event is written
LATENCY = "apiserver.latency.k8s.io/"
UNMEASURED = {
    f"{LATENCY}{name}"
    for name in (
        "etcd",
        "transform-response-object",
        "serialize-response-object",
        "response-write",
        "decode-response-object",
    )
}
MEASURED = re.compile(rf'("{LATENCY}[\w-]+": )"[^"]+"')
UNORDERED = ("resourceRules", "nonResourceRules")  # of a SelfSubjectRulesReview
ADDRESS = re.compile(r"127\.0\.0\.1:\d+(->127\.0\.0\.1:\d+)?")


class Log:
    """Sends the flows to a server and reads its log.

    ids  of the requests, with the flow and the request that each is of
    """

    def __init__(self, server: Server, path: str, run: str, hook: WebhookServer) -> None:
        self.server, self.path, self.run = server, Path(path), run
        self.begin = self.path.stat().st_size if self.path.exists() else 0
        self.ids: dict[str, str] = {}
        self.words = {"ns": run, "hook": f"127.0.0.1:{hook.port}", "ca": hook.bundle}
        self.hook = hook

    def open(self) -> None:
        """Create the namespace of the run, with a service account and its token."""
        path, account = self.filled(NS), {"metadata": {"name": "asks"}}
        self.server.must("POST", "/api/v1/namespaces", {"metadata": {"name": self.run}})
        self.server.must("POST", f"{path}/serviceaccounts", account)
        self.server.call("POST", f"{path}/serviceaccounts", {"metadata": {"name": "default"}})
        masters = {"Impersonate-User": "bob", "Impersonate-Group": "system:masters"}  # only the legacy mode allows it,
        self.ask(Ask("GET", NS, headers=masters), "first")  # which both servers try first then
        self.words["token"] = self.server.must("POST", f"{path}/serviceaccounts/asks/token", {})["status"]["token"]

    def filled(self, text: str) -> str:
        """Return a text with the words of this server."""
        for name, word in self.words.items():
            text = text.replace(f"{{{{{name}}}}}", word)
        return text

    def send(self, flow: str) -> None:
        """Send the requests of a flow."""
        for step in FLOWS[flow]():
            if isinstance(step, Settle):
                self.settle(step.ask)
                continue
            audit_id = f"{self.run}-{len(self.ids) + 1:03}"
            body = step.body if isinstance(step.body, str) else json.dumps(step.body)
            self.ids[audit_id] = f"{flow}: {step.method} {step.path} {body[:200] if step.body is not None else ''}"
            answered = self.ask(step, audit_id)
            if answered.status and answered.all("audit-id") != [audit_id]:
                print(f"--- {self.server.url}: {self.ids[audit_id]}: the answer's Audit-Id: {answered.all('audit-id')}")

    def ask(self, ask: Ask, audit_id: str) -> Any:
        """Send a request, and return the answer."""
        body = None
        if ask.body is not None:
            text = ask.body if isinstance(ask.body, str) else json.dumps(ask.body)
            body = self.filled(text).encode()
        headers: Obj = {"Audit-ID": audit_id, "Accept": "application/json", "User-Agent": "flows"}
        if body is not None:
            headers["Content-Type"] = ask.media
        headers |= {name: self.filled(value) for name, value in ask.headers.items()}
        with Server(self.server.url, self.filled(ask.token or "") or self.server.token) as server:
            if ask.token is None:
                headers = {"Authorization": "", **headers}
            return server.exchange(ask.method, self.filled(ask.path), headers, body)

    def settle(self, ask: Ask) -> None:
        """Send a request until it is refused."""
        until = time.monotonic() + PATIENCE
        while self.ask(ask, "settles").status < 400:
            if time.monotonic() > until:
                raise SystemExit(f"{self.server.url}: {ask.path}: never refused")
            time.sleep(0.2)

    def close(self) -> None:
        """Delete what would concern others."""
        policies = [f"{of}admissionpolic{kind}" for of in ("mutating", "validating") for kind in ("ies", "ybindings")]
        for resource in (*policies, "mutatingwebhookconfigurations", "validatingwebhookconfigurations"):
            for item in self.server.call("GET", f"{POLICY}/{resource}")[1].get("items", ()):
                if item["metadata"]["name"].startswith(self.run):
                    self.server.call("DELETE", f"{POLICY}/{resource}/{item['metadata']['name']}")
        for item in self.server.must("GET", "/api/v1/namespaces")["items"]:
            if item["metadata"]["name"].startswith(self.run):
                end_namespace(self.server, item["metadata"]["name"])

    def events(self) -> dict[str, list[Obj]]:
        """Return the events of the requests, by id, once all are written."""
        last, until = f"{self.run}-last", time.monotonic() + PATIENCE
        self.ask(Ask("GET", NS), last)
        while True:
            with self.path.open("rb") as file:
                file.seek(self.begin)
                lines = file.read().splitlines(keepends=True)
            events = [json.loads(line) for line in lines if line.endswith(b"\n")]
            if any(event["auditID"] == last and event["stage"] == "ResponseComplete" for event in events):
                break
            if time.monotonic() > until:
                raise SystemExit(f"{self.path}: the events of the last request are missing")
            time.sleep(0.1)
        found: dict[str, list[Obj]] = {audit_id: [] for audit_id in self.ids}
        for event in events:
            if event["auditID"] in found:
                found[event["auditID"]].append(event)
        return found

    def comparable(self, audit_id: str, events: Sequence[Obj]) -> Any:
        """Return the parts of the events of a request that two servers must agree on.

        Latencies are those of the requests that webhooks make slow, on every server; others have some by chance.
        """
        is_slow = self.ids[audit_id].startswith("slow: ")

        def hidden(name: str) -> bool:
            return name in UNMEASURED if is_slow else name.startswith(LATENCY)

        text = json.dumps([without_latencies(event, hidden) for event in events])
        text = text.replace(self.words["hook"], "HOOK").replace(self.hook.bundle, "BUNDLE")
        text = ADDRESS.sub("ADDRESS", text.replace(f":{urlsplit(self.server.url).port}", ":PORT"))
        compared = versionless(json.loads(MEASURED.sub(r'\1"TIME"', mask(text))))
        return {"events": compared, "order": order(compared)}


def without_latencies(event: Obj, hidden: Callable[[str], bool]) -> Obj:
    """Return an event without the annotations of latencies that are hidden."""
    if not any(map(hidden, annotations := event.get("annotations") or {})):
        return event
    return {**event, "annotations": {name: value for name, value in annotations.items() if not hidden(name)}}


def versionless(value: Any, name: str = "") -> Any:
    """Return a value without resource versions and addresses, and with lists that have no order sorted."""
    if isinstance(value, dict):
        return {key: versionless(item, key) for key, item in value.items()}
    if isinstance(value, list):
        items = [versionless(item, name) for item in value]
        return sorted(items, key=in_order) if name in UNORDERED else items
    if name == "resourceVersion" and isinstance(value, str) and len(value) > 1:
        return "VERSION"
    if name == "serverAddress":
        return "ADDRESS"
    if name == "cells" and isinstance(value, str) and AGE.fullmatch(value):
        return "AGE"
    return value


def order(value: Any) -> Any:
    """Return the names of fields in their order, those of annotations but not of objects inside of lists."""
    return [[*event] for event in value] + [[*event.get(name, {})] for event in value for name in ("objectRef", "user")]


def add_arguments(parser: argparse.ArgumentParser) -> None:
    add_pair_arguments(parser)
    parser.add_argument("--left-log", required=True, metavar="FILE", help="the audit log of the real server")
    parser.add_argument("--right-log", required=True, metavar="FILE", help="that of the other")
    parser.add_argument("--flow", action="append", choices=FLOWS, help="only this flow; may be repeated")
    parser.add_argument("--save", metavar="FILE", help="write the requests and the left server's events there")


def run(options: argparse.Namespace) -> int:
    servers = Server(options.left, options.token), Server(options.right, options.token)
    require_servers(*servers)
    run = f"a{os.getpid():x}"
    with ExitStack() as stack:
        hooks = [stack.enter_context(WebhookServer()) for _ in servers]
        for hook in hooks:
            hook.answers = {f"/{letter}/{name}": answer for name, answer in HOOKS.items() for letter in "mv"}
        paths = options.left_log, options.right_log
        logs = [Log(server, path, run, hook) for server, path, hook in zip(servers, paths, hooks, strict=True)]
        for log in logs:
            log.open()
            try:
                for flow in options.flow or FLOWS:
                    log.send(flow)
            finally:
                log.close()
        tally = compare(*logs)
    if options.save:
        Path(options.save).write_text("".join(json.dumps(line) + "\n" for line in recorded(logs[0])))
    print(f"{tally.total} requests: {tally}")
    return tally.exit_status


def recorded(log: Log) -> list[Obj]:
    """Return the requests of a log and what is compared of their events, without the name of the run."""
    events = log.events()
    lines = [{"request": log.ids[key], **log.comparable(key, found)} for key, found in events.items()]
    return list(json.loads(json.dumps(lines).replace(log.run, "RUN")))


def compare(*logs: Log) -> Tally:
    """Compare the events of each request in two logs, print those that differ, and count them."""
    tally, both = Tally(), [log.events() for log in logs]
    for audit_id, request in logs[0].ids.items():
        stages = [[event["stage"] for event in events[audit_id]] for events in both]
        if stages[0] != stages[1]:
            lines = [f"stages: {stages[0]} and {stages[1]}"]
        else:
            one, other = (log.comparable(audit_id, of[audit_id]) for log, of in zip(logs, both, strict=True))
            lines = [*differences(one, other, "")]
        tally.count(lines)
        if lines:
            print_difference(f"{audit_id} {request}", lines)
    events = [sum(map(len, each.values())) for each in both]
    print(f"{events[0]} events and {events[1]}")
    return tally
