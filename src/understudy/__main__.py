"""Runs the command `understudy` as `python -m understudy`."""

from __future__ import annotations

import sys

from understudy.cli.main import main

if __name__ == "__main__":
    sys.exit(main())
