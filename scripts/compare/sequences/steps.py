"""A request of a sequence, and the player that sends it to a server."""

from __future__ import annotations

import copy
import json
from dataclasses import dataclass, field
from typing import Any
from urllib.parse import quote

from scripts.common.comparing import Answer, Server, set_at
from scripts.common.references import filled

MISSING = "missing"  # the value of a reference to a field that is absent


@dataclass
class Step:
    """A request. With `base`, its body is the answer to that request after `edits`."""

    id: int
    method: str
    path: str
    query: list[tuple[str, str]] = field(default_factory=list)
    headers: dict[str, str] = field(default_factory=dict)
    body: Any = None
    base: int = -1
    edits: list[tuple[str, Any]] = field(default_factory=list)


class Player:
    """Sends a sequence to one server, and keeps its answers, to which later requests refer."""

    def __init__(self, server: Server, namespace: str) -> None:
        self.server = server
        self.words = {"ns": namespace, "run": namespace}
        self.answers: dict[int, Any] = {}

    def send(self, step: Step) -> Answer:
        """Send a request with its references replaced, keep the answer and return it."""
        path = self.resolved(step.path)
        if step.query:
            path += "?" + "&".join(f"{quote(k)}={quote(self.resolved(v), safe='')}" for k, v in step.query)
        body = self.resolved(step.body)
        if step.base >= 0:
            body = copy.deepcopy(self.answers.get(step.base))
            body = body if isinstance(body, dict) and body.get("kind") != "Status" else {}
            for at, value in step.edits:
                set_at(body, at, self.resolved(value))
        data = None if body is None else json.dumps(body).encode()
        headers = {"Accept": "application/json"} | ({} if data is None else {"Content-Type": "application/json"})
        answer = self.server.exchange(step.method, path, headers | step.headers, data)
        try:
            self.answers[step.id] = json.loads(answer.body)
        except ValueError:  # YAML, events, text
            self.answers[step.id] = None
        return answer

    def resolved(self, value: Any) -> Any:
        """Return a value with its references replaced."""
        return filled(value, self._reference)

    def _reference(self, name: str) -> str:
        """Return the value of a reference, `MISSING` if the field is absent."""
        if name in self.words:
            return self.words[name]
        id_, *path = name.split(".")
        value = self.answers.get(int(id_))
        for part in path:
            value = value.get(part) if isinstance(value, dict) else None
        return value if isinstance(value, str) else MISSING
