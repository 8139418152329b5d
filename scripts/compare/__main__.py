"""The command `python -m scripts.compare`."""

import sys

from scripts.common.commands import main

COMMANDS = (
    "requests",
    "apply",
    "authorization",
    "custom",
    "kinds",
    "recordings",
    "metadata",
    "policies",
    "rules",
    "webhooks",
    "allocator",
    "controllers",
    "schedulers",
)

if __name__ == "__main__":
    sys.exit(main("scripts.compare", COMMANDS))
