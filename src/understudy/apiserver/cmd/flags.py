"""TODO."""

from __future__ import annotations

import argparse


def switches(text: str) -> dict[str, bool]:
    """{"A": True, "B": False} of "A=true,B=false"."""
    out = {}
    for item in text.split(","):
        name, equals, value = item.strip().partition("=")
        if not item.strip():
            continue
        if not equals or value.strip().lower() not in ("true", "false", "1", "0", "t", "f"):
            raise argparse.ArgumentTypeError(f"want NAME=true or NAME=false, not {item.strip()!r}")
        out[name.strip()] = value.strip().lower() in ("true", "1", "t")
    return out


def comma_separated(text: str) -> list[str]:
    """["a", "b"] of "a,b"."""
    return [name.strip() for name in text.split(",") if name.strip()]
