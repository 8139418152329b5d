"""The command `python -m scripts.record`."""

import sys

from scripts.common.commands import main

COMMANDS = ("scenario", "again", "names", "schemas", "bootstrap-policy", "descriptions")

if __name__ == "__main__":
    sys.exit(main("scripts.record", COMMANDS))
