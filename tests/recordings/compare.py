"""Compare a live answer with a recorded one, in which placeholders stand for made-up values.

    <uid:N>   a UUID                  <rv:N>        a resourceVersion
    <name:N>  made of a generateName  <continue:N>  a list's continue token
    <token:N> a service account's token
    <time>, <microtime>, <age>, <token>, <hash>, <number>, <address>, <pointer>, <nonce>, <text>: any value of that form

A numbered placeholder is bound to the live value where it first appears and must equal it from then on. Later
requests send the live values back, an object's own times among them.
"""

from __future__ import annotations

import json
import re
import urllib.parse
from itertools import pairwise
from typing import Any

UUID = r"[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}"
TOKEN = r"[\w-]+\.[\w-]+\.[\w-]+"
NUMBERED = {"uid": UUID, "rv": r"\d+", "name": ".+?", "continue": ".+?", "token": TOKEN}
VOLATILE = {
    "<time>": r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\dZ",
    "<microtime>": r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{6}Z",
    "<age>": r"(?:\d+[ydhms])+|<invalid>|<unknown>",
    "<token>": TOKEN,
    "<hash>": r"[0-9A-Fa-f]+",
    "<number>": r"\d+",
    "<address>": r"\S+",
    "<pointer>": r"0x[0-9a-f]{8,16}|<pointer>",
    "<nonce>": r"\d+",
    "<text>": r".*",
}
BOUND = re.compile(r"<(uid|rv|name|continue|token):\d+>")
HOLDER = re.compile(BOUND.pattern + "|" + "|".join(VOLATILE))
ALONE = {holder: re.compile(pattern, re.DOTALL) for holder, pattern in VOLATILE.items()}
POINTER = re.compile(r"0x[0-9a-f]{8,16}")
SENT_TIMES = {"<time>": "2024-01-02T03:04:05Z", "<microtime>": "2024-01-02T03:04:05.000000Z"}


class Memory:
    """Remember the live value behind each placeholder of one recording."""

    def __init__(self) -> None:
        self.values: dict[str, str] = {}
        self._metadata: dict[str, dict[str, Any]] = {}  # of live objects, by uid: their times are sent back

    # --- requests

    def text(self, text: str) -> str:
        if "<" not in text:
            return text
        for holder, value in SENT_TIMES.items():
            text = text.replace(holder, value)
        return BOUND.sub(lambda m: self.values.get(m.group(), m.group()), text)

    def path(self, path: str) -> str:
        return BOUND.sub(lambda m: urllib.parse.quote(self.values.get(m.group(), m.group()), safe=""), path)

    def headers(self, headers: dict[str, Any]) -> dict[str, Any]:
        """Return recorded headers with live values."""
        return {name: self.text(value) if isinstance(value, str) else value for name, value in headers.items()}

    def fill(self, node: Any) -> Any:
        """Return the body of a recorded request with live values."""
        if isinstance(node, str):
            return self.text(node)
        if isinstance(node, list):
            return [self.fill(item) for item in node]
        if not isinstance(node, dict):
            return node
        filled = {self._key(key): self.fill(value) for key, value in node.items()}
        if isinstance(uid := filled.get("uid"), str) and uid in self._metadata:
            self._own_times(node, filled, self._metadata[uid])
        return filled

    def _own_times(self, recorded: dict[str, Any], filled: dict[str, Any], known: dict[str, Any]) -> None:
        for key in ("creationTimestamp", "deletionTimestamp"):
            if recorded.get(key) == "<time>" and key in known:
                filled[key] = known[key]
        times = {manager(entry): entry["time"] for entry in known.get("managedFields") or [] if "time" in entry}
        for was, entry in zip(recorded.get("managedFields") or [], filled.get("managedFields") or [], strict=False):
            if isinstance(was, dict) and was.get("time") == "<time>":
                entry["time"] = times.get(manager(entry), entry["time"])

    def _key(self, key: str) -> str:
        return self.text(key) if key.startswith("k:") else key

    def note(self, node: Any) -> None:
        """Remember the metadata of every object in a live answer."""
        if isinstance(node, list):
            for item in node:
                self.note(item)
        elif isinstance(node, dict):
            if isinstance(node.get("uid"), str) and "creationTimestamp" in node:
                self._metadata[node["uid"]] = node
            else:
                for value in node.values():
                    self.note(value)

    # --- answers

    def body(self, want: Any, got: Any) -> list[str]:
        """Return the differences of two bodies. The causes of a Status have no order, since Go's maps have none."""
        if several_causes(want) and several_causes(got):
            want, got = by_cause(want), by_cause(got)
            if "[" in want.get("message", "") and spelt(want["message"]) == spelt(got.get("message", "")):
                want = want | {"message": got["message"]}
        return self.differences(want, got)

    def differences(self, want: Any, got: Any, path: str = "") -> list[str]:
        if isinstance(want, str) and isinstance(got, str):
            return [] if self.same(want, got) else [f"{path}: {short(got)}, want {short(want)}"]
        if isinstance(want, dict) and isinstance(got, dict):
            return self._fields(want, got, path)
        if isinstance(want, list) and isinstance(got, list):
            return self._items(want, got, path)
        return [] if want == got and type(want) is type(got) else [f"{path}: {short(got)}, want {short(want)}"]

    def _fields(self, want: dict[str, Any], got: dict[str, Any], path: str) -> list[str]:
        out = []
        want = {self._key(key): value for key, value in want.items()}
        for key, value in want.items():
            where = f"{path}.{key}" if path else key
            if key in got:
                out += self.differences(value, got[key], where)
            else:
                out.append(f"{where}: missing, want {short(value)}")
        out += [f"{path}.{key}: unexpected {short(got[key])}" for key in got if key not in want]
        return out

    def _items(self, want: list[Any], got: list[Any], path: str) -> list[str]:
        if len(want) != len(got):
            return [f"{path}: {len(got)} entries, want {len(want)}: {short(got)} / {short(want)}"]
        if path.endswith("managedFields") and all(isinstance(entry, dict) for entry in want + got):
            want, got = sorted(want, key=manager), sorted(got, key=manager)
        if path.endswith("esourceRules"):  # of a SelfSubjectRulesReview, which come out of Go's maps
            want, got = (sorted(rules, key=lambda rule: json.dumps(rule, sort_keys=True)) for rules in (want, got))
        pairs = enumerate(zip(want, got, strict=True))
        return [difference for i, (w, g) in pairs for difference in self.differences(w, g, f"{path}[{i}]")]

    def same(self, want: str, got: str) -> bool:
        """Report whether a live text matches a recorded one; bind the placeholders that appear for the first time."""
        if "<" not in want:
            return want == got
        if want in self.values:
            return self.values[want] == got
        if want in ALONE:
            return ALONE[want].fullmatch(got) is not None
        return self._match(want, got)

    def _match(self, want: str, got: str) -> bool:
        pattern, new, at = "", [], 0
        for match in HOLDER.finditer(want):
            pattern += re.escape(want[at : match.start()])
            holder = match.group()
            if holder in VOLATILE:
                pattern += f"(?:{VOLATILE[holder]})"
            elif holder in self.values:
                pattern += re.escape(self.values[holder])
            else:
                new.append(holder)
                pattern += f"({NUMBERED[match[1]]}|{re.escape(holder)})"
            at = match.end()
        if not at:
            return want == got
        whole = re.fullmatch(pattern + re.escape(want[at:]), got, re.DOTALL)
        if not whole:
            return False
        for holder, value in zip(new, whole.groups(), strict=True):
            if value != holder:  # else it was sent as it stands, for want of a value
                self.values.setdefault(holder, value)
        return True

    def in_order(self, recorded: dict[str, int]) -> bool:
        """Report whether the live resource versions stand in the order of the recorded ones."""
        live = sorted((recorded[h], int(v)) for h, v in self.values.items() if h in recorded and v.isdigit())
        return all(a[1] < b[1] for a, b in pairwise(live) if a[0] < b[0])


def manager(entry: dict[str, Any]) -> tuple[str, ...]:
    return tuple(str(entry.get(key, "")) for key in ("operation", "manager", "subresource", "apiVersion"))


def several_causes(body: Any) -> bool:
    if not (isinstance(body, dict) and body.get("kind") == "Status" and isinstance(body.get("details"), dict)):
        return False
    causes = body["details"].get("causes")
    return isinstance(causes, list) and len(causes) > 1


def by_cause(status: dict[str, Any]) -> dict[str, Any]:
    causes = sorted(status["details"]["causes"], key=lambda cause: POINTER.sub("", json.dumps(cause, sort_keys=True)))
    return status | {"details": status["details"] | {"causes": causes}}


def spelt(text: str) -> list[str]:
    """Return the sorted letters of a text; memory addresses do not count."""
    return sorted(POINTER.sub("<pointer>", text))


def short(value: Any, limit: int = 220) -> str:
    text = json.dumps(value)
    return text if len(text) <= limit else text[:limit] + "…"
