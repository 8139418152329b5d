"""Tells which watches are open, and how far each is behind, to those who may list what is watched."""

from __future__ import annotations

from collections.abc import Sequence

from understudy.apiserver.endpoints.request import WatchProgress, WatchSource
from understudy.apiserver.endpoints.server_state import ServerState
from understudy.apiserver.server.filters.request_log.log import is_of_page, is_of_server
from understudy.machinery.types import Obj
from understudy.machinery.util.clock import Clock
from understudy.ui.data.readers import Reader, read_of
from understudy.ui.data.sent_texts import short, shown_path


def document(state: ServerState, sources: Sequence[WatchSource], components: set[str], may: Reader) -> Obj:
    """Return {"rows", "withheld"}: the open watches, those that began first in front, but for those of the page.

    withheld  how many the reader may not see
    """
    open_now = [source.progress for source in sources if not source.ended]
    others = [progress for progress in open_now if not is_of_page(progress.request)]
    shown = [progress for progress in others if may(read_of(progress.request.info))]
    return {
        "rows": [_row(progress, state.clock, components) for progress in shown],
        "withheld": len(others) - len(shown),
    }


def _row(progress: WatchProgress, clock: Clock, components: set[str]) -> Obj:
    request = progress.request
    return {
        "path": shown_path(request.path, request.query),
        "user": short(request.user.name),
        "agent": short(request.headers.get("User-Agent", "")),
        "isComponent": is_of_server(request) or request.user.name in components,
        "began": clock.now() - (clock.monotonic() - progress.begun),
        "revision": progress.revision,
        "waiting": progress.waiting,
    }
