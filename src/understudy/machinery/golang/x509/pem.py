"""PEM blocks, as Go's encoding/pem finds them: text around them is skipped, and so is a block that is broken."""

from __future__ import annotations

import base64
import binascii
import re
from collections.abc import Iterator
from typing import NamedTuple

# The last BEGIN before an END counts. A line may end in spaces. Every line with a colon that follows BEGIN is a header,
# if need be END itself; after headers there is a line, if need be an empty one.
_BLOCK = re.compile(
    rb"^-----BEGIN (?P<type>[^\n]*?)-----[ \t\r]*\n"
    rb"(?P<headers>(?:[^\n:]*:[^\n]*\n)++)?+(?(headers)(?!-----END ))"
    rb"(?P<data>(?:(?!-----BEGIN )[^\n]*\n)*?)"
    rb"-----END (?P=type)-----[ \t\r]*$",
    re.MULTILINE,
)
_SPACES = re.compile(rb"[ \t\r\n]")


class Block(NamedTuple):
    """`headers`: whether there are any."""

    type: str
    headers: bool
    data: bytes


def blocks(text: bytes) -> Iterator[Block]:
    """Every block of a text, in its order."""
    for found in _BLOCK.finditer(text):
        try:
            data = base64.b64decode(_SPACES.sub(b"", found["data"]), validate=True)
        except binascii.Error:
            continue
        yield Block(found["type"].decode(errors="replace"), bool(found["headers"]), data)
