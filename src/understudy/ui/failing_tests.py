"""The pages that failing tests leave in a folder, one for each of their servers (`pytest --understudy-report`)."""

from __future__ import annotations

import hashlib
import re
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from understudy import Server


class Pages:
    """The pages of the test that runs: those of its failures, and drafts, which go if it does not fail.

    A teardown may fail after the server has forgotten what the test has stored: whoever makes it forget has a draft
    written before.
    """

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._written: dict[Server, Path | Exception] = {}
        self._kept: set[Server] = set()

    def draft(self, server: Server, test: str) -> None:
        """Write the page of a server that a test has used, unless it has one.

        Its name is that of the test, shortened, with a hash of its whole name: no two tests have the same.
        """
        if server in self._written:
            return
        name = re.sub(r"[^\w.-]+", "-", test)[-80:].strip("-.")
        code = hashlib.sha256(f"{test} {len(self._written)}".encode()).hexdigest()[:8]
        try:
            self._folder.mkdir(parents=True, exist_ok=True)
            self._written[server] = server.report(self._folder / f"{name}-{code}.html", title=test)
        except Exception as why:  # whatever it is, the other tests shall go on
            self._written[server] = why

    def keep(self, server: Server, test: str) -> str:
        """Keep the page of a server that a failed test has used; return its path, or why there is none."""
        self.draft(server, test)
        self._kept.add(server)
        page = self._written[server]
        return f"there is none: {page}" if isinstance(page, Exception) else str(page)

    def end_test(self) -> None:
        """Remove the drafts of a test that is over."""
        for server, page in self._written.items():
            if isinstance(page, Path) and server not in self._kept:
                page.unlink()
        self._written.clear()
        self._kept.clear()
