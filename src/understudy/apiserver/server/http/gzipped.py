"""Compresses bodies as the real server does."""

from __future__ import annotations

import zlib
from collections.abc import Sequence

_FASTEST = 1  # the real server's level
_GZIP = 16 + zlib.MAX_WBITS  # the format of gzip, with a header that has no time


def compressed(parts: Sequence[bytes], *, flush: bool = False) -> list[bytes]:
    """Return the parts of a body as those of one file of gzip.

    flush  put an empty block at the end. Go's `gzip.Reader` keeps back what stands in the last block of a file until
           it has seen the head of the next file, for which the client of a watch would wait.
    """
    compressor = zlib.compressobj(_FASTEST, wbits=_GZIP)
    shorter = [part for part in map(compressor.compress, parts) if part]
    if flush:
        shorter.append(compressor.flush(zlib.Z_SYNC_FLUSH))
    return [*shorter, compressor.flush()]
