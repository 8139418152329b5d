"""Regular expressions of `machinery.util.regex` are compiled when they are first used."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

import understudy
from understudy.machinery.util.regex import regex


def test_pattern_behaves_as_a_compiled_one() -> None:
    """Methods, attributes and flags are those of the compiled pattern, for text and for bytes."""
    words, data = regex("(?P<first>[a-z]+)-", re.IGNORECASE), regex(rb"\d+")
    assert [match["first"] for match in words.finditer("One-two-")] == ["One", "two"]
    assert (words.pattern, words.groups, words.sub("", "a-b-c")) == ("(?P<first>[a-z]+)-", 1, "c")
    assert data.findall(b"1 22") == [b"1", b"22"]


def test_pattern_is_compiled_when_it_is_first_used() -> None:
    """A pattern that nobody uses costs nothing, even a wrong one."""
    broken = regex("(")
    with pytest.raises(re.error, match="unterminated"):
        broken.match("")


def test_modules_compile_no_patterns() -> None:
    """No module compiles a pattern while it is imported, which would make every start slower."""
    folder = Path(understudy.__file__).parent
    asking = [
        file.relative_to(folder)
        for file in folder.rglob("*.py")
        if re.search(r"^\w+(: [\w.\[\]]+)? = .*\bre\.compile\(", file.read_text(), re.MULTILINE)
    ]
    assert asking == []
