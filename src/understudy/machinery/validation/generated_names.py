"""Names and uids that the server generates for new objects."""

from __future__ import annotations

from understudy.machinery.util import chance

# No vowels and no digits that look like letters, so that no words arise (k8s.io/apimachinery/pkg/util/rand).
_ALPHABET = "bcdfghjklmnpqrstvwxz2456789"
_SUFFIX = 5
_LONGEST_BASE = 63 - _SUFFIX
_VARIANTS = dict(zip("0123456789abcdef", "89ab" * 4, strict=True))  # the first digit of the fourth part


def generate_name(base: str) -> str:
    """Return `metadata.generateName`, cut to fit a DNS label, with five random characters behind it.

    Upstream: `names.SimpleNameGenerator`.
    """
    return base[:_LONGEST_BASE] + chance.choices(_ALPHABET, _SUFFIX)


def new_uid() -> str:
    """Return a random UUID (RFC 9562, version 4), three times as fast as `uuid.uuid4`. Upstream: `uuid.NewUUID`."""
    text = f"{chance.bits(128):032x}"
    return f"{text[:8]}-{text[8:12]}-4{text[13:16]}-{_VARIANTS[text[16]]}{text[17:20]}-{text[20:]}"
