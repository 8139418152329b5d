"""Run axe-core, which finds what keeps people from using a page. It is in `axe-core`, with its licence."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from playwright.sync_api import Page

AXE = Path(__file__).parent / "axe-core" / "axe.min.js"
# Through the debugger: the page's own policy lets no other script in.
RUN = "async () => (await axe.run({resultTypes: ['violations']})).violations"


def serious_findings(page: Page) -> list[str]:
    """Return the serious and critical findings on a page, with the elements that they are about."""
    page.evaluate(AXE.read_text())
    findings = page.evaluate(RUN)
    return [
        f"{finding['id']}: {[node['html'][:120] for node in finding['nodes'][:3]]}"
        for finding in findings
        if finding["impact"] in ("serious", "critical")
    ]
