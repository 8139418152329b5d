#!/usr/bin/env python3
"""Measure understudy: the same as `python -m scripts.measure server`, from any folder."""

import sys
from pathlib import Path

if __name__ == "__main__":
    sys.path[0] = str(Path(__file__).resolve().parents[1])  # in place of this file's folder

    from scripts.common.commands import main

    sys.exit(main("scripts.measure", ["server"], ["server", *sys.argv[1:]]))
