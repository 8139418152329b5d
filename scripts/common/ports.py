"""Ports for servers that are to listen at an address that is known before they start."""

from __future__ import annotations

import random
import socket

BELOW_EPHEMERAL = range(10_000, 30_000)  # neither Linux nor macOS chooses from these for port 0 or for clients


def free_port() -> int:
    """Return a port that is free, and that the system gives to nobody before it is used."""
    while True:
        port = random.choice(BELOW_EPHEMERAL)
        with socket.socket() as free:
            try:
                free.bind(("127.0.0.1", port))
            except OSError:
                continue
            return port
