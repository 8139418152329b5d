"""Compresses bodies as the real server does."""

from __future__ import annotations

import zlib
from collections.abc import Sequence

_FASTEST = 1  # the real server's level
_GZIP = 16 + zlib.MAX_WBITS  # the format of gzip, with a header that has no time


def compressed(parts: Sequence[bytes]) -> list[bytes]:
    """Return the parts of a body as those of one file of gzip."""
    compressor = zlib.compressobj(_FASTEST, wbits=_GZIP)
    shorter = [part for part in map(compressor.compress, parts) if part]
    return [*shorter, compressor.flush()]
