"""Reads of very many entries, during which others have their turn."""

from __future__ import annotations

from collections.abc import AsyncGenerator

from understudy.apiserver.storage.interface import Entry, Store
from understudy.apiserver.storage.turns import Turns

PAGE = 500  # entries that are read at once: half a millisecond


async def pages(store: Store, prefix: str) -> AsyncGenerator[list[Entry], None]:
    """Yield the entries under a prefix in the order of their keys, page by page, each page as it is stored then."""
    start, turns = "", Turns()
    while True:
        page = (await store.range(prefix, start=start, limit=PAGE)).entries
        if page:
            yield page
        if len(page) < PAGE:
            return
        start = f"{page[-1].key}\0"
        if turns.is_over:
            await turns.next()
