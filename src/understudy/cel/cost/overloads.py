"""Families of cel-go's overloads that cost the same, estimated and at run time."""

from __future__ import annotations

# Which of two texts comes first: `less_string`, `less_bytes` and so on.
ORDERED_TEXTS = tuple(
    f"{relation}_{kind}"
    for relation in ("less", "greater", "less_equals", "greater_equals")
    for kind in ("string", "bytes")
)
