"""Record again what is no exchange: verdicts on CEL selectors, and sessions of kubectl."""

from __future__ import annotations

import tempfile
from pathlib import Path

from scripts.common.comparing import Obj, Server
from tests.recordings import selectors, sessions
from tests.recordings.client import Client


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
