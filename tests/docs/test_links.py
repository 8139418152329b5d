"""Pages lead to each other, on a code host and on the site, and to what is there."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
import yaml

from tests.docs.pages import DOCS, PAGES, README, ROOT

PACKAGE = ROOT / "src" / "understudy"
GENERATED = {"command-line.md", "python.md"}
LINK = re.compile(r"\]\((?P<path>[^)#\s]*)(?:#(?P<anchor>[^)\s]+))?\)")
NAMED = re.compile(
    r"(?<![\w./-])(?:scripts|fixtures|tests|docs|\.ci|machinery|admission|apiserver|schemas|controlplane)/[\w./-]*\w"
)


def without_code(text: str) -> str:
    """Return a page without its code blocks."""
    return re.sub(r"(?ms)^```.*?^```$", "", text)


def links(page: Path) -> list[tuple[Path, str]]:
    """Return the links of a page to files here, each with its anchor or ""."""
    matches = LINK.finditer(without_code(page.read_text()))
    inner = [match for match in matches if not match["path"].startswith(("http://", "https://"))]
    return [
        ((page.parent / match["path"]).resolve() if match["path"] else page, match["anchor"] or "") for match in inner
    ]


def anchors(page: Path) -> set[str]:
    """Return the anchors of a page's headings, as code hosts and the site make them."""
    headings = re.findall(r"^#+ (.*)$", without_code(page.read_text()), re.MULTILINE)
    return {re.sub(r"[^\w -]", "", heading).strip().lower().replace(" ", "-") for heading in headings}


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(ROOT)))
def test_links_lead_somewhere(page: Path) -> None:
    """Every link to a file of this repository, and to a heading of it, is right."""
    of_names = "understudy."  # anchors that only the site has
    for target, anchor in links(page):
        assert target.exists(), target
        assert not anchor or anchor.startswith(of_names) or anchor in anchors(target), f"{target}#{anchor}"


def test_pages_are_linked() -> None:
    """The README leads to every page, and so does the first page of the site."""
    for first in (README, DOCS / "index.md"):
        reached, new = set[Path](), {first}
        while new:
            reached |= new
            new = {target for page in new for target, _ in links(page) if target.suffix == ".md"} - reached
        assert set(PAGES) - {README, DOCS / "index.md"} <= reached


def test_site_has_every_page() -> None:
    """Every page stands once in the navigation of the site."""
    text = (ROOT / "mkdocs.yml").read_text()
    _, _, nav = text.partition("\nnav:\n")
    named = re.findall(r"[\w/-]+\.md", nav)
    assert sorted(named) == sorted(page.relative_to(DOCS).as_posix() for page in PAGES if page != README)
    assert yaml.safe_load(text)["docs_dir"] == DOCS.name


def test_pages_are_short() -> None:
    """The README has one page, and no page that people write is long."""
    lines = {page: len(page.read_text().splitlines()) for page in PAGES}
    assert 120 <= lines[README] <= 150
    assert {page: count for page, count in lines.items() if count > 200 and page.name not in GENERATED} == {}


@pytest.mark.parametrize("page", [*PAGES, ROOT / "CONTRIBUTING.md"], ids=lambda page: str(page.relative_to(ROOT)))
def test_named_files_exist(page: Path) -> None:
    """Every file of this repository that a page names is there; words in capitals stand for any name."""
    files = [name for name in NAMED.findall(page.read_text()) if not re.search(r"[A-Z]{3}", name)]
    missing = [name for name in files if not (ROOT / name).exists() and not (PACKAGE / name).exists()]
    assert [name for name in missing if not (page.parent / name).exists()] == []
