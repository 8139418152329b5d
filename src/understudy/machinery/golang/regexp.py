"""Regular expressions as Go has them: RE2, through google-re2, with the texts of Go's errors."""

from __future__ import annotations

import re
from typing import Any

from understudy.machinery.util.caches import cache_short_texts
from understudy.machinery.util.regex import regex


class PatternError(ValueError):
    """A pattern that is not a regular expression; `str(error)` is Go's text."""


# The texts of the same mistakes, of RE2 in C++ and of Go.
_GO_WORDS = {
    "missing )": "missing closing )",
    "missing ]": "missing closing ]",
    "no argument for repetition operator": "missing argument to repetition operator",
    "invalid repetition size": "invalid repeat count",
    "bad repetition operator": "invalid nested repetition operator",
    "invalid perl operator": "invalid or unsupported Perl syntax",
    "invalid named capture group": "invalid named capture",
    "trailing \\": "trailing backslash at end of expression",
}


MAX_HEIGHT = 1000  # groups that Go nests in each other are fewer
_MAX_COUNT = 10**8  # from which on RE2 in C++ takes a repeat count for text, where Go refuses it
_LONG_NUMBER = regex(r"[0-9]{9}")
_REPEAT = regex(r"\\Q.*?(?:\\E|\Z)|\\.|\[\^?\]?[^\]]*\]|(\{(0|[1-9][0-9]*)(?:,(0|[1-9][0-9]*)?)?\})", re.DOTALL)
_GROUP = regex(r"\\.|\[\^?\]?[^\]]*\]|[()]", re.DOTALL)


@cache_short_texts(1024)
def compile_pattern(pattern: str) -> Any:
    """Return a compiled pattern of google-re2. Raises PatternError."""
    import re2  # type: ignore[import-untyped]

    if pattern.count("(") >= MAX_HEIGHT and _height(pattern) >= MAX_HEIGHT:
        raise PatternError(f"error parsing regexp: expression nests too deeply: `{pattern}`")
    if _LONG_NUMBER.search(pattern):
        _check_repeat_counts(pattern)
    options = re2.Options()
    options.log_errors = False
    try:
        return re2.compile(pattern, options=options)
    except re2.error as error:
        raise PatternError(_in_go_words(str(error.args[0]), pattern)) from None


def _check_repeat_counts(pattern: str) -> None:
    """Raise PatternError for a repeat count that is far too large."""
    for match in _REPEAT.finditer(pattern):
        if any(len(count) > 18 or int(count) >= _MAX_COUNT for count in match.groups()[1:] if count):
            raise PatternError(f"error parsing regexp: invalid repeat count: `{match[1]}`")


def _height(pattern: str) -> int:
    """Return the depth to which the groups of a pattern are nested."""
    height = highest = 0
    for token in _GROUP.findall(pattern):
        height += {"(": 1, ")": -1}.get(token, 0)
        highest = max(highest, height)
    return highest


def _in_go_words(message: Any, pattern: str) -> str:
    """Return Go's text for an error message of the RE2 library."""
    text = message.decode() if isinstance(message, bytes) else str(message)
    if text.startswith(("b'", 'b"')):
        text = text[2:-1]
    words, _, fragment = text.partition(": ")
    go = _GO_WORDS.get(words, words)
    if words in ("missing )", "missing ]"):
        fragment = pattern if words == "missing )" else fragment
    if go.startswith("trailing"):
        fragment = ""
    return f"error parsing regexp: {go}: `{fragment}`"
