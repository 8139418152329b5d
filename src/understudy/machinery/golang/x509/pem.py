"""PEM blocks as Go's encoding/pem finds them: text around them is skipped, and so is a broken block."""

from __future__ import annotations

import base64
import binascii
import re
from collections.abc import Iterator

from understudy.machinery.types import NamedTuple
from understudy.machinery.util.regex import regex

# The last BEGIN before an END counts. A line may end in spaces. Every line with a colon that follows BEGIN is a header,
# even END itself; the headers are followed by a line, which may be empty.
_BLOCK = regex(
    rb"^-----BEGIN (?P<type>[^\n]*?)-----[ \t\r]*\n"
    rb"(?P<headers>(?:[^\n:]*:[^\n]*\n)++)?+(?(headers)(?!-----END ))"
    rb"(?P<data>(?:(?!-----BEGIN )[^\n]*\n)*?)"
    rb"-----END (?P=type)-----[ \t\r]*$",
    re.MULTILINE,
)
_SPACES = regex(rb"[ \t\r\n]")


class Block(NamedTuple):
    """A PEM block. `headers`: whether it has any."""

    type: str
    headers: bool
    data: bytes


def blocks(text: bytes) -> Iterator[Block]:
    """Yield every block of a text, in order."""
    for match in _BLOCK.finditer(text):
        try:
            data = base64.b64decode(_SPACES.sub(b"", match["data"]), validate=True)
        except binascii.Error:
            continue
        yield Block(match["type"].decode(errors="replace"), bool(match["headers"]), data)


def remainder(text: bytes) -> bytes:
    """Return the part of a text that follows its last block, all of it if there is no block."""
    end = 0
    for match in _BLOCK.finditer(text):
        end = match.end() + 1  # the line feed
    return text[end:]
