"""Imports beside the event loop: modules that only some requests need, and that take 0.05 seconds or more to import."""

from __future__ import annotations

import asyncio
from importlib import import_module

_loaded: set[str] = set()


def is_loaded(module: str) -> bool:
    """Report whether a module was loaded by `load` before: what imports it does not wait for anything then."""
    return module in _loaded


async def load(module: str) -> None:
    """Import a module in a thread, unless that was done before, so that others are answered meanwhile."""
    if module not in _loaded:
        await asyncio.to_thread(import_module, module)
        _loaded.add(module)
