"""The command `python -m scripts.record`."""

import sys

from scripts.common.commands import main

COMMANDS = ("release", "corpora", "serve", "scenario", "again", "names", "descriptions", "program-flags")

if __name__ == "__main__":
    sys.exit(main("scripts.record", COMMANDS))
