"""The command `python -m scripts.measure`."""

import sys

from scripts.common.commands import main

COMMANDS = ("server", "beside", "growth", "storage", "micro", "memory", "allocator", "scheduler", "libraries", "mutate")

if __name__ == "__main__":
    sys.exit(main("scripts.measure", COMMANDS))
