"""Record the exchanges and watches of a recording again."""

from __future__ import annotations

import http.client
import json
import sys
import time
from bisect import bisect_right
from typing import Any

from scripts.common.commands import UsageError
from scripts.common.comparing import Obj
from scripts.record.placeholders import NUMBERED, Placeholders
from tests.recordings.client import Client
from tests.recordings.compare import Memory, manager, several_causes
from tests.recordings.replay import Replay, is_counted
from tests.recordings.replay import described as describe

PATIENCE = 2.0  # seconds beyond a recorded window that an event may take


class Exchanges:
    """Record the exchanges and watches of one recording again."""

    def __init__(self, client: Client, control: Any) -> None:
        self.replay = Replay(client, control, time.sleep, PATIENCE)
        self.memory: Memory = self.replay.memory
        self.placeholders = Placeholders()

    def record(self, lines: list[Obj]) -> list[Obj]:
        """Return the lines after the head. Raises UsageError where the server does not answer."""
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
        try:
            live, differences = self.replay.step(line)
        except (http.client.HTTPException, OSError) as why:  # a handler that panics drops the connection
            raise UsageError(f"line {number}: no answer to {describe(line)}: {why!r}") from None
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
