"""Tells which requests have written which revisions, as far as they are kept."""

from __future__ import annotations

from understudy.apiserver.server.filters.request_log.log import RequestLog
from understudy.machinery.types import Obj
from understudy.ui.data.sent_texts import valid


def by_revision(log: RequestLog, key: str = "") -> dict[int, Obj]:
    """Return {"number", "time", "verb", "user"} of requests by the revisions that they have written.

    key  of the object whose revisions they are; "" for those of all objects

    A request that writes several objects is not among them.
    """
    requests = dict[int, Obj]()
    for note in log.notes(0):
        if note.change is None or key not in ("", note.change.key):
            continue
        user = note.user.name if note.user else ""
        request = {"number": note.number, "time": note.time, "verb": note.info.verb, "user": valid(user)}
        requests[note.change.first] = requests[note.change.last] = request
    return requests
