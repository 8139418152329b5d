"""What was recorded from servers of each release: types, discovery, OpenAPI, feature gates, roles. Data alone."""

from __future__ import annotations

from pathlib import Path

SCHEMAS = Path(__file__).parent  # `importlib.resources` would take 3 % of a server's start to import
