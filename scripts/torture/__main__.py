"""The command `python -m scripts.torture`."""

import sys

from scripts.common.commands import main

COMMANDS = ("attack", "bounds", "fuzz", "kills", "replicas", "round-trip", "shared", "soak")

if __name__ == "__main__":
    sys.exit(main("scripts.torture", COMMANDS))
